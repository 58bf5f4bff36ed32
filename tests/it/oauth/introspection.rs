//! Introspection of tokens by the client that they were issued to.

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::oauth::{Answer, Authority, CALLBACK, VERIFIER};

/// A client with a secret, and its tokens.
struct Confidential {
    id: String,
    secret: String,
    tokens: Value,
}

impl Confidential {
    async fn new(authority: &Authority, name: &str) -> Self {
        let metadata = json!({
            "client_name": name, "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post",
        });
        let registered = authority.register(&metadata).await.json();
        let [id, secret] = ["client_id", "client_secret"].map(|member| registered[member].as_str().unwrap().to_owned());
        let code = authority.code(&Authority::query(&id, &[])).await;
        let redeemed = authority
            .token(&[
                ("grant_type", "authorization_code"),
                ("client_id", &id),
                ("client_secret", &secret),
                ("code", &code),
                ("redirect_uri", CALLBACK),
                ("code_verifier", VERIFIER),
            ])
            .await;
        assert_eq!(redeemed.status, StatusCode::OK, "{}", redeemed.body);
        Self { id, secret, tokens: redeemed.json() }
    }

    fn token(&self, kind: &str) -> &str {
        self.tokens[kind].as_str().unwrap()
    }

    async fn ask(&self, authority: &Authority, token: &str) -> Answer {
        let form = [("client_id", &*self.id), ("client_secret", &*self.secret), ("token", token)];
        authority.form("/oauth/introspect", &form).await
    }

    async fn state(&self, authority: &Authority, kind: &str) -> Value {
        self.ask(authority, self.token(kind)).await.json()
    }
}

#[tokio::test]
async fn oa_130_a_client_learns_the_state_of_its_own_tokens() {
    let authority = Authority::new().await;
    let client = Confidential::new(&authority, "A service").await;
    let access = client.ask(&authority, client.token("access_token")).await;
    assert_eq!(access.header("cache-control"), Some("no-store"));
    let access = access.json();
    assert_eq!((&access["active"], &access["token_type"]), (&json!(true), &json!("Bearer")));
    assert_eq!((&access["client_id"], &access["sub"]), (&json!(client.id), &json!("ada")));
    assert_eq!((&access["aud"], &access["scope"]), (&json!("https://gw.example/mcp"), &client.tokens["scope"]));
    assert_eq!(access["exp"].as_i64().unwrap() - access["iat"].as_i64().unwrap(), client.tokens["expires_in"]);
    let refresh = client.state(&authority, "refresh_token").await;
    assert_eq!((&refresh["active"], &refresh["aud"]), (&json!(true), &access["aud"]));
    assert_eq!(refresh.get("token_type"), None, "{refresh}");
}

#[tokio::test]
async fn oa_130_everything_else_is_only_inactive() {
    let authority = Authority::new().await;
    let client = Confidential::new(&authority, "A service").await;
    let other = Confidential::new(&authority, "Another").await;
    let inactive = json!({ "active": false });
    for token in [other.token("access_token"), other.token("refresh_token"), "garbage", authority.key.expose()] {
        let answer = client.ask(&authority, token).await;
        assert_eq!((answer.status, answer.json()), (StatusCode::OK, inactive.clone()), "{token}");
    }
    authority.oauth.grants().revoke_all(&authority.holder.user).await.unwrap();
    for kind in ["access_token", "refresh_token"] {
        assert_eq!(client.state(&authority, kind).await, inactive, "{kind}");
    }
}

#[tokio::test]
async fn oa_130_an_expired_or_rotated_token_is_inactive() {
    let authority = Authority::new().await;
    let client = Confidential::new(&authority, "A service").await;
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", &*client.id),
        ("client_secret", &*client.secret),
        ("refresh_token", client.token("refresh_token")),
    ];
    assert_eq!(authority.token(&form).await.status, StatusCode::OK);
    assert_eq!(client.state(&authority, "refresh_token").await["active"], false);
    authority.clock.advance(std::time::Duration::from_hours(1));
    assert_eq!(client.state(&authority, "access_token").await["active"], false);
}

#[tokio::test]
async fn n_125_a_public_client_may_not_ask() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let form = [("client_id", &*client), ("token", tokens["access_token"].as_str().unwrap())];
    assert_eq!(authority.form("/oauth/introspect", &form).await.error(), "401 invalid_client");
    assert_eq!(authority.form("/oauth/introspect", &form[1..]).await.error(), "401 invalid_client");
}
