//! Dynamic client registration.

use std::time::Duration;

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use lockkeeper::storage::Storage;
use serde_json::{Value, json};

use crate::support::oauth::{Authority, CALLBACK};

#[tokio::test]
async fn a_registration_is_answered_with_everything_that_was_registered() {
    let authority = Authority::new().await;
    let answer = authority
        .register(&json!({
            "client_name": "Cursor\u{202e}", "logo_uri": "https://cursor.com/logo.png", "unknown": 1,
            "redirect_uris": [
                "cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback"
            ],
            "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
            "scope": "mcp:use openid"
        }))
        .await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let mut metadata = answer.json();
    let id = metadata["client_id"].take();
    assert!(id.as_str().unwrap().len() >= 22);
    assert_eq!(
        metadata,
        json!({
            "client_id": null, "client_id_issued_at": 1_767_225_600, "client_name": "Cursor",
            "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
            "logo_uri": "https://cursor.com/logo.png",
            "redirect_uris": [
                "cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback"
            ],
            "response_types": ["code"], "scope": "mcp:use", "token_endpoint_auth_method": "none"
        })
    );
}

#[tokio::test]
async fn a_public_client_that_registers_again_keeps_its_id() {
    let authority = Authority::new().await;
    let register = async |port: u16, name: &str| {
        let uri = format!("http://localhost:{port}/callback");
        authority.register(&json!({ "client_name": name, "redirect_uris": [uri] })).await.json()["client_id"].take()
    };
    let first = register(4000, "A").await;
    assert_eq!(register(5000, "A").await, first);
    assert_ne!(register(4000, "B").await, first);
}

#[tokio::test]
async fn a_client_secret_is_issued_on_request_and_never_stored() {
    let authority = Authority::new().await;
    let metadata = json!({
        "redirect_uris": ["https://a.example/cb"], "token_endpoint_auth_method": "client_secret_basic"
    });
    let answer = authority.register(&metadata).await.json();
    let secret = answer["client_secret"].as_str().unwrap();
    assert!(secret.len() >= 43 && answer["client_secret_expires_at"] == 0);
    let client = &authority.oauth.clients().list().await.unwrap()[0];
    assert!(!format!("{client:?}").contains(secret));
}

#[tokio::test]
async fn n_024_an_invalid_registration_is_refused_with_its_code() {
    let authority = Authority::new().await;
    let uris = |uri: &str| json!({ "redirect_uris": [uri] });
    let with = |member: &str, value: Value| {
        let mut metadata = json!({ "redirect_uris": ["https://a.example/cb"] });
        metadata[member] = value;
        metadata
    };
    for (metadata, error) in [
        (json!("text"), "400 invalid_client_metadata"), // N-11
        (json!([["https://a.example/cb"], "A name"]), "400 invalid_client_metadata"),
        (json!({}), "400 invalid_redirect_uri"), // N-12
        (json!({ "redirect_uris": [] }), "400 invalid_redirect_uri"),
        (uris("http://example.com/cb"), "400 invalid_redirect_uri"), // N-14
        (uris("JaVaScRiPt:alert(1)"), "400 invalid_redirect_uri"),   // N-15
        (uris("java\nscript:alert(1)"), "400 invalid_redirect_uri"),
        (uris("https://u:p@a/cb"), "400 invalid_redirect_uri"), // N-17
        (uris("http://localhost@evil.com/cb"), "400 invalid_redirect_uri"), // N-18
        (uris("https://*.x.com/cb"), "400 invalid_redirect_uri"), // N-20
        (uris("https://co.uk/cb"), "400 invalid_redirect_uri"), // N-21
        (with("logo_uri", json!("javascript:alert(1)")), "400 invalid_client_metadata"), // N-22
        (with("jwks", json!({ "keys": [{ "kty": "EC", "d": "x" }] })), "400 invalid_client_metadata"), // N-25
        (with("token_endpoint_auth_method", json!("tls_client_auth")), "400 invalid_client_metadata"),
        (with("grant_types", json!(["client_credentials"])), "400 invalid_client_metadata"),
        (with("response_types", json!(["token"])), "400 invalid_client_metadata"),
    ] {
        assert_eq!(authority.register(&metadata).await.error(), error, "{metadata}");
    }
    // N-24
    let mut both = with("jwks", json!({ "keys": [] }));
    both["jwks_uri"] = json!("https://a.example/jwks");
    assert_eq!(authority.register(&both).await.error(), "400 invalid_client_metadata");
    // N-11
    let request = Request::post("/oauth/register").body(Body::from("not json")).unwrap();
    assert_eq!(authority.send(request).await.error(), "400 invalid_client_metadata");
    assert!(authority.oauth.clients().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn n_027_a_body_of_17_kib_is_too_large() {
    // N-27
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": ["https://a.example/cb"], "client_name": "x".repeat(17 * 1024) });
    assert_eq!(authority.register(&metadata).await.error(), "413 invalid_client_metadata");
}

#[tokio::test]
async fn n_028_a_flood_is_rate_limited() {
    // N-28
    let authority = Authority::new().await;
    let mut limited = None;
    for number in 0..100 {
        let metadata = json!({ "client_name": format!("{number}"), "redirect_uris": ["https://a.example/cb"] });
        let answer = authority.register(&metadata).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            limited = Some((number, answer.header("retry-after").unwrap().parse::<u64>().unwrap()));
            break;
        }
    }
    let (number, wait) = limited.unwrap();
    assert!(number >= 30 && wait > 0, "{number} {wait}");
    authority.clock.advance(Duration::from_secs(wait));
    assert_eq!(authority.register(&json!({ "redirect_uris": ["https://b.example/cb"] })).await.status, 201);
}

#[tokio::test]
async fn concurrent_registrations_pass_up_to_the_limit() {
    // OA-42; a store on disk, so that they wait for each other
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
    let authority = Authority::on(storage, Authority::settings(), 1).await;
    let metadata = |number| json!({ "client_name": format!("{number}"), "redirect_uris": ["https://a.example/cb"] });
    let requests: Vec<Value> = (0..200).map(metadata).collect();
    let answers = join_all(requests.iter().map(|metadata| authority.register(metadata))).await;
    let registered = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert_eq!(registered, 60);
    assert_eq!(authority.oauth.clients().list().await.unwrap().len(), 60);
}

#[tokio::test]
async fn a_registration_with_a_consent_does_not_count() {
    // OA-42
    let authority = Authority::new().await;
    let register = async |name: &str| {
        let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
        authority.register(&metadata).await.status.as_u16()
    };
    let client = authority.client().await;
    for number in 1..60 {
        assert_eq!(register(&format!("{number}")).await, 201);
    }
    assert_eq!(register("one too many").await, 429);
    authority.approve(&Authority::query(&client, &[])).await;
    assert_eq!(register("in the place of the first").await, 201);
    assert_eq!(register("one too many").await, 429);
    // the second consent to a client returns nothing
    authority.approve(&Authority::query(&client, &[])).await;
    assert_eq!(register("one too many").await, 429);
    // nor do earlier registrations count
    authority.clock.advance(Duration::from_mins(1));
    for _ in 0..3 {
        assert_eq!(register("1").await, 201);
    }
}

#[tokio::test]
async fn a_registration_takes_at_most_8_kib() {
    let authority = Authority::new().await;
    let with = |length: usize| json!({ "redirect_uris": [CALLBACK], "software_id": "x".repeat(length) });
    assert_eq!(authority.register(&with(7 * 1024)).await.status, StatusCode::CREATED);
    assert_eq!(authority.register(&with(8 * 1024)).await.error(), "400 invalid_client_metadata");
    let uris: Vec<String> = (0..5).map(|number| format!("https://a.example/{number}{}", "x".repeat(1024))).collect();
    assert_eq!(authority.register(&json!({ "redirect_uris": uris })).await.error(), "400 invalid_client_metadata");
    assert_eq!(authority.oauth.clients().list().await.unwrap().len(), 1);
}
