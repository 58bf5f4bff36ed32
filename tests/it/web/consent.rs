//! The choice of servers on the consent page.

use http::StatusCode;
use lockkeeper::model::{Access, BackendId, Groups, Rights};

use super::site::{Browser, CALLBACK, Seen, Site};

fn id(name: &str) -> BackendId {
    BackendId::parse(name).unwrap()
}

/// A site with the servers `files`, `git` and `search`.
async fn site() -> Site {
    let site = Site::open().await;
    site.oauth.replace_backends(["files", "git", "search"].map(id).to_vec(), Groups::default());
    site
}

/// Approves with these fields about servers.
async fn approve(browser: &mut Browser<'_>, page: &Seen, servers: &[(&str, &str)]) -> Seen {
    let (token, transaction) = (page.field("token"), page.field("transaction"));
    let fields = [("token", &*token), ("transaction", &*transaction), ("decision", "approve")];
    browser.post("/oauth/authorize", &[&fields, servers].concat()).await
}

/// The scope that the app gets for the code of this answer.
async fn scope(site: &Site, client: &str, answer: &Seen) -> String {
    let code = answer.told().into_iter().find(|(name, _)| name == "code").unwrap().1;
    site.redeem(client, &code).await["scope"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn oa_158_a_person_sees_what_servers_can_do_and_chooses_some() {
    let site = site().await;
    let client = site.register("Claude", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let page = browser.authorize(&client, &[]).await;
    for told in [
        "You are <strong class=\"name\">owner</strong>",
        "11 tools, 4 may change data",
        "Read-only (7 tools)",
        "tools not known yet",
        "servers that are added later",
        "value=\"git\" selected",
    ] {
        assert!(page.body.contains(told), "the page does not tell {told}: {}", page.body);
    }
    let who = page.body.find("You are").unwrap();
    assert!(who < page.body.find("<h1>").unwrap(), "it begins with who they are");
    let chosen = [("use", "files"), ("use", "git:read"), ("use", "search:none")];
    let answer = approve(&mut browser, &page, &chosen).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    // the same form again has the same outcome, whatever is chosen now
    let again = approve(&mut browser, &page, &[("use", "files:none"), ("use", "git:none"), ("use", "search")]).await;
    assert_eq!(again.location(), answer.location());
    assert_eq!(scope(&site, &client, &answer).await, "mcp:files mcp:git:read");
    let account = browser.get("/account").await.body;
    for told in ["files, git (read-only)", "until 30 June 2026"] {
        assert!(account.contains(told), "the page does not tell {told}: {account}");
    }
    // the next request may be answered otherwise
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.press(&page, "approve", "").await;
    assert_eq!(scope(&site, &client, &answer).await, "mcp:use");
}

#[tokio::test]
async fn oa_158_a_choice_of_nothing_is_asked_again_and_keeps_what_was_chosen() {
    let site = site().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let page = browser.authorize(&client, &[("scope", "mcp:files mcp:git")]).await;
    assert!(!page.body.contains("search") && !page.body.contains("added later"), "{}", page.body);
    let nothing = approve(&mut browser, &page, &[("use", "files:none"), ("use", "git:none")]).await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST);
    assert!(
        nothing.body.contains("No server is chosen") && !nothing.body.contains("value=\"git\" selected"),
        "{}",
        nothing.body
    );
    // another tab still has the page as it was; a server that nobody asked for is not granted
    let foreign = approve(&mut browser, &page, &[("use", "search"), ("use", "git")]).await;
    assert_eq!(foreign.status, StatusCode::BAD_REQUEST);
    assert!(
        foreign.body.contains("has changed") && foreign.body.contains("value=\"git\" selected"),
        "{}",
        foreign.body
    );
    let answer = approve(&mut browser, &nothing, &[("use", "files:none"), ("use", "git:read")]).await;
    assert_eq!(scope(&site, &client, &answer).await, "mcp:git:read");
}

#[tokio::test]
async fn oa_158_a_form_from_before_rights_changed_gives_no_more_than_there_is() {
    let site = site().await;
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let page = browser.authorize(&client, &[]).await;
    site.oauth.replace_backends(["files", "git"].map(id).to_vec(), Groups::default());
    let gone = browser.press(&page, "approve", "").await;
    assert_eq!(gone.status, StatusCode::BAD_REQUEST, "it names a server that is gone");
    // what was left out and is gone does not make the rest everything
    let answer = approve(&mut browser, &page, &[("use", "files"), ("use", "git"), ("use", "search:none")]).await;
    assert_eq!(scope(&site, &client, &answer).await, "mcp:files mcp:git");

    // a person with less sees and gives less, and administration stays beside it
    let mut rights = Rights { admin: true, ..Rights::none() };
    rights.backends.allow(&id("git"), Access::ReadOnly);
    rights.backends.allow(&id("files"), Access::Full);
    let mut narrow = site.browser();
    narrow.log_in_alone(&site.joined_key("narrow", rights).await).await;
    let page = narrow.authorize(&client, &[("scope", "mcp:use mcp:admin")]).await;
    assert!(page.body.contains("administer it") && !page.body.contains("value=\"git\""));
    let more = approve(&mut narrow, &page, &[("use", "files:none"), ("use", "git")]).await;
    assert_eq!(more.status, StatusCode::BAD_REQUEST, "{}", more.body);
    let answer = approve(&mut narrow, &page, &[("use", "files:none"), ("use", "git:read")]).await;
    assert_eq!(scope(&site, &client, &answer).await, "mcp:git:read mcp:admin");
}

#[tokio::test]
async fn oa_070_the_registrable_domain_of_an_app_stands_out_on_the_page() {
    let site = site().await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    for (uri, shown, told) in [
        ("https://claude.ai.evil.example.com/cb", "claude.ai.evil.<strong>example.com</strong>", "a web site"),
        ("https://xn--clude-9ta.ai/cb", "<strong>xn--clude-9ta.ai</strong>", "letters beyond a to z"),
        ("http://localhost:33418/cb", "<strong>localhost:33418</strong>", "on this computer"),
    ] {
        let client = site.register("App", uri).await;
        let page = browser.authorize(&client, &[("redirect_uri", uri)]).await.body;
        assert!(page.contains(shown) && page.contains(told), "{uri}: {page}");
    }
}

#[tokio::test]
async fn oa_158_hundreds_of_servers_fit_a_form() {
    let site = Site::open().await;
    let names: Vec<String> = (0..300).map(|number| format!("a-server-with-a-long-name-{number}")).collect();
    site.oauth.replace_backends(names.iter().map(|name| id(name)).collect(), Groups::default());
    let client = site.register("App", CALLBACK).await;
    let mut browser = site.browser();
    browser.log_in_alone(&site.key).await;
    let page = browser.authorize(&client, &[]).await;
    let read: Vec<String> = names.iter().map(|name| format!("{name}:read")).collect();
    let chosen: Vec<(&str, &str)> = read.iter().map(|name| ("use", &**name)).collect();
    let many = approve(&mut browser, &page, &chosen).await;
    assert_eq!(many.status, StatusCode::BAD_REQUEST);
    assert!(many.body.contains("too long for the key that the app gets"), "{}", many.body);
    let answer = browser.press(&page, "approve", "").await;
    assert_eq!(scope(&site, &client, &answer).await, "mcp:use");
}
