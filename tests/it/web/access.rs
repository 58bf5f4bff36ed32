//! Servers on the pages: each person sees those that the gateway would open, and a consent page those of the grant.

use http::StatusCode;
use lockkeeper::model::{Access, BackendId, GroupSpec, Rights};

use super::site::{Browser, CALLBACK, ROOT, Site};

fn id(name: &str) -> BackendId {
    BackendId::parse(name).unwrap()
}

/// A right to each of these servers or groups.
fn rights(names: &[&str]) -> Rights {
    let mut rights = Rights::none();
    for name in names {
        rights.backends.allow(&id(name), Access::Full);
    }
    rights
}

/// A browser of somebody who is logged in with a key that has these rights.
async fn logged_in<'a>(site: &'a Site, names: &[&str]) -> Browser<'a> {
    let mut browser = site.browser();
    browser.log_in_alone(&site.own_key(&names.join(" and "), rights(names)).await).await;
    browser
}

/// A page without the id of its request, which is at the end.
fn without_request(page: &str) -> String {
    page.split(", request <code>").next().unwrap().to_owned()
}

/// The servers that the consent page names for an app at this endpoint.
async fn consented(site: &Site, browser: &mut Browser<'_>, path: &str, scope: &str) -> String {
    let client = site.register("App", CALLBACK).await;
    let resource = format!("{ROOT}{path}");
    let page = browser.authorize(&client, &[("resource", &resource), ("scope", scope)]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    let servers: Vec<String> =
        page.servers().into_iter().map(|(_, server)| server.trim_end_matches(":read").to_owned()).collect();
    if servers.is_empty() { "none".to_owned() } else { servers.join(", ") }
}

#[tokio::test]
async fn a_consent_page_names_the_servers_that_the_grant_opens() {
    let site = Site::with_group().await;
    let mut owner = site.browser();
    owner.log_in_alone(&site.key).await;
    let mut files = logged_in(&site, &["files"]).await;
    let mut work = logged_in(&site, &["work"]).await;
    for (path, scope, expected) in [
        ("/mcp", "mcp:use", ["files, search", "files", "none"]),
        ("/mcp", "mcp:search", ["search", "none", "none"]),
        ("/mcp/files", "mcp:files", ["files", "files", "none"]),
        ("/mcp/files", "mcp:use", ["files", "files", "none"]),
        ("/mcp/work", "mcp:work", ["files, search", "files", "files, search"]),
        ("/mcp/work", "mcp:work:read", ["files, search", "files", "files, search"]),
    ] {
        for (browser, expected) in [&mut owner, &mut files, &mut work].into_iter().zip(expected) {
            assert_eq!(consented(&site, browser, path, scope).await, expected, "{path} {scope}");
        }
    }
}

#[tokio::test]
async fn a_person_who_names_a_hidden_server_on_a_page_sees_what_one_that_does_not_exist_gives() {
    let site = Site::with_group().await;
    let mut guest = logged_in(&site, &["files"]).await;
    for page in ["/", "/account"] {
        let page = guest.get(page).await.body;
        assert!(page.contains("files") && !page.contains("search"), "{page}");
    }
    for path in
        ["/connect/SERVER", "/connect/SERVER?t=x", "/connect/SERVER/done", "/oauth/upstream/callback/SERVER?code=x"]
    {
        let mut seen = Vec::new();
        for server in ["search", "nobody", "work"] {
            let page = guest.get(&path.replace("SERVER", server)).await;
            seen.push((page.status, without_request(&page.body).replace(server, "SERVER")));
        }
        assert_eq!(seen[0].0, StatusCode::NOT_FOUND, "{path}");
        assert!(seen.iter().all(|page| *page == seen[0]), "{path} {seen:?}");
    }
    let mut answers = Vec::new();
    for server in ["search", "nobody"] {
        let token = guest.get("/account").await.field("token");
        let answer = guest.post("/account/disconnect", &[("token", &token), ("backend", server)]).await;
        answers.push((answer.status, without_request(&answer.body)));
    }
    assert_eq!(answers[0].0, StatusCode::NOT_FOUND);
    assert_eq!(answers[0], answers[1]);
    // the owner of all sees it
    let mut owner = site.browser();
    owner.log_in_alone(&site.key).await;
    assert!(owner.get("/account").await.body.contains("search"));
}

#[tokio::test]
async fn another_group_changes_what_a_page_shows_at_once() {
    let site = Site::with_group().await;
    let mut work = logged_in(&site, &["work"]).await;
    assert!(work.get("/account").await.body.contains(">search<"));
    let narrower = GroupSpec { id: id("work"), servers: vec![id("files")], tools: None };
    site.oauth.replace_backends(vec![id("files"), id("search")], std::iter::once(narrower).collect());
    assert!(!work.get("/account").await.body.contains(">search<"));
    assert_eq!(consented(&site, &mut work, "/mcp/work", "mcp:work").await, "files");
}
