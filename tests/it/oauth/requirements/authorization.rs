//! The authorization request: what is a page, and what the client hears.

use lockkeeper::oauth::BeginOutcome;
use serde_json::json;

use crate::support::oauth::{Authority, CALLBACK, FROM, parameter};

/// What becomes of a request with these parameters: `consent`, `page ERROR`, or `client ERROR`.
async fn outcome(changes: &[(&str, &str)]) -> String {
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, changes);
    raw(&authority, &query).await
}

async fn raw(authority: &Authority, query: &str) -> String {
    match authority.oauth.authorization().begin(query, FROM).await {
        BeginOutcome::Page(refusal) => format!("page {}", refusal.error),
        BeginOutcome::Redirect(redirect) => {
            assert!(redirect.location.starts_with(CALLBACK), "{}", redirect.location);
            assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
            format!("client {}", parameter(&redirect.location, "error").unwrap())
        }
        BeginOutcome::Valid(_) => "consent".to_owned(),
    }
}

/// The scopes and the endpoint that a request leads to.
async fn granted(changes: &[(&str, &str)]) -> (String, String) {
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, changes);
    let id = authority.waiting(&query).await;
    let browser = crate::support::oauth::browser("a");
    let pending = authority.pending(&id, &browser).await.unwrap();
    (pending.scopes.to_string(), pending.resource)
}

#[tokio::test]
async fn oa_040_a_client_without_scopes_may_ask_for_every_ordinary_one() {
    let scopes = "mcp:use mcp:git";
    assert_eq!(granted(&[("scope", scopes)]).await.0, scopes);
}

#[tokio::test]
async fn oa_055_redirect_uris_are_compared_as_strings() {
    assert_eq!(outcome(&[]).await, "consent");
    assert_eq!(outcome(&[("redirect_uri", "http://127.0.0.1:7777/callbac")]).await, "page invalid_request");
}

#[tokio::test]
async fn oa_056_the_port_of_a_loopback_address_is_free() {
    assert_eq!(outcome(&[("redirect_uri", "http://127.0.0.1:1/callback")]).await, "consent");
    assert_eq!(outcome(&[("redirect_uri", "http://127.0.0.1/callback")]).await, "consent");
}

#[tokio::test]
async fn oa_057_the_names_of_this_computer_are_three_hosts() {
    for host in ["localhost", "[::1]"] {
        let uri = format!("http://{host}:7777/callback");
        assert_eq!(outcome(&[("redirect_uri", &uri)]).await, "page invalid_request", "{host}");
    }
}

#[tokio::test]
async fn oa_062_the_query_of_a_redirect_uri_is_kept() {
    let authority = Authority::new().await;
    let uri = "http://127.0.0.1:7777/callback?tenant=a";
    let answer = authority.register(&json!({ "redirect_uris": [uri] })).await.json();
    let query = Authority::query(answer["client_id"].as_str().unwrap(), &[("redirect_uri", uri), ("state", "a+b%2F=")]);
    let location = authority.approve(&query).await.location;
    assert_eq!(parameter(&location, "tenant").as_deref(), Some("a"));
    assert_eq!(parameter(&location, "state").as_deref(), Some("a+b%2F="));
}

#[tokio::test]
async fn oa_077_the_only_response_mode_is_query() {
    assert_eq!(outcome(&[("response_mode", "query")]).await, "consent");
    for mode in ["fragment", "form_post", "jwt"] {
        assert_eq!(outcome(&[("response_mode", mode)]).await, "client invalid_request", "{mode}");
    }
}

#[tokio::test]
async fn oa_063_the_first_fault_decides() {
    let everything = [
        ("response_type", "token"),
        ("code_challenge", "short"),
        ("resource", "https://evil.example/mcp"),
        ("scope", "\"\\"),
    ];
    let order =
        ["client unsupported_response_type", "client invalid_request", "client invalid_target", "client invalid_scope"];
    for (first, expected) in order.into_iter().enumerate() {
        assert_eq!(outcome(&everything[first..]).await, expected);
    }
    assert_eq!(
        outcome(&[&everything[..], &[("redirect_uri", "https://evil.example/")]].concat()).await,
        "page invalid_request"
    );
}

#[tokio::test]
async fn oa_064_pkce_is_required_with_s256() {
    assert_eq!(outcome(&[("code_challenge_method", "")]).await, "client invalid_request");
    assert_eq!(outcome(&[("code_challenge_method", "plain")]).await, "client invalid_request");
}

#[tokio::test]
async fn oa_065_a_resource_may_be_written_in_several_ways() {
    for resource in
        ["https://gw.example/mcp/", "HTTPS://GW.example:443/mcp", "https://gw.example", "https://gw.example/"]
    {
        assert_eq!(granted(&[("resource", resource)]).await.1, "https://gw.example/mcp", "{resource}");
    }
}

#[tokio::test]
async fn oa_067_unknown_scopes_are_dropped_and_a_malformed_one_is_refused() {
    assert_eq!(granted(&[("scope", "openid email profile mcp:git")]).await.0, "mcp:git");
    assert_eq!(granted(&[("scope", "openid")]).await.0, "mcp:use");
    assert_eq!(outcome(&[("scope", "a\"b")]).await, "client invalid_scope");
}

#[tokio::test]
async fn oa_074_success_has_code_state_and_issuer_once_each() {
    let authority = Authority::new().await;
    let location = authority.approve(&Authority::query(&authority.client().await, &[])).await.location;
    // `parameter` refuses a second one
    for (name, expected) in [("state", Some("xyz")), ("iss", Some("https://gw.example")), ("error", None)] {
        assert_eq!(parameter(&location, name).as_deref(), expected);
    }
    assert!(parameter(&location, "code").is_some());
}

#[tokio::test]
async fn oa_079_request_objects_are_refused_by_their_own_errors() {
    assert_eq!(outcome(&[("request", "x")]).await, "client request_not_supported");
    assert_eq!(outcome(&[("request_uri", "urn:x")]).await, "client request_uri_not_supported");
}

#[tokio::test]
async fn n_045_an_unknown_client_ends_on_a_page() {
    let authority = Authority::new().await;
    assert_eq!(raw(&authority, &Authority::query("unknown", &[])).await, "page invalid_client");
}

#[tokio::test]
async fn n_047_a_redirect_uri_with_another_slash_case_or_query_ends_on_a_page() {
    for uri in
        ["http://127.0.0.1:7777/callback/", "http://127.0.0.1:7777/Callback", "http://127.0.0.1:7777/callback?x=1"]
    {
        assert_eq!(outcome(&[("redirect_uri", uri)]).await, "page invalid_request", "{uri}");
    }
}

#[tokio::test]
async fn n_048_of_a_loopback_address_the_port_alone_may_differ() {
    assert_eq!(outcome(&[("redirect_uri", "http://127.0.0.1:9999/callback")]).await, "consent");
    assert_eq!(outcome(&[("redirect_uri", "http://127.0.0.1:9999/other")]).await, "page invalid_request");
    assert_eq!(outcome(&[("redirect_uri", "http://localhost:7777/callback")]).await, "page invalid_request");
}

#[tokio::test]
async fn n_051_a_response_type_is_required_and_is_code() {
    assert_eq!(outcome(&[("response_type", "")]).await, "client invalid_request");
    assert_eq!(outcome(&[("response_type", "token")]).await, "client unsupported_response_type");
}

#[tokio::test]
async fn n_052_a_request_without_a_challenge_is_refused() {
    assert_eq!(outcome(&[("code_challenge", "")]).await, "client invalid_request");
}

#[tokio::test]
async fn n_054_a_challenge_of_another_form_is_refused() {
    let padded = format!("{}=", "a".repeat(43));
    for challenge in ["a".repeat(42), "a".repeat(129), padded] {
        assert_eq!(outcome(&[("code_challenge", &challenge)]).await, "client invalid_request", "{challenge}");
    }
}

#[tokio::test]
async fn n_055_a_foreign_resource_is_refused() {
    assert_eq!(outcome(&[("resource", "https://evil.example/mcp")]).await, "client invalid_target");
}

#[tokio::test]
async fn n_057_two_resources_are_refused() {
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let twice = format!("{query}&resource=https%3A%2F%2Fgw.example%2Fmcp%2Fgit");
    assert_eq!(raw(&authority, &twice).await, "client invalid_target");
}
