//! Registration with initial access tokens of the operator.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode, header};
use lockkeeper::{
    model::{AuthPolicy, InitialAccessToken, Registration},
    oauth::{NewInitialAccessToken, OAuthSettings},
    storage::Storage,
    support::{Clock as _, Live, Secret},
};
use serde_json::json;

use crate::support::oauth::{Answer, Authority, CALLBACK};

const DAY: Duration = Duration::from_hours(24);

fn settings() -> OAuthSettings {
    let policy = Live::new(AuthPolicy { registration: Registration::ByToken, ..AuthPolicy::default() });
    OAuthSettings { policy, ..Authority::settings() }
}

async fn token(authority: &Authority, uses: u32) -> (InitialAccessToken, Secret) {
    let new = NewInitialAccessToken { name: "build".to_owned(), expires: authority.clock.now() + DAY, uses };
    authority.oauth.initial_access_tokens().create(new).await.unwrap()
}

async fn register(authority: &Authority, name: &str, token: Option<&str>) -> Answer {
    let mut request = Request::post("/oauth/register").header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
    authority.send(request.body(Body::from(metadata.to_string())).unwrap()).await
}

/// How often a token was used.
async fn used(authority: &Authority, token: &InitialAccessToken) -> u32 {
    let listed = authority.oauth.initial_access_tokens().list().await.unwrap();
    listed.into_iter().find(|listed| listed.id == token.id).unwrap().used
}

#[tokio::test]
async fn oa_044_a_client_registers_with_a_token_of_the_operator() {
    let authority = Authority::with(settings()).await;
    let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["registration_endpoint"], "https://gw.example/oauth/register");
    let without = register(&authority, "App", None).await;
    assert_eq!(without.error(), "401 invalid_token");
    assert_eq!(without.header("www-authenticate"), Some(r#"Bearer realm="registration""#));
    assert_eq!(without.header("cache-control"), Some("no-store"));
    let (one, secret) = token(&authority, 2).await;
    for name in ["App", "Another"] {
        let answer = register(&authority, name, Some(secret.expose())).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        assert_eq!(answer.json()["registration_client_uri"], json!(null), "RFC 7592 is not offered");
    }
    let third = register(&authority, "A third", Some(secret.expose())).await;
    assert_eq!(third.error(), "401 invalid_token");
    assert_eq!(third.header("www-authenticate"), Some(r#"Bearer realm="registration", error="invalid_token""#));
    assert_eq!(used(&authority, &one).await, 2);
}

#[tokio::test]
async fn oa_044_a_token_ends_with_its_time_and_by_revocation() {
    let authority = Authority::with(settings()).await;
    let ((revoked, one), (_, two)) = (token(&authority, 5).await, token(&authority, 5).await);
    assert_eq!(register(&authority, "App", Some(one.expose())).await.status, StatusCode::CREATED);
    assert!(authority.oauth.initial_access_tokens().revoke(&revoked.id).await.unwrap());
    assert!(!authority.oauth.initial_access_tokens().revoke(&revoked.id).await.unwrap());
    assert_eq!(register(&authority, "Another", Some(one.expose())).await.error(), "401 invalid_token");
    assert_eq!(authority.oauth.clients().list().await.unwrap().len(), 1, "what registered stays");
    authority.clock.advance(DAY);
    assert_eq!(register(&authority, "Another", Some(two.expose())).await.error(), "401 invalid_token");
}

#[tokio::test]
async fn oa_044_what_adds_no_client_uses_no_token() {
    let authority = Authority::with(settings()).await;
    let (one, secret) = token(&authority, 1).await;
    let request = Request::post("/oauth/register").header(header::AUTHORIZATION, format!("Bearer {}", secret.expose()));
    let invalid = authority.send(request.body(Body::from("{}")).unwrap()).await;
    assert_eq!(invalid.error(), "400 invalid_redirect_uri");
    let (two, again) = token(&authority, 2).await;
    for _ in 0..3 {
        assert_eq!(register(&authority, "App", Some(again.expose())).await.status, StatusCode::CREATED);
    }
    assert_eq!((used(&authority, &one).await, used(&authority, &two).await), (0, 1), "the same app keeps its id");
}

#[tokio::test]
async fn oa_044_concurrent_registrations_pass_as_often_as_the_token_allows() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
    let authority = Authority::on(storage, settings(), 1).await;
    let (one, secret) = token(&authority, 3).await;
    let names: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    let requests = names.iter().map(|name| register(&authority, name, Some(secret.expose())));
    let answers = futures_util::future::join_all(requests).await;
    let added = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert_eq!((added, used(&authority, &one).await), (3, 3));
    // the database has the digest alone
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let stored: Vec<u8> = files.flatten().collect();
    let secret = secret.expose().split('_').nth(1).unwrap().as_bytes();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret));
}

#[tokio::test]
async fn oa_044_the_other_modes_take_no_notice_of_tokens() {
    for (registration, expected) in [
        (Registration::Open, "201 -"),
        (Registration::Listed(vec!["claude.ai".to_owned()]), "403 invalid_redirect_uri"),
        (Registration::Off, "403 access_denied"),
    ] {
        let policy = Live::new(AuthPolicy { registration, ..AuthPolicy::default() });
        let authority = Authority::with(OAuthSettings { policy, ..Authority::settings() }).await;
        let (one, secret) = token(&authority, 1).await;
        assert_eq!(register(&authority, "App", Some(secret.expose())).await.error(), expected);
        assert_eq!(used(&authority, &one).await, 0);
    }
}

#[tokio::test]
async fn oa_044_wrong_tokens_are_limited_and_a_right_one_passes_at_once() {
    let authority = Authority::with(settings()).await;
    let (_, secret) = token(&authority, 2).await;
    for _ in 0..10 {
        assert_eq!(register(&authority, "App", Some("lki_guess")).await.error(), "401 invalid_token");
    }
    let limited = register(&authority, "App", Some("lki_guess")).await;
    assert_eq!(limited.error(), "429 temporarily_unavailable");
    assert_eq!(limited.header("retry-after"), Some("91"));
    assert_eq!(register(&authority, "App", Some(secret.expose())).await.status, StatusCode::CREATED);
    assert_eq!(register(&authority, "App", None).await.error(), "401 invalid_token", "no token is no guess");
    authority.clock.advance(Duration::from_secs(90));
    assert_eq!(register(&authority, "App", Some("lki_guess")).await.error(), "401 invalid_token");
}
