//! Logouts that an OpenID provider reports, and logins that last as long as it says.

use std::time::Duration;

use http::{StatusCode, header};
use lockkeeper::model::{LoginProvider, LoginSession};
use serde_json::{Value, json};

use super::site::{Browser, CALLBACK, Seen, Site};
use crate::kit::{
    authority::signing::{SigningKey, unsigned},
    provider::{ISSUER, OpenIdProvider},
    services::SERVICES,
};

/// Logs in at the provider and connects an app.
pub(super) async fn connect<'a>(site: &'a Site, provider: &OpenIdProvider) -> Browser<'a> {
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let start = browser.choose_provider(&page).await;
    let answer = provider.log_in(start.location());
    let back = browser.return_with(&answer).await;
    let next = back.location().to_owned();
    let consent = browser.get(&next).await;
    let approved = browser.press(&consent, "approve", "").await;
    let code = approved.told().into_iter().find(|(name, _)| name == "code").unwrap().1;
    site.redeem(&client, &code).await;
    assert_eq!(grants(site).await, 1);
    browser
}

pub(super) async fn grants(site: &Site) -> usize {
    site.oauth.grants().list().await.unwrap().len()
}

async fn report(site: &Site, token: &str) -> Seen {
    site.browser().post("/oauth/login/backchannel/corp", &[("logout_token", token)]).await
}

#[tokio::test]
async fn up_014_a_logout_at_the_provider_ends_browser_sessions_and_grants_once() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = connect(&site, &provider).await;
    let mut other = site.browser();
    other.log_in_alone(&site.key).await;
    let token = provider.logout_token(&json!({ "sub": "s-1" }));
    let answer = report(&site, &token).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(browser.get("/account").await.location(), "/login");
    assert_eq!(grants(&site).await, 0);
    assert_eq!(other.get("/account").await.status, StatusCode::OK, "others stay");

    // the person may log in again, and the report counts no second time
    let mut browser = connect(&site, &provider).await;
    let answer = report(&site, &token).await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, body["error"].as_str()), (StatusCode::BAD_REQUEST, Some("invalid_request")));
    assert_eq!(browser.get("/account").await.status, StatusCode::OK);
    // by the session alone
    let token = provider.logout_token(&json!({ "jti": "report-2", "sid": "session-1" }));
    assert_eq!(report(&site, &token).await.status, StatusCode::OK);
    assert_eq!(browser.get("/account").await.location(), "/login");
    assert_eq!(grants(&site).await, 0);
    for nobody in [json!({ "jti": "3", "sub": "s-9" }), json!({ "jti": "4", "sid": "session-9" })] {
        assert_eq!(report(&site, &provider.logout_token(&nobody)).await.status, StatusCode::OK, "{nobody}");
    }
}

#[tokio::test]
async fn up_014_a_report_that_proves_nothing_ends_nothing() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let mut browser = connect(&site, &provider).await;
    let mut tokens: Vec<String> = [
        json!({}),
        json!({ "sub": "s-1", "iss": "https://evil.example" }),
        json!({ "sub": "s-1", "aud": "other" }),
        json!({ "sub": "s-1", "exp": 1 }),
        json!({ "sub": "s-1", "jti": null }),
        json!({ "sub": "s-1", "events": null }),
        json!({ "sub": "s-1", "nonce": "n" }),
    ]
    .iter()
    .map(|claims| provider.logout_token(claims))
    .collect();
    let claims = json!({ "iss": ISSUER, "sub": "s-1" });
    tokens.extend([SigningKey::new("one").sign(&claims), unsigned("none", &claims), "x".to_owned(), String::new()]);
    for token in tokens {
        let answer = report(&site, &token).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{token}");
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    }
    let elsewhere = site.browser().post("/oauth/login/backchannel/other", &[("logout_token", "x")]).await;
    assert_eq!(elsewhere.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/account").await.status, StatusCode::OK);
    assert_eq!(grants(&site).await, 1);
}

#[tokio::test]
async fn up_014_a_bound_login_ends_when_the_provider_refuses_to_renew_it_and_not_before() {
    let spec = LoginProvider { session: LoginSession::Bound, ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    provider.script().issues_refresh_tokens = true;
    let mut browser = connect(&site, &provider).await;
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!(provider.requests("/token"), 1, "it is not due yet");
    site.clock.advance(Duration::from_mins(5));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    let sent = |token: &str| {
        let seen = provider.internet.seen();
        seen.requests.iter().filter(|request| request.contains(&format!("refresh_token={token}-of-"))).count()
    };
    assert_eq!((sent("refresh-1"), sent("refresh-2")), (1, 0));
    // other failures end nothing
    for error in ["invalid_client", "temporarily_unavailable"] {
        provider.refuses(error);
        site.clock.advance(Duration::from_mins(5));
        assert_eq!(site.web.renew_logins().await.unwrap(), 0);
    }
    assert_eq!(sent("refresh-2"), 2, "the rotated one is used");
    assert_eq!((browser.get("/account").await.status, grants(&site).await), (StatusCode::OK, 1));
    provider.refuses("invalid_grant");
    site.clock.advance(Duration::from_mins(5));
    assert_eq!(site.web.renew_logins().await.unwrap(), 1);
    assert_eq!(browser.get("/account").await.location(), "/login");
    assert_eq!(grants(&site).await, 0);
    site.clock.advance(Duration::from_mins(5));
    assert_eq!(site.web.renew_logins().await.unwrap(), 0, "it is forgotten");
}

#[tokio::test]
async fn up_021_up_022_people_log_in_at_every_provider_and_stay_until_it_says_in_its_words_that_it_is_over() {
    for service in SERVICES.iter().filter(|service| service.is_provider) {
        let spec = LoginProvider { session: LoginSession::Bound, ..OpenIdProvider::spec() };
        let (site, provider) = Site::with_provider(spec).await;
        provider.script().issues_refresh_tokens = true;
        service.answer_tokens(&provider.authority);
        let mut browser = connect(&site, &provider).await;
        for _ in 0..2 {
            site.clock.advance(Duration::from_mins(5));
            assert_eq!(site.web.renew_logins().await.unwrap(), 0, "{}", service.name);
            service.fail(&provider.authority);
        }
        assert_eq!(browser.get("/account").await.status, StatusCode::OK, "{}", service.name);
        service.end(&provider.authority);
        site.clock.advance(Duration::from_mins(5));
        assert_eq!(site.web.renew_logins().await.unwrap(), 1, "{}", service.name);
        assert_eq!(browser.get("/account").await.location(), "/login", "{}", service.name);
    }
}

#[tokio::test]
async fn up_014_a_login_that_cannot_be_bound_is_refused() {
    let spec = LoginProvider { session: LoginSession::Bound, ..OpenIdProvider::spec() };
    let (site, provider) = Site::with_provider(spec).await;
    let seen = site.browser().log_in_at(&provider).await;
    assert_eq!(seen.heading(), "You cannot log in there now");
}
