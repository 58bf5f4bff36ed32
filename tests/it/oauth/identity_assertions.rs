//! Identity assertions of a login provider in place of a login (ID-JAG).

use std::sync::Arc;

use http::StatusCode;
use lockkeeper::{
    model::{
        Access, BackendId, ConsentRule, IdentityAssertions, LoginProvider, LoginRule, People, Rights, TokenDelivery,
    },
    oauth::{NewClientKeys, OAuthSettings, OperatorClient},
    openid::{OpenIdDeps, Providers},
    support::{Clock, ManualClock, SealingKey, SeededRandom},
};
use serde_json::{Value, json};

use crate::{
    kit::{
        authority::signing::{SigningKey, signed_by_everybody, unsigned},
        provider::{self, OpenIdProvider},
    },
    support::oauth::{Answer, Authority, CALLBACK, HOME, ISSUER},
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// A gateway that accepts assertions of a provider, and a client that brings them.
struct Managed {
    authority: Authority,
    provider: OpenIdProvider,
    client: (String, String),
}

impl Managed {
    async fn new() -> Self {
        Self::with(OpenIdProvider::spec().rules).await
    }

    async fn with(rules: Vec<LoginRule>) -> Self {
        let clock = Arc::new(ManualClock::default());
        let provider = OpenIdProvider::open(Arc::clone(&clock));
        let spec = LoginProvider { rules, identity_assertions: IdentityAssertions::Accepted, ..OpenIdProvider::spec() };
        let authority = Authority::with(settings(&provider, spec, clock)).await;
        let client = create(&authority, IdentityAssertions::Accepted).await;
        Self { authority, provider, client }
    }

    /// An assertion for this client.
    fn assertion(&self, changes: &Value) -> String {
        self.provider.assertion(ISSUER, &self.client.0, changes)
    }

    async fn exchange(&self, assertion: &str, more: &[(&str, &str)]) -> Answer {
        exchange(&self.authority, &self.client, assertion, more).await
    }

    /// Exchanges an assertion with these changes.
    async fn bring(&self, changes: &Value) -> Answer {
        self.exchange(&self.assertion(changes), &[]).await
    }
}

fn settings(provider: &OpenIdProvider, spec: LoginProvider, clock: Arc<ManualClock>) -> OAuthSettings {
    let deps = OpenIdDeps {
        fetcher: provider.internet.fetcher(),
        clock: clock as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(7)),
        key: SealingKey::new([7; 32]),
        root: ISSUER.to_owned(),
    };
    let assertions = Providers::new(vec![spec], deps).assertion_verifier();
    OAuthSettings { assertions, ..Authority::settings() }
}

async fn create(authority: &Authority, identity_assertions: IdentityAssertions) -> (String, String) {
    let new = OperatorClient {
        name: "chat".to_owned(),
        keys: NewClientKeys::Post,
        redirect_uris: Vec::new(),
        consent: ConsentRule::Asked,
        service: None,
        identity_assertions,
    };
    let (client, secret, _) = authority.oauth.clients().create(new).await.unwrap();
    (client.id.to_string(), secret.unwrap().expose().to_owned())
}

async fn exchange(
    authority: &Authority,
    (id, secret): &(String, String),
    assertion: &str,
    more: &[(&str, &str)],
) -> Answer {
    let form =
        [("grant_type", JWT_BEARER), ("client_id", &**id), ("client_secret", &**secret), ("assertion", assertion)];
    authority.token(&[&form[..], more].concat()).await
}

#[tokio::test]
async fn oa_145_an_identity_assertion_gets_a_token_of_the_person() {
    let managed = Managed::new().await;
    let answer = managed.bring(&json!({})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let oauth = &managed.authority.oauth;
    let verified = oauth.verify(answer.json()["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(verified.caller.client.as_ref().unwrap().as_str(), managed.client.0);
    // the account is that of a login on a page
    let known = oauth.keys().find_person(provider::ISSUER, "s-1").await.unwrap();
    assert_eq!(known, verified.caller.key);
    // another assertion uses the grant again, so that none pile up
    let second = managed.bring(&json!({})).await.json();
    let second = oauth.verify(second["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(second.caller.grant, verified.caller.grant);
    let grants = oauth.grants().list().await.unwrap();
    assert_eq!((grants.len(), &grants[0].grant.delivery), (1, &TokenDelivery::Assertion));
    // and it ends with a logout at the provider
    oauth.keys().log_out_account(&known.unwrap(), provider::ISSUER).await.unwrap();
    assert!(verified.revoked.is_cancelled());
}

#[tokio::test]
async fn oa_145_the_grant_is_announced_while_a_provider_has_it_on() {
    let managed = Managed::new().await;
    let path = "/.well-known/oauth-authorization-server";
    let document = managed.authority.get(path).await.json();
    assert!(document["grant_types_supported"].as_array().unwrap().contains(&json!(JWT_BEARER)), "{document}");
    assert_eq!(document["authorization_grant_profiles_supported"], json!([PROFILE]));

    let off = Authority::with(settings(&managed.provider, OpenIdProvider::spec(), Arc::default())).await;
    let document = off.get(path).await.json();
    assert!(!document["grant_types_supported"].as_array().unwrap().contains(&json!(JWT_BEARER)), "{document}");
    assert!(document.get("authorization_grant_profiles_supported").is_none(), "{document}");
    let client = create(&off, IdentityAssertions::Accepted).await;
    let assertion = managed.provider.assertion(ISSUER, &client.0, &json!({}));
    assert_eq!(exchange(&off, &client, &assertion, &[]).await.error(), "400 unsupported_grant_type");
}

#[tokio::test]
async fn up_015_only_a_confidential_client_of_the_operator_may_bring_one() {
    let managed = Managed::new().await;
    let authority = &managed.authority;
    let metadata = json!({
        "client_name": "A", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post",
        "grant_types": ["authorization_code", JWT_BEARER],
    });
    let registered = authority.register(&metadata).await.json();
    assert_eq!(registered["grant_types"], json!(["authorization_code"]), "it is dropped");
    let member = |name: &str| registered[name].as_str().unwrap().to_owned();
    let without = create(authority, IdentityAssertions::Refused).await;
    let public = (authority.client().await, String::new());
    for client in [(member("client_id"), member("client_secret")), without, public] {
        let assertion = managed.provider.assertion(ISSUER, &client.0, &json!({}));
        let answer = exchange(authority, &client, &assertion, &[]).await;
        assert_eq!(answer.error(), "400 unauthorized_client", "{}", client.0);
    }
    let wrong = (managed.client.0.clone(), "wrong".to_owned());
    let answer = exchange(authority, &wrong, &managed.assertion(&json!({})), &[]).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn up_015_the_rules_of_the_provider_let_in_and_say_what_the_person_may_do() {
    let mut git = Rights::none();
    git.backends.allow(&BackendId::parse("git").unwrap(), Access::Full);
    let people = |domains: &[&str], groups: &[&str]| {
        let [domains, groups] = [domains, groups].map(|list| list.iter().map(|&text| text.to_owned()).collect());
        People::Listed { domains, groups, subjects: Vec::new() }
    };
    let rules = vec![
        LoginRule { people: people(&["example.com"], &[]), rights: git.clone() },
        LoginRule { people: people(&[], &["staff"]), rights: Rights::all_backends() },
    ];
    let managed = Managed::with(rules).await;
    let rights = async |answer: Answer| {
        let answer = answer.json();
        let token = answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}"));
        managed.authority.oauth.verify(token, HOME).await.unwrap().caller.rights.clone()
    };
    let stranger = json!({ "email": "eve@evil.example", "groups": [], "sub": "eve" });
    assert_eq!(managed.bring(&stranger).await.error(), "400 invalid_grant");
    assert_eq!(rights(managed.bring(&json!({ "groups": ["staff"] })).await).await, Rights::all_backends());
    // what an assertion does not tell takes nothing from the last login
    assert_eq!(rights(managed.bring(&json!({})).await).await, Rights::all_backends());
    assert_eq!(rights(managed.bring(&json!({ "groups": [] })).await).await, git);
    // an account that was revoked stays out
    let oauth = &managed.authority.oauth;
    let key = oauth.keys().find_person(provider::ISSUER, "s-1").await.unwrap().unwrap();
    oauth.keys().revoke(&key).await.unwrap();
    assert_eq!(managed.bring(&json!({})).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn up_016_the_answer_has_no_refresh_token_and_the_scopes_that_provider_and_request_allow() {
    let managed = Managed::new().await;
    let tokens = managed.bring(&json!({})).await.json();
    let members: Vec<&String> = tokens.as_object().unwrap().keys().collect();
    assert_eq!(members, ["access_token", "expires_in", "scope", "token_type"]);
    assert_eq!(
        (&tokens["token_type"], &tokens["scope"], &tokens["expires_in"]),
        (&json!("Bearer"), &json!("mcp:use"), &json!(3600))
    );
    let two = json!({ "scope": "mcp:git mcp:time mcp:admin chat.read" });
    assert_eq!(managed.bring(&two).await.json()["scope"], "mcp:git mcp:time", "no right to administer");
    let narrowed = managed.exchange(&managed.assertion(&two), &[("scope", "mcp:time")]).await;
    assert_eq!(narrowed.json()["scope"], "mcp:time", "{}", narrowed.body);
    let at_git = json!({ "resource": format!("{ISSUER}/mcp/git"), "scope": null });
    assert_eq!(managed.bring(&at_git).await.json()["scope"], "mcp:git");

    let asked = managed.exchange(&managed.assertion(&json!({ "scope": "mcp:git" })), &[("scope", "mcp:use")]).await;
    assert_eq!(asked.error(), "400 invalid_scope", "wider than the assertion");
    let elsewhere = [("resource", "https://gw.example/mcp/git")];
    assert_eq!(managed.exchange(&managed.assertion(&json!({})), &elsewhere).await.error(), "400 invalid_target");
    for changes in [json!({ "scope": "chat.read" }), json!({ "resource": "https://evil.example/mcp" })] {
        assert_eq!(managed.bring(&changes).await.error(), "400 invalid_grant", "{changes}");
    }
}

#[tokio::test]
async fn up_016_an_assertion_is_good_once_and_changes_nothing_when_it_comes_again() {
    let managed = Managed::new().await;
    let assertion = managed.assertion(&json!({}));
    let refused = managed.exchange(&assertion, &[("scope", "mcp:git \u{e9}")]).await;
    assert_eq!(refused.error(), "400 invalid_scope");
    let first = managed.exchange(&assertion, &[]).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.body);
    assert_eq!(refused.error(), "400 invalid_scope", "which did not use it up");
    let keys = managed.authority.oauth.keys();
    let account = keys.find_person(provider::ISSUER, "s-1").await.unwrap().unwrap();
    keys.set_rights(&account, &Rights::none()).await.unwrap();
    assert_eq!(managed.exchange(&assertion, &[]).await.error(), "400 invalid_grant");
    let listed = keys.list().await.unwrap();
    assert_eq!(listed.iter().find(|key| key.id == account).unwrap().rights, Rights::none());
}

#[tokio::test]
async fn n_130_a_bad_identity_assertion_is_refused_with_one_text() {
    let managed = Managed::new().await;
    let client = managed.client.0.clone();
    let now = managed.authority.clock.now().as_seconds();
    let of_kind = |kind: &str| managed.provider.assertion_of_kind(kind, ISSUER, (&client, &json!({})));
    let claims = json!({ "iss": provider::ISSUER, "aud": ISSUER, "client_id": client, "sub": "s-1", "jti": "j" });
    let mut texts: Vec<String> = [
        json!({ "aud": [ISSUER, "https://b.example"] }),
        json!({ "aud": provider::CLIENT }),
        json!({ "client_id": "another" }),
        json!({ "exp": now + 3600 }),
        json!({ "iat": now - 600, "exp": now - 300 }),
        json!({ "iss": "https://evil.example" }),
        json!({ "iss": null }),
        json!({ "cnf": { "jkt": "x" } }),
        json!({ "authorization_details": [] }),
        json!({ "jti": null }),
        json!({ "sub": null }),
        json!({ "padding": "x".repeat(16 * 1024) }),
    ]
    .iter()
    .map(|changes| managed.assertion(changes))
    .collect();
    texts.extend([of_kind("JWT"), of_kind("logout+jwt"), "nonsense".to_owned()]);
    texts.extend([
        unsigned("none", &claims),
        signed_by_everybody(&claims, &managed.provider.script().key),
        SigningKey::new("one").sign(&claims),
    ]);
    let mut answers = Vec::new();
    for text in texts {
        let answer = managed.exchange(&text, &[]).await;
        assert_eq!(answer.error(), "400 invalid_grant", "{text}");
        answers.push(answer.body);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let none = [("grant_type", JWT_BEARER), ("client_id", &*client), ("client_secret", &*managed.client.1)];
    assert_eq!(managed.authority.token(&none).await.error(), "400 invalid_request");
    assert_eq!(managed.bring(&json!({})).await.status, StatusCode::OK, "a good one still is one");
}
