//! Metadata documents of clients. Input: a document, at a fixed URL.
//!
//! Oracles: an accepted document is what RFC 7591 and the page of authorization say, read from a tree; the stored form of the
//! client is read as the same client.

use lockkeeper::{fuzzing::client_document, model::ClientAuth, oauth::redirect_uri::RedirectUri};
use url::Url;

use super::tree::Tree;

const URL: &str = "https://app.example/client.json";

/// Checks one input.
pub fn run(data: &[u8]) {
    let url = Url::parse(URL).expect("a URL");
    let schemes = ["myapp".to_owned()];
    let Ok(client) = client_document(&url, data, &schemes) else { return };
    let text = std::str::from_utf8(data).expect("JSON");
    let stored = client_document(&url, client.metadata.as_bytes(), &schemes).expect("the stored form of a client");
    assert_eq!(format!("{client:?}"), format!("{stored:?}"), "{text}");
    assert_eq!(client.id.as_str(), URL);
    assert!(!client.name.trim().is_empty() && client.name.chars().count() <= 100, "{:?}", client.name);
    for uri in &client.redirect_uris {
        assert!(RedirectUri::parse(uri, &schemes).is_ok(), "{uri}");
    }
    // what serde reads from it is what others read: each of these members is there once
    let Some(tree) = Tree::read(text) else { return };
    let members = tree.members().expect("an object");
    for name in ["client_id", "client_name", "redirect_uris", "token_endpoint_auth_method", "jwks", "jwks_uri", "scope"]
    {
        assert!(members.0.iter().filter(|(held, _)| held == name).count() <= 1, "{name} in {text}");
    }
    assert_eq!(tree.get("client_id").and_then(Tree::text), Some(URL));
    let uris: Vec<&str> = tree.at("redirect_uris.*").into_iter().filter_map(Tree::text).collect();
    assert_eq!(client.redirect_uris, uris);
    let is_null = |value: &Tree| matches!(value, Tree::Literal(text) if text == "null");
    let has = |name: &str| tree.get(name).is_some_and(|value| !is_null(value));
    assert!(!has("client_secret"), "{text}");
    assert!(!has("jwks") || !has("jwks_uri"), "{text}");
    assert!(tree.at("jwks.keys.*").iter().all(|key| ["d", "k", "p", "q"].iter().all(|part| key.get(part).is_none())));
    if !has("token_endpoint_auth_method") && !has("token_endpoint_auth_methods_supported") {
        assert!(matches!(client.auth, ClientAuth::None), "{text}");
    }
}

/// Documents like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let with = |more: &str| {
        format!(
            r#"{{"client_id":"{URL}","client_name":"App","redirect_uris":["https://app.example/cb","http://localhost/cb"]{more}}}"#
        )
    };
    let texts = [
        with(""),
        with(
            r#","token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://app.example/keys","scope":"files:read""#,
        ),
        with(
            r#","token_endpoint_auth_methods_supported":["none","private_key_jwt"],"jwks":{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
        ),
        with(r#","grant_types":["authorization_code","refresh_token"],"response_types":["code"]"#),
        format!(r#"["{URL}"]"#),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}
