//! People who leave at their login provider: how long their apps go on here.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::model::{Access, AllowedBackends, LoginProvider, LoginRule, LoginSession, People, Rights};
use serde_json::json;

use super::{
    provider_logout::{connect, grants},
    site::Site,
};
use crate::kit::{authority::Endpoint, provider::OpenIdProvider};

const DAY: Duration = Duration::from_hours(24);

/// Ends what nobody has confirmed; returns the number of accounts.
async fn ended(site: &Site) -> usize {
    site.web.end_unconfirmed(&[]).await.unwrap()
}

#[tokio::test]
async fn up_031_apps_end_when_the_provider_has_not_confirmed_the_account_for_as_long_as_it_is_trusted() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let browser = connect(&site, &provider).await;
    site.clock.advance(6 * DAY);
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    // any login of the account confirms it for all its apps
    site.browser().log_in_at(&provider).await;
    site.clock.advance(6 * DAY);
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    site.clock.advance(DAY);
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
    assert_eq!(ended(&site).await, 0, "once");
    // others are not touched
    let mut owner = site.browser();
    owner.log_in_alone(&site.key).await;
    assert_eq!(owner.get("/account").await.status, StatusCode::OK);
    // the person may come again
    drop(browser);
    connect(&site, &provider).await;
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
}

#[tokio::test]
async fn up_031_each_provider_is_trusted_as_long_as_its_table_says() {
    let spec = LoginProvider { trust: Duration::from_hours(1), ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    let mut browser = connect(&site, &provider).await;
    site.clock.advance(Duration::from_mins(59));
    assert_eq!(ended(&site).await, 0);
    site.clock.advance(Duration::from_mins(1));
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
    // a browser that is still open approves nothing more
    assert_eq!(browser.get("/account").await.location(), "/login");
}

#[tokio::test]
async fn up_031_a_provider_that_gives_a_refresh_token_is_asked_and_its_answer_counts() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.script().issues_refresh_tokens = true;
    connect(&site, &provider).await;
    let half_a_day = Duration::from_hours(12);
    for _ in 0..30 {
        site.clock.advance(half_a_day);
        assert_eq!(site.web.renew_logins().await.unwrap(), 0);
        assert_eq!((ended(&site).await, grants(&site).await), (0, 1), "each success confirms");
    }
    assert_eq!(provider.requests("/token"), 31, "one question in half a day");
    // disabled or deleted there
    provider.refuses("invalid_grant");
    site.clock.advance(half_a_day);
    assert_eq!(site.web.renew_logins().await.unwrap(), 1);
    assert_eq!(grants(&site).await, 0, "at once");
}

#[tokio::test]
async fn up_031_a_provider_that_does_not_answer_ends_nothing_before_trust_is_over() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.script().issues_refresh_tokens = true;
    connect(&site, &provider).await;
    provider.refuses("temporarily_unavailable");
    for _ in 0..13 {
        site.clock.advance(Duration::from_hours(12));
        assert_eq!(site.web.renew_logins().await.unwrap(), 0);
        assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    }
    // it is there again in time
    provider.authority.recovers(Endpoint::Token);
    site.clock.advance(Duration::from_mins(5));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    site.clock.advance(6 * DAY);
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    // and away for longer
    provider.refuses("temporarily_unavailable");
    site.clock.advance(DAY);
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
}

#[tokio::test]
async fn up_031_a_token_that_ends_before_the_next_question_says_nothing_of_the_person() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    provider.script().issues_refresh_tokens = true;
    // Keycloak without `offline_access`: as long as the session there is idle at most
    provider.authority.differs(Endpoint::Token, json!({ "expires_in": 300, "refresh_expires_in": 1800 }));
    connect(&site, &provider).await;
    provider.refuses("invalid_grant");
    site.clock.advance(DAY);
    assert_eq!(site.web.renew_logins().await.unwrap(), 0, "it is not kept");
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    site.clock.advance(6 * DAY);
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
}

#[tokio::test]
async fn up_031_groups_that_change_at_the_provider_change_the_rights_at_the_next_question() {
    let only =
        |name: &str| Rights { backends: AllowedBackends::Only([(name.to_owned(), Access::Full)].into()), admin: false };
    let group =
        |name: &str| People::Listed { domains: Vec::new(), groups: vec![name.to_owned()], subjects: Vec::new() };
    let rules = vec![
        LoginRule { people: group("staff"), rights: only("docs") },
        LoginRule { people: group("ops"), rights: only("git") },
    ];
    let (site, provider) = Site::with_provider(LoginProvider { rules, ..OpenIdProvider::spec() }).await;
    provider.script().issues_refresh_tokens = true;
    provider.script().person.insert("groups".to_owned(), json!(["staff", "ops"]));
    connect(&site, &provider).await;
    let rights = async || {
        let account = site.oauth.keys().find_person(crate::kit::provider::ISSUER, "s-1").await.unwrap().unwrap();
        site.oauth.keys().find(&account).await.unwrap().unwrap().rights
    };
    assert_eq!(rights().await, only("docs").union(&only("git")));
    let says = |groups: serde_json::Value| {
        let mut said = json!({ "sub": "s-1", "email": "ann@example.com", "email_verified": true });
        if !groups.is_null() {
            said["groups"] = groups;
        }
        provider.script().user_info = said;
    };
    says(json!(["staff"]));
    site.clock.advance(Duration::from_hours(12));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!((rights().await, grants(&site).await), (only("docs"), 1));
    // what the provider leaves out changes nothing
    says(serde_json::Value::Null);
    site.clock.advance(Duration::from_hours(12));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!((rights().await, grants(&site).await), (only("docs"), 1));
    says(json!(["alumni"]));
    site.clock.advance(Duration::from_hours(12));
    assert_eq!(site.web.renew_logins().await.unwrap(), 1);
    assert_eq!(grants(&site).await, 0, "nothing lets the person in any more");
}

/// Everybody at the domain is let in, and `ops` administers.
fn rules_by_domain_and_group() -> Vec<LoginRule> {
    let listed = |domains: &[&str], groups: &[&str]| People::Listed {
        domains: domains.iter().map(ToString::to_string).collect(),
        groups: groups.iter().map(ToString::to_string).collect(),
        subjects: Vec::new(),
    };
    vec![
        LoginRule { people: listed(&["example.com"], &[]), rights: Rights::all_backends() },
        LoginRule { people: listed(&[], &["ops"]), rights: Rights { admin: true, ..Rights::all_backends() } },
    ]
}

#[tokio::test]
async fn up_031_an_answer_without_a_claim_that_gives_rights_confirms_nothing() {
    let spec = LoginProvider { rules: rules_by_domain_and_group(), ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    provider.script().issues_refresh_tokens = true;
    provider.script().person.insert("groups".to_owned(), json!(["ops"]));
    connect(&site, &provider).await;
    // many providers leave the claim out for whoever is in no group any more
    provider.script().user_info = json!({ "sub": "s-1", "email": "ann@example.com", "email_verified": true });
    for _ in 0..13 {
        site.clock.advance(Duration::from_hours(12));
        assert_eq!(site.web.renew_logins().await.unwrap(), 0);
        assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    }
    site.clock.advance(Duration::from_hours(12));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
}

#[tokio::test]
async fn up_031_an_id_token_without_groups_ends_the_rights_that_groups_gave() {
    let spec = LoginProvider { rules: rules_by_domain_and_group(), ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    provider.script().issues_refresh_tokens = true;
    provider.script().refreshes_id_token = true;
    provider.script().person.insert("groups".to_owned(), json!(["ops"]));
    connect(&site, &provider).await;
    let administers = async || {
        let account = site.oauth.keys().find_person(crate::kit::provider::ISSUER, "s-1").await.unwrap().unwrap();
        site.oauth.keys().find(&account).await.unwrap().unwrap().rights.admin
    };
    let asked = async || {
        site.clock.advance(Duration::from_hours(12));
        site.web.renew_logins().await.unwrap()
    };
    assert_eq!(asked().await, 0);
    assert!(administers().await);
    // somebody else's id token says nothing
    provider.script().claims = json!({ "sub": "s-2", "groups": [] });
    provider.script().user_info = json!({ "sub": "s-1", "email": "ann@example.com", "email_verified": true });
    assert_eq!(asked().await, 0);
    assert!(administers().await);
    provider.script().claims = json!({});
    provider.script().person.remove("groups");
    // user information that does not come may have the groups
    provider.script().user_info = json!(null);
    assert_eq!(asked().await, 0);
    assert!(administers().await);
    provider.script().user_info = json!({ "sub": "s-1", "email": "ann@example.com", "email_verified": true });
    assert_eq!(asked().await, 0);
    assert!(!administers().await);
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1), "the domain lets the person in");
}

#[tokio::test]
async fn up_031_a_bound_login_stays_bound_and_ends_with_trust_where_nobody_answers() {
    let spec = LoginProvider { session: LoginSession::Bound, trust: DAY, ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    provider.script().issues_refresh_tokens = true;
    connect(&site, &provider).await;
    site.clock.advance(Duration::from_mins(5));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    provider.refuses("temporarily_unavailable");
    site.clock.advance(Duration::from_hours(23));
    assert_eq!((ended(&site).await, grants(&site).await), (0, 1));
    site.clock.advance(Duration::from_hours(1));
    assert_eq!((ended(&site).await, grants(&site).await), (1, 0));
}
