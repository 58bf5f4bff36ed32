//! Apps that want a new or a recent login (`prompt=login`, `max_age`).

use std::time::Duration;

use http::StatusCode;
use lockkeeper::model::UserId;
use serde_json::json;
use url::Url;

use super::site::{CALLBACK, Site, authorize_path, encode, post};
use crate::kit::provider::OpenIdProvider;

#[tokio::test]
async fn oa_077_a_session_older_than_max_age_logs_in_again() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    site.clock.advance(Duration::from_mins(5));
    for recent in ["300", "18446744073709551615", "0300", ""] {
        let page = browser.authorize(&client, &[("max_age", recent)]).await;
        assert!(page.heading().contains("App"), "{recent}: {}", page.heading());
    }
    for fresh in [&[("max_age", "0")][..], &[("max_age", "299")], &[("max_age", "300"), ("prompt", "login")]] {
        assert_eq!(browser.authorize(&client, fresh).await.heading(), "Log in", "{fresh:?}");
    }
    let page = browser.authorize(&client, &[("max_age", "299")]).await;
    let refused = browser.press(&page, "approve", "").await;
    assert_eq!(refused.heading(), "Log in", "the old login does not do");
    let page = browser.log_in(&refused, &site.key).await;
    assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
    assert!(browser.authorize(&client, &[("max_age", "299")]).await.heading().contains("App"), "the new login counts");
}

#[tokio::test]
async fn oa_077_a_pushed_max_age_cannot_be_left_out_by_the_browser() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    site.clock.advance(Duration::from_secs(61));
    let form = authorize_path(&client, &[("max_age", "60")]).split_once('?').unwrap().1.to_owned();
    let pushed: serde_json::Value = serde_json::from_str(&site.send(post("/oauth/par"), form).await.body).unwrap();
    let request = [("client_id", &*client), ("request_uri", pushed["request_uri"].as_str().unwrap())];
    for more in [&[][..], &[("max_age", "3600")], &[("prompt", "consent")]] {
        let page = browser.get(&format!("/oauth/authorize?{}", encode(&[&request[..], more].concat()))).await;
        assert_eq!(page.heading(), "Log in", "{more:?}");
    }
}

#[tokio::test]
async fn oa_077_what_is_no_number_of_seconds_is_refused() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    for wrong in ["-1", "+1", "1.5", "1e3", " 1", "x", "٣", "18446744073709551616"] {
        let told = site.browser().authorize(&client, &[("max_age", wrong)]).await.told();
        assert!(told.contains(&("error".to_owned(), "invalid_request".to_owned())), "{wrong}: {told:?}");
        let form = authorize_path(&client, &[("max_age", wrong)]).split_once('?').unwrap().1.to_owned();
        let pushed = site.send(post("/oauth/par"), form).await;
        assert!(pushed.status == StatusCode::BAD_REQUEST && pushed.body.contains("invalid_request"), "{}", pushed.body);
    }
    let twice = site.browser().get(&format!("{}&max_age=1&max_age=2", authorize_path(&client, &[]))).await.told();
    assert!(twice.contains(&("error".to_owned(), "invalid_request".to_owned())), "{twice:?}");
}

#[tokio::test]
async fn oa_077_whoever_sits_at_an_old_session_gets_nothing_of_its_person() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (_, eve) = site.key_for("eve").await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    site.clock.advance(Duration::from_secs(61));
    let page = browser.authorize(&client, &[("max_age", "60")]).await;
    let page = browser.log_in(&page, &eve).await;
    assert!(page.body.contains("eve"), "{}", page.body);
    let told = browser.press(&page, "approve", "").await.told();
    let (_, code) = told.iter().find(|(name, _)| name == "code").unwrap();
    site.redeem(&client, code).await;
    let grants = async |user: &str| {
        site.web.storage.grants().list(Some(&UserId::new(user)), site.web.clock.now()).await.unwrap().len()
    };
    assert_eq!((grants("owner").await, grants("eve").await), (0, 1));
}

/// A browser that is sent to the provider, since the app wants a login of the last minute.
async fn sent_to<'a>(site: &'a Site, client: &str, more: (&str, &str)) -> (super::site::Browser<'a>, String) {
    let mut browser = site.browser();
    let page = browser.authorize(client, &[more]).await;
    let start = browser.choose_provider(&page).await.location().to_owned();
    (browser, start)
}

#[tokio::test]
async fn oa_077_a_provider_is_asked_for_a_new_login_and_its_earlier_one_is_refused() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let client = site.register("App", CALLBACK).await;
    site.clock.advance(Duration::from_hours(1));
    let now = 1_767_225_600 + 3600;
    for more in [("prompt", "login"), ("max_age", "0"), ("max_age", "60")] {
        let (mut browser, start) = sent_to(&site, &client, more).await;
        let url = Url::parse(&start).unwrap();
        let asked =
            |name: &str| url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned());
        assert_eq!((asked("prompt").as_deref(), asked("max_age").as_deref()), (Some("login"), Some("0")), "{more:?}");
        provider.script().claims = json!({ "auth_time": now - 61 });
        let seen = browser.return_with(&provider.log_in(&start)).await;
        assert_eq!((seen.status, seen.heading()), (StatusCode::FORBIDDEN, "You have to log in again"), "{more:?}");
        assert_eq!(browser.get("/account").await.location(), "/login", "nobody is logged in");
        for auth_time in [json!(now - 60), json!(now), json!(null)] {
            let (mut browser, start) = sent_to(&site, &client, more).await;
            provider.script().claims = json!({ "auth_time": auth_time });
            let seen = browser.return_with(&provider.log_in(&start)).await;
            let next = seen.location().to_owned();
            assert!(browser.get(&next).await.heading().contains("App"), "{more:?} {auth_time}");
        }
    }
    let (_, start) = sent_to(&site, &client, ("prompt", "consent")).await;
    assert!(!start.contains("max_age") && !start.contains("prompt"), "{start}");
}

#[tokio::test]
async fn oa_077_a_session_at_the_provider_is_as_old_as_the_provider_says() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let client = site.register("App", CALLBACK).await;
    let now = 1_767_225_600;
    for (auth_time, is_recent) in [(json!(now - 30), true), (json!(now - 61), false), (json!(null), false)] {
        provider.script().claims = json!({ "auth_time": auth_time });
        let mut browser = site.browser();
        assert_eq!(browser.log_in_at(&provider).await.location(), "/account");
        let page = browser.authorize(&client, &[("max_age", "60")]).await;
        assert_eq!(page.heading() != "Log in", is_recent, "{auth_time}");
        if !is_recent {
            // a new login that says no time counts from its request
            provider.script().claims = json!({});
            let start = browser.choose_provider(&page).await.location().to_owned();
            browser.return_with(&provider.log_in(&start)).await;
            assert!(browser.authorize(&client, &[("max_age", "60")]).await.heading().contains("App"), "{auth_time}");
        }
    }
}
