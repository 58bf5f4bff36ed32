//! The gateway's client id metadata documents (`UP-4`): one that signs its requests, one for authorization servers that
//! know only public clients. Each server has its own, so that it does not reveal the other servers.

use serde_json::{Value, json};

use crate::{model::BackendId, oauth_client::AuthorizationServer};

/// Ends of the documents' names.
const SIGNED: &str = ".json";
const PUBLIC: &str = ".public.json";

/// The redirect URI for a server.
pub(super) fn redirect_uri(issuer: &str, backend: &BackendId) -> String {
    format!("{issuer}/oauth/upstream/callback/{backend}")
}

/// The client id at an authorization server that fetches metadata documents; `None` if it does not, or cannot reach the
/// gateway.
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

/// The document of this name, even if there is no such server.
pub(super) fn document(issuer: &str, file: &str) -> Option<Value> {
    let (name, method) = match file.strip_suffix(PUBLIC) {
        Some(name) => (name, "none"),
        None => (file.strip_suffix(SIGNED)?, "private_key_jwt"),
    };
    let backend = BackendId::parse(name).ok()?;
    let mut document = json!({
        "client_id": format!("{issuer}/oauth/client-metadata/{file}"),
        "client_name": "Lockkeeper",
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
