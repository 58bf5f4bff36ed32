//! Dynamic registration, and the redirect URIs of clients.

use axum::body::Body;
use http::{Request, StatusCode};
use lockkeeper::{
    model::{AuthPolicy, Registration},
    oauth::OAuthSettings,
    support::Live,
};
use serde_json::{Value, json};

use crate::support::oauth::{Authority, CALLBACK};

/// Status and error of a registration with one member changed.
async fn refusal(member: &str, value: Value) -> String {
    let mut metadata = json!({ "redirect_uris": ["https://a.example/cb"] });
    metadata[member] = value;
    Authority::new().await.register(&metadata).await.error()
}

async fn uri(uri: &str) -> String {
    refusal("redirect_uris", json!([uri])).await
}

/// What is registered, where it is.
async fn registered(metadata: Value) -> Value {
    let answer = Authority::new().await.register(&metadata).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    answer.json()
}

const BAD_URI: &str = "400 invalid_redirect_uri";
const BAD_METADATA: &str = "400 invalid_client_metadata";
const FINE: &str = "201 -";

#[tokio::test]
async fn oa_031_the_answer_has_everything_that_was_registered() {
    let answer = registered(json!({ "client_name": "A", "redirect_uris": [CALLBACK] })).await;
    assert!(answer["client_id"].is_string() && answer["client_id_issued_at"].is_u64());
    assert_eq!((&answer["client_name"], &answer["redirect_uris"]), (&json!("A"), &json!([CALLBACK])));
    assert_eq!(answer["response_types"], json!(["code"]));
}

#[tokio::test]
async fn oa_032_ten_redirect_uris_fit_and_one_bad_one_refuses_all() {
    let uris = |number| (0..number).map(|one| format!("https://a.example/{one}")).collect::<Vec<_>>();
    assert_eq!(refusal("redirect_uris", json!(uris(10))).await, FINE);
    assert_eq!(refusal("redirect_uris", json!(uris(11))).await, BAD_URI);
    assert_eq!(refusal("redirect_uris", json!(["https://a.example/cb", "http://a.example/cb"])).await, BAD_URI);
    assert_eq!(uri(&format!("https://a.example/{}", "x".repeat(2048))).await, BAD_URI);
}

#[tokio::test]
async fn oa_033_a_name_is_optional_and_made_printable() {
    let named = registered(json!({ "client_name": "Cur\u{202e}sor\u{7}", "redirect_uris": [CALLBACK] })).await;
    assert_eq!(named["client_name"], "Cursor?");
    assert_eq!(refusal("client_name#de", json!("Ein Name")).await, FINE);
}

#[tokio::test]
async fn oa_034_a_client_that_names_no_method_is_public() {
    let answer = registered(json!({ "redirect_uris": [CALLBACK] })).await;
    assert_eq!((&answer["token_endpoint_auth_method"], &answer["client_secret"]), (&json!("none"), &Value::Null));
    assert_eq!(refusal("token_endpoint_auth_method", json!("tls_client_auth")).await, BAD_METADATA);
}

#[tokio::test]
async fn oa_035_a_secret_has_256_bits_in_unreserved_characters_and_does_not_expire() {
    let answer =
        registered(json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post" })).await;
    let secret = answer["client_secret"].as_str().unwrap();
    assert!(secret.len() >= 43 && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)));
    assert_eq!(answer["client_secret_expires_at"], 0);
}

#[tokio::test]
async fn oa_037_grant_types_that_are_not_known_are_dropped() {
    let asked = json!(["authorization_code", "refresh_token", "urn:example:unknown"]);
    let answer = registered(json!({ "redirect_uris": [CALLBACK], "grant_types": asked })).await;
    assert_eq!(answer["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(refusal("response_types", json!(["token"])).await, BAD_METADATA);
}

#[tokio::test]
async fn oa_038_pages_are_web_pages_and_unknown_members_are_ignored() {
    for member in ["client_uri", "logo_uri", "tos_uri", "policy_uri"] {
        assert_eq!(refusal(member, json!("https://a.example/")).await, FINE, "{member}");
        assert_eq!(refusal(member, json!("data:text/html,x")).await, BAD_METADATA, "{member}");
    }
    assert_eq!(refusal("software_statement", json!("x")).await, FINE);
}

#[tokio::test]
async fn oa_039_a_client_id_is_random_and_no_url() {
    let answer = registered(json!({ "redirect_uris": [CALLBACK] })).await;
    let id = answer["client_id"].as_str().unwrap();
    assert!(id.len() >= 22 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
}

#[tokio::test]
async fn oa_058_web_sites_loopback_and_applications_may_be_redirected_to() {
    for good in [
        "https://a.example/cb",
        "http://127.0.0.1:1/cb",
        "http://[::1]/cb",
        "http://localhost/cb",
        "com.example.app:/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ] {
        assert_eq!(uri(good).await, FINE, "{good}");
    }
    assert_eq!(uri("myapp://callback").await, BAD_URI, "a scheme without a period that nobody knows");
}

#[tokio::test]
async fn oa_059_what_browsers_run_or_open_is_never_redirected_to() {
    for bad in [
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://a.example/x",
        "mailto:a@b.example",
        "about:blank",
        "ws://a.example/cb",
        "ftp://a.example/cb",
        "view-source:https://a.example/",
        "https://a.example/cb#x",
        "/cb",
    ] {
        assert_eq!(uri(bad).await, BAD_URI, "{bad}");
    }
}

#[tokio::test]
async fn n_011_a_body_that_is_no_object_is_refused() {
    let authority = Authority::new().await;
    for body in ["not json", "[]", "\"text\"", ""] {
        let request = Request::post("/oauth/register").body(Body::from(body)).unwrap();
        assert_eq!(authority.send(request).await.error(), BAD_METADATA, "{body}");
    }
}

#[tokio::test]
async fn n_012_a_client_has_redirect_uris() {
    assert_eq!(Authority::new().await.register(&json!({})).await.error(), BAD_URI);
    assert_eq!(refusal("redirect_uris", json!([])).await, BAD_URI);
}

#[tokio::test]
async fn n_014_http_is_for_loopback_alone() {
    assert_eq!(uri("http://example.com/cb").await, BAD_URI);
}

#[tokio::test]
async fn n_015_javascript_is_refused_in_every_spelling() {
    for bad in ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " \tjavascript:alert(1)", "java\nscript:alert(1)"] {
        assert_eq!(uri(bad).await, BAD_URI, "{bad:?}");
    }
}

#[tokio::test]
async fn n_017_a_redirect_uri_has_no_user() {
    assert_eq!(uri("https://u:p@a.example/cb").await, BAD_URI);
}

#[tokio::test]
async fn n_018_hosts_that_look_like_this_computer_are_others() {
    for bad in ["http://localhost@evil.com/cb", "http://127.0.0.1.evil.com/cb", "http://0.0.0.0/cb"] {
        assert_eq!(uri(bad).await, BAD_URI, "{bad}");
    }
}

#[tokio::test]
async fn n_020_a_redirect_uri_has_no_wildcard() {
    assert_eq!(uri("https://*.x.com/cb").await, BAD_URI);
}

#[tokio::test]
async fn n_021_a_public_suffix_is_no_host() {
    assert_eq!(uri("https://co.uk/cb").await, BAD_URI);
}

#[tokio::test]
async fn n_022_a_logo_is_a_web_page() {
    assert_eq!(refusal("logo_uri", json!("javascript:alert(1)")).await, BAD_METADATA);
}

#[tokio::test]
async fn n_025_a_key_set_has_no_private_key() {
    let keys = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": "x", "y": "y", "d": "x" }] });
    assert_eq!(refusal("jwks", keys).await, BAD_METADATA);
}

#[tokio::test]
async fn oa_044_registration_can_be_closed() {
    let policy = Live::new(AuthPolicy { registration: Registration::Off, ..AuthPolicy::default() });
    let authority = Authority::with(OAuthSettings { policy, ..Authority::settings() }).await;
    let answer = authority.register(&json!({ "redirect_uris": [CALLBACK] })).await;
    assert!(answer.status.is_client_error(), "{}", answer.status);
    let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["registration_endpoint"], Value::Null);
}
