//! The pages on which a person connects a device.

use http::{Request, StatusCode, header};

use super::site::{Browser, Seen, Site, encode, post};

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A device that waits: its client, device code, and code for the person.
struct Waiting {
    client: String,
    device_code: String,
    user_code: String,
}

impl Waiting {
    async fn new(site: &Site) -> Self {
        let metadata = serde_json::json!({ "client_name": "A <television>", "grant_types": [DEVICE_CODE] });
        let request = Request::post("/oauth/register").header(header::CONTENT_TYPE, "application/json");
        let registered = site.send(request, metadata.to_string()).await;
        assert_eq!(registered.status, StatusCode::CREATED, "{}", registered.body);
        let member = |body: &str, name: &str| {
            let value: serde_json::Value = serde_json::from_str(body).unwrap();
            value[name].as_str().unwrap().to_owned()
        };
        let client = member(&registered.body, "client_id");
        let codes = site.send(post("/oauth/device_authorization"), encode(&[("client_id", &client)])).await;
        assert_eq!(codes.status, StatusCode::OK, "{}", codes.body);
        let [device_code, user_code] = ["device_code", "user_code"].map(|name| member(&codes.body, name));
        Self { client, device_code, user_code }
    }

    async fn poll(&self, site: &Site) -> Seen {
        let form = [("grant_type", DEVICE_CODE), ("client_id", &self.client), ("device_code", &self.device_code)];
        site.send(post("/oauth/token"), encode(&form)).await
    }
}

/// Sends the code of the page on which it is entered; the page that this leads to.
async fn enter(browser: &mut Browser<'_>, entry: &Seen, waiting: &Waiting) -> Seen {
    let fields = [("token", &*entry.field("token")), ("user_code", &*waiting.user_code)];
    let next = browser.post("/device", &fields).await;
    browser.get(next.location()).await
}

/// Presses a button of the consent page; the page that this leads to.
async fn press(browser: &mut Browser<'_>, decision: &[(&str, &str)]) -> Seen {
    let next = browser.post("/device/decision", decision).await;
    assert_eq!(next.status, StatusCode::SEE_OTHER, "{}", next.body);
    browser.get(next.location()).await
}

#[tokio::test]
async fn oa_146_a_person_logs_in_sees_who_asks_and_approves() {
    let site = Site::open().await;
    let waiting = Waiting::new(&site).await;
    let mut browser = site.browser();
    // the whole URL from a QR code: it leads to the login and comes back
    let login = browser.get(&format!("/device?user_code={}", waiting.user_code)).await;
    assert_eq!(login.heading(), "Log in");
    let wrong = [("token", &*login.field("token")), ("device", &*login.field("device")), ("key", "lkk_wrong")];
    let login = browser.post("/login", &wrong).await;
    assert_eq!((login.status, login.field("device")), (StatusCode::FORBIDDEN, waiting.user_code.clone()));
    let fields = [("token", &*login.field("token")), ("device", &*login.field("device")), ("key", &*site.key)];
    let next = browser.post("/login", &fields).await;
    assert_eq!(next.location(), format!("/device?user_code={}", waiting.user_code));
    let next = next.location().to_owned();
    let entry = browser.get(&next).await;
    assert_eq!(entry.heading(), "Connect a device");
    // the code fills the field, and nothing is approved without the person
    assert!(entry.body.contains(&format!("value=\"{}\"", waiting.user_code)), "{}", entry.body);
    let consent = enter(&mut browser, &entry, &waiting).await;
    assert_eq!(consent.status, StatusCode::OK, "{}", consent.body);
    assert!(consent.heading().contains("A &#60;television&#62;"), "{}", consent.heading());
    for shown in [&*waiting.user_code, "not verified", "on another device", "mcp:use"] {
        assert!(consent.body.contains(shown), "{shown}: {}", consent.body);
    }
    assert!(waiting.poll(&site).await.body.contains("authorization_pending"));
    let token = consent.field("token");
    let decision = [("token", &*token), ("user_code", &*waiting.user_code), ("decision", "approve")];
    let decided = press(&mut browser, &decision).await;
    assert_eq!(
        (decided.status, decided.heading()),
        (StatusCode::OK, "<span class=\"name\">A &#60;television&#62;</span> is connected")
    );
    assert_eq!(decided.headers[header::CACHE_CONTROL], "no-store");
    let again = press(&mut browser, &decision).await;
    assert_eq!((again.status, again.heading()), (StatusCode::OK, decided.heading()), "pressed twice");
    let denied = [decision[0], decision[1], ("decision", "deny")];
    let other = press(&mut browser, &denied).await;
    assert_eq!((other.status, other.heading()), (StatusCode::OK, decided.heading()), "the first submission decides");
    site.clock.advance(std::time::Duration::from_secs(5));
    assert!(waiting.poll(&site).await.body.contains("access_token"));
    let account = browser.get("/account").await;
    assert!(account.body.contains("a program that showed a code"), "{}", account.body);
}

#[tokio::test]
async fn oa_146_a_person_denies_a_device() {
    let site = Site::open().await;
    let waiting = Waiting::new(&site).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let entry = browser.get("/device").await;
    let consent = enter(&mut browser, &entry, &waiting).await;
    let decision = [("token", &*consent.field("token")), ("user_code", &*waiting.user_code), ("decision", "deny")];
    let decided = press(&mut browser, &decision).await;
    assert_eq!(decided.heading(), "<span class=\"name\">A &#60;television&#62;</span> is not connected");
    assert!(decided.body.contains("A &#60;television&#62;</strong> received nothing."), "{}", decided.body);
    assert!(waiting.poll(&site).await.body.contains("access_denied"));
}

#[tokio::test]
async fn oa_146_the_page_of_a_decision_can_be_visited_again_and_opens_for_its_browser_alone() {
    let site = Site::open().await;
    let (waiting, other) = (Waiting::new(&site).await, Waiting::new(&site).await);
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let entry = browser.get("/device").await;
    let entered = [("token", &*entry.field("token")), ("user_code", &*waiting.user_code)];
    let address = browser.post("/device", &entered).await.location().to_owned();
    let consent = browser.get(&address).await;
    assert_eq!(browser.get(&address).await.heading(), consent.heading(), "a reload");
    // a link that another site makes up, and one with the token of another code
    let made_up = [format!("/device/decision?user_code={}&token=x", waiting.user_code), "/device/decision".to_owned()];
    for link in [made_up[0].clone(), made_up[1].clone(), address.replace(&waiting.user_code, &other.user_code)] {
        assert_eq!(browser.get(&link).await.status, StatusCode::FORBIDDEN, "{link}");
    }
    let mut stranger = site.browser();
    stranger.log_in_alone(&site.key).await;
    assert_eq!(stranger.get(&address).await.status, StatusCode::FORBIDDEN, "another browser");
    assert!(waiting.poll(&site).await.body.contains("authorization_pending"), "looking decides nothing");
    let decision = [("token", &*consent.field("token")), ("user_code", &*waiting.user_code), ("decision", "approve")];
    let decided = press(&mut browser, &decision).await;
    assert_eq!(browser.get(&address).await.heading(), decided.heading(), "back, and a reload");
    // after a logout in another tab it leads to the login
    let account = browser.get("/account").await;
    browser.post("/logout", &[("token", &account.field("token"))]).await;
    assert_eq!(browser.get(&address).await.location(), format!("/device?user_code={}", waiting.user_code));
}

#[tokio::test]
async fn oa_146_a_wrong_code_is_shown_again_and_trying_is_slowed_down() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let mut page = browser.get("/device").await;
    for code in ["BCDF-GHJK", "not a code", "", "<b>", "BCDF-GHJL"] {
        page = browser.post("/device", &[("token", &page.field("token")), ("user_code", code)]).await;
        assert_eq!((page.status, page.heading()), (StatusCode::FORBIDDEN, "Connect a device"), "{code}");
        assert!(
            page.body.contains("No device is waiting with this code") && !page.body.contains("<b>"),
            "{}",
            page.body
        );
    }
    let mut last = page;
    for _ in 0..10 {
        last = browser.post("/device", &[("token", &last.field("token")), ("user_code", "BCDF-GHJM")]).await;
    }
    assert_eq!(last.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(last.headers[header::RETRY_AFTER].to_str().unwrap().parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn oa_146_forms_of_devices_are_bound_to_session_and_code() {
    let site = Site::open().await;
    let (one, other) = (Waiting::new(&site).await, Waiting::new(&site).await);
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let entry = browser.get("/device").await;
    let consent = enter(&mut browser, &entry, &one).await;
    let token = consent.field("token");
    let forged = browser
        .post("/device/decision", &[("token", &token), ("user_code", &other.user_code), ("decision", "approve")])
        .await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN, "the token is for the other code");
    let mut stranger = site.browser();
    stranger.get("/device").await;
    let foreign = stranger
        .post("/device/decision", &[("token", &token), ("user_code", &one.user_code), ("decision", "approve")])
        .await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    let cross = post("/device").header(header::ORIGIN, "https://evil.example");
    assert_eq!(browser.send(cross, String::new()).await.status, StatusCode::FORBIDDEN);
    for waiting in [&one, &other] {
        assert!(waiting.poll(&site).await.body.contains("authorization_pending"));
    }
}
