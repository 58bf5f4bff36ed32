//! Discovery as clients do it: the 401, the resource metadata, the authorization server's metadata (RFC 9728, RFC 8414,
//! OpenID Connect Discovery 1.0). Checks what all clients need.

use http::{Method, header::WWW_AUTHENTICATE};
use serde_json::{Value, json};
use url::Url;

use super::{
    exchange::{ProbeRequest, ProbeResponse, Prober},
    finding::Finding,
    front,
};
use crate::oauth_client::{at_root, is_loopback, well_known};

/// Answer of the server to a request without a token.
#[derive(Debug)]
pub(super) enum FirstAnswer {
    /// It serves the request: it needs no login.
    Served,
    /// 401, with the problems of its challenge.
    Refused(SeenChallenge, Vec<Finding>),
}

/// Parameters of a `Bearer` challenge (RFC 6750, RFC 9728 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenChallenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
}

/// A JSON document at its URL.
#[derive(Debug, Clone)]
pub(super) struct JsonDocument {
    pub(super) url: Url,
    pub(super) json: Value,
}

/// Everything that discovery finds.
#[derive(Debug)]
pub(super) struct DiscoveredDocuments {
    pub(super) challenge: Option<SeenChallenge>,
    /// The resource metadata; `None` for a server of 2025-03-26.
    pub(super) resource: Option<JsonDocument>,
    /// The issuer named in the resource metadata, else the server's origin.
    pub(super) issuer: String,
    /// The metadata of the authorization server.
    pub(super) server: JsonDocument,
}

/// The header with the challenge, as named in findings.
const CHALLENGE: &str = "WWW-Authenticate of";

/// The response to the first request of a client, which has no token.
pub(super) async fn first_response(prober: &Prober, server: &Url) -> Result<ProbeResponse, Finding> {
    first_response_from(prober, server, None).await
}

/// The same; with an `origin`, as a web page sends the request.
pub(super) async fn first_response_from(
    prober: &Prober,
    server: &Url,
    origin: Option<&str>,
) -> Result<ProbeResponse, Finding> {
    let client_info = json!({ "name": "lockkeeper-doctor", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend(origin.map(|origin| ("origin", origin)));
    prober.send(ProbeRequest { method: Method::POST, url: server, headers: &headers, body }).await
}

/// Sends the first request of a client, and reads the response.
pub(super) async fn first_answer(prober: &Prober, server: &Url) -> Result<FirstAnswer, Finding> {
    let answer = first_response(prober, server).await?;
    let at = server.as_str();
    match answer.status {
        401 => {
            let (challenge, problems) = challenge(&answer);
            Ok(FirstAnswer::Refused(challenge, problems))
        }
        _ if answer.is_success() && answer.is_mcp() => Ok(FirstAnswer::Served),
        _ if answer.is_success() => Err(front::no_mcp(&answer)),
        _ if answer.is_redirect() => {
            let problem = format!("it redirects to `{}`; clients do not follow", answer.header("location"));
            Err(Finding::blocks(at, problem, "give people the URL that answers"))
        }
        403 | 413 | 500.. if !answer.is_mcp() => Err(front::in_front(&answer)),
        status => {
            let problem = format!("it answers {status} to a request without a token");
            Err(Finding::blocks(at, problem, "answer 401 with `WWW-Authenticate: Bearer` (RFC 6750 3)"))
        }
    }
}

/// Reads the challenge as clients do: by the first `name="value"` in the first header.
fn challenge(answer: &ProbeResponse) -> (SeenChallenge, Vec<Finding>) {
    let headers: Vec<&str> = answer.headers.get_all(WWW_AUTHENTICATE).iter().flat_map(|value| value.to_str()).collect();
    let at = format!("{CHALLENGE} {}", answer.url);
    let text = headers.first().copied().unwrap_or_default();
    let read = SeenChallenge { resource_metadata: quoted(text, "resource_metadata"), scope: quoted(text, "scope") };
    let mut problems = Vec::new();
    let mut add = |problem: &str, advice: &str| problems.push(Finding::may_fail(&*at, problem, advice));
    if !text.to_ascii_lowercase().starts_with("bearer") {
        add("it does not begin with `Bearer`", "put the `Bearer` challenge first");
    } else if read.resource_metadata.is_none() {
        add("it names no `resource_metadata` in quotes: clients guess the URL", "add it (RFC 9728 5.1)");
    }
    if headers.len() > 1 {
        add("there are several headers, which clients see joined to one", "send one header with one challenge");
    }
    (read, problems)
}

/// The value of `name="value"`.
fn quoted(text: &str, name: &str) -> Option<String> {
    let starts = text.match_indices(name).map(|(at, _)| at);
    let is_name = |at: &usize| *at == 0 || text[..*at].ends_with([' ', ',', '\t']);
    let mut values = starts.filter(is_name).filter_map(|at| text[at + name.len()..].strip_prefix("=\""));
    values.next()?.split('"').next().map(str::to_owned)
}

/// Finds the documents of the server, given its challenge.
pub(super) async fn discover(
    prober: &Prober,
    server: &Url,
    challenge: SeenChallenge,
) -> Result<DiscoveredDocuments, Finding> {
    let resource = resource_metadata(prober, server, &challenge).await?;
    let issuer = match &resource {
        Some(metadata) => {
            let named = metadata.strings("authorization_servers").unwrap_or_default().into_iter().next();
            let problem = "`authorization_servers` names none";
            named.ok_or_else(|| Finding::blocks(metadata.url.as_str(), problem, "name the issuer (RFC 9728 2)"))?
        }
        None => at_root(server).as_str().trim_end_matches('/').to_owned(),
    };
    let named_by = resource.as_ref().map_or(server, |metadata| &metadata.url);
    let found = authorization_server(prober, named_by, &issuer).await?;
    members(&found)?;
    Ok(DiscoveredDocuments { challenge: Some(challenge), resource, issuer, server: found })
}

async fn resource_metadata(
    prober: &Prober,
    server: &Url,
    challenge: &SeenChallenge,
) -> Result<Option<JsonDocument>, Finding> {
    const KIND: &str = "oauth-protected-resource";
    let candidates = match &challenge.resource_metadata {
        Some(text) => vec![Url::parse(text).map_err(|_| {
            let at = format!("{CHALLENGE} {server}");
            Finding::blocks(at, format!("`resource_metadata` is `{text}`, which is not a URL"), "name the whole URL")
        })?],
        None => vec![well_known(server, KIND), well_known(&at_root(server), KIND)],
    };
    for url in &candidates {
        let Some(document) = read(prober, url).await? else { continue };
        if document.text("resource").is_none() {
            return Err(Finding::blocks(url.as_str(), "it has no `resource`", "name the server's URL (RFC 9728 2)"));
        }
        return Ok(Some(document));
    }
    match challenge.resource_metadata {
        Some(_) => Err(Finding::blocks(
            candidates[0].as_str(),
            "the challenge names this document, and it does not exist",
            "serve it, or correct `resource_metadata` in `WWW-Authenticate`",
        )),
        None => Ok(None),
    }
}

async fn authorization_server(prober: &Prober, named_by: &Url, issuer: &str) -> Result<JsonDocument, Finding> {
    let no_url = |_| Finding::blocks(named_by.as_str(), format!("the issuer `{issuer}` is not a URL"), "name its URL");
    let url = Url::parse(issuer).map_err(no_url)?;
    let mut candidates = vec![well_known(&url, "oauth-authorization-server"), well_known(&url, "openid-configuration")];
    if url.path() != "/" {
        let mut appended = url.clone();
        appended.set_path(&format!("{}/.well-known/openid-configuration", url.path().trim_end_matches('/')));
        candidates.push(appended);
    }
    for url in &candidates {
        if let Some(document) = read(prober, url).await? {
            return Ok(document);
        }
    }
    let problem = "the authorization server has no metadata";
    Err(Finding::blocks(candidates[0].as_str(), problem, "serve this document (RFC 8414)"))
}

/// The document at `url`; `None` if it answers 4xx, after which clients try the next URL.
async fn read(prober: &Prober, url: &Url) -> Result<Option<JsonDocument>, Finding> {
    let answer = prober.document(url).await?;
    let blocks = |problem: String, advice: &str| Err(Finding::blocks(url.as_str(), problem, advice));
    match (answer.status, answer.json()) {
        (200, json @ Value::Object(_)) => Ok(Some(JsonDocument { url: url.clone(), json })),
        (200, _) => {
            blocks("it is not a JSON object".to_owned(), "answer the metadata in JSON, or 404 if there is none")
        }
        (400..500, _) => Ok(None),
        _ if answer.is_redirect() => {
            let problem = format!("it redirects to `{}`; clients do not follow", answer.header("location"));
            blocks(problem, "answer the document itself")
        }
        (status, _) => blocks(format!("it answers {status}: clients stop there"), "answer 404 if there is none"),
    }
}

/// Fails if the authorization server's metadata lacks a member that every client needs.
fn members(found: &JsonDocument) -> Result<(), Finding> {
    let blocks = |problem: String, advice: &str| Err(Finding::blocks(found.url.as_str(), problem, advice));
    for name in ["authorization_endpoint", "token_endpoint"] {
        match found.url_of(name) {
            None => return blocks(format!("`{name}` is not a URL"), "name the whole URL (RFC 8414 2)"),
            Some(url) if url.scheme() != "https" && !is_loopback(&url) => {
                return blocks(format!("`{name}` is not https"), "serve it over https");
            }
            Some(_) => {}
        }
    }
    let has = |name: &str, value: &str| found.strings(name).is_some_and(|values| values.iter().any(|one| one == value));
    if !has("response_types_supported", "code") {
        return blocks("`response_types_supported` does not have `code`".to_owned(), "add it (RFC 8414 2)");
    }
    Ok(())
}

// === impl JsonDocument ===

impl JsonDocument {
    /// A member that is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.json[name].as_str()
    }

    /// The texts in a member that is an array.
    pub(super) fn strings(&self, name: &str) -> Option<Vec<String>> {
        let array = self.json[name].as_array()?;
        Some(array.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
    }

    /// A member that is a URL.
    pub(super) fn url_of(&self, name: &str) -> Option<Url> {
        Url::parse(self.text(name)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_as_clients_read_it() {
        let text =
            r#"Bearer error="invalid_token", scope="a b", resource_metadata="https://x/y", error_description="z""#;
        assert_eq!(quoted(text, "scope").as_deref(), Some("a b"));
        assert_eq!(quoted(text, "resource_metadata").as_deref(), Some("https://x/y"));
        assert_eq!(quoted("Bearer resource_metadata=https://x/y", "resource_metadata"), None);
        assert_eq!(quoted(r#"Bearer my_scope="a""#, "scope"), None);
    }
}
