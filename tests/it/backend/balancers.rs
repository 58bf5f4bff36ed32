//! Servers over HTTP behind a balancer: its cookies, and redirects on the same origin.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::Method as Verb;
use lockkeeper::model::{BackendSpec, HttpSpec, TransportSpec};
use parking_lot::Mutex;

use super::scripted_servers::{client, gateway, started, text, tool};
use crate::kit::peer::{Peer, Response, Seen, greeting, named, reply, status, text_of};

/// The answer to `initialize` of a balancer that keeps the session by a cookie.
fn opened(seen: &Seen, session: Option<String>, cookie: &str) -> Response {
    let mut response = reply(&seen.result(&greeting("2025-11-25")));
    if let Some(session) = session {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    response.headers_mut().append("set-cookie", cookie.parse().unwrap());
    response
}

#[tokio::test]
async fn a_session_has_the_cookies_that_its_balancer_set_and_no_other() {
    let sessions = AtomicUsize::new(0);
    let peer = Peer::start(move |seen| match seen.method() {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            Some(opened(seen, Some(format!("s{number}")), &format!("NODE=n{number}; Path=/; Domain=elsewhere.example")))
        }
        "tools/call" => Some(reply(&seen.result(&text_of(seen.header("cookie").unwrap_or("none"))))),
        _ => None,
    })
    .await;
    let (supervisor, server) = started(peer.spec()).await;
    let calls = [(gateway(), "NODE=n1"), (client("a", "{}"), "NODE=n2"), (client("b", "{}"), "NODE=n3")];
    for (context, cookie) in calls {
        for _ in 0..2 {
            assert_eq!(text(tool(&server, context.clone(), &named("x"))).await, cookie);
        }
    }
    supervisor.shutdown().await;
    for seen in peer.seen() {
        let node = seen.header("cookie").map(|cookie| cookie.replace("NODE=n", "s"));
        assert_eq!(node.as_deref(), seen.header("mcp-session-id"), "{} {}", seen.verb, seen.method());
    }
}

#[tokio::test]
async fn a_server_without_sessions_gets_no_cookies_back() {
    let peer = Peer::start(|seen| (seen.method() == "initialize").then(|| opened(seen, None, "WHO=ann; Path=/"))).await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "none");
    assert!(peer.seen().iter().all(|seen| seen.header("cookie").is_none()));
}

#[tokio::test]
async fn a_configured_cookie_wins() {
    let peer =
        Peer::start(|seen| (seen.method() == "initialize").then(|| opened(seen, Some("s1".to_owned()), "NODE=n1")))
            .await;
    let mut http: HttpSpec = peer.http();
    http.headers.insert("Cookie".to_owned(), lockkeeper::support::Secret::new("NODE=fixed"));
    let spec = BackendSpec { transport: TransportSpec::Http(http), ..peer.spec() };
    let (_supervisor, server) = started(spec).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    assert!(peer.seen().iter().all(|seen| seen.header("cookie") == Some("NODE=fixed")));
}

fn redirect(code: u16, location: &str) -> Response {
    let mut response = status(code);
    response.headers_mut().insert("location", location.parse().unwrap());
    response
}

#[tokio::test]
async fn redirects_that_keep_the_method_are_followed_on_the_same_origin() {
    for code in [307, 308] {
        let redirected = Mutex::new(HashSet::new());
        // each message twice: the address that is configured only redirects
        let peer = Peer::start(move |seen| {
            let is_first = redirected.lock().insert((seen.verb.clone(), seen.text.clone()));
            is_first.then(|| redirect(code, "/mcp/"))
        })
        .await;
        let (supervisor, server) = started(peer.spec()).await;
        assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1", "{code}");
        supervisor.shutdown().await;
        let calls = peer.seen_of("tools/call");
        assert_eq!(calls.len(), 2);
        assert_eq!((&calls[0].headers, &calls[0].text), (&calls[1].headers, &calls[1].text));
        assert_eq!(peer.seen().iter().filter(|seen| seen.verb == Verb::DELETE).count(), 2);
    }
}

#[tokio::test]
async fn other_redirects_and_endless_ones_are_refused() {
    for (code, location) in [
        (301, "/mcp/".to_owned()),
        (302, "/mcp/".to_owned()),
        (303, "/mcp/".to_owned()),
        (307, "https://elsewhere.example/mcp".to_owned()),
        (308, "/mcp/".to_owned()),
    ] {
        let to = location.clone();
        let peer = Peer::start(move |seen| (seen.verb == Verb::POST).then(|| redirect(code, &to))).await;
        let (supervisor, _server) = started(peer.spec()).await;
        let reason = supervisor.status().remove(0).state.reason().unwrap_or_default().to_owned();
        assert!(reason.contains("give the right address"), "{code} {location}: {reason}");
        let posts = peer.seen().iter().filter(|seen| seen.verb == Verb::POST).count();
        assert_eq!(posts, if code == 308 { 6 } else { 1 }, "{code} {location}");
    }
}
