//! Requirements without which a client stops, and the check of documents against them.

use serde_json::Value;
use url::Url;

use super::{discovery::DiscoveredDocuments, finding::Finding};

/// Something that some clients require, and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// `resource` of the metadata is the server's URL, byte for byte.
    ExactResource,
    /// `resource` of the metadata is the server's URL, as a URL parser prints both.
    SameResource,
    /// `resource` of the metadata is the server's URL or a folder above it.
    ResourceAbove,
    /// The server has resource metadata; a server of 2025-03-26 has none.
    ResourceMetadata,
    /// `issuer` is `authorization_servers[0]`, byte for byte.
    ExactIssuer,
    /// `iss` in responses is not announced: older versions of the client lose it along the way.
    IssuerNotAnnounced,
    /// No member of a document is null.
    NoNulls,
    /// A metadata document of OpenID Connect has all members that its schema requires.
    OpenIdMembers,
    /// Refresh tokens are issued.
    RefreshTokens,
    /// The server has a public name and is reached by https on port 443. Checked in `reach`.
    PublicAddress,
    /// PKCE with S256 is announced (`code_challenge_methods_supported`).
    AnnouncedPkce,
    /// If PKCE methods are announced, S256 is among them; the client also tries a server that announces none.
    NoOtherPkce,
    /// A web page of another origin can use the server and its endpoints. Checked by requests, in `cross_origin`.
    CrossOrigin,
}

/// Members that OpenID Connect Discovery 1.0 requires in addition to RFC 8414.
const OPENID: [&str; 3] = ["jwks_uri", "subject_types_supported", "id_token_signing_alg_values_supported"];

// === impl Requirement ===

impl Requirement {
    /// Finds the violations of this requirement in the documents of the MCP server at `server`.
    pub(super) fn broken(self, server: &Url, found: &DiscoveredDocuments) -> Vec<Finding> {
        match self {
            Self::ExactResource => resource(found, |named| named == server.as_str(), server),
            Self::SameResource => {
                resource(found, |named| Url::parse(named).is_ok_and(|named| named == *server), server)
            }
            Self::ResourceAbove => resource(found, |named| is_above(named, server), server),
            Self::ResourceMetadata if found.resource.is_none() => vec![no_metadata(server)],
            Self::ExactIssuer => issuer(found),
            Self::IssuerNotAnnounced => announced(found),
            Self::NoNulls => nulls(found),
            Self::OpenIdMembers => openid_members(found),
            Self::RefreshTokens => refresh_tokens(found),
            Self::AnnouncedPkce => pkce(found, "the client refuses the server without it"),
            Self::NoOtherPkce if found.server.json["code_challenge_methods_supported"].is_null() => Vec::new(),
            Self::NoOtherPkce => pkce(found, "the client refuses a server that announces only other methods"),
            Self::ResourceMetadata | Self::CrossOrigin | Self::PublicAddress => Vec::new(),
        }
    }
}

fn resource(found: &DiscoveredDocuments, is_accepted: impl Fn(&str) -> bool, server: &Url) -> Vec<Finding> {
    let Some(metadata) = &found.resource else { return Vec::new() };
    let named = metadata.text("resource").unwrap_or_default();
    if is_accepted(named) {
        return Vec::new();
    }
    let problem = format!("`resource` is `{named}`, which is not the URL of the server");
    let advice = format!("give `resource` the value that people configure: `{server}`");
    vec![Finding::blocks(metadata.url.as_str(), problem, advice)]
}

fn no_metadata(server: &Url) -> Finding {
    let advice = "serve `/.well-known/oauth-protected-resource` and the path of the server (RFC 9728)";
    Finding::blocks(server.as_str(), "the server has no resource metadata", advice)
}

fn issuer(found: &DiscoveredDocuments) -> Vec<Finding> {
    let named = found.server.text("issuer").unwrap_or_default();
    if named == found.issuer {
        return Vec::new();
    }
    let problem = format!("`issuer` is `{named}`, and the resource metadata names `{}`", found.issuer);
    vec![Finding::blocks(found.server.url.as_str(), problem, "make both the same, byte for byte (RFC 8414 3.3)")]
}

fn pkce(found: &DiscoveredDocuments, why: &str) -> Vec<Finding> {
    let methods = found.server.strings("code_challenge_methods_supported").unwrap_or_default();
    if methods.iter().any(|method| method == "S256") {
        return Vec::new();
    }
    let problem = format!("`code_challenge_methods_supported` does not have `S256`: {why}");
    vec![Finding::blocks(found.server.url.as_str(), problem, "support PKCE with S256, and announce it")]
}

fn announced(found: &DiscoveredDocuments) -> Vec<Finding> {
    if found.server.json["authorization_response_iss_parameter_supported"] != true {
        return Vec::new();
    }
    let problem = "it announces `iss` in responses; older versions of the client lose it and then refuse the login";
    let advice = "update the client, or leave `authorization_response_iss_parameter_supported` out (`advertise_iss = false` in `[auth]` of Lockkeeper)";
    vec![Finding::may_fail(found.server.url.as_str(), problem, advice)]
}

fn nulls(found: &DiscoveredDocuments) -> Vec<Finding> {
    let documents = found.resource.iter().chain([&found.server]);
    let null = |json: &Value| {
        let members = json.as_object()?;
        members.iter().find(|(_, value)| value.is_null()).map(|(name, _)| name.clone())
    };
    documents
        .filter_map(|document| {
            let problem = format!("`{}` is null, which the client's schema refuses", null(&document.json)?);
            Some(Finding::blocks(document.url.as_str(), problem, "leave the member out"))
        })
        .collect()
}

fn openid_members(found: &DiscoveredDocuments) -> Vec<Finding> {
    if !found.server.url.path().contains("openid-configuration") {
        return Vec::new();
    }
    let missing: Vec<&str> = OPENID.into_iter().filter(|name| found.server.json[*name].is_null()).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let problem = format!("it has no {}, which the client's schema of OpenID Connect requires", missing.join(", "));
    let advice = "add the members, or serve `/.well-known/oauth-authorization-server` (RFC 8414)";
    vec![Finding::blocks(found.server.url.as_str(), problem, advice)]
}

fn refresh_tokens(found: &DiscoveredDocuments) -> Vec<Finding> {
    match found.server.strings("grant_types_supported") {
        Some(types) if !types.iter().any(|one| one == "refresh_token") => {
            let problem = "`grant_types_supported` has no `refresh_token`: the client throws away tokens without one";
            vec![Finding::blocks(found.server.url.as_str(), problem, "issue refresh tokens")]
        }
        // the default is authorization_code and implicit (RFC 8414 2), but most servers without the member do refresh
        None => {
            let problem = "`grant_types_supported` is missing; the client throws away tokens without a refresh token";
            vec![Finding::may_fail(found.server.url.as_str(), problem, "name the grant types, with `refresh_token`")]
        }
        Some(_) => Vec::new(),
    }
}

fn is_above(named: &str, server: &Url) -> bool {
    let Ok(named) = Url::parse(named) else { return false };
    let rest = server.path().strip_prefix(named.path().trim_end_matches('/'));
    named.origin() == server.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::discovery::JsonDocument, *};

    const SERVER: &str = "https://gw.example/mcp/a";

    fn document(path: &str, json: Value) -> JsonDocument {
        JsonDocument { url: Url::parse(&format!("https://gw.example/.well-known/{path}")).unwrap(), json }
    }

    fn discovered(resource: &str, server: Value) -> DiscoveredDocuments {
        DiscoveredDocuments {
            challenge: None,
            resource: Some(document("oauth-protected-resource/mcp/a", json!({ "resource": resource }))),
            issuer: "https://gw.example".to_owned(),
            server: document("openid-configuration", server),
        }
    }

    fn breaks(requirement: Requirement, found: &DiscoveredDocuments) -> bool {
        !requirement.broken(&Url::parse(SERVER).unwrap(), found).is_empty()
    }

    #[test]
    fn clients_differ_in_the_resource_that_they_accept() {
        let accepted = |resource: &str| {
            let found = discovered(resource, json!({}));
            [Requirement::ExactResource, Requirement::SameResource, Requirement::ResourceAbove]
                .map(|one| !breaks(one, &found))
        };
        assert_eq!(accepted(SERVER), [true, true, true]);
        assert_eq!(accepted("https://GW.example:443/mcp/a"), [false, true, true]);
        assert_eq!(accepted("https://gw.example"), [false, false, true]);
        assert_eq!(accepted("https://gw.example/mc"), [false, false, false]);
        assert_eq!(accepted("https://other.example/mcp/a"), [false, false, false]);
    }

    #[test]
    fn each_requirement_names_the_member_that_breaks_it() {
        let good = json!({
            "issuer": "https://gw.example", "jwks_uri": "x", "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"], "grant_types_supported": ["refresh_token"],
        });
        let changes = [
            (Requirement::ExactIssuer, "issuer", json!("https://gw.example/")),
            (Requirement::IssuerNotAnnounced, "authorization_response_iss_parameter_supported", json!(true)),
            (Requirement::NoNulls, "op_policy_uri", Value::Null),
            (Requirement::OpenIdMembers, "jwks_uri", Value::Null),
            (Requirement::RefreshTokens, "grant_types_supported", json!(["authorization_code"])),
        ];
        for (requirement, member, value) in changes {
            assert!(!breaks(requirement, &discovered(SERVER, good.clone())), "{requirement:?}");
            let mut document = good.clone();
            document[member] = value;
            assert!(breaks(requirement, &discovered(SERVER, document)), "{requirement:?}");
        }
    }

    #[test]
    fn clients_differ_in_the_announcement_of_pkce() {
        let accepted = |methods: Value| {
            let found = discovered(SERVER, json!({ "code_challenge_methods_supported": methods }));
            [Requirement::AnnouncedPkce, Requirement::NoOtherPkce].map(|one| !breaks(one, &found))
        };
        assert_eq!(accepted(json!(["plain", "S256"])), [true, true]);
        assert_eq!(accepted(Value::Null), [false, true]);
        assert_eq!(accepted(json!(["plain"])), [false, false]);
        assert_eq!(accepted(json!([])), [false, false]);
    }
}
