//! HTTP+SSE (2024-11-05), with a scripted server: configured, and found in place of Streamable HTTP.

use http::{Method as Verb, StatusCode};
use lockkeeper::{
    mcp::{Event, Method},
    model::{BackendId, BackendSpec, TransportSpec, status::BackendState},
};
use serde_json::json;

use super::{
    channel_script::{ChannelServer, ScriptedEra},
    scripted_servers::{client, failure, next, result, started, text, tool, until},
};
use crate::{
    kit::{
        carriers::Carrier,
        peer::{Peer, Seen, events, named},
    },
    support::log::Log,
};

fn over_streamable_http(stream: TransportSpec) -> TransportSpec {
    let TransportSpec::Sse(http) = stream else { panic!("it is one over HTTP+SSE") };
    TransportSpec::Http(http)
}

#[tokio::test]
async fn a_session_lasts_as_long_as_its_stream() {
    let peer = ChannelServer::start(Carrier::Sse, ScriptedEra::Legacy);
    let (supervisor, server) = started(peer.spec()).await;
    let status = supervisor.status().remove(0);
    assert_eq!(status.state, BackendState::Ready);
    assert_eq!((status.transport.as_str(), status.protocol_version.as_deref()), ("http+sse", Some("2025-06-18")));
    let asked = json!({ "name": "x", "_meta": { "progressToken": "p" } });
    let mut reply = tool(&server, client("one", "{}"), &asked);
    let Event::Notified(told) = next(&mut reply).await else { panic!("progress comes first") };
    assert_eq!((told.method, told.params.string("progressToken").as_deref()), (Method::Progress, Some("p")));
    assert!(result(reply).await.contains("over a channel"));
    let mut reply = tool(&server, client("one", r#"{"elicitation":{}}"#), &named("ask"));
    let Event::Asked(question) = next(&mut reply).await else { panic!("the server asks") };
    assert_eq!(question.method, Method::Elicit);
    drop(reply);
    until("the cancellation", || peer.has_got("notifications/cancelled")).await;
    let (requests, authorized) = peer.requests();
    assert_eq!(requests, authorized);
    // nothing but the stream is asked of its own URL
    assert_eq!(peer.count(&Verb::POST, "/sse"), 0);
    supervisor.shutdown().await;
    until("the end of the streams", || (peer.open_sessions() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_refuses_streamable_http_is_reached_over_its_stream() {
    for refusal in [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::BAD_REQUEST] {
        let peer = ChannelServer::start_refusing(Carrier::Sse, ScriptedEra::Legacy, refusal);
        let (supervisor, server) = started(peer.spec_as(over_streamable_http)).await;
        assert_eq!(supervisor.status()[0].transport, "http+sse");
        assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
        assert_eq!(text(tool(&server, client("two", "{}"), &named("x"))).await, "over a channel");
        // the probe and one handshake; later sessions know
        assert_eq!(peer.count(&Verb::POST, "/sse"), 2, "{refusal}");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn credentials_and_load_are_no_reason_to_try_a_stream() {
    for refusal in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS] {
        let peer = ChannelServer::start_refusing(Carrier::Sse, ScriptedEra::Legacy, refusal);
        let (supervisor, _server) = started(peer.spec_as(over_streamable_http)).await;
        assert!(matches!(supervisor.status()[0].state, BackendState::Failed { .. }), "{refusal}");
        assert_eq!(peer.count(&Verb::GET, "/sse"), 0, "{refusal}");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn messages_are_sent_to_no_other_origin() {
    for (greeting, reason) in [
        ("event: endpoint\ndata: http://127.0.0.2:1/messages\n\n", "wants messages at http://127.0.0.2:1"),
        ("event: endpoint\ndata: http://[\n\n", "holds no URI"),
        ("data: {}\n\n", ""),
    ] {
        let stream = move |seen: &Seen| (seen.verb == Verb::GET).then(|| events(greeting.to_owned()));
        let peer = Peer::start(stream).await;
        let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::Sse(peer.http()));
        let (supervisor, _server) = started(spec).await;
        let BackendState::Failed { reason: told, .. } = supervisor.status()[0].state.clone() else {
            panic!("{greeting}: {:?}", supervisor.status()[0].state)
        };
        let expected = if reason.is_empty() { "without an `endpoint` event" } else { reason };
        assert!(told.contains(expected), "{told}");
        assert!(peer.seen().iter().all(|seen| seen.verb == Verb::GET));
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn noise_on_the_stream_harms_no_call_and_large_events_arrive() {
    let peer = ChannelServer::start(Carrier::Sse, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    for name in ["noise", "big", "x"] {
        assert_eq!(text(tool(&server, client("one", "{}"), &named(name))).await, "over a channel", "{name}");
    }
    assert_eq!(peer.count(&Verb::GET, "/sse"), 2, "the base session and one for the client");
}

#[tokio::test]
async fn comments_and_an_empty_refusal_of_streamable_http_are_no_warnings() {
    let log = Log::open();
    let peer = ChannelServer::start_refusing(Carrier::Sse, ScriptedEra::Legacy, StatusCode::METHOD_NOT_ALLOWED);
    let (supervisor, server) = started(peer.spec_as(over_streamable_http)).await;
    assert_eq!(text(tool(&server, client("one", "{}"), &named("comments"))).await, "over a channel");
    assert_eq!(supervisor.status()[0].warnings, [""; 0]);
    assert_eq!(log.lines("WARN"), [""; 0]);
}

#[tokio::test]
async fn a_lost_session_is_opened_again() {
    let peer = ChannelServer::start(Carrier::Sse, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("cut"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    // a call that a forgotten session refuses did not run: it is repeated in a new one
    peer.forget_a_session();
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    until("the end of the forgotten session", || (peer.open_sessions() == 2).then_some(())).await;
    let _flooded = text(tool(&server, client("one", "{}"), &named("flood"))).await;
    until("the end of the flood", || (peer.open_sessions() == 1).then_some(())).await;
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    assert_eq!(peer.open_sessions(), 2);
}
