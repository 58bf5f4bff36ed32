//! Clients of one transport over HTTP at the address of the other.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode};
use lockkeeper::{frontend::FrontendSettings, model::Serves, resource::OpensStreamAlone};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Client, Events, World, body, call, http_sse::Connected, initialize, modern::Modern, settings, text};

const STREAMABLE: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn at(world: &World, user: &str, path: &'static str) -> Client {
    Client { path, ..world.client(user) }
}

/// A client at this address after the handshake of Streamable HTTP.
async fn ready(world: &World, path: &'static str, version: &'static str) -> Client {
    let mut client = at(world, "ann", path);
    client.open(version, json!({ "roots": {} })).await;
    client
}

async fn said(client: &Client) -> Value {
    body(client.send(call(1, "echo", json!({ "say": "hi" }))).await).await["result"]["said"].clone()
}

#[tokio::test]
async fn streamable_http_is_served_at_the_address_of_http_sse() {
    for version in STREAMABLE {
        for (path, other) in [("/sse", "/mcp"), ("/sse/git", "/mcp/git")] {
            let world = World::new().await;
            let mut client = ready(&world, path, version).await;
            client.version = Some(version);
            assert_eq!(said(&client).await, "hi");
            let mut events = Events::of(client.get().await);
            assert_eq!(world.front.status()[0].endpoint, path);
            if path == "/sse" {
                world.server.told.send((lockkeeper::mcp::Method::ToolsListChanged, json!({}))).unwrap();
                assert_eq!(events.message().await.unwrap()["method"], "notifications/tools/list_changed");
            }
            // a session is one of the address that it was opened at
            let elsewhere = Client { path: other, ..client.clone() };
            for refused in
                [elsewhere.send(call(2, "echo", json!({}))).await, elsewhere.get().await, elsewhere.delete().await]
            {
                assert_eq!(refused.status(), StatusCode::NOT_FOUND);
            }
            assert_eq!(client.delete().await.status(), StatusCode::NO_CONTENT);
            assert_eq!(client.send(call(3, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
        }
    }
}

#[tokio::test]
async fn such_a_session_survives_a_restart_and_is_none_of_http_sse() {
    let world = World::new().await;
    let client = ready(&world, "/sse", "2025-06-18").await;
    let id = client.session.clone().unwrap();
    let message = Client {
        path: Box::leak(format!("/messages?session_id={id}").into_boxed_str()),
        session: None,
        ..client.clone()
    };
    assert_eq!(message.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    let next = world.restarted();
    assert_eq!(said(&Client { router: next.router.clone(), ..client.clone() }).await, "hi");
    // nobody comes back as its client over HTTP+SSE
    let mut returning = at(&next, "ann", "/sse");
    returning.version = Some("2025-06-18");
    let mut back = Connected::of(returning).await;
    let asked = back.ask(call(1, "ask", json!({ "method": "roots/list" }))).await;
    assert!(asked["result"]["code"].is_number(), "{asked}");
}

#[tokio::test]
async fn requests_without_a_session_are_served_there_too() {
    let world = World::new().await;
    let mut client = Modern::of(&world, "ann", "{}");
    client.client.path = "/sse";
    assert_eq!(body(client.tool(1, "echo", json!({ "say": "hi" })).await).await["result"]["said"], "hi");
    let modern = FrontendSettings { serves: Serves::ModernAlone, ..settings() };
    let world = World::with(modern).await;
    let mut client = Modern::of(&world, "ann", "{}");
    for path in ["/mcp", "/sse"] {
        client.client.path = path;
        assert_eq!(body(client.tool(1, "echo", json!({ "say": "hi" })).await).await["result"]["said"], "hi");
        let refused = client.client.get().await;
        assert_eq!(
            (refused.status(), &refused.headers()["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &HeaderValue::from_static("POST"))
        );
    }
}

#[tokio::test]
async fn what_needs_a_session_at_sse_is_refused_with_both_ways_on() {
    let world = World::new().await;
    let client = at(&world, "ann", "/sse");
    let refused = client.delete().await;
    assert_eq!(
        (refused.status(), &refused.headers()["allow"]),
        (StatusCode::METHOD_NOT_ALLOWED, &HeaderValue::from_static("GET, POST"))
    );
    assert!(text(refused).await.contains("/mcp"));
    let refused = client.send(call(1, "echo", json!({}))).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_credential_for_streams_opens_nothing_else() {
    let world = World::new().await;
    let open = ready(&world, "/sse", "2025-06-18").await;
    for session in [None, open.session.clone()] {
        for (verb, message) in [
            (Verb::POST, initialize("2025-06-18", json!({})).to_string()),
            (Verb::DELETE, String::new()),
            (Verb::GET, String::new()),
        ] {
            let mut request = http::Request::builder().method(&verb).uri("/sse").body(Body::from(message)).unwrap();
            request.headers_mut().insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
            request.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
            if let Some(session) = &session {
                request.headers_mut().insert("mcp-session-id", session.parse().unwrap());
            }
            request.extensions_mut().insert(open.admission.clone());
            request.extensions_mut().insert(OpensStreamAlone);
            let response = world.router.clone().oneshot(request).await.unwrap();
            if verb == Verb::GET && session.is_none() {
                assert_eq!(response.status(), StatusCode::OK);
                continue;
            }
            // the 405 by which clients of both transports find HTTP+SSE
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{verb}");
            assert_eq!(response.headers()["allow"], "GET");
            let message = text(response).await;
            assert!(message.contains("--direct") && message.contains("/mcp"), "{message}");
        }
    }
    assert_eq!(said(&open).await, "hi");
}

#[tokio::test]
async fn http_sse_is_served_at_the_address_of_streamable_http() {
    for (path, name) in [("/mcp", "all"), ("/mcp/", "all"), ("/mcp/git", "git")] {
        let world = World::new().await;
        let mut connected = Connected::of(at(&world, "ann", path)).await;
        let answer = connected.ask(initialize("2024-11-05", json!({}))).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], name);
        connected.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let answer = connected.ask(call(1, "echo", json!({ "say": "hi" }))).await;
        assert_eq!(answer["result"]["said"], "hi", "{path}");
        assert_eq!(world.front.status()[0].endpoint, path.trim_end_matches('/'));
        // its id is none of Streamable HTTP
        let id = connected.client.path.strip_prefix("/messages?session_id=").unwrap().to_owned();
        let streamable = Client { session: Some(id), ..at(&world, "ann", path) };
        assert_eq!(streamable.send(call(2, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
        drop(connected.events);
        assert_eq!(connected.client.send(call(3, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_client_that_opens_its_lost_stream_again_is_let_in_and_one_that_looks_for_a_stream_is_not() {
    const VERSION: &str = "2024-11-05";
    let world = World::new().await;
    let looks = |world: &World, user: &str, path: &'static str, version: &'static str| {
        let client = Client { version: Some(version), ..at(world, user, path) };
        async move { client.get().await }
    };
    let mut connected = Connected::of(at(&world, "ann", "/mcp")).await;
    connected.shake_hands(VERSION, json!({ "roots": {} })).await;
    let refused = StatusCode::METHOD_NOT_ALLOWED;
    assert_eq!(looks(&world, "ann", "/mcp", VERSION).await.status(), refused, "its stream is open");
    drop(connected.events);
    // another caller, another endpoint, another version
    for (user, path, version) in [("bob", "/mcp", VERSION), ("ann", "/mcp/git", VERSION), ("ann", "/mcp", "2025-06-18")]
    {
        let response = looks(&world, user, path, version).await;
        assert_eq!(response.status(), refused, "{user} {path} {version}");
        assert!(text(response).await.contains("/sse"));
    }
    for version in ["2026-07-28", "2099-01-01"] {
        assert_eq!(looks(&world, "ann", "/mcp", version).await.status(), refused);
    }
    // a stream that it had at `/sse` is another
    let mut elsewhere = Connected::of(at(&world, "eve", "/sse")).await;
    elsewhere.shake_hands(VERSION, json!({})).await;
    drop(elsewhere.events);
    assert_eq!(looks(&world, "eve", "/mcp", VERSION).await.status(), refused);
    for now in [&world, &world.restarted()] {
        let client = Client { version: Some(VERSION), ..at(now, "ann", "/mcp") };
        let mut back = Connected::of(client).await;
        let asked = back.ask(call(1, "ask", json!({ "method": "roots/list" }))).await;
        assert_eq!(asked["method"], "roots/list", "it goes on as the client that it was");
        drop(back.events);
    }
}

#[tokio::test]
async fn a_client_whose_stream_names_an_event_comes_back_there() {
    let world = World::new().await;
    let mut connected = Connected::of(at(&world, "ann", "/mcp")).await;
    connected.shake_hands("2024-11-05", json!({ "roots": {} })).await;
    drop(connected.events);
    let client = Client { last_event: Some("7"), ..at(&world, "ann", "/mcp") };
    let mut back = Connected::of(client).await;
    assert_eq!(back.ask(call(1, "ask", json!({ "method": "roots/list" }))).await["method"], "roots/list");
}

#[tokio::test]
async fn a_caller_keeps_a_bounded_number_of_descriptions_at_both_addresses() {
    let world = World::new().await;
    for number in 0..140 {
        let mut connected = Connected::of(at(&world, "ann", "/mcp")).await;
        connected.shake_hands("2024-11-05", json!({ "experimental": { number.to_string(): {} } })).await;
    }
    let kept = ready(&world, "/sse", "2025-06-18").await;
    let rows = async |address: &str| {
        let owner = super::admission("ann").caller.owner();
        world.storage.mcp_sessions().of_owner(&owner, address).await.unwrap().len()
    };
    assert_eq!((rows("/mcp#sse").await, rows("/sse#mcp").await), (128, 1));
    drop(kept);
}

/// A page's request with an empty header is none of a session.
#[tokio::test]
async fn a_session_that_is_not_there_is_not_taken_for_a_new_stream() {
    let world = World::new().await;
    for path in ["/mcp", "/sse"] {
        let client = Client { session: Some("unknown".to_owned()), ..at(&world, "ann", path) };
        assert_eq!(client.get().await.status(), StatusCode::NOT_FOUND);
        let twice = |headers: &mut HeaderMap| {
            headers.append("mcp-session-id", HeaderValue::from_static("another"));
        };
        assert_eq!(client.request(Verb::GET, Body::empty(), twice).await.status(), StatusCode::NOT_FOUND);
    }
}
