//! The token endpoint: client authentication and the code grant.

use std::time::Duration;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, StatusCode, header};
use lockkeeper::{
    model::{ConsentRule, IdentityAssertions},
    oauth::{NewClientKeys, OperatorClient, redirect_uri::RedirectUri},
    storage::AuditSearch,
};
use serde_json::json;

use crate::support::oauth::{Authority, CALLBACK, VERIFIER};

#[tokio::test]
async fn n_060_a_code_yields_an_access_token_and_a_refresh_token() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[("scope", "claudeai")])).await;
    let answer = authority.redeem(&client, &code).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let answer = answer.json();
    assert_eq!(answer["token_type"], "Bearer");
    assert_eq!(answer["expires_in"], 3600);
    assert_eq!(answer["scope"], "mcp:use"); // N-60
    assert!(answer["refresh_token"].as_str().unwrap().starts_with("lkr_"));
    assert!(answer["access_token"].as_str().unwrap().len() <= 2048);
}

#[tokio::test]
async fn n_058_a_request_that_fails_leaves_the_code_usable() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let metadata = json!({ "client_name": "Another", "redirect_uris": [CALLBACK] });
    let other = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let code = authority.code(&Authority::query(&client, &[])).await;
    let send = async |changes: &[(&str, &str)]| {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", client.as_str()),
            ("code", code.as_str()),
            ("code_verifier", VERIFIER),
            ("redirect_uri", CALLBACK),
        ];
        form.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        form.extend(changes);
        authority.token(&form).await.error()
    };
    let wrong = "x".repeat(43);
    assert_eq!(send(&[("code_verifier", &wrong)]).await, "400 invalid_grant"); // N-88
    assert_eq!(send(&[("code_verifier", "")]).await, "400 invalid_grant"); // N-89
    assert_eq!(send(&[("client_id", &other)]).await, "400 invalid_grant"); // N-90
    assert_eq!(send(&[("redirect_uri", "http://127.0.0.1:1/callback")]).await, "400 invalid_grant"); // N-91
    assert_eq!(send(&[("resource", "https://gw.example/mcp/git")]).await, "400 invalid_target"); // N-95
    assert_eq!(send(&[("scope", "mcp:admin")]).await, "400 invalid_scope");
    assert_eq!(send(&[("resource", "https://gw.example/mcp/")]).await, "200 -"); // N-58
}

#[tokio::test]
async fn oa_085_a_code_works_once_and_a_second_use_revokes_its_tokens() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    let bought = authority.redeem(&client, &code).await.json();
    authority.clock.advance(Duration::from_secs(11));
    assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
    let refresh = bought["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
    // a replay without the verifier revokes nothing (OA-85)
    let code = authority.code(&Authority::query(&client, &[])).await;
    let bought = authority.redeem(&client, &code).await.json();
    let form = [("grant_type", "authorization_code"), ("client_id", &client), ("code", &code)];
    let replay = authority.token(&[&form[..], &[("code_verifier", &"x".repeat(43))]].concat()).await;
    assert_eq!(replay.error(), "400 invalid_grant");
    assert_eq!(authority.refresh(&client, bought["refresh_token"].as_str().unwrap()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn oa_085_a_client_that_tries_again_at_once_keeps_its_login() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let other = json!({ "redirect_uris": [CALLBACK], "client_name": "Another" });
    let other = authority.register(&other).await.json()["client_id"].as_str().unwrap().to_owned();
    for seconds in [0, 10] {
        let code = authority.code(&Authority::query(&client, &[])).await;
        let bought = authority.redeem(&client, &code).await.json();
        authority.clock.advance(Duration::from_secs(seconds));
        // another client and a wrong verifier are no second try
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        for wrong in [
            [("client_id", &*other), ("code_verifier", VERIFIER)],
            [("client_id", &*client), ("code_verifier", &"x".repeat(43))],
        ] {
            assert_eq!(authority.token(&[&form[..], &wrong].concat()).await.error(), "400 invalid_grant");
        }
        assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
        let kept = authority.refresh(&client, bought["refresh_token"].as_str().unwrap()).await;
        assert_eq!(kept.status, StatusCode::OK, "{}", kept.body);
        // a third time is theft
        assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
        let kept = kept.json();
        let ended = authority.refresh(&client, kept["refresh_token"].as_str().unwrap()).await;
        assert_eq!(ended.error(), "400 invalid_grant", "after {seconds} s");
    }
    authority.oauth.sync().await.unwrap();
    let rows = authority.oauth.audit().find(&AuditSearch { limit: 100, ..AuditSearch::default() }).await.unwrap();
    let count = |event: &str| rows.iter().filter(|row| row.row.event == event).count();
    assert_eq!((count("code_repeated"), count("code_replayed")), (2, 2));
}

#[tokio::test]
async fn n_094_one_of_two_concurrent_redemptions_succeeds() {
    // N-94
    let authority = Authority::new().await;
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    let (one, two) = tokio::join!(authority.redeem(&client, &code), authority.redeem(&client, &code));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    let bought = if one.status == StatusCode::OK { one } else { two }.json();
    let kept = authority.refresh(&client, bought["refresh_token"].as_str().unwrap()).await;
    assert_eq!(kept.status, StatusCode::OK, "the other was a second try");
}

#[tokio::test]
async fn oa_036_a_secret_without_a_chosen_place_is_accepted_in_either_and_a_foreign_bearer_is_ignored() {
    let authority = Authority::new().await;
    let create = async |keys: NewClientKeys| {
        let new = OperatorClient {
            name: "portal".to_owned(),
            keys,
            redirect_uris: vec![RedirectUri::parse(CALLBACK, &[]).unwrap()],
            consent: ConsentRule::Asked,
            service: None,
            identity_assertions: IdentityAssertions::Refused,
        };
        let (client, secret, _) = authority.oauth.clients().create(new).await.unwrap();
        (client.id.to_string(), secret.unwrap().expose().to_owned())
    };
    let send = async |authorization: Option<&str>, fields: &[(&str, &str)]| {
        let mut request =
            Request::post("/oauth/token").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let form = [&[("grant_type", "authorization_code"), ("code", "c")], fields].concat();
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        authority.send(request.body(Body::from(body)).unwrap()).await.error()
    };
    // a code that does not exist: whoever gets so far is authenticated
    let (authenticated, refused) = ("400 invalid_grant", "401 invalid_client");
    for (keys, by_basic, by_post) in [
        (NewClientKeys::Secret, authenticated, authenticated),
        (NewClientKeys::Basic, authenticated, refused),
        (NewClientKeys::Post, refused, authenticated),
    ] {
        let (id, secret) = create(keys).await;
        let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let in_form = [("client_id", &*id), ("client_secret", &*secret)];
        assert_eq!(send(Some(&basic), &[]).await, by_basic);
        assert_eq!(send(None, &in_form).await, by_post);
        assert_eq!(send(Some("Bearer of-another-server"), &in_form).await, by_post);
        assert_eq!(send(Some(&basic), &in_form).await, "400 invalid_request", "one per request");
        assert_eq!(send(None, &in_form[..1]).await, refused, "no secret");
        assert_eq!(send(None, &[("client_id", &id), ("client_secret", "wrong")]).await, refused);
    }
    let public = authority.client().await;
    assert_eq!(send(Some("bearer x"), &[("client_id", &public)]).await, authenticated);
    assert_eq!(send(Some("Bearer x"), &[]).await, refused, "it names nobody");
}

#[tokio::test]
async fn n_092_a_code_expires_after_a_minute() {
    // N-92
    let authority = Authority::new().await;
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    authority.clock.advance(Duration::from_secs(61));
    assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn oa_080_the_form_of_a_request_is_checked() {
    let authority = Authority::new().await;
    let send = async |content_type: &str, body: &str| {
        let request = Request::post("/token").header(header::CONTENT_TYPE, content_type);
        authority.send(request.body(Body::from(body.to_owned())).unwrap()).await.error()
    };
    let form = "application/x-www-form-urlencoded";
    let client = authority.client().await;
    assert_eq!(send("application/json", "{}").await, "400 invalid_request"); // N-77
    assert_eq!(send(&format!("application/json, {form}"), "{}").await, "400 invalid_request"); // N-78
    let with_charset = format!("{form}; charset=utf-8");
    let client_id = format!("client_id={client}");
    assert_eq!(send(&with_charset, &client_id).await, "400 invalid_request"); // N-80: no grant_type
    assert_eq!(send(form, &format!("{client_id}&grant_type=password")).await, "400 unsupported_grant_type");
    assert_eq!(send(form, &format!("{client_id}&{client_id}")).await, "400 invalid_request");
    assert_eq!(send(form, "client_id=%ff").await, "400 invalid_request");
    assert_eq!(send(form, "client_id=unknown&grant_type=x").await, "401 invalid_client"); // N-81
    assert_eq!(send(form, "").await, "401 invalid_client");
}

#[tokio::test]
async fn oa_036_a_client_authenticates_exactly_as_it_registered() {
    let authority = Authority::new().await;
    let confidential = async |method: &str| {
        let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method });
        let answer = authority.register(&metadata).await.json();
        let member = |name: &str| answer[name].as_str().unwrap().to_owned();
        (member("client_id"), member("client_secret"))
    };
    let send = async |authorization: Option<String>, body: String| {
        let request = Request::post("/oauth/token").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = match authorization {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        };
        authority.send(request.body(Body::from(body)).unwrap()).await
    };
    let basic = |credentials: &str| Some(format!("bAsIc {}", STANDARD.encode(credentials)));
    let (id, secret) = confidential("client_secret_basic").await;
    let ok = "400 unsupported_grant_type"; // authenticated, and then asked for what is not there
    let body = "grant_type=x".to_owned();
    assert_eq!(send(basic(&format!("{id}:{secret}")), body.clone()).await.error(), ok);
    // N-82
    for wrong in [basic(&format!("{id}:wrong")), basic(&id), basic(&format!("{id}:%zz")), Some("Basic !".to_owned())] {
        let answer = send(wrong, body.clone()).await;
        assert_eq!(answer.error(), "401 invalid_client");
        assert_eq!(answer.header("www-authenticate"), Some(r#"Basic realm="oauth""#));
    }
    // N-84
    let posted = format!("grant_type=x&client_id={id}&client_secret={secret}");
    assert_eq!(send(None, posted.clone()).await.error(), "401 invalid_client");
    assert_eq!(send(basic(&format!("{id}:{secret}")), posted).await.error(), "400 invalid_request");
    assert_eq!(send(None, format!("grant_type=x&client_id={id}")).await.error(), "401 invalid_client");
    let (id, secret) = confidential("client_secret_post").await;
    assert_eq!(send(None, format!("grant_type=x&client_id={id}&client_secret={secret}")).await.error(), ok);
    // N-85
    let public = authority.client().await;
    let posted = format!("grant_type=x&client_id={public}&client_secret=s");
    assert_eq!(send(None, posted).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn oa_066_without_a_resource_the_scopes_select_the_endpoint() {
    // OA-66
    let authority = Authority::new().await;
    let client = authority.client().await;
    let query = Authority::query(&client, &[("resource", ""), ("scope", "mcp:git")]);
    let code = authority.code(&query).await;
    assert_eq!(authority.redeem(&client, &code).await.status, StatusCode::OK);
    let grants = authority.oauth.grants().of(&authority.holder.user).await.unwrap();
    assert_eq!(grants[0].grant.endpoint.to_string(), "/mcp/git");
    assert_eq!(grants[0].client_name, "A test");
}

#[tokio::test]
async fn n_124_revocation_reveals_nothing_and_affects_only_own_tokens() {
    // N-124
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let metadata = json!({ "client_name": "Another", "redirect_uris": [CALLBACK] });
    let other = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let revoke = async |client: &str, token: &str| {
        authority.form("/oauth/revoke", &[("client_id", client), ("token", token)]).await.status.as_u16()
    };
    assert_eq!(revoke(&other, refresh).await, 200);
    assert_eq!(revoke(&client, "garbage").await, 200);
    assert_eq!(revoke("unknown", refresh).await, 401);
    assert_eq!(authority.refresh(&client, refresh).await.status, StatusCode::OK);
    assert_eq!(revoke(&client, refresh).await, 200);
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
}

// OA-30
#[tokio::test]
async fn a_form_of_65_kib_is_too_large() {
    let authority = Authority::new().await;
    for path in ["/oauth/token", "/token", "/oauth/revoke", "/oauth/introspect", "/oauth/par"] {
        let answer = authority.form(path, &[("token", &"x".repeat(65 * 1024))]).await;
        assert_eq!(answer.error(), "413 invalid_request", "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
}
