//! Reasons of refusals in the log, without secrets.

use std::{net::Ipv4Addr, time::Duration};

use axum::{Router, body::Body, routing::any};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, header};
use lockkeeper::{
    model::{AllowedNetworks, Direct, NewKey, QueryKey, Rights, UserId},
    resource::{Gate, GateSettings},
};
use serde_json::json;

use crate::support::{
    http::protected,
    log::Log,
    oauth::{Authority, CALLBACK, FROM, VERIFIER, send},
};

fn refusals(log: &Log) -> Vec<String> {
    log.lines("OAuth request refused")
}

fn refusal(log: &Log) -> String {
    let refusals = refusals(log);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    refusals[0].clone()
}

#[tokio::test]
async fn each_refused_code_is_logged_with_its_reason_and_without_the_code() {
    let authority = Authority::new().await;
    let log = Log::open();
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    let send = async |changes: &[(&str, &str)]| {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", client.as_str()),
            ("code", code.as_str()),
            ("code_verifier", VERIFIER),
        ];
        form.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        form.extend(changes);
        authority.token(&form).await.error()
    };
    let wrong = "x".repeat(43);
    for (change, reason) in [
        (("code", "nonsense"), format!("client {client} sent a code that does not exist")),
        (("code_verifier", ""), "sent without code_verifier".to_owned()),
        (("code_verifier", wrong.as_str()), "code_verifier does not match the code_challenge".to_owned()),
        (("redirect_uri", "https://evil.example/"), "redirect_uri is not the one".to_owned()),
    ] {
        assert_eq!(send(&[change]).await, "400 invalid_grant");
        let line = refusal(&log);
        assert!(line.contains(&reason) && line.contains("invalid_grant"), "{line}");
        assert!(![code.as_str(), &wrong, VERIFIER].iter().any(|secret| line.contains(secret)), "{line}");
    }
    assert_eq!(send(&[("grant_type", "password")]).await, "400 unsupported_grant_type");
    assert!(refusal(&log).contains("this grant type is not supported"));
    authority.clock.advance(Duration::from_secs(61));
    assert_eq!(send(&[]).await, "400 invalid_grant");
    assert!(refusal(&log).contains("expired before it was redeemed"));
}

#[tokio::test]
async fn each_refused_refresh_is_logged_with_its_reason_and_without_the_token() {
    let authority = Authority::new().await;
    let log = Log::open();
    let (client, tokens) = authority.tokens("/mcp").await;
    let token = tokens["refresh_token"].as_str().unwrap();
    let refused = async |client: &str, token: &str, reason: &str| {
        assert!(authority.refresh(client, token).await.status.is_client_error());
        let line = refusal(&log);
        assert!(line.contains(reason) && !line.contains(token), "{line}");
    };
    refused(&client, &token[1..], "whose form or checksum is wrong").await;
    let metadata = json!({ "client_name": "Another", "redirect_uris": [CALLBACK] });
    let other = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    refused(&other, token, &format!("client {other} sent a code or refresh token of grant")).await;
    let successor = authority.refresh(&client, token).await.json()["refresh_token"].as_str().unwrap().to_owned();
    authority.refresh(&client, &successor).await;
    authority.clock.advance(Duration::from_secs(61));
    refused(&client, token, "used again after its successor; the grant is revoked").await;
    refused(&client, token, "was revoked").await;
    let (_, tokens) = authority.tokens("/mcp").await;
    authority.clock.advance(Duration::from_hours(31 * 24));
    refused(&client, tokens["refresh_token"].as_str().unwrap(), "expired unused (refresh_idle)").await;
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    assert_eq!(refusals(&log), Vec::<String>::new());
}

#[tokio::test]
async fn each_refused_client_and_registration_is_logged_with_its_reason_and_without_its_secret() {
    let authority = Authority::new().await;
    let log = Log::open();
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_basic" });
    let registered = authority.register(&metadata).await.json();
    let (id, secret) = (registered["client_id"].as_str().unwrap(), registered["client_secret"].as_str().unwrap());
    authority.token(&[("client_id", id), ("client_secret", secret), ("grant_type", "x")]).await;
    let line = refusal(&log);
    let reason = format!("client {id} did not use the authentication method client_secret_basic");
    assert!(line.contains(&reason) && !line.contains(secret), "{line}");
    let credentials = format!("Basic {}", STANDARD.encode(format!("{id}:hunter2")));
    let request = Request::post("/oauth/token").header(header::AUTHORIZATION, credentials);
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    authority.send(request.body("grant_type=x".into()).unwrap()).await;
    let line = refusal(&log);
    assert!(line.contains("sent a wrong secret") && !line.contains("hunter2"), "{line}");
    // a secret in place of the id
    authority.token(&[("client_id", secret), ("grant_type", "x")]).await;
    let line = refusal(&log);
    assert!(line.contains("is not registered") && !line.contains(secret), "{line}");
    authority.register(&json!({ "redirect_uris": ["http://example.com/cb"] })).await;
    assert!(refusal(&log).contains("of a redirect URI is not allowed"));
}

#[tokio::test]
async fn each_refused_authorization_request_is_logged_with_its_reason() {
    let authority = Authority::new().await;
    let log = Log::open();
    let client = authority.client().await;
    for (changes, reason) in [
        (("client_id", "nobody"), "invalid_client"),
        (("redirect_uri", "https://evil.example/"), "is not registered for this client"),
        (("code_challenge", ""), "PKCE with S256 is required"),
        (("resource", "https://evil.example/mcp"), "invalid_target"),
    ] {
        authority.oauth.authorization().begin(&Authority::query(&client, &[changes]), FROM).await;
        let line = refusal(&log);
        assert!(line.contains(reason) && !line.contains("evil.example"), "{line}");
    }
}

#[tokio::test]
async fn each_refused_access_token_is_logged_with_its_reason_and_without_the_token() {
    let authority = Authority::new().await;
    let log = Log::open();
    let token = authority.access_token("/mcp").await;
    let refused = async |token: &str, reason: &str| {
        authority.oauth.verify(token, Ipv4Addr::LOCALHOST.into()).await.unwrap_err();
        let lines = log.lines("access token refused");
        assert!(lines.len() == 1 && lines[0].contains(reason) && !lines[0].contains(token), "{lines:?}");
    };
    refused("e30.e30.e30", "malformed, expired, or not signed").await;
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    refused(&token, "its grant has ended or was revoked").await;
}

#[tokio::test]
async fn oa_108_each_valid_credential_for_another_place_is_logged_with_its_reason_and_without_the_secret() {
    // OA-108, OA-118
    let authority = Authority::new().await;
    let gate = Gate::new(authority.oauth.clone(), GateSettings { query_key: QueryKey::Accepted });
    let gate = protected(gate, Router::new().route("/mcp", any(async || "in")), Router::new());
    let (name, user) = ("browser".to_owned(), Some(UserId::new("ada")));
    let new = NewKey {
        name,
        user,
        rights: Rights::all_backends(),
        direct: Direct::Refused,
        expires: None,
        networks: AllowedNetworks::default(),
    };
    let (key, secret) = authority.oauth.keys().create(new).await.unwrap();
    let token = authority.access_token("/sse").await;
    let log = Log::open();
    let refused = async |presented: &str, words: &str, reason: &str| {
        let request = Request::post("/mcp").header(header::AUTHORIZATION, format!("Bearer {presented}"));
        assert_eq!(send(&gate, request.body(Body::empty()).unwrap()).await.error(), "401 invalid_token");
        let lines = log.lines(words);
        assert!(lines.len() == 1 && lines[0].contains(reason) && !lines[0].contains(presented), "{lines:?}");
        lines[0].clone()
    };
    let line = refused(secret.expose(), "API key refused", "`lockkeeper keys create NAME --direct`").await;
    assert!(line.contains(key.id.as_str()), "{line}");
    refused(&token, "access token refused", "it is for /sse only").await;
}
