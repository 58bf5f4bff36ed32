//! Clients that sign their requests to the token endpoint (`private_key_jwt`, RFC 7523).

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::StatusCode;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use lockkeeper::{
    model::{AllowedNetworks, AssertionAudience, AuthPolicy, ConsentRule, IdentityAssertions, Rights},
    oauth::{NewClientKeys, OAuthSettings, OperatorClient, ServiceAccount},
    support::{Clock as _, Live},
};
use serde_json::{Value, json};

use crate::support::{
    assertion::{JWT_BEARER, Signer},
    oauth::{Answer, Authority, CALLBACK, ISSUER, VERIFIER},
};

/// A service of the operator that signs.
struct Service {
    authority: Authority,
    signer: Signer,
    id: String,
}

impl Service {
    async fn new(algorithm: &'static str) -> Self {
        Self::with(Authority::settings(), algorithm).await
    }

    async fn with(settings: OAuthSettings, algorithm: &'static str) -> Self {
        let (authority, signer) = (Authority::with(settings).await, Signer::new(algorithm));
        let new = OperatorClient {
            name: "nightly".to_owned(),
            keys: NewClientKeys::Inline(signer.jwks().to_string()),
            redirect_uris: Vec::new(),
            consent: ConsentRule::Asked,
            service: Some(ServiceAccount {
                rights: Rights::all_backends(),
                expires: None,
                networks: AllowedNetworks::default(),
            }),
            identity_assertions: IdentityAssertions::Refused,
        };
        let (client, secret, _) = authority.oauth.clients().create(new).await.unwrap();
        assert!(secret.is_none());
        Self { authority, signer, id: client.id.to_string() }
    }

    fn now(&self) -> i64 {
        self.authority.clock.now().as_seconds()
    }

    fn claims(&self, jti: &str) -> Value {
        Signer::claims(&self.id, self.now(), jti)
    }

    /// Asks for a token with this assertion.
    async fn ask(&self, assertion: &str) -> Answer {
        self.ask_as(assertion, &[]).await
    }

    async fn ask_as(&self, assertion: &str, more: &[(&str, &str)]) -> Answer {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", JWT_BEARER),
            ("client_assertion", assertion),
        ];
        self.authority.token(&[&form[..], more].concat()).await
    }
}

fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!(answer.error(), "401 invalid_client", "{what}");
    assert_eq!(answer.header("www-authenticate"), None, "{what}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
}

#[tokio::test]
async fn oa_083_a_client_signs_with_each_of_the_four_algorithms() {
    for algorithm in ["ES256", "EdDSA", "PS256", "RS256"] {
        let service = Service::new(algorithm).await;
        let answer = service.ask(&service.signer.sign(&service.claims("1"))).await;
        assert_eq!(answer.status, StatusCode::OK, "{algorithm}: {}", answer.body);
        let named = [("client_id", service.id.as_str())];
        let answer = service.ask_as(&service.signer.sign(&service.claims("2")), &named).await;
        assert_eq!(answer.status, StatusCode::OK, "{algorithm} with client_id: {}", answer.body);
    }
}

#[tokio::test]
async fn oa_013_the_metadata_name_the_algorithms_of_assertions() {
    let authority = Authority::new().await;
    let document = authority.get("/.well-known/oauth-authorization-server").await.json();
    for endpoint in ["token", "revocation", "introspection"] {
        let algorithms = &document[format!("{endpoint}_endpoint_auth_signing_alg_values_supported")];
        assert_eq!(*algorithms, json!(["ES256", "EdDSA", "PS256", "RS256"]), "{endpoint}");
        let methods = &document[format!("{endpoint}_endpoint_auth_methods_supported")];
        assert!(methods.as_array().unwrap().contains(&json!("private_key_jwt")), "{endpoint}");
    }
}

#[tokio::test]
async fn n_087_an_assertion_with_any_other_claim_is_refused() {
    let service = Service::new("ES256").await;
    let now = service.now();
    for (member, value) in [
        ("aud", json!([ISSUER])),
        ("aud", json!("https://evil.example")),
        ("aud", json!(format!("{ISSUER}/oauth/token"))),
        ("aud", Value::Null),
        ("exp", json!(now + 3600)),
        ("exp", json!(now - 61)),
        ("exp", Value::Null),
        ("iat", json!(now + 61)),
        ("nbf", json!(now + 61)),
        ("jti", json!("")),
        ("jti", json!("x".repeat(257))),
        ("jti", Value::Null),
        ("iss", json!("somebody else")),
        ("sub", json!("somebody else")),
    ] {
        let mut claims = service.claims(&format!("{member} {value}"));
        claims[member] = value;
        assert_refused(&service.ask(&service.signer.sign(&claims)).await, &claims.to_string());
    }
    let good = service.ask(&service.signer.sign(&service.claims("good"))).await;
    assert_eq!(good.status, StatusCode::OK, "{}", good.body);
}

#[tokio::test]
async fn n_087_an_assertion_with_any_other_header_or_signature_is_refused() {
    let service = Service::new("ES256").await;
    let good = json!({ "alg": "ES256", "kid": "k1", "typ": "JWT" });
    for (member, value) in [
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("ES384")),
        ("alg", json!("RS256")),
        ("kid", json!("another")),
        ("typ", json!("at+jwt")),
        ("jwk", service.signer.public.clone()),
        ("jku", json!("https://evil.example/keys")),
        ("crit", json!(["exp"])),
    ] {
        let mut header = good.clone();
        header[member] = value;
        let assertion = service.signer.sign_with(&header, &service.claims("h"));
        assert_refused(&service.ask(&assertion).await, &header.to_string());
    }
    let claims = service.claims("h");
    let whole = service.signer.sign(&claims);
    let unsigned = format!("{}.", whole.rsplit_once('.').unwrap().0);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let none = format!("{}.{}.", part(&json!({ "alg": "none" })), part(&claims));
    // the public key as the secret of an HMAC
    let secret = EncodingKey::from_secret(service.signer.public["x"].as_str().unwrap().as_bytes());
    let confused = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &secret).unwrap();
    let foreign = Signer::new("ES256").sign(&claims);
    for wrong in [&*unsigned, &none, &confused, &foreign, "", "x.y.z", &"x".repeat(9000)] {
        if wrong.is_empty() {
            continue;
        }
        assert_refused(&service.ask(wrong).await, wrong);
    }
    // nothing of that was recorded: the id is still good
    let answer = service.ask(&whole).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

#[tokio::test]
async fn n_087_an_assertion_is_good_once_even_at_the_same_time() {
    let service = Service::new("ES256").await;
    let assertion = service.signer.sign(&service.claims("once"));
    let answers = futures_util::future::join_all((0..5).map(|_| service.ask(&assertion))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == StatusCode::OK).count(), 1);
    for refused in answers.iter().filter(|answer| answer.status != StatusCode::OK) {
        assert_refused(refused, "a replay");
    }
    // also after the purge of what has expired, until it has expired itself
    service.authority.clock.advance(Duration::from_secs(119));
    service.authority.oauth.purge().await.unwrap();
    assert_refused(&service.ask(&assertion).await, "a late replay");
    service.authority.clock.advance(Duration::from_secs(2));
    service.authority.oauth.purge().await.unwrap();
    assert_refused(&service.ask(&assertion).await, "it has expired");
}

#[tokio::test]
async fn oa_083_two_ways_of_authentication_and_another_client_id_are_refused() {
    let service = Service::new("ES256").await;
    let sign = |jti: &str| service.signer.sign(&service.claims(jti));
    let answer = service.ask_as(&sign("a"), &[("client_secret", "x")]).await;
    assert_eq!(answer.error(), "400 invalid_request");
    assert_refused(&service.ask_as(&sign("b"), &[("client_id", "another")]).await, "another client_id");
    // of another type, and without the assertion
    let form = [("grant_type", "client_credentials"), ("client_assertion", &*sign("c"))];
    assert_refused(&service.authority.token(&form).await, "no type");
    let form = [("grant_type", "client_credentials"), ("client_id", service.id.as_str())];
    assert_refused(&service.authority.token(&form).await, "the id alone");
    let form = [&form[..], &[("client_secret", "x")]].concat();
    assert_refused(&service.authority.token(&form).await, "a secret");
}

#[tokio::test]
async fn oa_083_the_token_endpoint_as_audience_is_tolerated_if_the_operator_says_so() {
    let policy =
        Live::new(AuthPolicy { assertion_audience: AssertionAudience::IssuerOrTokenEndpoint, ..AuthPolicy::default() });
    let service = Service::with(OAuthSettings { policy, ..Authority::settings() }, "ES256").await;
    let mut claims = service.claims("old");
    claims["aud"] = json!(format!("{ISSUER}/oauth/token"));
    assert_eq!(service.ask(&service.signer.sign(&claims)).await.status, StatusCode::OK);
    claims["aud"] = json!(format!("{ISSUER}/token"));
    assert_refused(&service.ask(&service.signer.sign(&claims)).await, "the alias");
}

#[tokio::test]
async fn oa_083_assertions_of_one_client_are_bounded() {
    let service = Service::new("EdDSA").await;
    let mut limited = None;
    for number in 0..80 {
        let answer = service.ask(&service.signer.sign(&service.claims(&number.to_string()))).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            limited = Some((number, answer));
            break;
        }
    }
    let (number, answer) = limited.unwrap();
    assert!(number <= 60 && answer.header("retry-after").is_some(), "{number}");
}

#[tokio::test]
async fn oa_034_a_client_registers_its_keys_and_logs_people_in() {
    let authority = Authority::new().await;
    let signer = Signer::new("ES256");
    let mut metadata = json!({
        "client_name": "A signer", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt",
    });
    for (jwks, what) in [
        (Value::Null, "no keys"),
        (json!({ "keys": [] }), "an empty set"),
        (json!({ "keys": [{ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" }] }), "an unknown curve"),
        (json!("keys"), "no object"),
    ] {
        metadata["jwks"] = jwks;
        let answer = authority.register(&metadata).await;
        assert_eq!(answer.error(), "400 invalid_client_metadata", "{what}");
    }
    metadata["jwks"] = signer.jwks();
    let registered = authority.register(&metadata).await;
    assert_eq!(registered.status, StatusCode::CREATED, "{}", registered.body);
    let registered = registered.json();
    assert_eq!(registered["token_endpoint_auth_method"], "private_key_jwt");
    assert_eq!(registered["jwks"], signer.jwks());
    assert_eq!(registered.get("client_secret"), None);
    let id = registered["client_id"].as_str().unwrap();
    let code = authority.code(&Authority::query(id, &[])).await;
    let form = |assertion| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", id),
            ("code", code.as_str()),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("client_assertion_type", JWT_BEARER),
            ("client_assertion", assertion),
        ]
    };
    let without = form("");
    let answer = authority.token(&without[..5]).await;
    assert_refused(&answer, "no assertion");
    let assertion = signer.sign(&Signer::claims(id, authority.clock.now().as_seconds(), "j"));
    let answer = authority.token(&form(&assertion)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let tokens = answer.json();
    // revocation and introspection take assertions too
    for (jti, path) in [("r", "/oauth/introspect"), ("s", "/oauth/revoke")] {
        let assertion = signer.sign(&Signer::claims(id, authority.clock.now().as_seconds(), jti));
        let form = [
            ("client_assertion_type", JWT_BEARER),
            ("client_assertion", &*assertion),
            ("token", tokens["access_token"].as_str().unwrap()),
        ];
        assert_eq!(authority.form(path, &form).await.status, StatusCode::OK, "{path}");
    }
    let again = authority.register(&metadata).await.json();
    assert_eq!(again["client_id"], registered["client_id"], "the same registration keeps its id");
}
