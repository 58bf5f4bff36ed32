//! The authorization request, as the pages drive it.

use std::time::Duration;

use lockkeeper::{
    model::Rights,
    oauth::{Begun, Login, RedirectTarget, Trust},
};
use serde_json::json;

use crate::support::oauth::{Authority, CALLBACK, browser, parameter};

/// How a request is refused: `page <error>` or `redirect <error>`.
async fn refusal(authority: &Authority, query: &str) -> String {
    match authority.oauth.begin(query, &browser("a")).await {
        Begun::Page(refusal) => format!("page {}", refusal.error),
        Begun::Redirect(redirect) => {
            assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
            assert_eq!(parameter(&redirect.location, "code"), None);
            format!("redirect {}", parameter(&redirect.location, "error").unwrap())
        }
        Begun::Consent(_) => "consent".to_owned(),
    }
}

#[tokio::test]
async fn a_person_sees_what_is_asked_for_and_approves_once() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let browser = browser("a");
    let query = Authority::query(&client, &[("scope", "mcp:use mcp:git:read openid"), ("prompt", "login")]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser).await else { panic!("no consent") };
    let pending = authority.oauth.pending(&id, &browser).await.unwrap().unwrap();
    assert_eq!(pending.client_name, "A test");
    assert_eq!(pending.redirect, RedirectTarget::Loopback("127.0.0.1:7777".to_owned()));
    assert_eq!(pending.resource, "https://gw.example/mcp");
    assert_eq!(pending.scopes.to_string(), "mcp:use mcp:git:read");
    assert_eq!(pending.login, Login::Fresh);
    let redirect = authority.oauth.approve(&id, &browser, &authority.holder).await.unwrap();
    assert_eq!(redirect.trust, Trust::Automatic);
    assert!(redirect.location.starts_with(CALLBACK));
    // N-74: each exactly once (`parameter` looks)
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
    assert!(parameter(&redirect.location, "code").is_some());
    // N-65: a used transaction
    assert_eq!(authority.oauth.approve(&id, &browser, &authority.holder).await.unwrap_err().status, 403);
    assert_eq!(authority.oauth.pending(&id, &browser).await.unwrap(), None);
}

#[tokio::test]
async fn the_state_comes_back_as_it_was_sent() {
    // N-74
    let authority = Authority::new().await;
    let client = authority.client().await;
    let redirect = authority.approve(&Authority::query(&client, &[("state", "a+b%2Fc=&é")])).await;
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("a+b%2Fc=&é"));
}

#[tokio::test]
async fn another_browser_does_not_see_the_request() {
    // N-65
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    assert_eq!(authority.oauth.pending(&id, &browser("b")).await.unwrap(), None);
    assert!(authority.oauth.approve(&id, &browser("b"), &authority.holder).await.is_err());
    assert!(authority.oauth.deny(&id, &browser("b")).await.is_err());
    // at login the session id is rotated and what waits goes along
    authority.oauth.rebind(&browser("a"), &browser("c")).await.unwrap();
    assert!(authority.oauth.approve(&id, &browser("c"), &authority.holder).await.is_ok());
}

#[tokio::test]
async fn a_request_lapses_after_ten_minutes() {
    // N-67
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    authority.clock.advance(Duration::from_mins(10));
    assert_eq!(authority.oauth.pending(&id, &browser("a")).await.unwrap(), None);
    assert_eq!(authority.oauth.approve(&id, &browser("a"), &authority.holder).await.unwrap_err().status, 400);
}

#[tokio::test]
async fn a_request_whose_client_cannot_be_told_ends_on_a_page() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let query = |changes: &[(&str, &str)]| Authority::query(&client, changes);
    for (query, expected) in [
        (Authority::query("unknown", &[]), "page invalid_client"), // N-45
        (Authority::query("http://evil/client.json", &[]), "page invalid_client"), // N-30
        (query(&[("client_id", "")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://127.0.0.1:7777/callback/")]), "page invalid_request"), // N-47
        (query(&[("redirect_uri", "http://127.0.0.1:7777/Callback")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://127.0.0.1:7777/callback?x=1")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://localhost:7777/callback")]), "page invalid_request"), // N-48
        (query(&[("redirect_uri", "http://127.0.0.1:1/callback")]), "consent"),
        (query(&[("redirect_uri", "")]), "page invalid_request"), // OA-60: a loopback address has no port then
        (format!("{}&client_id=x", query(&[])), "page invalid_request"),
    ] {
        assert_eq!(refusal(&authority, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_request_that_is_wrong_otherwise_is_told_to_the_client() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let query = |changes: &[(&str, &str)]| Authority::query(&client, changes);
    let long = "a".repeat(129);
    for (query, expected) in [
        (format!("{}&state=twice", query(&[])), "redirect invalid_request"), // N-50
        (query(&[("response_type", "")]), "redirect invalid_request"),       // N-51
        (query(&[("response_type", "token")]), "redirect unsupported_response_type"),
        (query(&[("code_challenge", "")]), "redirect invalid_request"), // N-52
        (query(&[("code_challenge_method", "")]), "redirect invalid_request"),
        (query(&[("code_challenge_method", "plain")]), "redirect invalid_request"),
        (query(&[("code_challenge", &long[..42])]), "redirect invalid_request"), // N-54
        (query(&[("code_challenge", &long)]), "redirect invalid_request"),
        (query(&[("resource", "https://evil/mcp")]), "redirect invalid_target"), // N-55
        (query(&[("resource", "https://gw.example/mcp/nope")]), "redirect invalid_target"),
        (format!("{}&resource=https://gw.example/sse", query(&[])), "redirect invalid_target"), // N-57
        (query(&[("scope", "mcp:use \"")]), "redirect invalid_scope"),
        (query(&[("prompt", "none")]), "redirect interaction_required"), // OA-77
        (query(&[("request", "x")]), "redirect request_not_supported"),  // OA-79
    ] {
        assert_eq!(refusal(&authority, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn an_error_is_not_sent_by_itself_to_a_site_that_anybody_may_have_registered() {
    // N-62
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": ["https://somewhere.example/cb"] });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let changes = [("redirect_uri", "https://somewhere.example/cb"), ("response_type", "token")];
    let begun = authority.oauth.begin(&Authority::query(&client, &changes), &browser("a")).await;
    let Begun::Redirect(redirect) = begun else { panic!("{begun:?}") };
    assert!(matches!(redirect.trust, Trust::ShowLink { host, .. } if host == "somewhere.example"));
    // what the person approved goes there at once
    let redirect = authority.approve(&Authority::query(&client, &changes[..1])).await;
    assert_eq!(redirect.trust, Trust::Automatic);
}

#[tokio::test]
async fn a_denial_is_told_to_the_client() {
    // N-71
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    let redirect = authority.oauth.deny(&id, &browser("a")).await.unwrap();
    assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("access_denied"));
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
}

#[tokio::test]
async fn administration_is_granted_by_a_key_that_has_it_alone() {
    // N-61
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[("scope", "mcp:use mcp:admin")]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    let pending = authority.oauth.pending(&id, &browser("a")).await.unwrap().unwrap();
    assert_eq!(pending.scopes_for(&authority.holder).to_string(), "mcp:use");
    let admin = Rights { admin: true, ..Rights::all_backends() };
    let (_, operator) = Authority::key(&authority.oauth, "grace", admin).await;
    assert_eq!(pending.scopes_for(&operator).to_string(), "mcp:use mcp:admin");
    authority.oauth.approve(&id, &browser("a"), &authority.holder).await.unwrap();
}

#[tokio::test]
async fn a_key_that_ended_meanwhile_approves_nothing() {
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    assert!(authority.oauth.revoke_key(&authority.holder.key).await.unwrap());
    assert_eq!(authority.oauth.approve(&id, &browser("a"), &authority.holder).await.unwrap_err().status, 403);
}

#[tokio::test]
async fn a_key_that_does_not_reach_the_backend_grants_nothing_there() {
    let authority = Authority::new().await;
    let changes = [("resource", "https://gw.example/mcp/git")];
    let query = Authority::query(&authority.client().await, &changes);
    let Begun::Consent(id) = authority.oauth.begin(&query, &browser("a")).await else { panic!("no consent") };
    let (_, nobody) = Authority::key(&authority.oauth, "eve", Rights::none()).await;
    let redirect = authority.oauth.approve(&id, &browser("a"), &nobody).await.unwrap();
    assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("access_denied"));
}
