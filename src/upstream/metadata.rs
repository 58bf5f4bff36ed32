//! The gateway's client id metadata documents (`UP-4`): one for a client that signs its requests, and one for
//! authorization servers that know only public clients. Each server has its own documents, which do not reveal the
//! other servers.

use serde_json::{Value, json};

use crate::{model::BackendId, oauth_client::AuthorizationServer};

/// Suffixes of the documents' names.
const SIGNED: &str = ".json";
const PUBLIC: &str = ".public.json";

/// The name of the gateway for people at an authorization server. It contains the host, since they may use several
/// gateways.
pub(super) fn client_name(issuer: &str) -> String {
    let host = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    format!("Lockkeeper at {}", host.split('/').next().unwrap_or_default())
}

/// The redirect URI for a server.
pub(super) fn redirect_uri(issuer: &str, backend: &BackendId) -> String {
    format!("{issuer}/oauth/upstream/callback/{backend}")
}

/// The client id at an authorization server that fetches metadata documents; `None` if it does not, or if the gateway
/// has no https URL.
pub(super) fn client_id(issuer: &str, backend: &BackendId, server: &AuthorizationServer) -> Option<String> {
    if !server.takes_metadata_documents || !issuer.starts_with("https://") {
        return None;
    }
    let end = match server.auth_method(&["private_key_jwt", "none"])? {
        "private_key_jwt" => SIGNED,
        _ => PUBLIC,
    };
    Some(format!("{issuer}/oauth/client-metadata/{backend}{end}"))
}

/// True if this is the id of a document whose client signs its requests.
pub(super) fn is_signed(issuer: &str, client_id: &str) -> bool {
    let name = client_id.strip_prefix(issuer).and_then(|path| path.strip_prefix("/oauth/client-metadata/"));
    name.is_some_and(|name| name.ends_with(SIGNED) && !name.ends_with(PUBLIC))
}

/// The document of this name. It exists for every valid name, so it does not reveal which servers exist.
pub(super) fn document(issuer: &str, file: &str) -> Option<Value> {
    let (name, method) = match file.strip_suffix(PUBLIC) {
        Some(name) => (name, "none"),
        None => (file.strip_suffix(SIGNED)?, "private_key_jwt"),
    };
    let backend = BackendId::parse(name).ok()?;
    let mut document = json!({
        "client_id": format!("{issuer}/oauth/client-metadata/{file}"),
        "client_name": client_name(issuer),
        "client_uri": issuer,
        "redirect_uris": [redirect_uri(issuer, &backend)],
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
        "response_types": ["code"],
        "application_type": "web",
        "token_endpoint_auth_method": method,
    });
    if method == "private_key_jwt" {
        document["token_endpoint_auth_signing_alg"] = "ES256".into();
        document["jwks_uri"] = format!("{issuer}/oauth/jwks").into();
    }
    Some(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_004_the_gateway_is_named_by_its_host() {
        for (issuer, expected) in [
            ("https://mcp.example.com", "Lockkeeper at mcp.example.com"),
            ("http://127.0.0.1:8080", "Lockkeeper at 127.0.0.1:8080"),
            ("https://mcp.example.com/p", "Lockkeeper at mcp.example.com"),
        ] {
            assert_eq!(document(issuer, "git.json").unwrap()["client_name"], expected);
        }
    }
}
