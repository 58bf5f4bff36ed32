//! Clients of the operator, and their service accounts (`client_credentials`).

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    model::{
        Access, AllowedNetworks, BackendId, ConsentRule, GrantType, IdentityAssertions, KeyKind, Registrant, Rights,
    },
    oauth::{KeyRefusal, NewClientKeys, OperatorClient, ServiceAccount},
    support::{Clock as _, Timestamp},
};
use serde_json::{Value, json};

use crate::support::oauth::{Answer, Authority, CALLBACK, HOME, VERIFIER};

struct Service {
    authority: Authority,
    id: String,
    secret: String,
}

impl Service {
    async fn new(rights: Rights) -> Self {
        Self::until(rights, None).await
    }

    async fn until(rights: Rights, expires: Option<Duration>) -> Self {
        let authority = Authority::new().await;
        let expires = expires.map(|life| authority.clock.now() + life);
        let (id, secret) = create(&authority, Vec::new(), Some((rights, expires))).await;
        Self { authority, id, secret }
    }

    async fn ask(&self, more: &[(&str, &str)]) -> Answer {
        let form = [("grant_type", "client_credentials"), ("client_id", &*self.id), ("client_secret", &*self.secret)];
        self.authority.token(&[&form[..], more].concat()).await
    }
}

async fn create(
    authority: &Authority,
    redirect_uris: Vec<lockkeeper::oauth::redirect_uri::RedirectUri>,
    service: Option<(Rights, Option<Timestamp>)>,
) -> (String, String) {
    let new = OperatorClient {
        name: "nightly".to_owned(),
        keys: NewClientKeys::Post,
        redirect_uris,
        consent: ConsentRule::Asked,
        service: service.map(|(rights, expires)| ServiceAccount {
            rights,
            expires,
            networks: AllowedNetworks::default(),
        }),
        identity_assertions: IdentityAssertions::Refused,
    };
    let (client, secret, _) = authority.oauth.clients().create(new).await.unwrap();
    assert_eq!(client.registrant, Registrant::Operator(ConsentRule::Asked));
    (client.id.to_string(), secret.unwrap().expose().to_owned())
}

fn read_git() -> Rights {
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("git").unwrap(), Access::ReadOnly);
    rights
}

#[tokio::test]
async fn oa_144_a_service_account_gets_a_token_without_a_refresh_token() {
    let service = Service::new(Rights::all_backends()).await;
    let answer = service.ask(&[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let tokens = answer.json();
    let members: Vec<&String> = tokens.as_object().unwrap().keys().collect();
    assert_eq!(members, ["access_token", "expires_in", "scope", "token_type"]);
    assert_eq!(
        (&tokens["token_type"], &tokens["scope"], &tokens["expires_in"]),
        (&json!("Bearer"), &json!("mcp:use"), &json!(3600))
    );
    let verified = service.authority.oauth.verify(tokens["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert!(verified.caller.user.is_of_key());
    assert_eq!(verified.caller.client.as_ref().unwrap().as_str(), service.id);
    assert_eq!(verified.caller.rights, Rights::all_backends());
}

#[tokio::test]
async fn oa_144_resource_scope_and_rights_bound_its_token() {
    let service = Service::new(read_git()).await;
    let answer =
        service.ask(&[("resource", "https://gw.example/mcp/git"), ("scope", "mcp:git mcp:time mcp:admin")]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.json()["scope"], "mcp:git", "what is of other servers and administration is dropped");
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    let verified = service.authority.oauth.verify(&token, HOME).await.unwrap();
    assert_eq!(verified.caller.rights, read_git(), "its account reads alone");
    for (more, error) in [
        (("resource", "https://evil.example/mcp"), "invalid_target"),
        (("resource", "https://gw.example/mcp/time"), "invalid_target"),
        (("resource", "https://gw.example/mcp/nope"), "invalid_target"),
        (("scope", "mcp:git \u{e9}"), "invalid_scope"),
    ] {
        let answer = service.ask(&[more]).await;
        assert_eq!(answer.error(), format!("400 {error}"), "{more:?}");
    }
    let two = service.ask(&[("resource", "https://gw.example/mcp"), ("resource", "https://gw.example/mcp")]).await;
    assert_eq!(two.error(), "400 invalid_target");
}

#[tokio::test]
async fn oa_144_only_a_confidential_client_of_the_operator_has_one() {
    let authority = Authority::new().await;
    let public = authority.client().await;
    let metadata = json!({
        "client_name": "A", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
    });
    let registered = authority.register(&metadata).await.json();
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]), "it is dropped");
    let [id, secret] = ["client_id", "client_secret"].map(|member| registered[member].as_str().unwrap());
    let uri = lockkeeper::oauth::redirect_uri::RedirectUri::parse(CALLBACK, &[]).unwrap();
    let (app, app_secret) = create(&authority, vec![uri], None).await;
    for (id, secret) in [(&*public, ""), (id, secret), (&*app, &*app_secret)] {
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret)];
        let answer = authority.token(&form).await;
        assert_eq!(answer.error(), "400 unauthorized_client", "{id}");
    }
    let only = json!({ "redirect_uris": [CALLBACK], "grant_types": ["client_credentials"] });
    assert_eq!(authority.register(&only).await.error(), "400 invalid_client_metadata");
}

#[tokio::test]
async fn oa_144_its_tokens_end_with_its_key_and_with_the_client() {
    let service = Service::until(Rights::all_backends(), Some(Duration::from_mins(10))).await;
    let first = service.ask(&[]).await.json();
    assert_eq!(first["expires_in"], 600, "not longer than the account");
    let oauth = &service.authority.oauth;
    let token = first["access_token"].as_str().unwrap();
    let verified = oauth.verify(token, HOME).await.unwrap();
    // the same grant again, so that none pile up
    let second = oauth.verify(service.ask(&[]).await.json()["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(verified.caller.grant, second.caller.grant);
    assert_eq!(oauth.grants().list().await.unwrap().len(), 1);
    let key = verified.caller.key.clone().unwrap();
    let listed = oauth.keys().list().await.unwrap();
    assert!(matches!(listed.iter().find(|listed| listed.id == key).unwrap().kind, KeyKind::Account(_)));
    oauth.keys().revoke(&key).await.unwrap();
    assert!(verified.revoked.is_cancelled());
    assert!(matches!(oauth.verify(token, HOME).await, Err(KeyRefusal::Unknown)));
    let answer = service.ask(&[]).await;
    assert_eq!(answer.error(), "400 unauthorized_client");

    let service = Service::new(Rights::all_backends()).await;
    let token = service.ask(&[]).await.json()["access_token"].as_str().unwrap().to_owned();
    let verified = service.authority.oauth.verify(&token, HOME).await.unwrap();
    let client = verified.caller.client.clone().unwrap();
    service.authority.oauth.clients().revoke(&client).await.unwrap();
    assert!(verified.revoked.is_cancelled());
    assert_eq!(service.ask(&[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn oa_071_an_app_of_the_operator_logs_people_in_and_each_consents() {
    let authority = Authority::new().await;
    let uri = lockkeeper::oauth::redirect_uri::RedirectUri::parse(CALLBACK, &[]).unwrap();
    let (id, secret) = create(&authority, vec![uri], None).await;
    let pending = authority.waiting(&Authority::query(&id, &[])).await;
    let shown = authority.pending(&pending, &crate::support::oauth::browser("a")).await;
    assert_eq!(shown.unwrap().client_origin, lockkeeper::oauth::ClientOrigin::Operator);
    let code = authority.code(&Authority::query(&id, &[])).await;
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", &*id),
        ("client_secret", &*secret),
        ("code", &*code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    let tokens: Value = authority.token(&form).await.json();
    assert!(tokens["refresh_token"].is_string(), "{tokens}");
    let client = authority.oauth.clients().list().await.unwrap().into_iter().find(|client| client.id.as_str() == id);
    assert_eq!(client.unwrap().grant_types, [GrantType::AuthorizationCode, GrantType::RefreshToken]);
    // nothing purges it
    authority.clock.advance(Duration::from_hours(48));
    authority.oauth.purge().await.unwrap();
    assert!(authority.oauth.clients().list().await.unwrap().iter().any(|client| client.id.as_str() == id));
}
