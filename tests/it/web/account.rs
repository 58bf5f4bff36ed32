//! The account page and the start page.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::StatusCode;
use lockkeeper::model::{Access, BackendId, Rights};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::site::{Browser, CALLBACK, ROOT, Site};

async fn connect(site: &Site, browser: &mut Browser<'_>, name: &str) {
    let client = site.register(name, CALLBACK).await;
    connect_client(site, browser, (&client, &[])).await;
}

/// Connects a registered client, with these parameters of the request.
async fn connect_client(site: &Site, browser: &mut Browser<'_>, (client, more): (&str, &[(&str, &str)])) {
    let page = browser.authorize(client, more).await;
    let told = browser.press(&page, "approve", "").await.told();
    let code = told.into_iter().find(|(name, _)| name == "code").unwrap().1;
    // a grant counts once its code is redeemed
    site.redeem(client, &code).await;
}

/// The list of connected apps, with the ids of each row's grants.
fn rows(account: &str) -> (&str, Vec<Vec<&str>>) {
    let section = account.split_once(">Connected apps</h2>").unwrap().1.split_once("</section>").unwrap().0;
    let rows = section.split("name=\"grant\" value=\"").skip(1);
    (section, rows.map(|row| row.split('"').next().unwrap().split(' ').collect()).collect())
}

#[tokio::test]
async fn the_start_page_shows_the_url_to_everybody_and_the_state_after_a_login() {
    let site = Site::open().await;
    let mut browser = site.browser();
    let page = browser.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.body.contains(&format!("{ROOT}/mcp")) && page.body.contains("claude mcp add"));
    assert!(!page.body.contains("11 tools"));
    let version = concat!("Lockkeeper ", env!("CARGO_PKG_VERSION"));
    assert!(!page.body.contains(version), "strangers do not learn the version");
    browser.log_in_alone(&site.key).await;
    let page = browser.get("/").await;
    assert!(page.body.contains("11 tools, 1 resource") && page.body.contains(version), "{}", page.body);
    assert!(!page.body.contains("/etc/secret"), "the reason is for administrators");
}

#[tokio::test]
async fn the_start_page_counts_the_tools_that_this_person_may_call() {
    let site = Site::with_group().await;
    let keys = [
        (&[("files", Access::Full)][..], "11 tools, 1 resource"),
        (&[("files", Access::ReadOnly)], "7 tools, 1 resource"),
        (&[("work", Access::ReadOnly)], "7 tools, 1 resource"),
        (&[("files", Access::ReadOnly), ("work", Access::Full)], "11 tools, 1 resource"),
    ];
    for (number, (rights, counted)) in keys.into_iter().enumerate() {
        let mut held = Rights::none();
        for (name, access) in rights {
            held.backends.allow(&BackendId::parse(name).unwrap(), *access);
        }
        let key = site.joined_key(&format!("key {number}"), held).await;
        let mut browser = site.browser();
        browser.log_in_alone(&key).await;
        for path in ["/", "/account"] {
            let page = browser.get(path).await.body;
            assert!(page.contains(counted), "{rights:?} {path}: {page}");
        }
    }
}

#[tokio::test]
async fn the_start_page_has_links_that_add_the_endpoint_to_editors() {
    let site = Site::open().await;
    let page = site.browser().get("/").await.body;
    let after = |begin: &str| {
        let link =
            page.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {page}")).1.split_once('"').unwrap().0;
        percent_decode_str(link).decode_utf8().unwrap().into_owned()
    };
    let cursor =
        BASE64_STANDARD.decode(after("cursor://anysphere.cursor-deeplink/mcp/install?name=lockkeeper&#38;config="));
    let cursor: Value = serde_json::from_slice(&cursor.unwrap()).unwrap();
    assert_eq!(cursor, json!({ "url": format!("{ROOT}/mcp") }));
    let code: Value = serde_json::from_str(&after("vscode:mcp/install?")).unwrap();
    assert_eq!(code, json!({ "name": "lockkeeper", "type": "http", "url": format!("{ROOT}/mcp") }));
}

// OA-132
#[tokio::test]
async fn oa_132_people_see_and_revoke_their_grants() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    connect(&site, &mut browser, "Cursor").await;
    connect(&site, &mut browser, "Zed").await;
    let page = browser.get("/account").await;
    for told in ["Cursor", "Zed", "127.0.0.1:33418", "no servers", "just now", "claude-code 2.1", "1 minute ago"] {
        assert!(page.body.contains(told), "the page does not tell {told}: {}", page.body);
    }
    // a client without a session is no open session
    let clients = page.body.split_once(">Connected apps</h2>").map(|(_, rest)| rest).unwrap_or_default();
    let clients = clients.split_once("</section>").map(|(clients, _)| clients).unwrap_or_default();
    assert!(clients.contains("claude-code 2.1") && clients.contains("rover 3"), "{clients}");
    assert!(!page.body.contains("cursor 1.0"), "the clients of others are not shown");

    // the newest grant comes first
    let fields = [("token", &*page.field("token")), ("grant", &*page.field("grant"))];
    let answer = browser.post("/account/revoke", &fields).await;
    assert_eq!(answer.location(), "/account?done=revoked");
    let next = answer.location().to_owned();
    let page = browser.get(&next).await;
    assert!(page.body.contains("The app is disconnected") && page.body.contains("Cursor"), "{}", page.body);
    assert!(!page.body.contains("Zed<"), "{}", page.body);
}

#[tokio::test]
async fn oa_132_an_app_that_was_connected_twice_is_one_row_and_ends_as_one() {
    let site = Site::with_group().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let client = site.register("Cursor", CALLBACK).await;
    for _ in 0..2 {
        connect_client(&site, &mut browser, (&client, &[])).await;
    }
    connect(&site, &mut browser, "Zed").await;
    let page = browser.get("/account").await;
    let (section, grants) = rows(&page.body);
    assert_eq!(grants.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2], "{section}");
    assert!(section.contains("2 times, last just now"), "{section}");
    assert!(!section.contains(": files, search"), "one row of an app needs no distinction: {section}");

    let cursor = grants[1].join(" ");
    let answer = browser.post("/account/revoke", &[("token", &page.field("token")), ("grant", &cursor)]).await;
    assert_eq!(answer.location(), "/account?done=revoked");
    let page = browser.get("/account").await;
    let (section, grants) = rows(&page.body);
    assert!(grants.len() == 1 && !section.contains("Cursor"), "{section}");
}

#[tokio::test]
async fn oa_132_rows_of_one_app_say_how_they_differ() {
    let site = Site::with_group().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let client = site.register("Cursor", CALLBACK).await;
    let work = format!("{ROOT}/mcp/work");
    for more in [&[][..], &[("scope", "mcp:files mcp:search")], &[("resource", &work)]] {
        connect_client(&site, &mut browser, (&client, more)).await;
    }
    // the same user with another key
    let other = site.joined_key("laptop", Rights::all_backends()).await;
    let mut laptop = site.browser();
    laptop.log_in_alone(&other).await;
    connect_client(&site, &mut laptop, (&client, &[])).await;
    let page = browser.get("/account").await;
    let (section, grants) = rows(&page.body);
    assert_eq!(grants.len(), 4, "{section}");
    for told in ["through /mcp/work", "with the key laptop", "servers that come later too: files, search"] {
        assert!(section.contains(told), "the page does not tell {told}: {section}");
    }
}

#[tokio::test]
async fn nobody_revokes_the_grants_of_another_user() {
    let site = Site::open().await;
    let (_, key) = site.key_for("somebody").await;
    let (mut owner, mut other) = (site.browser(), site.browser());
    owner.log_in_alone(&site.key).await;
    other.log_in_alone(&key).await;
    connect(&site, &mut owner, "Cursor").await;
    let grant = owner.get("/account").await.field("grant");
    let token = other.get("/account").await.field("token");
    let answer = other.post("/account/revoke", &[("token", &token), ("grant", &grant)]).await;
    assert_eq!(answer.location(), "/account?done=nothing-to-revoke");
    assert!(owner.get("/account").await.body.contains("Cursor"));
}

#[tokio::test]
async fn every_grant_can_be_revoked_at_once() {
    let site = Site::open().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    connect(&site, &mut browser, "Cursor").await;
    let token = browser.get("/account").await.field("token");
    assert_eq!(browser.post("/account/revoke-all", &[("token", &token)]).await.location(), "/");
    assert_eq!(browser.get("/account").await.location(), "/login");
    browser.log_in_alone(&site.key).await;
    let page = browser.get("/account").await.body;
    assert!(!page.contains("Cursor") && !page.contains(">Disconnect"), "{page}");
}

#[tokio::test]
async fn a_key_that_is_its_own_user_is_shown_by_its_name() {
    let site = Site::open().await;
    let key = site.own_key("Ann's laptop", Rights::all_backends()).await;
    let mut browser = site.browser();
    browser.log_in_alone(&key).await;
    let page = browser.get("/account").await;
    assert_eq!(page.heading(), "Ann&#39;s laptop");
    assert!(!page.body.contains("logged in with the API key") && !page.body.contains("key:"), "{}", page.body);
    let client = site.register("Zed", CALLBACK).await;
    assert!(
        browser.authorize(&client, &[]).await.body.contains("You are <strong class=\"name\">Ann&#39;s laptop</strong>")
    );
    // another user sees nothing of the owner's
    let mut owner = site.browser();
    owner.log_in_alone(&site.key).await;
    connect(&site, &mut owner, "Cursor").await;
    let page = browser.get("/account").await;
    assert!(!page.body.contains("Cursor") && !page.body.contains("claude-code"), "{}", page.body);
}

#[tokio::test]
async fn a_narrow_key_neither_sees_nor_ends_grants_with_more_rights() {
    let site = Site::open().await;
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("files").unwrap(), Access::ReadOnly);
    let narrow = site.joined_key("guest's key", rights).await;
    let (mut wide, mut guest) = (site.browser(), site.browser());
    wide.log_in_alone(&site.key).await;
    guest.log_in_alone(&narrow).await;
    connect(&site, &mut wide, "Cursor").await;
    connect(&site, &mut guest, "Zed").await;
    let page = guest.get("/account").await;
    assert!(page.body.contains("Zed") && !page.body.contains("Cursor"), "{}", page.body);
    // nor clients that run with more rights
    assert!(!page.body.contains("claude-code") && !page.body.contains("rover"), "{}", page.body);
    assert!(page.body.contains("logged in with the API key"), "{}", page.body);

    // the newest grant comes first
    let all = wide.get("/account").await.body;
    let cursor = all.rsplit_once("name=\"grant\" value=\"").unwrap().1.split('"').next().unwrap();
    let fields = [("token", &*page.field("token")), ("grant", cursor)];
    assert_eq!(guest.post("/account/revoke", &fields).await.location(), "/account?done=nothing-to-revoke");
    let token = guest.get("/account").await.field("token");
    guest.post("/account/revoke-all", &[("token", &token)]).await;
    assert!(all.contains("Zed") && all.contains("guest&#39;s key"), "it says by which key: {all}");
    let page = wide.get("/account").await;
    assert!(page.body.contains("Cursor") && !page.body.contains("Zed"), "{}", page.body);
}

#[tokio::test]
async fn a_key_for_a_group_sees_the_group_and_its_servers() {
    let site = Site::with_group().await;
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("work").unwrap(), Access::Full);
    let key = site.own_key("team", rights).await;
    let mut browser = site.browser();
    browser.log_in_alone(&key).await;
    for path in ["/", "/account"] {
        let page = browser.get(path).await;
        for told in [">work<", "https://mcp.example.com/mcp/work", "files, search", ">files<", ">search<"] {
            assert!(page.body.contains(told), "{path} does not tell {told}: {}", page.body);
        }
    }
    let start = browser.get("/").await.body;
    assert!(
        !start.contains(&format!("{ROOT}/mcp<")) && start.contains("Your key opens these addresses alone"),
        "{start}"
    );
    let client = site.register("Cursor", CALLBACK).await;
    let page = browser.authorize(&client, &[("resource", "https://mcp.example.com/mcp/work")]).await;
    for told in [">files</strong>", ">search</strong>", "come to this group later", "https://mcp.example.com/mcp/work"]
    {
        assert!(page.body.contains(told), "{}", page.body);
    }

    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("files").unwrap(), Access::Full);
    let mut other = site.browser();
    other.log_in_alone(&site.own_key("files alone", rights).await).await;
    let page = other.get("/account").await;
    assert!(page.body.contains("/mcp/work") && !page.body.contains("search"), "{}", page.body);
    assert!(other.get("/").await.body.contains(&format!("{ROOT}/mcp<")), "the address of all its servers");
}
