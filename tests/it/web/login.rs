//! Login, logout, and the lifetime of a browser session.

use std::{collections::BTreeMap, time::Duration};

use http::{StatusCode, header};

use super::site::{CALLBACK, Site};

// OA-69
#[tokio::test]
async fn oa_069_the_session_cookie_is_bound_to_this_host() {
    let site = Site::open().await;
    let page = site.browser().get("/login").await;
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    let mut attributes: Vec<&str> = attributes.split("; ").collect();
    attributes.sort_unstable();
    assert!(pair.starts_with("__Host-lockkeeper="), "{cookie}");
    assert_eq!(attributes, ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]);
}

/// Browsers send the cookies of a host to all its ports.
#[tokio::test]
async fn gateways_on_two_ports_of_a_host_keep_their_logins() {
    for hosts in ["http://127.0.0.1", "https://mcp.example.com"] {
        let sites = [Site::at(&format!("{hosts}:8080")).await, Site::at(&format!("{hosts}:9090")).await];
        let mut cookies: BTreeMap<String, String> = BTreeMap::new();
        for site in &sites {
            let mut browser = site.browser();
            let page = browser.get("/login").await;
            browser.post("/login", &[("token", &page.field("token")), ("key", &site.key)]).await;
            let (name, value) = browser.cookie.as_deref().unwrap().split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        for site in &sites {
            let mut browser = site.browser();
            browser.cookie =
                Some(cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; "));
            assert_eq!(browser.get("/account").await.heading(), "owner", "{cookies:?}");
        }
    }
}

// N-75
#[tokio::test]
async fn n_075_the_session_id_changes_at_login() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let planted = browser.cookie.clone();
    browser.log_in(&page, &site.key).await;
    assert_ne!(browser.cookie, planted);
    let mut attacker = site.browser();
    attacker.cookie = planted;
    assert_eq!(attacker.get("/account").await.location(), "/login");
    assert_eq!(browser.get("/account").await.heading(), "owner");
}

// N-68
#[tokio::test]
async fn oa_073_every_wrong_key_gets_the_same_answer_and_the_request_stays() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (revoked_id, revoked) = site.key_for("somebody").await;
    site.oauth.keys().revoke(&revoked_id).await.unwrap();
    let truncated = &site.key[..site.key.len() - 1];
    let wrong = format!("{}{}", truncated, if site.key.ends_with('0') { '1' } else { '0' });
    let mut browser = site.browser();
    let mut page = browser.authorize(&client, &[]).await;
    let mut bodies = Vec::new();
    for key in ["nonsense", truncated, &wrong, &revoked] {
        page = browser.press(&page, "log-in", key).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        assert!(!page.body.contains(key), "a key is never shown");
        bodies.push(page.without_token());
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    assert!(browser.log_in(&page, &site.key).await.heading().contains("App"));
}

// OA-127
#[tokio::test]
async fn guessing_is_slowed_down() {
    let site = Site::open().await;
    let mut browser = site.browser();
    let mut last = browser.get("/login").await;
    for _ in 0..30 {
        last = browser.post("/login", &[("token", &last.field("token")), ("key", "lkk_nonsense")]).await;
        if last.status == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(last.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(last.headers[header::RETRY_AFTER].to_str().unwrap().parse::<u64>().unwrap() > 0);
    assert!(last.body.contains("Too many wrong keys"));
    let answer = browser.post("/login", &[("token", &last.field("token")), ("key", &site.key)]).await;
    assert_eq!(answer.location(), "/account", "a right key passes at once");
}

#[tokio::test]
async fn an_idle_session_ends() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    for _ in 0..3 {
        site.clock.advance(Duration::from_mins(29));
        assert_eq!(browser.get("/account").await.status, StatusCode::OK);
    }
    site.clock.advance(Duration::from_mins(30));
    assert_eq!(browser.get("/account").await.location(), "/login");
}

#[tokio::test]
async fn a_session_ends_after_eight_hours_of_use() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    for _ in 0..23 {
        site.clock.advance(Duration::from_mins(20));
        assert_eq!(browser.get("/account").await.status, StatusCode::OK);
    }
    site.clock.advance(Duration::from_mins(20));
    assert_eq!(browser.get("/account").await.location(), "/login");
}

// OA-128
#[tokio::test]
async fn a_session_ends_with_the_key_it_came_from() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    site.oauth.keys().revoke(&site.key_id).await.unwrap();
    assert_eq!(browser.get("/account").await.location(), "/login");
}

// OA-133
#[tokio::test]
async fn oa_133_only_a_form_logs_out() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let refused = browser.get("/logout").await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers[header::ALLOW], "POST");
    assert_eq!(browser.post("/logout", &[("token", "x")]).await.status, StatusCode::FORBIDDEN);
    let account = browser.get("/account").await;
    let before = browser.cookie.clone();
    let answer = browser.post("/logout", &[("token", &account.field("token"))]).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/"));
    assert_eq!(browser.get("/account").await.location(), "/login");
    browser.cookie = before;
    assert_eq!(browser.get("/account").await.location(), "/login", "the old cookie opens nothing");
}

#[tokio::test]
async fn a_form_works_in_its_own_browser_alone() {
    let site = Site::open().await;
    let (mut browser, mut other) = (site.browser(), site.browser());
    let page = browser.get("/login").await;
    let token = page.field("token");
    let (wrong, right) = ([("token", &*token), ("key", "wrong")], [("token", &*token), ("key", &*site.key)]);
    assert_eq!(other.post("/login", &right).await.heading(), "This form cannot be used", "no cookie");
    other.get("/login").await;
    assert_eq!(other.post("/login", &right).await.heading(), "This form cannot be used", "another cookie");
    // nothing is stored for a browser that is not logged in, so a second try needs no new page
    for _ in 0..2 {
        assert_eq!(browser.post("/login", &wrong).await.heading(), "Log in");
    }
    assert_eq!(browser.post("/login", &right).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.post("/login", &right).await.location(), "/account", "pressed twice");
}

#[tokio::test]
async fn two_tabs_do_not_invalidate_each_others_forms() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let one = browser.authorize(&client, &[("state", "1")]).await;
    let two = browser.authorize(&client, &[("state", "2")]).await;
    assert!(browser.press(&two, "deny", "").await.next().contains("state=2"));
    assert!(browser.press(&one, "deny", "").await.next().contains("state=1"));
}
