//! The identity of a client: its metadata document if the server accepts it, else a registration (RFC 7591).

use http::Method;
use serde_json::Value;

use super::{
    client::ClientProfile,
    discovery::DiscoveredDocuments,
    exchange::{ProbeRequest, Prober},
    finding::Finding,
    requirement::Requirement,
};
use crate::support::Secret;

/// Policy on registering clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationPolicy {
    /// Each client at most once.
    Once,
    Never,
}

/// Authentication of a client at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuthMethod {
    /// Only by its id.
    None,
    /// By a secret in the header.
    SecretBasic,
    /// By a secret in the body.
    SecretPost,
}

/// A client known to the authorization server.
pub(super) struct KnownClient {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) method: ClientAuthMethod,
    pub(super) redirect_uri: String,
}

/// Result of the identification.
pub(super) enum Identified {
    /// The client is known by this identity.
    As(KnownClient),
    /// It would have to register, which was not allowed.
    NotTried,
}

/// Identifies the client at the authorization server.
pub(super) async fn identify(
    prober: &Prober,
    client: &ClientProfile,
    found: &DiscoveredDocuments,
    policy: RegistrationPolicy,
    scope: Option<&str>,
) -> Result<(Identified, Vec<Finding>), Finding> {
    let server = &found.server;
    let methods = server.strings("token_endpoint_auth_methods_supported").unwrap_or_default();
    let takes_documents = server.json["client_id_metadata_document_supported"] == true;
    if let Some(document) = client.document.filter(|_| takes_documents && methods.iter().any(|one| one == "none")) {
        let (id, redirect_uri) = (document.url.to_owned(), document.callback.to_owned());
        let known = KnownClient { id, secret: None, method: ClientAuthMethod::None, redirect_uri };
        return Ok((Identified::As(known), Vec::new()));
    }
    let Some(endpoint) = server.url_of("registration_endpoint") else {
        let problem = "there is no `registration_endpoint`, and no metadata document of the client is accepted";
        let advice = match client.document {
            Some(_) => {
                "allow registration, or metadata documents of clients (`registration`, `client_documents` of Lockkeeper, which \
                 announces them only while it can read them: `egress_proxy`), or register the client by hand and configure \
                 its id in the client"
            }
            None => "allow registration, or register the client by hand and configure its id in the client",
        };
        return Err(Finding::blocks(server.url.as_str(), problem, advice));
    };
    if policy == RegistrationPolicy::Never {
        return Ok((Identified::NotTried, Vec::new()));
    }
    let body = client.registration.body(server.strings("grant_types_supported").as_deref(), scope).to_string();
    let headers = [("content-type", "application/json"), ("accept", "application/json")];
    let answer = prober.send(ProbeRequest { method: Method::POST, url: &endpoint, headers: &headers, body }).await?;
    if !answer.is_success() {
        let problem = format!("the registration is refused: {}", answer.outline());
        let advice = match answer.status {
            429 => "wait, and ask with `--client` for one client".to_owned(),
            _ => format!("accept the client; its redirect URIs are {}", client.registration.redirect_uris.join(", ")),
        };
        return Err(Finding::blocks(endpoint.as_str(), problem, advice));
    }
    let (known, problems) = read(&answer.json(), client).map_err(|(problem, advice)| {
        Finding::blocks(endpoint.as_str(), format!("the answer to a registration {problem}"), advice)
    })?;
    let problems = problems.into_iter().map(|problem| Finding::may_fail(endpoint.as_str(), problem.0, problem.1));
    Ok((Identified::As(known), problems.collect()))
}

/// A problem, and what to change.
type AnswerFault = (&'static str, &'static str);

fn read(answer: &Value, client: &ClientProfile) -> Result<(KnownClient, Vec<AnswerFault>), AnswerFault> {
    let id = answer["client_id"].as_str().ok_or(("has no `client_id`", "add it (RFC 7591 3.2.1)"))?;
    if !answer["redirect_uris"].is_array() {
        return Err(("has no `redirect_uris`, which the client's schema requires", "return all registered metadata"));
    }
    let has_null = answer.as_object().is_some_and(|members| members.values().any(Value::is_null));
    if has_null && client.requires.contains(&Requirement::NoNulls) {
        return Err(("has a member that is null, which the client's schema refuses", "leave the member out"));
    }
    let secret = answer["client_secret"].as_str().map(Secret::new);
    let asked = client.registration.method;
    let method = match (answer["token_endpoint_auth_method"].as_str().or(asked), &secret) {
        (Some("none"), _) | (None, None) => ClientAuthMethod::None,
        (Some("client_secret_basic") | None, Some(_)) => ClientAuthMethod::SecretBasic,
        (Some("client_secret_post"), Some(_)) => ClientAuthMethod::SecretPost,
        (Some("client_secret_basic" | "client_secret_post"), None) => {
            return Err(("has a method with a secret and no `client_secret`", "add the secret, or answer `none`"));
        }
        (Some(_), _) => return Err(("has a method that the client does not know", "answer the method it asked for")),
    };
    let mut problems = Vec::new();
    if asked == Some("none") && method != ClientAuthMethod::None {
        problems.push(("the answer to a registration as public client has a secret", "answer `none`, as it asked"));
    }
    let redirect_uri = client.registration.callback.to_owned();
    Ok((KnownClient { id: id.to_owned(), secret, method, redirect_uri }, problems))
}
