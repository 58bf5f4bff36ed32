//! The token endpoint, and the tokens.

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::support::oauth::{Answer, Authority, CALLBACK, VERIFIER};

/// An authorization server, a public client, and a code for it.
struct Bought {
    authority: Authority,
    client: String,
    code: String,
}

impl Bought {
    async fn new() -> Self {
        let authority = Authority::new().await;
        let client = authority.client().await;
        let code = authority.code(&Authority::query(&client, &[])).await;
        Self { authority, client, code }
    }

    /// Redeems the code with these changes, and then as it should be: both answers.
    async fn changed(&self, changes: &[(&str, &str)]) -> (String, u16) {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", &*self.client),
            ("code", &*self.code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", CALLBACK),
        ];
        form.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        form.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        let refusal = self.authority.token(&form).await.error();
        (refusal, self.authority.redeem(&self.client, &self.code).await.status.as_u16())
    }
}

async fn post(body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::post("/oauth/token");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Authority::new().await.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// Claims of an access token.
fn decoded(token: &str, part: usize) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(part).unwrap()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// A confidential client: its id and secret.
async fn confidential(authority: &Authority, method: &str) -> (String, String) {
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method });
    let answer = authority.register(&metadata).await.json();
    let member = |name: &str| answer[name].as_str().unwrap().to_owned();
    (member("client_id"), member("client_secret"))
}

#[tokio::test]
async fn oa_061_the_redirect_uri_may_be_left_out_at_the_token_endpoint() {
    let bought = Bought::new().await;
    assert_eq!(bought.changed(&[("redirect_uri", "")]).await.0, "200 -");
}

#[tokio::test]
async fn oa_078_a_code_has_256_random_bits() {
    let bought = Bought::new().await;
    assert!(bought.code.len() >= 43, "{}", bought.code.len());
}

#[tokio::test]
async fn oa_081_a_failure_of_the_scheme_basic_names_it() {
    let basic = format!("Basic {}", STANDARD.encode("nobody:wrong"));
    let answer = post("grant_type=refresh_token", &[FORM, ("authorization", &basic)]).await;
    assert_eq!(answer.error(), "401 invalid_client");
    assert!(answer.header("www-authenticate").unwrap().starts_with("Basic realm="));
}

#[tokio::test]
async fn oa_082_a_confidential_client_needs_its_secret() {
    let authority = Authority::new().await;
    let (id, _) = confidential(&authority, "client_secret_post").await;
    let answer = authority.token(&[("grant_type", "refresh_token"), ("client_id", &id), ("refresh_token", "x")]).await;
    assert_eq!(answer.error(), "401 invalid_client");
}

#[tokio::test]
async fn oa_084_a_request_that_fails_leaves_the_code_usable() {
    assert_eq!(
        Bought::new().await.changed(&[("code_verifier", &"x".repeat(43))]).await,
        ("400 invalid_grant".to_owned(), 200)
    );
}

#[tokio::test]
async fn oa_086_a_resource_may_be_repeated_and_a_scope_may_not_widen() {
    assert_eq!(Bought::new().await.changed(&[("resource", "https://gw.example/mcp/")]).await.0, "200 -");
    assert_eq!(Bought::new().await.changed(&[("scope", "mcp:admin")]).await, ("400 invalid_scope".to_owned(), 200));
}

#[tokio::test]
async fn oa_087_the_answer_has_a_scope_and_nothing_is_null() {
    let answer = Authority::new().await.tokens("/mcp").await.1;
    assert!(answer.as_object().unwrap().values().all(|value| !value.is_null()), "{answer}");
    assert_eq!((&answer["token_type"], &answer["scope"]), (&json!("Bearer"), &json!("mcp:use")));
    assert_eq!(answer["expires_in"], 3600);
}

#[tokio::test]
async fn oa_088_a_refresh_token_comes_without_being_asked_for() {
    assert!(Authority::new().await.tokens("/mcp").await.1["refresh_token"].is_string());
}

#[tokio::test]
async fn oa_090_the_same_refresh_within_the_grace_period_has_the_same_successor() {
    let authority = Authority::new().await;
    let (client, answer) = authority.tokens("/mcp").await;
    let old = answer["refresh_token"].as_str().unwrap();
    let (one, other) = (authority.refresh(&client, old).await.json(), authority.refresh(&client, old).await.json());
    assert_eq!(one["refresh_token"], other["refresh_token"]);
}

#[tokio::test]
async fn oa_093_tokens_are_usable_at_once() {
    let authority = Authority::new().await;
    let (client, answer) = authority.tokens("/mcp").await;
    assert_eq!(decoded(answer["access_token"].as_str().unwrap(), 1)["nbf"], Value::Null);
    assert_eq!(authority.refresh(&client, answer["refresh_token"].as_str().unwrap()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn oa_094_a_refresh_may_name_offline_access() {
    let authority = Authority::new().await;
    let (client, answer) = authority.tokens("/mcp").await;
    let refresh = answer["refresh_token"].as_str().unwrap();
    let form = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", refresh)];
    let answer = authority.token(&[&form[..], &[("scope", "mcp:use offline_access")]].concat()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["scope"]), (200, &json!("mcp:use")));
}

#[tokio::test]
async fn oa_096_an_unknown_code_and_an_unknown_refresh_token_are_invalid_grants() {
    let bought = Bought::new().await;
    assert_eq!(bought.authority.redeem(&bought.client, "unknown").await.error(), "400 invalid_grant");
    assert_eq!(bought.authority.refresh(&bought.client, "unknown").await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn oa_097_there_is_no_password_grant() {
    let bought = Bought::new().await;
    let form = [("grant_type", "password"), ("client_id", &*bought.client), ("username", "a"), ("password", "b")];
    assert_eq!(bought.authority.token(&form).await.error(), "400 unsupported_grant_type");
}

#[tokio::test]
async fn oa_098_an_access_token_is_a_jwt_of_rfc_9068_for_one_endpoint() {
    let token = Authority::new().await.access_token("/mcp/git").await;
    let (header, claims) = (decoded(&token, 0), decoded(&token, 1));
    assert_eq!((&header["typ"], &header["alg"]), (&json!("at+jwt"), &json!("ES256")));
    assert_eq!((&claims["aud"], &claims["iss"]), (&json!("https://gw.example/mcp/git"), &json!("https://gw.example")));
    for name in ["sub", "client_id", "jti", "scope", "gid"] {
        assert!(claims[name].is_string() || claims[name].is_number(), "{name}: {claims}");
    }
}

#[tokio::test]
async fn oa_103_refresh_tokens_have_a_form_that_scanners_find() {
    let answer = Authority::new().await.tokens("/mcp").await.1;
    let token = answer["refresh_token"].as_str().unwrap();
    assert!(token.starts_with("lkr_") && token.len() == 54 && token.as_bytes()[47] == b'_', "{}", token.len());
}

#[tokio::test]
async fn n_077_json_is_no_form() {
    assert_eq!(post("{}", &[("content-type", "application/json")]).await.error(), "400 invalid_request");
}

#[tokio::test]
async fn n_078_two_media_types_are_none() {
    let both = ("content-type", "application/json, application/x-www-form-urlencoded");
    assert_eq!(post("{}", &[both]).await.error(), "400 invalid_request");
}

#[tokio::test]
async fn n_080_a_grant_type_is_required_and_known() {
    let bought = Bought::new().await;
    let send = async |form: &[(&str, &str)]| bought.authority.token(form).await.error();
    assert_eq!(send(&[("client_id", &bought.client)]).await, "400 invalid_request");
    assert_eq!(send(&[("client_id", &bought.client), ("grant_type", "x")]).await, "400 unsupported_grant_type");
}

#[tokio::test]
async fn n_081_an_unknown_client_is_401() {
    assert_eq!(post("client_id=unknown&grant_type=refresh_token", &[FORM]).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn n_082_credentials_of_the_scheme_basic_are_well_formed_and_right() {
    let encoded = |text: &str| format!("Basic {}", STANDARD.encode(text));
    for wrong in [encoded("a:wrong"), "Basic !!!".to_owned(), encoded("no colon"), encoded("%zz:a")] {
        let answer = post("grant_type=refresh_token", &[FORM, ("authorization", &wrong)]).await;
        assert_eq!(answer.error(), "401 invalid_client", "{wrong}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("Basic"), "{wrong}");
    }
}

#[tokio::test]
async fn n_084_a_client_that_registered_for_basic_may_not_post_its_secret() {
    let authority = Authority::new().await;
    let (id, secret) = confidential(&authority, "client_secret_basic").await;
    let form = [("grant_type", "refresh_token"), ("client_id", &id), ("client_secret", &secret)];
    assert_eq!(authority.token(&form).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn n_085_a_public_client_sends_no_secret() {
    let bought = Bought::new().await;
    let form = [("grant_type", "refresh_token"), ("client_id", &*bought.client), ("client_secret", "x")];
    assert_eq!(bought.authority.token(&form).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn n_088_a_wrong_verifier_leaves_the_code_usable() {
    assert_eq!(
        Bought::new().await.changed(&[("code_verifier", &"y".repeat(43))]).await,
        ("400 invalid_grant".to_owned(), 200)
    );
}

#[tokio::test]
async fn n_089_a_missing_verifier_leaves_the_code_usable() {
    assert_eq!(Bought::new().await.changed(&[("code_verifier", "")]).await, ("400 invalid_grant".to_owned(), 200));
}

#[tokio::test]
async fn n_090_a_code_of_another_client_stays_its_own() {
    let bought = Bought::new().await;
    let metadata = json!({ "client_name": "Another", "redirect_uris": [CALLBACK] });
    let other = bought.authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    assert_eq!(bought.changed(&[("client_id", &other)]).await, ("400 invalid_grant".to_owned(), 200));
}

#[tokio::test]
async fn n_091_another_redirect_uri_leaves_the_code_usable() {
    let other = [("redirect_uri", "http://127.0.0.1:1/callback")];
    assert_eq!(Bought::new().await.changed(&other).await, ("400 invalid_grant".to_owned(), 200));
}

#[tokio::test]
async fn n_095_another_resource_leaves_the_code_usable() {
    let other = [("resource", "https://gw.example/mcp/git")];
    assert_eq!(Bought::new().await.changed(&other).await, ("400 invalid_target".to_owned(), 200));
}
