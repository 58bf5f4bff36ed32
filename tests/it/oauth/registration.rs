//! Dynamic client registration.

use std::time::Duration;

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use lockkeeper::{
    model::{AuthPolicy, Registration},
    storage::Storage,
    support::Live,
};
use serde_json::{Value, json};

use crate::support::oauth::{Authority, CALLBACK};

#[tokio::test]
async fn oa_031_a_registration_is_answered_with_everything_that_was_registered() {
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
async fn oa_041_a_public_client_that_registers_again_keeps_its_id() {
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
async fn oa_035_a_client_secret_is_issued_on_request_and_never_stored() {
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

/// Asserts that each of these registrations is refused with this error, and that nothing is stored.
async fn assert_refused(error: &str, metadata: impl IntoIterator<Item = Value>) {
    let authority = Authority::new().await;
    for metadata in metadata {
        assert_eq!(authority.register(&metadata).await.error(), error, "{metadata}");
    }
    assert!(authority.oauth.clients().list().await.unwrap().is_empty());
}

async fn assert_uris_refused(uris: &[&str]) {
    assert_refused("400 invalid_redirect_uri", uris.iter().map(|uri| json!({ "redirect_uris": [uri] }))).await;
}

/// A registration with further members.
fn with(members: Value) -> Value {
    let mut metadata = json!({ "redirect_uris": ["https://a.example/cb"] });
    let Value::Object(members) = members else { panic!("no members") };
    metadata.as_object_mut().unwrap().extend(members);
    metadata
}

#[tokio::test]
async fn n_011_a_body_that_is_no_json_object_is_refused() {
    let bodies = [json!("text"), json!([["https://a.example/cb"], "A name"]), json!(1)];
    assert_refused("400 invalid_client_metadata", bodies).await;
    let request = Request::post("/oauth/register").body(Body::from("not json")).unwrap();
    assert_eq!(Authority::new().await.send(request).await.error(), "400 invalid_client_metadata");
}

#[tokio::test]
async fn n_012_a_registration_without_redirect_uris_is_refused() {
    assert_refused("400 invalid_redirect_uri", [json!({}), json!({ "redirect_uris": [] })]).await;
}

#[tokio::test]
async fn oa_032_one_bad_redirect_uri_or_too_many_refuse_the_registration() {
    let eleven: Vec<String> = (0..11).map(|number| format!("https://a.example/{number}")).collect();
    let long = format!("https://a.example/{}", "x".repeat(2048));
    let uris = [json!(eleven), json!([long]), json!(["https://a.example/cb", "http://b.example/cb"]), json!([1])];
    assert_refused("400 invalid_redirect_uri", uris.map(|uris| json!({ "redirect_uris": uris }))).await;
}

#[tokio::test]
async fn oa_033_a_client_without_a_name_gets_a_neutral_one() {
    let authority = Authority::new().await;
    for (name, stored) in [
        (json!(null), "An unnamed client".to_owned()),
        (json!("\u{202e}\u{200b}"), "An unnamed client".to_owned()),
        (json!("x".repeat(101)), "x".repeat(100)),
    ] {
        let mut metadata = with(json!({ "client_name#de": "Ein Name" }));
        if !name.is_null() {
            metadata["client_name"] = name;
        }
        assert_eq!(authority.register(&metadata).await.json()["client_name"], json!(stored));
    }
}

#[tokio::test]
async fn oa_034_a_client_without_a_method_is_public_and_an_unknown_method_is_refused() {
    let answer = Authority::new().await.register(&with(json!({}))).await.json();
    assert_eq!((&answer["token_endpoint_auth_method"], answer.get("client_secret")), (&json!("none"), None));
    let unknown = with(json!({ "token_endpoint_auth_method": "tls_client_auth" }));
    assert_refused("400 invalid_client_metadata", [unknown]).await;
}

#[tokio::test]
async fn oa_037_unknown_types_are_dropped_as_long_as_the_code_flow_remains() {
    let types = json!({ "grant_types": ["authorization_code", "implicit"], "response_types": ["token", "code"] });
    let answer = Authority::new().await.register(&with(types)).await.json();
    assert_eq!((&answer["grant_types"], &answer["response_types"]), (&json!(["authorization_code"]), &json!(["code"])));
    let without = [json!({ "grant_types": ["client_credentials"] }), json!({ "response_types": ["token"] })];
    assert_refused("400 invalid_client_metadata", without.map(with)).await;
}

#[tokio::test]
async fn n_014_an_http_uri_that_is_not_loopback_is_refused() {
    assert_uris_refused(&["http://example.com/cb"]).await;
}

#[tokio::test]
async fn n_015_javascript_is_refused_in_any_spelling() {
    let uris = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " \tjavascript:alert(1)", "java\nscript:alert(1)"];
    assert_uris_refused(&uris).await;
}

#[tokio::test]
async fn n_017_a_user_and_a_password_are_refused() {
    assert_uris_refused(&["https://u:p@a/cb", "https://@a.example/cb"]).await;
}

#[tokio::test]
async fn n_018_hosts_that_look_like_loopback_ones_are_refused() {
    let uris = ["http://localhost@evil.com/cb", "http://127.0.0.1.evil.com/cb", "http://0.0.0.0/cb"];
    assert_uris_refused(&uris).await;
}

#[tokio::test]
async fn n_020_a_wildcard_is_refused() {
    assert_uris_refused(&["https://*.x.com/cb"]).await;
}

#[tokio::test]
async fn n_021_a_public_suffix_is_refused() {
    assert_uris_refused(&["https://co.uk/cb"]).await;
}

#[tokio::test]
async fn n_022_pages_of_the_client_are_web_pages() {
    let script = json!("javascript:alert(1)");
    let pages = ["logo_uri", "client_uri", "tos_uri", "policy_uri"].map(|name| with(json!({ name: script })));
    assert_refused("400 invalid_client_metadata", pages).await;
}

#[tokio::test]
async fn n_024_jwks_and_jwks_uri_exclude_each_other() {
    let both = with(json!({ "jwks": { "keys": [] }, "jwks_uri": "https://a.example/jwks" }));
    assert_refused("400 invalid_client_metadata", [both]).await;
}

#[tokio::test]
async fn n_025_a_private_key_is_refused() {
    let private = with(json!({ "jwks": { "keys": [{ "kty": "EC", "d": "x" }] } }));
    assert_refused("400 invalid_client_metadata", [private]).await;
}

#[tokio::test]
async fn n_027_a_body_of_17_kib_is_too_large() {
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": ["https://a.example/cb"], "client_name": "x".repeat(17 * 1024) });
    assert_eq!(authority.register(&metadata).await.error(), "413 invalid_client_metadata");
}

#[tokio::test]
async fn n_028_a_flood_is_rate_limited() {
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
async fn oa_042_concurrent_registrations_pass_up_to_the_limit() {
    // a store on disk, so that they wait for each other
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
async fn oa_042_a_registration_with_a_consent_does_not_count() {
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

#[tokio::test]
async fn oa_044_an_allow_list_lets_clients_register_that_are_answered_at_its_hosts() {
    let mut settings = Authority::settings();
    let listed = ["claude.ai", "localhost", "[::1]", "cursor"].map(str::to_owned).to_vec();
    settings.policy = Live::new(AuthPolicy { registration: Registration::Listed(listed), ..AuthPolicy::default() });
    let authority = Authority::with(settings).await;
    let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["registration_endpoint"], "https://gw.example/oauth/register");
    for uris in [
        json!([
            "https://claude.ai/api/mcp/auth_callback",
            "http://localhost:1/cb",
            "http://[::1]:2/cb",
            "http://[::1]/"
        ]),
        json!(["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost/"]),
    ] {
        assert_eq!(authority.register(&json!({ "redirect_uris": uris })).await.status, StatusCode::CREATED, "{uris}");
    }
    for uris in [
        json!(["http://127.0.0.1/cb"]),
        json!(["https://claude.ai/cb", "https://evil.example/cb"]),
        json!(["https://claude.ai.evil.example/cb"]),
        json!(["vscode://x/cb"]),
    ] {
        let answer = authority.register(&json!({ "redirect_uris": uris })).await;
        assert_eq!(answer.error(), "403 invalid_redirect_uri", "{uris}");
    }
}

#[tokio::test]
async fn oa_044_registration_that_is_off_is_neither_announced_nor_possible() {
    let mut settings = Authority::settings();
    settings.policy = Live::new(AuthPolicy { registration: Registration::Off, ..AuthPolicy::default() });
    let authority = Authority::with(settings).await;
    let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata.get("registration_endpoint"), None);
    assert_eq!(authority.register(&json!({ "redirect_uris": [CALLBACK] })).await.error(), "403 access_denied");
}

#[tokio::test]
async fn oa_038_a_member_of_another_type_is_named() {
    let authority = Authority::new().await;
    for (member, value, told) in [
        (
            "grant_types",
            json!("authorization_code"),
            "the member grant_types is a string, and has to be an array of strings",
        ),
        (
            "client_name",
            json!(["App"]),
            "the member client_name is an array with something else in it, and has to be a string",
        ),
        ("redirect_uris", json!(CALLBACK), "the member redirect_uris is a string, and has to be an array of strings"),
        ("scope", json!(7), "the member scope is a number, and has to be a string"),
        ("jwks", json!(true), "the member jwks is a boolean, and has to be an object"),
    ] {
        let mut metadata = json!({ "redirect_uris": [CALLBACK] });
        metadata[member] = value;
        let refused = authority.register(&metadata).await.json();
        assert_eq!(refused["error_description"], told);
    }
    // null is like absent
    assert_eq!(authority.register(&json!({ "redirect_uris": [CALLBACK], "scope": null })).await.status, 201);
}

#[tokio::test]
async fn oa_058_the_refusal_of_a_scheme_names_it_and_the_setting() {
    let authority = Authority::new().await;
    let refused = authority.register(&json!({ "redirect_uris": ["someapp://callback"] })).await;
    assert_eq!(refused.error(), "400 invalid_redirect_uri");
    assert!(refused.body.contains("`someapp`") && refused.body.contains("redirect_schemes"), "{}", refused.body);
}
