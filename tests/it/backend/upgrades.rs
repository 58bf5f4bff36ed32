//! Transport upgrade (`translation` 6.8): servers on stdio that name another transport.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lockkeeper::{
    mcp::Revision,
    model::{BackendId, BackendSpec, EraChoice, status::BackendState},
};
use serde_json::json;

use super::{
    channel_script::{ChannelServer, ScriptedEra},
    scripted_servers::{Scripts, client, everyday, started, text, tool},
};
use crate::kit::scripted::Script;
use crate::kit::{
    answering::{Act, AnsweringServer},
    carriers::{Carrier, Hosted},
    peer::{Peer, Response, Seen, named, reply},
};

/// A server on stdio with this offer.
fn offering(scripts: &Scripts, transport: &str, endpoint: &str) -> BackendSpec {
    let spec = scripts.serve(
        "moved",
        everyday(Script::everyday().greeting(&json!({
            "protocolVersion": "{/params/protocolVersion}",
            "serverInfo": { "name": "moved", "version": "1" },
            "upgrade": { "endpoint": endpoint, "transport": transport },
        }))),
    );
    BackendSpec { era: EraChoice::Auto, ..spec }
}

/// The answer of a legacy server to the probe for its era.
fn probed(seen: &Seen) -> Option<Response> {
    let error = json!({ "code": -32601, "message": "Method not found" });
    let answer = || reply(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error }));
    (seen.method() == "server/discover").then(answer)
}

/// The reason for which the server cannot be used.
async fn refusal(spec: BackendSpec) -> String {
    let (supervisor, _server) = started(spec).await;
    let state = supervisor.status().remove(0).state;
    supervisor.shutdown().await;
    match state {
        BackendState::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_is_followed_to_http_sse() {
    let scripts = Scripts::new();
    let peer = ChannelServer::start(Carrier::Sse, ScriptedEra::Legacy);
    let (supervisor, server) = started(offering(&scripts, "http+sse", peer.url())).await;
    let status = supervisor.status().remove(0);
    assert_eq!((status.state, status.transport.as_str()), (BackendState::Ready, "http+sse"));
    for session in ["one", "two"] {
        assert_eq!(text(tool(&server, client(session, "{}"), &named("x"))).await, "over a channel");
    }
    assert_eq!(peer.requests().1, 0, "none has credentials");
    // the process is asked once, and never called
    assert_eq!(scripts.log("moved").matches("\"initialize\"").count(), 1);
    assert!(!scripts.log("moved").contains("tools/call"));
}

#[tokio::test]
async fn a_server_is_followed_to_streamable_http() {
    let scripts = Scripts::new();
    let peer = Peer::start(probed).await;
    let (supervisor, server) = started(offering(&scripts, "streamable-http", &peer.url())).await;
    assert_eq!(supervisor.status()[0].transport, "streamable-http");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "s2");
    assert!(peer.seen().iter().all(|seen| seen.header("authorization").is_none()));
    // the era is detected anew
    assert_eq!(peer.seen_of("server/discover").len(), 1);
}

#[tokio::test]
async fn a_tcp_server_is_followed_to_loopback_if_its_connected_address_is_loopback() {
    let peer = Peer::start(probed).await;
    let upgrade = json!({ "endpoint": peer.url(), "transport": "streamable-http" });
    let (asked, offers) =
        (Arc::new(AtomicUsize::new(0)), json!({ "protocolVersion": "2025-11-25", "upgrade": upgrade }));
    let counted = Arc::clone(&asked);
    let offering = AnsweringServer::acting(Revision::V2025_11_25, move |message| {
        counted.fetch_add(1, Ordering::AcqRel);
        vec![Act::Say(json!({ "id": message["id"], "result": offers })), Act::End]
    });
    let hosted = Hosted::start(Carrier::Tcp, Arc::new(offering));
    let spec = BackendSpec::new(BackendId::parse("moved").unwrap(), hosted.transport());
    let (supervisor, server) = started(spec).await;
    assert_eq!(supervisor.status()[0].transport, "streamable-http");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "s2");
    assert_eq!(asked.load(Ordering::Acquire), 1);
}

#[tokio::test]
async fn a_foreign_host_is_not_followed_unless_the_operator_permits_it() {
    let scripts = Scripts::new();
    let reason = refusal(offering(&scripts, "http+sse", "http://192.0.2.1/sse")).await;
    assert!(reason.contains("upgrade refused") && reason.contains("http://192.0.2.1/sse"), "{reason}");
    assert!(reason.contains("`upgrade_to`"), "{reason}");
    let spec = offering(&scripts, "http+sse", "http://192.0.2.1/sse");
    let upgrade_to = vec!["http://192.0.2.1/".parse().unwrap()];
    let spec = BackendSpec { upgrade_to, start_timeout: std::time::Duration::from_millis(200), ..spec };
    let (supervisor, _server) = started(spec).await;
    // nobody is there, but it was tried
    assert!(matches!(supervisor.status()[0].state, BackendState::Failed { .. }), "{:?}", supervisor.status());
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_server_is_not_followed_back_to_stdio() {
    let scripts = Scripts::new();
    let reason = refusal(offering(&scripts, "stdio", "rm -rf /")).await;
    assert!(reason.contains("upgrade refused") && reason.contains("rm -rf /"), "{reason}");
}

#[tokio::test]
async fn a_loop_of_upgrades_ends_with_a_refusal() {
    let scripts = Scripts::new();
    let script = |seen: &Seen| {
        let offers = (seen.method() == "initialize").then(|| {
            let upgrade = json!({ "endpoint": "http://127.0.0.1:1/mcp", "transport": "streamable-http" });
            reply(&seen.result(&json!({ "protocolVersion": "2025-11-25", "upgrade": upgrade })))
        });
        offers.or_else(|| probed(seen))
    };
    let peer = Peer::start(script).await;
    let reason = refusal(offering(&scripts, "streamable-http", &peer.url())).await;
    assert!(reason.contains("upgrade refused") && reason.contains("http://127.0.0.1:1/mcp"), "{reason}");
    assert_eq!(peer.seen_of("initialize").len(), 1);
}
