//! The authorization request, driven like the pages do.

use std::time::Duration;

use lockkeeper::{
    model::{AuthPolicy, ClientId, ConcealBackends, Rights},
    oauth::{
        BeginOutcome, DecisionOutcome, KeyHolder, LoginPrompt, MasterKeySource, OAuthSettings, RedirectTarget,
        RequestSource, SentDecision, ServerChoice, StoreOutcome, Trust, UnsealError,
    },
    support::{Live, Secret},
};
use serde_json::json;

use crate::support::oauth::{Authority, CALLBACK, FROM, approve, browser, deny, parameter};

/// The refusal of a request: `page <error>` or `redirect <error>`.
async fn refusal(authority: &Authority, query: &str) -> String {
    match authority.oauth.authorization().begin(query, FROM).await {
        BeginOutcome::Page(refusal) => format!("page {}", refusal.error),
        BeginOutcome::Redirect(redirect) => {
            assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
            assert_eq!(parameter(&redirect.location, "code"), None);
            format!("redirect {}", parameter(&redirect.location, "error").unwrap())
        }
        BeginOutcome::Valid(_) => "consent".to_owned(),
    }
}

#[tokio::test]
async fn n_065_a_person_sees_the_request_and_approves_once() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let browser = browser("a");
    let query = Authority::query(&client, &[("scope", "mcp:use mcp:git:read openid"), ("prompt", "login")]);
    assert_eq!(authority.begin(&query).await.login, LoginPrompt::Fresh);
    let id = authority.waiting(&query).await;
    let pending = authority.pending(&id, &browser).await.unwrap();
    assert_eq!(pending.client_name, "A test");
    assert_eq!(pending.redirect, RedirectTarget::Loopback("127.0.0.1:7777".to_owned()));
    assert_eq!(pending.resource, "https://gw.example/mcp");
    assert_eq!(pending.scopes.to_string(), "mcp:use mcp:git:read");
    let form = Secret::new("form");
    let sent = SentDecision { id: &id, browser: &browser, form: &form };
    let approve = async |sent| {
        authority.oauth.authorization().approve(sent, &authority.holder, ServerChoice::AsAsked).await.unwrap()
    };
    let DecisionOutcome::Answer { redirect, .. } = approve(sent).await else { panic!("it waits") };
    assert_eq!(redirect.trust, Trust::Automatic);
    assert!(redirect.location.starts_with(CALLBACK));
    // N-74: each exactly once (`parameter` looks)
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
    assert!(parameter(&redirect.location, "code").is_some());
    // N-65: another form gets no code, the same one gets the same, and that is all
    let other = Secret::new("another form");
    assert!(matches!(approve(SentDecision { form: &other, ..sent }).await, DecisionOutcome::Before(_)));
    let DecisionOutcome::Answer { redirect: again, .. } = approve(sent).await else { panic!("it waits") };
    assert_eq!(again, redirect);
    assert_eq!(authority.pending(&id, &browser).await, None);
}

#[tokio::test]
async fn n_074_the_state_is_returned_unchanged() {
    // N-74
    let authority = Authority::new().await;
    let client = authority.client().await;
    let redirect = authority.approve(&Authority::query(&client, &[("state", "a+b%2Fc=&é")])).await;
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("a+b%2Fc=&é"));
}

#[tokio::test]
async fn another_browser_does_not_see_the_request() {
    // N-65
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let id = authority.waiting(&query).await;
    assert_eq!(authority.pending(&id, &browser("b")).await, None);
    let form = Secret::new("form");
    let (own, other) = (browser("a"), browser("b"));
    let sent = SentDecision { id: &id, browser: &other, form: &form };
    assert!(authority.oauth.authorization().approve(sent, &authority.holder, ServerChoice::AsAsked).await.is_err());
    assert!(authority.oauth.authorization().deny(sent, Some(&authority.holder)).await.is_err());
    let sent = SentDecision { browser: &own, ..sent };
    assert!(authority.oauth.authorization().approve(sent, &authority.holder, ServerChoice::AsAsked).await.is_ok());
}

#[tokio::test]
async fn oa_068_a_sealed_request_opens_for_its_browser_until_it_expires() {
    // OA-68
    let authority = Authority::new().await;
    let transaction = authority.begin(&Authority::query(&authority.client().await, &[])).await;
    let sealed = authority.oauth.authorization().seal(&transaction, &browser("a")).unwrap();
    let opened = authority.oauth.authorization().unseal(&sealed, &browser("a")).await.unwrap();
    assert_eq!((&opened.id, opened.client_name.as_str()), (&transaction.id, "A test"));
    let stolen = authority.oauth.authorization().unseal(&sealed, &browser("b")).await;
    assert!(matches!(stolen, Err(UnsealError::Foreign)), "{stolen:?}");
    let (start, end) = sealed.split_at(sealed.len() / 2);
    let changed = format!("{start}{}{}", if end.starts_with('A') { 'B' } else { 'A' }, &end[1..]);
    for made_up in ["", "x", start, &changed, &"A".repeat(100_000)] {
        let opened = authority.oauth.authorization().unseal(made_up, &browser("a")).await;
        assert!(matches!(opened, Err(UnsealError::Foreign)), "{made_up:.40}: {opened:?}");
    }
    authority.clock.advance(Duration::from_mins(10));
    let opened = authority.oauth.authorization().unseal(&sealed, &browser("a")).await;
    assert!(matches!(opened, Err(UnsealError::Expired)), "{opened:?}");
}

#[tokio::test]
async fn a_sealed_request_opens_in_another_process() {
    let storage = crate::support::empty_storage().await;
    let master = MasterKeySource::Given(Secret::new("A".repeat(43)));
    let settings = OAuthSettings { master_key: master, ..Authority::settings() };
    let one = Authority::on(storage.clone(), settings.clone(), 1).await;
    let other = Authority::on(storage, settings, 2).await;
    let transaction = one.begin(&Authority::query(&one.client().await, &[])).await;
    let sealed = one.oauth.authorization().seal(&transaction, &browser("a")).unwrap();
    assert!(other.oauth.authorization().unseal(&sealed, &browser("a")).await.is_ok());
}

#[tokio::test]
async fn a_sealed_request_does_not_outlive_its_client() {
    // OA-68: client and redirect URI are checked again when the form returns
    let authority = Authority::new().await;
    let client = authority.client().await;
    let transaction = authority.begin(&Authority::query(&client, &[])).await;
    let sealed = authority.oauth.authorization().seal(&transaction, &browser("a")).unwrap();
    assert!(authority.oauth.clients().revoke(&ClientId::new(client)).await.unwrap());
    let opened = authority.oauth.authorization().unseal(&sealed, &browser("a")).await;
    assert!(matches!(&opened, Err(UnsealError::Refused(refusal)) if refusal.error == "invalid_client"), "{opened:?}");
}

#[tokio::test]
async fn a_replayed_request_is_decided_once() {
    // OA-68, N-65
    let authority = Authority::new().await;
    let transaction = authority.begin(&Authority::query(&authority.client().await, &[])).await;
    let (id, here) = (&transaction.id, browser("a"));
    for _ in 0..2 {
        let kept = authority.oauth.authorization().keep(&transaction, &here, &authority.holder).await.unwrap();
        assert!(matches!(kept, StoreOutcome::Waiting), "{kept:?}");
    }
    let approve = || approve(&authority.oauth, id, &here, &authority.holder);
    let (one, other) = tokio::join!(approve(), approve());
    assert_eq!(one.unwrap(), other.unwrap(), "one code for both");
    let kept = authority.oauth.authorization().keep(&transaction, &here, &authority.holder).await.unwrap();
    assert!(matches!(kept, StoreOutcome::Spent), "{kept:?}");
    assert_eq!(authority.pending(id, &here).await, None);
}

#[tokio::test]
async fn oa_030_a_request_fits_the_form_of_the_login_page() {
    // OA-30: a form has at most 8 KiB
    let authority = Authority::new().await;
    let client = authority.client().await;
    let mut longest = 0;
    for length in [2000, 4000, 4500, 5000, 9000] {
        let query = Authority::query(&client, &[("state", &"s".repeat(length))]);
        match authority.oauth.authorization().begin(&query, FROM).await {
            BeginOutcome::Valid(transaction) => {
                longest = authority.oauth.authorization().seal(&transaction, &browser("a")).unwrap().len();
            }
            begun => {
                assert!(length > 4500, "a state of {length} bytes: {begun:?}");
                assert_eq!(refusal(&authority, &query).await, "redirect invalid_request");
            }
        }
    }
    assert!((6000..7500).contains(&longest), "{longest}");
}

#[tokio::test]
async fn oa_006_backend_names_are_shown_only_after_a_login() {
    // OA-6, OA-65
    let authority = Authority::new().await;
    let client = authority.client().await;
    for (known, unknown) in [
        ([("resource", "https://gw.example/mcp/git")], [("resource", "https://gw.example/mcp/not")]),
        ([("resource", "https://gw.example/sse/git")], [("resource", "https://gw.example/sse/not")]),
        ([("scope", "mcp:git mcp:use")], [("scope", "mcp:not mcp:use")]),
    ] {
        let known = authority.begin(&Authority::query(&client, &known)).await;
        let strange = authority.begin(&Authority::query(&client, &unknown)).await;
        let seal = |transaction| authority.oauth.authorization().seal(transaction, &browser("a")).unwrap().len();
        assert_eq!(seal(&known), seal(&strange), "its length tells nothing either");
        assert!(
            authority
                .oauth
                .authorization()
                .unseal(&authority.oauth.authorization().seal(&strange, &browser("a")).unwrap(), &browser("a"))
                .await
                .is_ok()
        );
        let kept = authority.oauth.authorization().keep(&strange, &browser("a"), &authority.holder).await.unwrap();
        match (unknown[0].0, kept) {
            ("resource", StoreOutcome::Refused(redirect)) => {
                assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("invalid_target"));
            }
            ("scope", StoreOutcome::Waiting) => {
                let pending = authority.pending(&strange.id, &browser("a")).await.unwrap();
                assert_eq!(pending.scopes.to_string(), "mcp:use");
            }
            (name, kept) => panic!("{name}: {kept:?}"),
        }
    }
    let told = Authority::with(OAuthSettings {
        policy: Live::new(AuthPolicy { conceal_servers: ConcealBackends::No, ..AuthPolicy::default() }),
        ..Authority::settings()
    })
    .await;
    let query = Authority::query(&told.client().await, &[("resource", "https://gw.example/mcp/not")]);
    assert_eq!(refusal(&told, &query).await, "redirect invalid_target");
}

#[tokio::test]
async fn n_067_a_request_expires_after_ten_minutes() {
    // N-67
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let id = authority.waiting(&query).await;
    authority.clock.advance(Duration::from_mins(10));
    assert_eq!(authority.pending(&id, &browser("a")).await, None);
    assert_eq!(approve(&authority.oauth, &id, &browser("a"), &authority.holder).await.unwrap_err().status, 400);
}

#[tokio::test]
async fn oa_060_a_request_without_a_trusted_redirect_uri_ends_on_a_page() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let query = |changes: &[(&str, &str)]| Authority::query(&client, changes);
    for (query, expected) in [
        (Authority::query("unknown", &[]), "page invalid_client"), // N-45
        (Authority::query("http://evil/client.json", &[]), "page invalid_client"), // N-30
        (query(&[("client_id", "")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://127.0.0.1:7777/callback/")]), "page invalid_request"), // N-47
        (query(&[("redirect_uri", "http://127.0.0.1:7777/Callback")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://127.0.0.1:7777/callback?x=1")]), "page invalid_request"),
        (query(&[("redirect_uri", "http://localhost:7777/callback")]), "page invalid_request"), // N-48
        (query(&[("redirect_uri", "http://127.0.0.1:1/callback")]), "consent"),
        (query(&[("redirect_uri", "")]), "page invalid_request"), // OA-60: a loopback address has no port then
        (format!("{}&client_id=x", query(&[])), "page invalid_request"),
    ] {
        assert_eq!(refusal(&authority, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn n_050_other_errors_of_a_request_are_sent_to_the_client() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let query = |changes: &[(&str, &str)]| Authority::query(&client, changes);
    let long = "a".repeat(129);
    for (query, expected) in [
        (format!("{}&state=twice", query(&[])), "redirect invalid_request"), // N-50
        (query(&[("response_type", "")]), "redirect invalid_request"),       // N-51
        (query(&[("response_type", "token")]), "redirect unsupported_response_type"),
        (query(&[("code_challenge", "")]), "redirect invalid_request"), // N-52
        (query(&[("code_challenge_method", "")]), "redirect invalid_request"),
        (query(&[("code_challenge_method", "plain")]), "redirect invalid_request"),
        (query(&[("code_challenge", &long[..42])]), "redirect invalid_request"), // N-54
        (query(&[("code_challenge", &long)]), "redirect invalid_request"),
        (query(&[("resource", "https://evil/mcp")]), "redirect invalid_target"), // N-55
        (query(&[("resource", "https://gw.example/mcp/Nope")]), "redirect invalid_target"),
        (format!("{}&resource=https://gw.example/sse", query(&[])), "redirect invalid_target"), // N-57
        (query(&[("scope", "mcp:use \"")]), "redirect invalid_scope"),
        (query(&[("prompt", "none")]), "redirect interaction_required"), // OA-77
        (query(&[("request", "x")]), "redirect request_not_supported"),  // OA-79
    ] {
        assert_eq!(refusal(&authority, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn n_062_an_error_is_not_redirected_automatically_to_an_untrusted_site() {
    // N-62
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": ["https://somewhere.example/cb"] });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let changes = [("redirect_uri", "https://somewhere.example/cb"), ("response_type", "token")];
    let begun = authority.oauth.authorization().begin(&Authority::query(&client, &changes), FROM).await;
    let BeginOutcome::Redirect(redirect) = begun else { panic!("{begun:?}") };
    assert!(matches!(redirect.trust, Trust::ShowLink { host, .. } if host == "somewhere.example"));
    // what the person approved goes there at once
    let redirect = authority.approve(&Authority::query(&client, &changes[..1])).await;
    assert_eq!(redirect.trust, Trust::Automatic);
}

#[tokio::test]
async fn oa_075_errors_go_where_the_tokens_of_the_same_person_already_go() {
    let authority = Authority::new().await;
    let (here, there) = ("https://somewhere.example/cb", "https://elsewhere.example/cb");
    let metadata = json!({ "redirect_uris": [here, there] });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let (_, eve) = Authority::key(&authority.oauth, "eve", Rights::all_backends()).await;
    let trust = async |uri: &str, holder: Option<&KeyHolder>| {
        let query = Authority::query(&client, &[("redirect_uri", uri), ("prompt", "none")]);
        let source = RequestSource { holder, ..FROM };
        let begun = authority.oauth.authorization().begin(&query, source).await;
        let BeginOutcome::Redirect(redirect) = begun else { panic!("{begun:?}") };
        matches!(redirect.trust, Trust::Automatic)
    };
    assert!(!trust(here, Some(&authority.holder)).await, "nobody consented yet");
    authority.approve(&Authority::query(&client, &[("redirect_uri", here)])).await;
    assert!(trust(here, Some(&authority.holder)).await);
    assert!(!trust(there, Some(&authority.holder)).await, "tokens never went there");
    assert!(!trust(here, Some(&eve)).await, "another person");
    assert!(!trust(here, None).await, "nobody is logged in");
    // a denial too
    let id = authority.waiting(&Authority::query(&client, &[("redirect_uri", here)])).await;
    let denied = deny(&authority.oauth, &id, &browser("a"), Some(&authority.holder)).await.unwrap();
    assert_eq!(denied.trust, Trust::Automatic);
    // consent that ended no longer counts
    authority.oauth.grants().revoke_all(&authority.holder.user).await.unwrap();
    assert!(!trust(here, Some(&authority.holder)).await);
}

#[tokio::test]
async fn n_071_a_denial_is_sent_to_the_client() {
    // N-71
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let id = authority.waiting(&query).await;
    let redirect = deny(&authority.oauth, &id, &browser("a"), Some(&authority.holder)).await.unwrap();
    assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("access_denied"));
    assert_eq!(parameter(&redirect.location, "state").as_deref(), Some("xyz"));
    assert_eq!(parameter(&redirect.location, "iss").as_deref(), Some("https://gw.example"));
}

#[tokio::test]
async fn n_061_only_a_key_with_admin_rights_grants_administration() {
    // N-61
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[("scope", "mcp:use mcp:admin")]);
    let id = authority.waiting(&query).await;
    let pending = authority.pending(&id, &browser("a")).await.unwrap();
    assert_eq!(pending.scopes_for(&authority.holder).to_string(), "mcp:use");
    let admin = Rights { admin: true, ..Rights::all_backends() };
    let (_, operator) = Authority::key(&authority.oauth, "grace", admin).await;
    assert_eq!(pending.scopes_for(&operator).to_string(), "mcp:use mcp:admin");
    approve(&authority.oauth, &id, &browser("a"), &authority.holder).await.unwrap();
}

#[tokio::test]
async fn a_key_that_ended_before_the_approval_approves_nothing() {
    let authority = Authority::new().await;
    let query = Authority::query(&authority.client().await, &[]);
    let id = authority.waiting(&query).await;
    assert!(authority.oauth.keys().revoke(&authority.holder.key).await.unwrap());
    assert_eq!(approve(&authority.oauth, &id, &browser("a"), &authority.holder).await.unwrap_err().status, 403);
}

#[tokio::test]
async fn a_key_that_does_not_reach_the_backend_grants_nothing_there() {
    let authority = Authority::new().await;
    let changes = [("resource", "https://gw.example/mcp/git")];
    let query = Authority::query(&authority.client().await, &changes);
    let id = authority.waiting(&query).await;
    let (_, nobody) = Authority::key(&authority.oauth, "eve", Rights::none()).await;
    let redirect = approve(&authority.oauth, &id, &browser("a"), &nobody).await.unwrap();
    assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("access_denied"));
}
