//! Clients whose keys are at a URL (`jwks_uri`): registered ones, and those that a document describes.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use lockkeeper::{oauth::OAuthSettings, support::Clock as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{
    assertion::{JWT_BEARER, Signer},
    internet::{Internet, json_response},
    oauth::{Answer, Authority, CALLBACK, VERIFIER},
};

/// The URL of the keys, on a host of its own.
const KEYS: &str = "https://keys.example/jwks.json";
/// The id of a client that a document describes.
const APP: &str = "https://app.example/client.json";

/// A gateway, and an internet in which <https://keys.example> has keys and <https://app.example> describes a client.
struct World {
    internet: Internet,
    authority: Authority,
    signer: Signer,
    keys: Arc<Mutex<Value>>,
    document: Arc<Mutex<Value>>,
}

impl World {
    async fn new() -> Self {
        let internet = Internet::new();
        internet.name("keys.example", &[&["1.1.1.1"]]);
        internet.name("app.example", &[&["8.8.8.8"]]);
        internet.name("inside.example", &[&["10.0.0.1"]]);
        let signer = Signer::new("ES256");
        let (keys, document) = (Arc::new(Mutex::new(signer.jwks())), Arc::new(Mutex::new(Value::Null)));
        let (served, described) = (Arc::clone(&keys), Arc::clone(&document));
        internet.host("1.1.1.1", move |_| json_response("", &served.lock()));
        internet.host("8.8.8.8", move |_| json_response("", &described.lock()));
        let settings = OAuthSettings { fetcher: Some(internet.fetcher()), ..Authority::settings() };
        Self { internet, authority: Authority::with(settings).await, signer, keys, document }
    }

    /// Registers a client with keys at this URL.
    async fn register(&self, url: &str) -> Answer {
        let metadata = json!({
            "client_name": "app", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt",
            "jwks_uri": url,
        });
        self.authority.register(&metadata).await
    }

    async fn registered(&self) -> String {
        let answer = self.register(KEYS).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    /// Redeems the code of a new consent with this assertion, or without one.
    async fn redeem(&self, client: &str, assertion: Option<&str>) -> Answer {
        let code = self.authority.code(&Authority::query(client, &[])).await;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", &code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        if let Some(assertion) = assertion {
            form.extend([("client_assertion_type", JWT_BEARER), ("client_assertion", assertion)]);
        }
        self.authority.token(&form).await
    }

    fn claims(&self, client: &str, jti: &str) -> Value {
        Signer::claims(client, self.authority.clock.now().as_seconds(), jti)
    }

    /// Asks for the state of a token, which costs nothing but the authentication.
    async fn introspect(&self, signer: &Signer, client: &str, (kid, jti): (&str, &str)) -> String {
        let header = json!({ "alg": "ES256", "kid": kid, "typ": "JWT" });
        let assertion = signer.sign_with(&header, &self.claims(client, jti));
        let form = [("client_assertion_type", JWT_BEARER), ("client_assertion", &*assertion), ("token", "none")];
        let answer = self.authority.form("/oauth/introspect", &form).await;
        if answer.status == StatusCode::OK { answer.body } else { answer.error() }
    }

    fn readings(&self) -> usize {
        self.internet.seen().requests.iter().filter(|request| request.contains("keys.example")).count()
    }
}

const INACTIVE: &str = r#"{"active":false}"#;
const REFUSED: &str = "401 invalid_client";

#[tokio::test]
async fn oa_034_a_client_registers_the_url_of_its_keys_and_signs_with_them() {
    let world = World::new().await;
    let answer = world.register(KEYS).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    let registered = answer.json();
    assert_eq!(
        (&registered["jwks_uri"], &registered["token_endpoint_auth_method"]),
        (&json!(KEYS), &json!("private_key_jwt"))
    );
    assert_eq!((registered.get("client_secret"), registered.get("jwks")), (None, None));
    assert_eq!(world.readings(), 0, "nobody reads it for a registration");
    let id = registered["client_id"].as_str().unwrap();
    let again = world.register(KEYS).await.json();
    assert_eq!(again["client_id"], registered["client_id"], "the same registration keeps its id");

    let answer = world.redeem(id, Some(&world.signer.sign(&world.claims(id, "1")))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(world.readings(), 1);
    assert_eq!(world.introspect(&world.signer, id, ("k1", "2")).await, INACTIVE);
    assert_eq!(world.readings(), 1, "the keys are kept");
    assert_eq!(world.redeem(id, None).await.error(), REFUSED);
    let foreign = Signer::new("ES256");
    assert_eq!(world.introspect(&foreign, id, ("k1", "3")).await, REFUSED);
    assert_eq!(world.readings(), 1, "a wrong signature by a known key is no reason to read");
}

#[tokio::test]
async fn oa_083_a_new_key_of_the_client_is_read_again_at_most_every_thirty_seconds() {
    let world = World::new().await;
    let id = world.registered().await;
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "1")).await, INACTIVE);
    let mut next = Signer::new("ES256");
    next.public["kid"] = json!("k2");
    *world.keys.lock() = next.jwks();
    assert_eq!(world.introspect(&next, &id, ("k2", "2")).await, REFUSED);
    assert_eq!(world.readings(), 1, "within thirty seconds");
    world.authority.clock.advance(Duration::from_secs(31));
    assert_eq!(world.introspect(&next, &id, ("k2", "3")).await, INACTIVE);
    assert_eq!(world.readings(), 2);
    for number in 0..5 {
        assert_eq!(world.introspect(&next, &id, ("k3", &format!("u{number}"))).await, REFUSED);
    }
    assert_eq!(world.readings(), 2, "unknown keys make nobody read");
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "4")).await, REFUSED, "the old key is withdrawn");
}

#[tokio::test]
async fn oa_051_keys_serve_for_a_day_while_their_host_does_not_answer() {
    let world = World::new().await;
    let id = world.registered().await;
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "1")).await, INACTIVE);
    world.internet.host("1.1.1.1", |_| "HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n".to_owned());
    world.authority.clock.advance(Duration::from_hours(23));
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "2")).await, INACTIVE);
    world.authority.clock.advance(Duration::from_hours(2));
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "3")).await, REFUSED);
}

#[tokio::test]
async fn oa_038_the_url_of_keys_is_https_and_of_a_public_host() {
    let world = World::new().await;
    for url in [
        "http://keys.example/jwks.json",
        "https://user@keys.example/jwks.json",
        "https://keys.example/jwks.json#k1",
        "keys.example",
        &format!("https://keys.example/{}", "x".repeat(2048)),
    ] {
        assert_eq!(world.register(url).await.error(), "400 invalid_client_metadata", "{url}");
    }
    let inside = world.register("https://inside.example/jwks.json").await.json();
    let id = inside["client_id"].as_str().unwrap();
    assert_eq!(world.introspect(&world.signer, id, ("k1", "1")).await, REFUSED);
    assert_eq!(world.internet.seen().connections, [], "nothing is sent into this network");
    // a gateway that makes no requests says so at once
    let closed = Authority::new().await;
    let metadata = json!({
        "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS
    });
    let answer = closed.register(&metadata).await;
    assert_eq!(answer.error(), "400 invalid_client_metadata");
    assert!(answer.body.contains("send the keys in jwks"), "{}", answer.body);
}

#[tokio::test]
async fn oa_083_keys_that_verify_nothing_are_refused() {
    let world = World::new().await;
    let id = world.registered().await;
    let private = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "d": "AA" }] });
    for wrong in [json!([]), json!({ "keys": [] }), private, json!({ "keys": [{ "kty": "oct", "k": "AA" }] })] {
        *world.keys.lock() = wrong.clone();
        assert_eq!(world.introspect(&world.signer, &id, ("k1", "1")).await, REFUSED, "{wrong}");
    }
    *world.keys.lock() = json!({ "keys": [world.signer.public], "more": "x".repeat(33 * 1024) });
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "1")).await, REFUSED, "too long");
    *world.keys.lock() = world.signer.jwks();
    assert_eq!(world.introspect(&world.signer, &id, ("k1", "1")).await, INACTIVE, "no failure is kept");
}

#[tokio::test]
async fn n_044_nobody_can_have_keys_read_without_end() {
    let world = World::new().await;
    let id = world.registered().await;
    world.internet.host("1.1.1.1", |_| "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned());
    for number in 0..30 {
        assert_eq!(world.introspect(&world.signer, &id, ("k1", &number.to_string())).await, REFUSED);
    }
    let form = [
        ("client_assertion_type", JWT_BEARER),
        ("client_assertion", &*world.signer.sign(&world.claims(&id, "31"))),
        ("token", "none"),
    ];
    let limited = world.authority.form("/oauth/introspect", &form).await;
    assert_eq!((limited.status, limited.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("11")));
    assert_eq!(world.readings(), 30);
}

fn document(members: Value) -> Value {
    let mut document = json!({ "client_id": APP, "client_name": "The app", "redirect_uris": [CALLBACK] });
    let Value::Object(members) = members else { panic!("no members") };
    document.as_object_mut().unwrap().extend(members);
    document
}

#[tokio::test]
async fn oa_049_a_document_may_offer_private_key_jwt_alone() {
    for keys in [json!({ "jwks_uri": KEYS }), Value::Null] {
        let world = World::new().await;
        let keys = if keys.is_null() { json!({ "jwks": world.signer.jwks() }) } else { keys };
        let mut described = document(keys);
        described["token_endpoint_auth_method"] = json!("private_key_jwt");
        *world.document.lock() = described;
        let signed = world.signer.sign(&world.claims(APP, "1"));
        let answer = world.redeem(APP, Some(&signed)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(world.redeem(APP, None).await.error(), REFUSED, "its method is enforced (OA-36)");
        assert_eq!(world.redeem(APP, Some(&signed)).await.error(), REFUSED, "an assertion is good once");
        assert_eq!(world.introspect(&world.signer, APP, ("k1", "2")).await, INACTIVE);
    }
}

#[tokio::test]
async fn oa_049_a_client_that_offers_both_may_sign_or_not() {
    // as ChatGPT describes itself
    let world = World::new().await;
    *world.document.lock() = document(json!({
        "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS,
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    }));
    assert_eq!(world.redeem(APP, None).await.status, StatusCode::OK);
    assert_eq!(world.readings(), 0);
    let signed = world.signer.sign(&world.claims(APP, "1"));
    assert_eq!(world.redeem(APP, Some(&signed)).await.status, StatusCode::OK);
    assert_eq!(world.redeem(APP, Some(&signed)).await.error(), REFUSED, "an assertion is good once");
    let foreign = Signer::new("ES256").sign(&world.claims(APP, "2"));
    assert_eq!(world.redeem(APP, Some(&foreign)).await.error(), REFUSED, "one that is there must hold");
    // its id alone is no proof of who asks
    assert_eq!(world.introspect(&world.signer, APP, ("k1", "3")).await, REFUSED);
}

#[tokio::test]
async fn oa_049_private_key_jwt_without_keys_is_refused() {
    let world = World::new().await;
    let mut described = document(json!({}));
    described["token_endpoint_auth_method"] = json!("private_key_jwt");
    *world.document.lock() = described;
    let begun =
        world.authority.oauth.authorization().begin(&Authority::query(APP, &[]), crate::support::oauth::FROM).await;
    let lockkeeper::oauth::BeginOutcome::Page(page) = begun else { panic!("{begun:?}") };
    assert_eq!((page.status, page.error), (400, "invalid_client"));
}
