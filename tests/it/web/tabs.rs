//! Several tabs of one browser, in which visits go on at once.

use std::time::Duration;

use http::StatusCode;

use super::site::{Browser, CALLBACK, Seen, Site};
use crate::kit::provider::OpenIdProvider;

/// Login pages of two apps in two tabs, and a login in the first. The second is as it was.
async fn two_tabs<'a>(site: &'a Site, key: &str) -> (Browser<'a>, Seen, Seen) {
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let one = browser.authorize(&client, &[("state", "1")]).await;
    let two = browser.authorize(&client, &[("state", "2")]).await;
    let consent = browser.log_in(&one, key).await;
    (browser, consent, two)
}

#[tokio::test]
async fn oa_151_both_tabs_come_to_the_consent_page() {
    let site = Site::open().await;
    let (mut browser, one, two) = two_tabs(&site, &site.key).await;
    let two = browser.log_in(&two, &site.key).await;
    assert!(two.heading().contains("App"), "{}", two.heading());
    // the login in the second tab began a new session, in which the page of the first asks again
    let again = browser.press(&one, "approve", "").await;
    assert!(again.location().starts_with("/oauth/consent/"), "{}", again.location());
    let one = browser.get(again.location()).await;
    for (page, state) in [(&one, "1"), (&two, "2")] {
        let told = browser.press(page, "approve", "").await.told();
        assert!(told.contains(&("state".to_owned(), state.to_owned())), "{told:?}");
    }
}

#[tokio::test]
async fn oa_151_a_form_from_before_the_login_cancels_and_leads_on_but_never_approves() {
    let site = Site::open().await;
    let (mut browser, _, two) = two_tabs(&site, &site.key).await;
    let leads = browser.press(&two, "approve", "").await;
    assert!(leads.heading().contains("Connect") && leads.status == StatusCode::OK, "{}", leads.heading());
    assert!(browser.press(&two, "deny", "").await.next().contains("access_denied"));
    let (mut browser, _, two) = two_tabs(&site, &site.key).await;
    let wrong = browser.press(&two, "log-in", "lkk_wrong").await;
    assert_eq!((wrong.status, wrong.heading()), (StatusCode::FORBIDDEN, "Log in"));
    assert!(browser.log_in(&wrong, &site.key).await.heading().contains("App"), "the page works on");
}

#[tokio::test]
async fn oa_151_a_form_from_before_the_login_is_known_for_ten_minutes() {
    let site = Site::open().await;
    let mut browser = site.browser();
    let page = browser.get("/login").await;
    browser.log_in_alone(&site.key).await;
    let fields = [("token", &*page.field("token")), ("key", &*site.key)];
    let mut copy = site.browser();
    (copy.cookie, copy.visits) = (browser.cookie.clone(), browser.visits.clone());
    site.clock.advance(Duration::from_secs(599));
    assert_eq!(browser.post("/login", &fields).await.location(), "/account");
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(copy.post("/login", &fields).await.heading(), "This form cannot be used");
}

#[tokio::test]
async fn oa_151_the_button_of_a_provider_works_in_the_second_tab() {
    let (site, provider) = Site::with_provider(OpenIdProvider::spec()).await;
    let (mut browser, _, two) = two_tabs(&site, &site.key).await;
    let start = browser.choose_provider(&two).await;
    assert_eq!(start.status, StatusCode::SEE_OTHER);
    let seen = browser.return_with(&provider.log_in(start.location())).await;
    assert!(seen.location().starts_with("/oauth/consent/"), "{}", seen.location());
}

#[tokio::test]
async fn oa_151_the_login_in_front_of_a_device_works_in_the_second_tab() {
    let site = Site::open().await;
    let mut browser = site.browser();
    let login = browser.get("/login").await;
    let login = [("token", &*login.field("token")), ("key", &*site.key)];
    let device = browser.get("/device?user_code=BCDF-GHJK").await;
    browser.post("/login", &login).await;
    let fields = [("token", &*device.field("token")), ("device", &*device.field("device")), ("key", &*site.key)];
    assert_eq!(browser.post("/login", &fields).await.location(), "/device?user_code=BCDF-GHJK");
    // the page on which the code is entered, too
    let entry = browser.get("/device").await;
    browser.post("/login", &login).await;
    let seen = browser.post("/device", &[("token", &entry.field("token")), ("user_code", "BCDF-GHJK")]).await;
    assert!(seen.body.contains("No device is waiting with this code"), "{}", seen.body);
}

#[tokio::test]
async fn oa_151_a_consent_page_says_that_another_person_is_logged_in_now() {
    let site = Site::open().await;
    let (_, bob) = site.key_for("bob").await;
    let (mut browser, one, two) = two_tabs(&site, &site.key).await;
    let two = browser.log_in(&two, &bob).await;
    assert!(two.body.contains("You are <strong class=\"name\">bob</strong>"), "{}", two.body);
    for decision in ["approve", "deny", "log-in"] {
        let seen = browser.press(&one, decision, "").await;
        assert_eq!((seen.status, seen.heading()), (StatusCode::FORBIDDEN, "Somebody else is logged in now"));
        assert!(seen.body.contains("Now bob is logged in"), "{}", seen.body);
    }
    // also after a logout, and much later
    let account = browser.get("/account").await;
    browser.post("/logout", &[("token", &account.field("token"))]).await;
    browser.visits.clear();
    browser.log_in_alone(&bob).await;
    let seen = browser.press(&one, "approve", "").await;
    assert_eq!(seen.heading(), "Somebody else is logged in now");
    // what the other person sees works
    let told = browser.press(&two, "approve", "").await;
    assert_eq!(told.status, StatusCode::FORBIDDEN, "another session");
}

#[tokio::test]
async fn oa_151_eight_first_pages_at_once_all_work_and_the_first_of_them_last() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    // no request has a cookie; each answer replaces the cookie of the one before
    let mut browser = site.browser();
    let mut pages = Vec::new();
    for state in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        let mut tab = site.browser();
        pages.push(tab.authorize(&client, &[("state", state)]).await);
        browser.cookie = tab.cookie.clone();
        browser.visits.append(&mut tab.visits);
    }
    for page in pages.iter().rev() {
        let consent = browser.log_in(page, &site.key).await;
        assert!(consent.heading().contains("App"), "{}", consent.heading());
    }
}

#[tokio::test]
async fn oa_151_four_tabs_that_log_in_at_the_same_time_all_come_to_their_page() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let mut pages = Vec::new();
    for state in ["1", "2", "3", "4"] {
        pages.push(browser.authorize(&client, &[("state", state)]).await);
    }
    let mut next = Vec::new();
    let (cookie, visits) = (browser.cookie.clone(), browser.visits.clone());
    for page in &pages {
        let mut tab = site.browser();
        (tab.cookie, tab.visits) = (cookie.clone(), visits.clone());
        next.push(tab.press(page, "log-in", &site.key).await.location().to_owned());
        browser.cookie = tab.cookie;
        browser.visits.append(&mut tab.visits);
    }
    for (address, state) in next.iter().zip(["1", "2", "3", "4"]) {
        let consent = browser.get(address).await;
        let told = browser.press(&consent, "approve", "").await.told();
        assert!(told.contains(&("state".to_owned(), state.to_owned())), "{told:?}");
    }
}
