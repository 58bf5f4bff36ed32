//! Apps that a metadata document describes, in the browser.

use http::{StatusCode, header};
use lockkeeper::oauth::OAuthSettings;
use serde_json::json;

use super::site::{CALLBACK, ROOT, Site};
use crate::support::internet::{Internet, json_response};

const APP: &str = "https://app.example/client.json";

/// A site in an internet where <https://app.example> describes one client.
async fn open() -> Site {
    let internet = Internet::new();
    internet.name("app.example", &[&["1.1.1.1"]]);
    let document = json!({ "client_id": APP, "client_name": "The <app>", "redirect_uris": [CALLBACK] });
    internet.host("1.1.1.1", move |_| json_response("", &document));
    let settings = OAuthSettings { fetcher: Some(internet.fetcher()), ..OAuthSettings::new(ROOT) };
    Site::with(crate::support::empty_storage().await, settings).await
}

#[tokio::test]
async fn oa_070_the_consent_page_names_the_host_that_describes_the_app() {
    let site = open().await;
    let mut browser = site.browser();
    let page = browser.authorize(APP, &[]).await;
    let page = browser.log_in(&page, &site.key).await;
    assert_eq!(page.heading(), "Connect <span class=\"name\">The &#60;app&#62;</span>?");
    assert!(
        page.body
            .contains("The web site <span class=\"host-name\"><strong>app.example</strong></span> describes the app"),
        "{}",
        page.body
    );
    let answer = browser.press(&page, "approve", "").await;
    assert!(answer.location().starts_with(CALLBACK), "{}", answer.location());
    let told = answer.told();
    let code = &told.iter().find(|(name, _)| name == "code").unwrap().1;
    site.redeem(APP, code).await;
    let account = browser.get("/account").await;
    assert!(account.body.contains("The &#60;app&#62;"), "{}", account.body);
}

#[tokio::test]
async fn oa_053_a_document_that_cannot_be_read_is_a_page_that_names_its_host() {
    let site = open().await;
    let page = site.browser().authorize("https://app.example/other.json", &[]).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
    assert!(!page.headers.contains_key(header::LOCATION));
    assert!(page.body.contains("a document at app.example, which could not be read"), "{}", page.body);
}

#[tokio::test]
async fn n_044_many_urls_from_one_address_are_answered_with_when_to_come_back() {
    let site = open().await;
    let mut browser = site.browser();
    let mut last = None;
    for number in 0..31 {
        last = Some(browser.authorize(&format!("https://app.example/{number}"), &[]).await);
    }
    let page = last.unwrap();
    assert_eq!((page.status, page.heading()), (StatusCode::TOO_MANY_REQUESTS, "Too many requests"));
    assert_eq!(page.headers[header::RETRY_AFTER], "10");
}
