//! The authorization of an app in the browser.

use std::time::Duration;

use http::{Request, StatusCode, header};
use lockkeeper::{
    model::{ConsentRule, IdentityAssertions, Rights},
    oauth::{NewClientKeys, OperatorClient, redirect_uri::RedirectUri},
    storage::{AuditSearch, Storage},
};
use sqlx::{Connection as _, SqliteConnection};
use url::Url;

use super::site::{CALLBACK, Site, authorize_path, encode, post};
use crate::support::data_folder::DataFolder;

#[tokio::test]
async fn oa_071_an_app_connects_after_login_and_approval() {
    let site = Site::open().await;
    let client = site.register("Claude Code", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    assert_eq!((page.status, page.heading()), (StatusCode::OK, "Log in"));
    let page = browser.log_in(&page, &site.key).await;
    assert_eq!(page.heading(), "Connect <span class=\"name\">Claude Code</span>?");
    for told in ["not verified", "127.0.0.1:33418", "an app on this computer", "mcp:use", "180 days", "owner", "/mcp"] {
        assert!(page.body.contains(told), "the page does not tell {told}: {}", page.body);
    }
    let answer = browser.press(&page, "approve", "").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    assert!(answer.location().starts_with(CALLBACK), "{}", answer.location());
}

/// A client of the operator with a web site, and a key that may administer.
async fn portal(site: &Site, consent: ConsentRule) -> (String, String) {
    let redirect_uris = vec![RedirectUri::parse(PORTAL, &[]).unwrap()];
    let new = OperatorClient {
        name: "Portal".to_owned(),
        keys: NewClientKeys::Basic,
        redirect_uris,
        consent,
        service: None,
        identity_assertions: IdentityAssertions::Refused,
    };
    let (client, ..) = site.oauth.clients().create(new).await.unwrap();
    (client.id.to_string(), site.joined_key("admin", Rights { admin: true, ..Rights::all_backends() }).await)
}

const PORTAL: &str = "https://portal.example.org/cb";

#[tokio::test]
async fn oa_071_a_client_that_the_operator_vouches_for_needs_no_consent() {
    let site = Site::open().await;
    let (client, admin) = portal(&site, ConsentRule::Skipped).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("redirect_uri", PORTAL), ("state", "s1")]).await;
    assert_eq!(page.heading(), "Log in");
    let answer = browser.log_in(&page, &admin).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert!(answer.location().starts_with(PORTAL), "{}", answer.location());
    let names: Vec<String> = answer.told().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["code", "state", "iss"]);
    assert_eq!(approvals(&site).await, ["operator"], "the audit trail tells that nobody was asked");
    // with a live session there is no page at all
    let answer = browser.authorize(&client, &[("redirect_uri", PORTAL)]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    // unless the client asks for one, or for administration
    for more in [("prompt", "consent"), ("scope", "mcp:use mcp:admin")] {
        let page = browser.authorize(&client, &[("redirect_uri", PORTAL), more]).await;
        assert_eq!(page.heading(), "Connect <span class=\"name\">Portal</span>?", "{more:?}");
        browser.press(&page, "approve", "").await;
    }
    assert_eq!(approvals(&site).await, ["operator", "operator", "person", "person"]);
}

/// Who approved, of each approval in the audit trail.
async fn approvals(site: &Site) -> Vec<String> {
    site.oauth.sync().await.unwrap();
    let search = AuditSearch { event: Some("consent".to_owned()), limit: 100, ..AuditSearch::default() };
    let rows = site.oauth.audit().find(&search).await.unwrap();
    let read = |fields: &str| serde_json::from_str::<serde_json::Value>(fields).unwrap();
    rows.iter().map(|row| read(&row.row.fields)["approved_by"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn oa_071_consent_is_asked_for_any_other_client() {
    let site = Site::open().await;
    let (client, key) = portal(&site, ConsentRule::Asked).await;
    let mut browser = site.browser();
    browser.log_in_alone(&key).await;
    let page = browser.authorize(&client, &[("redirect_uri", PORTAL)]).await;
    assert_eq!(page.heading(), "Connect <span class=\"name\">Portal</span>?");
}

// N-74
#[tokio::test]
async fn the_state_is_returned_unchanged_and_every_parameter_once() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let state = "a+b%2Fc=&é";
    let page = browser.authorize(&client, &[("state", state)]).await;
    let page = browser.log_in(&page, &site.key).await;
    let told = browser.press(&page, "approve", "").await.told();
    let mut names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "iss", "state"]);
    assert!(told.contains(&("state".to_owned(), state.to_owned())), "{told:?}");
}

#[tokio::test]
async fn n_071_a_denial_is_told_to_the_person_and_to_the_app() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("state", "s1")]).await;
    // a denial needs no login
    let answer = browser.press(&page, "deny", "").await;
    assert_eq!((answer.status, answer.heading()), (StatusCode::OK, "<span class=\"name\">App</span> is not connected"));
    let text = answer.body.replace("<strong class=\"name\">", "").replace("</strong>", "");
    assert!(text.contains("You denied access. App received nothing."), "{text}");
    let told: Vec<(String, String)> = Url::parse(answer.next()).unwrap().query_pairs().into_owned().collect();
    for (name, value) in [("error", "access_denied"), ("state", "s1"), ("iss", super::site::ROOT)] {
        assert!(told.contains(&(name.to_owned(), value.to_owned())), "{told:?}");
    }
}

// N-72
#[tokio::test]
async fn n_072_every_new_app_needs_a_decision_despite_a_live_session() {
    let site = Site::open().await;
    let mut browser = site.browser();
    for name in ["First", "Second"] {
        let client = site.register(name, CALLBACK).await;
        let mut page = browser.authorize(&client, &[]).await;
        if name == "First" {
            page = browser.log_in(&page, &site.key).await;
        }
        assert_eq!(page.heading(), format!("Connect <span class=\"name\">{name}</span>?"));
        assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
        // also for the same app again
        assert!(browser.authorize(&client, &[]).await.heading().contains(name));
    }
}

// OA-77
#[tokio::test]
async fn oa_077_an_app_may_ask_for_a_fresh_login() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let page = browser.authorize(&client, &[("prompt", "login")]).await;
    assert_eq!(page.heading(), "Log in");
    let refused = browser.press(&page, "approve", "").await;
    assert_eq!(refused.heading(), "Log in", "the old login does not do");
    let page = browser.log_in(&refused, &site.key).await;
    assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn oa_079_a_pushed_request_leads_through_login_and_consent() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let form = authorize_path(&client, &[("state", "s1")]).split_once('?').unwrap().1.to_owned();
    let pushed: serde_json::Value = serde_json::from_str(&site.send(post("/oauth/par"), form).await.body).unwrap();
    let query = encode(&[("client_id", &client), ("request_uri", pushed["request_uri"].as_str().unwrap())]);
    let path = format!("/oauth/authorize?{query}");
    let page = browser.get(&path).await;
    assert_eq!((page.status, page.heading()), (StatusCode::OK, "Log in"));
    let page = browser.log_in(&page, &site.key).await;
    let told = browser.press(&page, "approve", "").await.told();
    assert!(told.contains(&("state".to_owned(), "s1".to_owned())), "{told:?}");
    let again = browser.get(&path).await;
    assert_eq!((again.status, again.heading()), (StatusCode::BAD_REQUEST, "This login request has expired"));
    assert!(again.headers.get(header::LOCATION).is_none());
    let told = browser.send(Request::get(&path).header(header::ACCEPT, "application/json"), String::new()).await;
    let told: serde_json::Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told["error"], "invalid_request_uri");
}

// N-65
#[tokio::test]
async fn oa_072_a_forged_form_changes_nothing() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (mut browser, mut other) = (site.browser(), site.browser());
    let page = browser.authorize(&client, &[]).await;
    let page = browser.log_in(&page, &site.key).await;
    let elsewhere = other.authorize(&client, &[]).await;
    let elsewhere = other.log_in(&elsewhere, &site.key).await;
    let (token, transaction) = (page.field("token"), page.field("transaction"));
    let (foreign, theirs) = (elsewhere.field("token"), elsewhere.field("transaction"));
    for (token, transaction) in
        [("", &transaction), (&*foreign, &transaction), (&*token, &theirs), (&*foreign, &theirs)]
    {
        let fields = [("token", token), ("transaction", transaction), ("decision", "approve")];
        let answer = browser.post("/oauth/authorize", &fields).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(answer.heading(), "This form cannot be used");
        assert!(!answer.headers.contains_key(header::LOCATION));
    }
    let without = browser.post("/oauth/authorize", &[("transaction", &transaction), ("decision", "approve")]).await;
    assert!(without.status.is_client_error() && !without.headers.contains_key(header::LOCATION));
    // the request still waits
    assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
}

// N-8
#[tokio::test]
async fn n_008_another_site_cannot_send_the_form() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let page = browser.log_in(&page, &site.key).await;
    let form = encode(&[
        ("token", &page.field("token")),
        ("transaction", &page.field("transaction")),
        ("decision", "approve"),
    ]);
    for (name, value) in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        let answer = browser.send(post("/oauth/authorize").header(name, value), form.clone()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let own = post("/oauth/authorize").header("origin", "null").header("sec-fetch-site", "same-origin");
    assert_eq!(browser.send(own, form).await.status, StatusCode::SEE_OTHER, "what Chromium sends from such a page");
}

// N-65: of two simultaneous clicks one decides
#[tokio::test]
async fn two_approvals_at_the_same_time_give_one_code() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let page = browser.log_in(&page, &site.key).await;
    let mut twin = site.browser();
    twin.cookie.clone_from(&browser.cookie);
    let (one, other) = tokio::join!(browser.press(&page, "approve", ""), twin.press(&page, "approve", ""));
    assert!(one.told().iter().any(|(name, _)| name == "code"));
    assert_eq!(one.told(), other.told());
    assert_eq!(approvals(&site).await, ["person"]);
}

// OA-68
#[tokio::test]
async fn a_replayed_login_form_gives_no_second_consent() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let form = browser.authorize(&client, &[]).await;
    let before = browser.cookie.clone();
    assert_eq!(browser.press(&form, "log-in", &site.key).await.status, StatusCode::SEE_OTHER);
    // the response was lost, and with it the new cookie: the browser sends the form again
    browser.cookie.clone_from(&before);
    let page = browser.log_in(&form, &site.key).await;
    assert!(browser.press(&page, "approve", "").await.told().iter().any(|(name, _)| name == "code"));
    // now it is decided
    browser.cookie = before;
    let answer = browser.press(&form, "log-in", &site.key).await;
    let decided = browser.get(answer.location()).await;
    assert_eq!(decided.heading(), "You have connected <span class=\"name\">App</span>");
    assert!(!decided.body.contains("code="), "{}", decided.body);
}

// OA-68
#[tokio::test]
async fn a_sealed_form_is_of_no_use_in_another_browser() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (mut browser, mut thief) = (site.browser(), site.browser());
    let form = browser.authorize(&client, &[]).await;
    let own = thief.authorize(&client, &[]).await;
    let stolen = form.field("transaction");
    for token in [form.field("token"), own.field("token")] {
        for decision in ["log-in", "deny", "approve"] {
            let fields = [("token", &*token), ("transaction", &*stolen), ("decision", decision), ("key", &*site.key)];
            let answer = thief.post("/oauth/authorize", &fields).await;
            assert_eq!((answer.status, answer.heading()), (StatusCode::FORBIDDEN, "This form cannot be used"));
            assert!(!answer.headers.contains_key(header::LOCATION));
        }
    }
    assert_eq!(browser.log_in(&form, &site.key).await.status, StatusCode::OK, "and it still works where it belongs");
}

// OA-68
#[tokio::test]
async fn nothing_is_stored_before_a_login() {
    let folder = DataFolder::new();
    let path = folder.path().join("lockkeeper.sqlite3");
    let site = Site::on(Storage::open(&path).await.unwrap()).await;
    let client = site.register("App", CALLBACK).await;
    let rows = async || {
        let mut database = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
        let count = "SELECT (SELECT COUNT(*) FROM browser_sessions) + (SELECT COUNT(*) FROM transactions)";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&mut database).await.unwrap()
    };
    let mut browser = site.browser();
    let mut page = browser.authorize(&client, &[]).await;
    for _ in 0..3 {
        site.browser().authorize(&client, &[("prompt", "login")]).await;
        for path in ["/", "/login", "/account", "/nowhere"] {
            browser.get(path).await;
        }
        page = browser.press(&page, "log-in", "lkk_nonsense").await;
        assert_eq!(page.heading(), "Log in");
    }
    site.browser().get("/login").await;
    let another = browser.authorize(&client, &[]).await;
    assert!(browser.press(&another, "deny", "").await.next().contains("access_denied"));
    assert_eq!(rows().await, 0);
    browser.log_in(&page, &site.key).await;
    assert_eq!(rows().await, 2, "one browser session and one request that waits in it");
}

// OA-6, OA-65
#[tokio::test]
async fn oa_065_an_unknown_backend_looks_like_any_other_until_the_login() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let unknown = [("resource", "https://mcp.example.com/mcp/nope"), ("state", "s1")];
    let page = browser.authorize(&client, &unknown).await;
    assert_eq!((page.status, page.heading()), (StatusCode::OK, "Log in"));
    let told = browser.press(&page, "log-in", &site.key).await.told();
    for (name, value) in [("error", "invalid_target"), ("state", "s1"), ("iss", super::site::ROOT)] {
        assert!(told.contains(&(name.to_owned(), value.to_owned())), "{told:?}");
    }
    assert_eq!(browser.get("/account").await.heading(), "owner", "the login itself holds");
    let told = browser.authorize(&client, &unknown).await.told();
    assert!(told.contains(&("error".to_owned(), "invalid_target".to_owned())), "{told:?}");
}

// N-67
#[tokio::test]
async fn a_login_form_expires_after_ten_minutes() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    site.clock.advance(Duration::from_secs(601));
    let answer = browser.press(&page, "log-in", &site.key).await;
    assert_eq!((answer.status, answer.heading()), (StatusCode::BAD_REQUEST, "This login request has expired"));
}

// N-67
#[tokio::test]
async fn a_request_expires_after_ten_minutes() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    let page = browser.log_in(&page, &site.key).await;
    site.clock.advance(Duration::from_secs(601));
    let answer = browser.press(&page, "approve", "").await;
    assert_eq!((answer.status, answer.heading()), (StatusCode::BAD_REQUEST, "This login request has expired"));
    assert!(!answer.headers.contains_key(header::LOCATION));
}

#[tokio::test]
async fn a_request_belongs_to_the_browser_that_started_it() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let (mut browser, mut other) = (site.browser(), site.browser());
    let page = browser.authorize(&client, &[]).await;
    other.log_in_alone(&site.key).await;
    let stolen = other.get(&format!("/oauth/consent/{}", page.field("transaction"))).await;
    assert_eq!((stolen.status, stolen.heading()), (StatusCode::BAD_REQUEST, "This login request has expired"));
}

// N-70
#[tokio::test]
async fn n_070_a_key_in_the_url_is_ignored() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let page = site.browser().authorize(&client, &[("key", &site.key), ("api_key", &site.key)]).await;
    assert_eq!(page.heading(), "Log in");
    assert!(!page.body.contains(&site.key));
}

#[tokio::test]
async fn a_client_name_is_escaped_text() {
    let site = Site::open().await;
    let client = site.register("<img src=x onerror=alert(1)>", CALLBACK).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[]).await;
    assert!(!page.body.contains("<img src=x"), "{}", page.body);
    let page = browser.log_in(&page, &site.key).await;
    assert!(!page.body.contains("<img src=x"), "{}", page.body);
}

#[tokio::test]
async fn oa_075_an_error_goes_by_itself_to_an_app_that_the_person_approved() {
    let site = Site::open().await;
    let far = "https://app.example.org/cb";
    let client = site.register("App", far).await;
    let mut browser = site.browser();
    let page = browser.authorize(&client, &[("redirect_uri", far)]).await;
    let page = browser.log_in(&page, &site.key).await;
    assert_eq!(browser.press(&page, "approve", "").await.status, StatusCode::SEE_OTHER);
    let wrong = [("redirect_uri", far), ("response_type", "token"), ("state", "s1")];
    let answer = browser.authorize(&client, &wrong).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert!(answer.told().contains(&("error".to_owned(), "unsupported_response_type".to_owned())));
    assert_eq!(site.browser().authorize(&client, &wrong).await.status, StatusCode::BAD_REQUEST, "without the login");
}

// N-62
#[tokio::test]
async fn oa_075_an_error_leads_to_an_untrusted_site_only_by_a_link() {
    let site = Site::open().await;
    let far = "https://app.example.org/cb";
    let client = site.register("App", far).await;
    let wrong = [("redirect_uri", far), ("response_type", "token"), ("state", "s1")];
    let answer = site.browser().authorize(&client, &wrong).await;
    assert!(!answer.headers.contains_key(header::LOCATION));
    assert!(answer.status.is_client_error());
    assert!(answer.body.contains("Return to app.example.org"), "{}", answer.body);
    assert!(answer.body.contains("error=unsupported_response_type"), "{}", answer.body);
    let near = site.register("Local", CALLBACK).await;
    let answer = site.browser().authorize(&near, &[("response_type", "token"), ("state", "s1")]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert!(answer.told().contains(&("error".to_owned(), "unsupported_response_type".to_owned())));
}

// OA-19, OA-22, OA-28
#[tokio::test]
async fn oa_022_the_pages_are_not_for_other_sites() {
    let site = Site::open().await;
    let client = site.register("App", CALLBACK).await;
    let path = authorize_path(&client, &[]);
    let alias = path.replace("/oauth/authorize", "/authorize");
    for path in [path, alias] {
        let request = Request::get(&path).header("origin", "https://evil.example");
        let page = site.browser().send(request, String::new()).await;
        assert_eq!(page.heading(), "Log in");
        let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("form-action"), "{policy}");
        assert!(!page.headers.keys().any(|name| name.as_str().starts_with("access-control")));
        assert!(!page.headers.contains_key("cross-origin-opener-policy"), "it would cut the opener of popups (OA-29)");
    }
}
