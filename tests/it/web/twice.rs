//! Buttons that are pressed twice, and pages that are visited again. The browser drops the first answer when it sends the second
//! request, so each second answer has to be worth as much as the first.

use std::time::Duration;

use http::{StatusCode, header};
use lockkeeper::storage::AuditSearch;

use super::site::{Browser, CALLBACK, Seen, Site};

/// A browser at the consent page.
async fn at_consent<'a>(site: &'a Site, callback: &str) -> (Browser<'a>, Seen, String) {
    let client = site.register("App", callback).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("redirect_uri", callback), ("state", "s1")]).await;
    let page = browser.log_in(&page, &site.key).await;
    (browser, page, client)
}

async fn events(site: &Site) -> Vec<String> {
    site.oauth.sync().await.unwrap();
    let rows = site.oauth.audit().find(&AuditSearch { limit: 100, ..AuditSearch::default() }).await.unwrap();
    rows.into_iter().map(|row| row.row.event).collect()
}

fn code_of(seen: &Seen) -> String {
    seen.told().into_iter().find(|(name, _)| name == "code").unwrap().1
}

const CONNECTED: &str = "You have connected <span class=\"name\">App</span>";

#[tokio::test]
async fn oa_150_a_second_click_gets_the_code_of_the_first_until_it_is_redeemed() {
    let site = Site::open().await;
    let (mut browser, page, client) = at_consent(&site, CALLBACK).await;
    let first = browser.press(&page, "approve", "").await;
    let before = events(&site).await;
    let second = browser.press(&page, "approve", "").await;
    assert_eq!((second.status, second.location()), (StatusCode::SEE_OTHER, first.location()));
    assert_eq!(events(&site).await, before, "the second click causes nothing");
    site.redeem(&client, &code_of(&second)).await;
    // from now on nobody gets the code
    for decision in ["approve", "deny"] {
        let late = browser.press(&page, decision, "").await;
        assert_eq!((late.status, late.heading()), (StatusCode::OK, CONNECTED), "{decision}");
        assert!(late.body.contains("You approved this request just now"), "{}", late.body);
        assert!(late.body.contains("href=\"http://127.0.0.1:33418/\""), "{}", late.body);
        assert!(!late.body.contains("code=") && !late.body.contains("state="), "{}", late.body);
    }
    assert_eq!(browser.get("/account").await.body.matches("name=\"grant\"").count(), 1);
}

#[tokio::test]
async fn oa_150_the_code_is_not_repeated_after_its_minute_and_the_other_button_changes_nothing() {
    let site = Site::open().await;
    let (mut browser, page, client) = at_consent(&site, CALLBACK).await;
    let first = browser.press(&page, "approve", "").await;
    let denied = browser.press(&page, "deny", "").await;
    assert_eq!((denied.status, denied.heading()), (StatusCode::OK, CONNECTED));
    assert!(!denied.headers.contains_key(header::REFRESH), "the app is told nothing more");
    site.clock.advance(Duration::from_secs(61));
    let late = browser.press(&page, "approve", "").await;
    assert_eq!((late.status, late.heading()), (StatusCode::OK, CONNECTED));
    assert!(late.body.contains("1 minute ago"), "{}", late.body);
    let form = [("grant_type", "authorization_code"), ("client_id", &*client), ("code", &code_of(&first))];
    let form = [&form[..], &[("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")]].concat();
    let lapsed = site.send(super::site::post("/oauth/token"), super::site::encode(&form)).await;
    assert!(lapsed.body.contains("invalid_grant"), "{}", lapsed.body);
}

#[tokio::test]
async fn oa_150_a_denial_pressed_twice_is_told_twice_and_noted_once() {
    let site = Site::open().await;
    let (mut browser, page, _) = at_consent(&site, CALLBACK).await;
    let first = browser.press(&page, "deny", "").await;
    let before = events(&site).await;
    let second = browser.press(&page, "deny", "").await;
    assert_eq!(
        (second.status, second.body, second.headers.get(header::REFRESH)),
        (first.status, first.body, first.headers.get(header::REFRESH))
    );
    assert_eq!(events(&site).await, before);
    let approved = browser.press(&page, "approve", "").await;
    assert_eq!(
        (approved.status, approved.heading()),
        (StatusCode::OK, "<span class=\"name\">App</span> is not connected")
    );
    assert!(approved.body.contains("You denied this request just now"), "{}", approved.body);
}

#[tokio::test]
async fn oa_150_a_reload_of_the_page_says_what_was_decided() {
    let site = Site::open().await;
    let (mut browser, page, _) = at_consent(&site, CALLBACK).await;
    let address = format!("/oauth/consent/{}", page.field("transaction"));
    browser.press(&page, "approve", "").await;
    let seen = browser.get(&address).await;
    assert_eq!((seen.status, seen.heading()), (StatusCode::OK, CONNECTED));
    // another person learns nothing there
    let (_, eve) = site.key_for("eve").await;
    let mut other = site.browser();
    other.log_in_alone(&eve).await;
    let seen = other.get(&address).await;
    assert_eq!((seen.status, seen.heading()), (StatusCode::FORBIDDEN, "Somebody else is logged in now"));
    assert!(!seen.body.contains("owner"), "{}", seen.body);
}

#[tokio::test]
async fn oa_150_another_form_of_the_same_request_gets_no_code() {
    let site = Site::open().await;
    let (mut browser, page, _) = at_consent(&site, CALLBACK).await;
    let twin = browser.get(&format!("/oauth/consent/{}", page.field("transaction"))).await;
    assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
    let seen = browser.press(&twin, "approve", "").await;
    assert_eq!((seen.status, seen.heading()), (StatusCode::OK, CONNECTED));
}

#[tokio::test]
async fn oa_150_any_replica_gives_the_outcome() {
    let storage = crate::support::empty_storage().await;
    let site = Site::on(storage.clone()).await;
    let (mut browser, page, _) = at_consent(&site, CALLBACK).await;
    let first = browser.press(&page, "approve", "").await;
    let other = site.replica(storage).await;
    let mut there = other.browser();
    (there.cookie, there.visits) = (browser.cookie.clone(), browser.visits.clone());
    assert_eq!(there.press(&page, "approve", "").await.location(), first.location());
}

#[tokio::test]
async fn oa_150_a_login_pressed_twice_leads_to_the_same_page() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let mut early = site.browser();
    (early.cookie, early.visits) = (browser.cookie.clone(), browser.visits.clone());
    let first = browser.press(&page, "log-in", &site.key).await;
    // with the cookie of the first answer, and without it
    for browser in [&mut browser, &mut early] {
        let second = browser.press(&page, "log-in", &site.key).await;
        assert_eq!(second.location(), first.location());
        let consent = browser.get(second.location()).await;
        assert!(consent.heading().contains("App"), "{}", consent.heading());
    }
    // the answers of both reached one browser, which has the cookie of either
    let consent = browser.get(first.location()).await;
    browser.cookie.clone_from(&early.cookie);
    browser.visits.append(&mut early.visits);
    let page = browser.press(&consent, "approve", "").await;
    assert_eq!(page.location(), first.location(), "it is asked again in the session that there is");
    let consent = browser.get(page.location()).await;
    assert!(!code_of(&browser.press(&consent, "approve", "").await).is_empty());
}

#[tokio::test]
async fn oa_150_a_cancel_pressed_twice_before_a_login_is_told_twice_and_stores_nothing_for_the_browser() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("state", "s1")]).await;
    let first = browser.press(&page, "deny", "").await;
    let second = browser.press(&page, "deny", "").await;
    assert_eq!((second.status, second.heading(), second.next()), (StatusCode::OK, first.heading(), first.next()));
    assert!(second.next().contains("error=access_denied") && second.next().contains("state=s1"), "{}", second.next());
    // a person who goes back and logs in still decides
    assert!(browser.log_in(&page, &site.key).await.heading().contains("App"));
}

#[tokio::test]
async fn oa_150_what_is_pressed_twice_on_the_account_page_says_the_same_and_is_noted_once() {
    let site = Site::open().await;
    let (mut browser, page, client) = at_consent(&site, CALLBACK).await;
    let code = code_of(&browser.press(&page, "approve", "").await);
    site.redeem(&client, &code).await;
    let account = browser.get("/account").await;
    let fields = [("token", &*account.field("token")), ("grant", &*account.field("grant"))];
    let mut twin = site.browser();
    (twin.cookie, twin.visits) = (browser.cookie.clone(), browser.visits.clone());
    // at the same moment, and late
    let (one, two) = tokio::join!(browser.post("/account/revoke", &fields), twin.post("/account/revoke", &fields));
    for seen in [one, two, browser.post("/account/revoke", &fields).await] {
        assert_eq!(seen.location(), "/account?done=revoked");
    }
    let revoked = events(&site).await.into_iter().filter(|event| event == "grant_revoked").count();
    assert_eq!(revoked, 1, "{:?}", events(&site).await);
    for path in ["/account/revoke-all", "/logout"] {
        if path == "/logout" {
            browser.log_in_alone(&site.key).await;
        }
        let account = browser.get("/account").await;
        let mut early = site.browser();
        (early.cookie, early.visits) = (browser.cookie.clone(), browser.visits.clone());
        let token = account.field("token");
        assert_eq!(browser.post(path, &[("token", &token)]).await.location(), "/");
        let before = events(&site).await;
        for browser in [&mut browser, &mut early] {
            assert_eq!(browser.post(path, &[("token", &token)]).await.location(), "/", "{path}");
            assert_eq!(browser.get("/account").await.location(), "/login");
        }
        assert_eq!(events(&site).await, before, "{path}");
    }
}

#[tokio::test]
async fn oa_152_an_app_with_its_own_scheme_gets_a_page_that_opens_it() {
    let site = Site::open().await;
    for callback in ["cursor://anysphere.cursor-retrieval/oauth/callback", "vscode://x.y/cb", "claude://oauth"] {
        let (mut browser, page, _) = at_consent(&site, callback).await;
        let first = browser.press(&page, "approve", "").await;
        assert_eq!((first.status, first.heading()), (StatusCode::OK, "Back to the app"));
        assert_eq!(first.headers[header::CACHE_CONTROL], "no-store");
        let next = first.headers[header::REFRESH].to_str().unwrap().strip_prefix("0; url=").unwrap().to_owned();
        assert!(next.starts_with(callback) && next.contains("code=") && next.contains("state=s1"), "{next}");
        let link = first.body.split("href=\"").find(|part| part.starts_with(callback)).unwrap();
        assert_eq!(link.split('"').next().unwrap().replace("&#38;", "&"), next);
        let second = browser.press(&page, "approve", "").await;
        assert_eq!((second.status, second.body), (StatusCode::OK, first.body), "pressed twice");
        let home = browser.get(&format!("/oauth/consent/{}", page.field("transaction"))).await;
        assert!(!home.body.contains("code=") && !home.body.contains(&format!("{callback}?")), "{}", home.body);
    }
}
