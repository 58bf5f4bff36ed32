//! Pushed authorization requests (RFC 9126).

use std::{net::IpAddr, time::Duration};

use axum::body::Body;
use http::{Request, StatusCode, header};
use lockkeeper::{
    model::ClientIp,
    oauth::{BeginOutcome, OAuthSettings},
};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::support::{
    internet::{Internet, json_response},
    oauth::{Answer, Authority, CALLBACK, CHALLENGE, FROM, parameter},
};

const FORM: &str = "application/x-www-form-urlencoded";

/// Pushes a valid request of a public client; `changes` replace parameters, and an empty value removes one.
async fn push(authority: &Authority, client: &str, changes: &[(&str, &str)]) -> Answer {
    send(authority, Authority::query(client, changes), &[]).await
}

async fn send(authority: &Authority, form: String, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::post("/oauth/par").header(header::CONTENT_TYPE, FORM);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    authority.send(request.body(Body::from(form)).unwrap()).await
}

/// The `request_uri` of a request that is accepted.
async fn pushed(authority: &Authority, client: &str, changes: &[(&str, &str)]) -> String {
    let answer = push(authority, client, changes).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    answer.json()["request_uri"].as_str().unwrap().to_owned()
}

fn query(client: &str, request_uri: &str) -> String {
    let pairs = [("client_id", client), ("request_uri", request_uri)];
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The page that ends a request.
async fn page(authority: &Authority, query: &str) -> (u16, &'static str) {
    match authority.oauth.authorization().begin(query, FROM).await {
        BeginOutcome::Page(refusal) => (refusal.status, refusal.error),
        begun => panic!("{query}: {begun:?}"),
    }
}

/// The error that is sent to the client.
async fn redirected(authority: &Authority, query: &str) -> String {
    let begun = authority.oauth.authorization().begin(query, FROM).await;
    let BeginOutcome::Redirect(redirect) = begun else { panic!("{query}: {begun:?}") };
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    parameter(&redirect.location, "error").unwrap()
}

#[tokio::test]
async fn oa_079_a_pushed_request_is_decided_once() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let answer = push(&authority, &client, &[("scope", "mcp:git:read")]).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("pragma", "no-cache"),
        ("access-control-allow-origin", "*"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let body = answer.json();
    let uri = body["request_uri"].as_str().unwrap();
    assert_eq!(body, json!({ "request_uri": uri, "expires_in": 60 }));
    assert!(uri.starts_with("urn:ietf:params:oauth:request_uri:"), "{uri}");
    // a reload before the decision is the same request
    assert_eq!(authority.begin(&query(&client, uri)).await.id, authority.begin(&query(&client, uri)).await.id);
    let redirect = authority.approve(&query(&client, uri)).await;
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    let tokens = authority.redeem(&client, &parameter(&redirect.location, "code").unwrap()).await.json();
    assert_eq!(tokens["scope"], "mcp:git:read");
    assert_eq!(page(&authority, &query(&client, uri)).await, (400, "invalid_request_uri"));
}

#[tokio::test]
async fn oa_079_a_request_uri_is_good_for_a_minute_and_for_its_client() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let another = json!({ "client_name": "Another", "redirect_uris": [CALLBACK] });
    let other = authority.register(&another).await.json()["client_id"].as_str().unwrap().to_owned();
    let uri = pushed(&authority, &client, &[]).await;
    assert_eq!(page(&authority, &query(&other, &uri)).await, (400, "invalid_request_uri"));
    let (start, end) = uri.split_at(uri.len() / 2);
    let changed = format!("{start}{}{}", if end.starts_with('A') { 'B' } else { 'A' }, &end[1..]);
    let long = format!("urn:ietf:params:oauth:request_uri:{}", "A".repeat(9000));
    for made_up in ["urn:ietf:params:oauth:request_uri:", "urn:ietf:params:oauth:request_uri:x", &changed, &long] {
        assert_eq!(page(&authority, &query(&client, made_up)).await, (400, "invalid_request_uri"), "{made_up:.60}");
    }
    authority.clock.advance(Duration::from_secs(59));
    authority.begin(&query(&client, &uri)).await;
    authority.clock.advance(Duration::from_secs(1));
    assert_eq!(page(&authority, &query(&client, &uri)).await, (400, "invalid_request_uri"));
}

#[tokio::test]
async fn oa_079_nothing_but_what_was_pushed_counts() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let uri = pushed(&authority, &client, &[]).await;
    let beside =
        [("request_uri", &*uri), ("redirect_uri", "https://evil/cb"), ("state", "evil"), ("scope", "mcp:admin")];
    let redirect = authority.approve(&Authority::query(&client, &beside)).await;
    assert!(redirect.location.starts_with(CALLBACK), "{}", redirect.location);
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
}

#[tokio::test]
async fn oa_079_a_pushed_request_is_checked_like_any_other() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    for (change, expected) in [
        (("redirect_uri", "https://evil/cb"), "invalid_request"),
        (("response_type", ""), "invalid_request"),
        (("response_type", "token"), "unsupported_response_type"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("resource", "https://evil/mcp"), "invalid_target"),
        (("scope", "mcp:use \""), "invalid_scope"),
        (("state", &*"s".repeat(9000)), "invalid_request"),
        (("request", "x"), "request_not_supported"),
        // RFC 9126 2.1
        (("request_uri", "urn:ietf:params:oauth:request_uri:x"), "invalid_request"),
    ] {
        let answer = push(&authority, &client, &[change]).await;
        assert_eq!(answer.error(), format!("400 {expected}"), "{change:.60?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{change:.60?}");
    }
    let twice = send(&authority, format!("{}&state=twice", Authority::query(&client, &[])), &[]).await;
    assert_eq!(twice.error(), "400 invalid_request");
    // what only a person could answer is said at the authorization endpoint (RFC 9126 2.3)
    let silent = pushed(&authority, &client, &[("prompt", "none")]).await;
    assert_eq!(redirected(&authority, &query(&client, &silent)).await, "interaction_required");
}

#[tokio::test]
async fn oa_079_a_client_with_a_secret_proves_who_it_is() {
    let authority = Authority::new().await;
    let metadata = json!({
        "client_name": "A service", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_basic",
    });
    let registered = authority.register(&metadata).await.json();
    let [client, secret] = ["client_id", "client_secret"].map(|name| registered[name].as_str().unwrap().to_owned());
    let basic = |secret: &str| {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        format!("Basic {}", STANDARD.encode(format!("{client}:{secret}")))
    };
    let form = || Authority::query(&client, &[]);
    let answer = send(&authority, form(), &[("authorization", &basic(&secret))]).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    let wrong = send(&authority, form(), &[("authorization", &basic("wrong"))]).await;
    assert_eq!(wrong.error(), "401 invalid_client");
    assert_eq!(wrong.header("www-authenticate"), Some("Basic realm=\"oauth\""));
    assert_eq!(send(&authority, form(), &[]).await.error(), "401 invalid_client");
    assert_eq!(push(&authority, "unknown", &[]).await.error(), "401 invalid_client");
    // a client of the device grant alone has no code flow
    let device = json!({ "grant_types": ["urn:ietf:params:oauth:grant-type:device_code"] });
    let device = authority.register(&device).await.json()["client_id"].as_str().unwrap().to_owned();
    assert_eq!(push(&authority, &device, &[]).await.error(), "400 unauthorized_client");
}

#[tokio::test]
async fn oa_079_a_client_that_a_document_describes_pushes_its_first_request() {
    const APP: &str = "https://app.example/client.json";
    let internet = Internet::new();
    internet.name("app.example", &[&["1.1.1.1"]]);
    let document: Value = json!({ "client_id": APP, "client_name": "The app", "redirect_uris": [CALLBACK] });
    internet.host("1.1.1.1", move |_| json_response("", &document));
    let settings = OAuthSettings { fetcher: Some(internet.fetcher()), ..Authority::settings() };
    let authority = Authority::with(settings).await;
    let uri = pushed(&authority, APP, &[]).await;
    assert_eq!(authority.begin(&query(APP, &uri)).await.client_name, "The app");
    // what cannot be read is an unknown client
    assert_eq!(push(&authority, "https://other.example/x.json", &[]).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn oa_079_a_foreign_request_uri_is_not_supported() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    for uri in ["https://app.example/request.jwt", "urn:example:request"] {
        let query = Authority::query(&client, &[("request_uri", uri)]);
        assert_eq!(redirected(&authority, &query).await, "request_uri_not_supported", "{uri}");
    }
}

#[tokio::test]
async fn oa_079_a_network_pushes_sixty_requests_at_once_and_then_one_a_second() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let push_from = async |ip: &str| {
        let mut request = Request::post("/oauth/par").header(header::CONTENT_TYPE, FORM);
        request.extensions_mut().unwrap().insert(ClientIp(ip.parse::<IpAddr>().unwrap()));
        authority.send(request.body(Body::from(Authority::query(&client, &[]))).unwrap()).await
    };
    for _ in 0..60 {
        assert_eq!(push_from("2001:db8::1").await.status, StatusCode::CREATED);
    }
    let refused = push_from("2001:db8::2").await;
    assert_eq!(refused.error(), "429 temporarily_unavailable");
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert_eq!(push_from("2001:db8:0:1::1").await.status, StatusCode::CREATED);
    authority.clock.advance(Duration::from_secs(1));
    assert_eq!(push_from("2001:db8::2").await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn oa_079_a_request_is_pushed_as_a_form_by_post() {
    let authority = Authority::new().await;
    let get = authority.get("/oauth/par").await;
    assert_eq!((get.error().as_str(), get.header("allow")), ("405 invalid_request", Some("POST, OPTIONS")));
    let body = json!({ "client_id": "x", "code_challenge": CHALLENGE }).to_string();
    let request = Request::post("/oauth/par").header(header::CONTENT_TYPE, "application/json");
    let answer = authority.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answer.error(), "400 invalid_request");
}
