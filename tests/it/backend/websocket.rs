//! A server behind a WebSocket, of each era, with a script.

use lockkeeper::{
    mcp::{Event, Method},
    model::{BackendId, BackendSpec, HttpSpec, TransportSpec, status::BackendState},
};
use serde_json::json;

use super::{
    channel_script::{ChannelServer, ScriptedEra},
    scripted_servers::{client, failure, gateway, next, result, started, text, tool, until},
};
use crate::kit::{
    carriers::Carrier,
    peer::{Peer, named, status},
};

#[tokio::test]
async fn the_era_is_detected_and_calls_are_served() {
    for (speaks, version) in [(ScriptedEra::Legacy, "2025-06-18"), (ScriptedEra::Modern, "2026-07-28")] {
        let peer = ChannelServer::start(Carrier::WebSocket, speaks);
        let (supervisor, server) = started(peer.spec()).await;
        let status = supervisor.status().remove(0);
        assert_eq!(status.state, BackendState::Ready);
        assert_eq!((status.transport.as_str(), status.protocol_version.as_deref()), ("websocket", Some(version)));
        let asked = json!({ "name": "x", "_meta": { "progressToken": "p" } });
        let mut reply = tool(&server, client("one", "{}"), &asked);
        let Event::Notified(told) = next(&mut reply).await else { panic!("progress comes first") };
        assert_eq!((told.method, told.params.string("progressToken").as_deref()), (Method::Progress, Some("p")));
        assert!(result(reply).await.contains("over a channel"));
        let (upgrades, authorized) = peer.requests();
        assert!(upgrades > 0 && upgrades == authorized, "{authorized} of {upgrades}");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_by_a_message() {
    for speaks in [ScriptedEra::Legacy, ScriptedEra::Modern] {
        let peer = ChannelServer::start(Carrier::WebSocket, speaks);
        let (_supervisor, server) = started(peer.spec()).await;
        let mut reply = tool(&server, client("one", "{}"), &named("silent"));
        tokio::select! {
            event = next(&mut reply) => panic!("the server is silent: {event:?}"),
            () = until("the call", || peer.has_got("tools/call")) => {}
        }
        drop(reply);
        until("the cancellation", || peer.has_got("notifications/cancelled")).await;
    }
}

#[tokio::test]
async fn a_server_request_of_a_legacy_server_comes_in_its_call() {
    let peer = ChannelServer::start(Carrier::WebSocket, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let mut reply = tool(&server, client("one", r#"{"elicitation":{}}"#), &named("ask"));
    let Event::Asked(question) = next(&mut reply).await else { panic!("the server asks") };
    assert_eq!(question.method, Method::Elicit);
    drop(question);
    let answered = || peer.message(|message| message["id"] == "q");
    assert!(until("the answer", answered).await.get("error").is_some());
    // each client session has a connection of its own
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "over a channel");
    let (upgrades, _) = peer.requests();
    assert!(upgrades >= 2, "{upgrades}");
}

#[tokio::test]
async fn a_lost_connection_is_reopened() {
    let peer = ChannelServer::start(Carrier::WebSocket, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("close"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
}

#[tokio::test]
async fn noise_harms_no_call_and_large_messages_arrive() {
    for speaks in [ScriptedEra::Legacy, ScriptedEra::Modern] {
        let peer = ChannelServer::start(Carrier::WebSocket, speaks);
        let (supervisor, server) = started(peer.spec()).await;
        assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
        let before = peer.requests();
        for name in ["noise", "big", "x"] {
            assert_eq!(text(tool(&server, client("one", "{}"), &named(name))).await, "over a channel", "{name}");
        }
        assert_eq!(peer.requests(), before, "the connection lives on");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn a_message_without_bound_ends_the_connection_alone() {
    let peer = ChannelServer::start(Carrier::WebSocket, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("flood"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    for session in ["one", "two"] {
        assert_eq!(text(tool(&server, client(session, "{}"), &named("x"))).await, "over a channel");
    }
}

#[tokio::test]
async fn a_server_that_floods_pings_loses_its_connection_and_the_next_one_serves() {
    let peer = ChannelServer::start(Carrier::WebSocket, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("pings"))).await;
    assert!(lost.message().contains("too many control frames"), "{lost}");
    for session in ["one", "two"] {
        assert_eq!(text(tool(&server, client(session, "{}"), &named("x"))).await, "over a channel");
    }
}

#[tokio::test]
async fn a_server_that_is_no_websocket_is_named() {
    let peer = Peer::start(|_| Some(status(404))).await;
    let socket = HttpSpec::new(peer.url().replacen("http", "ws", 1).parse().unwrap());
    let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::WebSocket(socket));
    let (supervisor, _server) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status()[0].state.clone() else { panic!("no socket") };
    assert!(reason.contains("404 Not Found instead of a WebSocket"), "{reason}");
}
