//! Tokens that say to a server who calls, as a server verifies them.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use lockkeeper::{
    model::{CallerIdentity, ClientId, UserId},
    oauth::{KeyRefusal, signing::RotationStart},
    support::Clock as _,
};
use serde_json::{Value, json};

use crate::support::oauth::{Authority, HOME, ISSUER};

const SERVER: &str = "https://docs.example.com/mcp";

fn identity(client: Option<&str>) -> CallerIdentity {
    CallerIdentity { user: UserId::new("ada"), client: client.map(ClientId::new) }
}

/// The claims, verified by the published keys alone.
async fn claims(authority: &Authority, token: &str) -> Value {
    let keys: JwkSet = serde_json::from_value(authority.get("/oauth/jwks").await.json()).unwrap();
    let header = decode_header(token).unwrap();
    let key = DecodingKey::from_jwk(keys.find(header.kid.as_deref().unwrap()).unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_issuer(&[ISSUER]);
    validation.set_audience(&[SERVER]);
    // the time of tests is not that of the machine
    validation.validate_exp = false;
    decode::<Value>(token, &key, &validation).unwrap().claims
}

#[tokio::test]
async fn a_server_verifies_who_calls_with_the_published_keys() {
    let authority = Authority::new().await;
    let signer = authority.oauth.identity_signer();
    let now = authority.clock.now();
    let told = signer(&identity(Some("editor")), SERVER).unwrap();
    let mut claims_of_client = claims(&authority, told.token.expose()).await;
    assert!(claims_of_client["jti"].take().as_str().is_some_and(|jti| jti.len() >= 22));
    let expected = json!({
        "iss": ISSUER, "sub": "ada", "aud": SERVER, "client_id": "editor", "jti": null,
        "iat": now.as_seconds(), "exp": now.as_seconds() + 300,
    });
    assert_eq!(claims_of_client, expected);
    assert_eq!(told.renewed_at, now + Duration::from_mins(4));
    let direct = signer(&identity(None), SERVER).unwrap();
    assert_eq!(claims(&authority, direct.token.expose()).await.get("client_id"), None);
}

#[tokio::test]
async fn a_token_that_says_who_calls_opens_nothing_at_the_gateway() {
    let authority = Authority::new().await;
    let signer = authority.oauth.identity_signer();
    for audience in [SERVER, "https://gw.example/mcp"] {
        let told = signer(&identity(Some("editor")), audience).unwrap();
        let verified = authority.oauth.verify(told.token.expose(), HOME).await;
        assert!(matches!(verified, Err(KeyRefusal::Unknown)), "{verified:?}");
    }
}

#[tokio::test]
async fn the_statement_of_who_calls_follows_the_rotation_of_keys() {
    let authority = Authority::new().await;
    let signer = authority.oauth.identity_signer();
    let before = signer(&identity(None), SERVER).unwrap();
    authority.oauth.signing_keys().rotate(RotationStart::AtOnce).await.unwrap();
    authority.oauth.sync().await.unwrap();
    authority.clock.advance(Duration::from_secs(5));
    let after = signer(&identity(None), SERVER).unwrap();
    let key = |token: &str| decode_header(token).unwrap().kid.unwrap();
    assert_ne!(key(before.token.expose()), key(after.token.expose()));
    for token in [before, after] {
        assert_eq!(claims(&authority, token.token.expose()).await["sub"], "ada");
    }
}
