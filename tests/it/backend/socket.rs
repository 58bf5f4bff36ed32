//! Lines over a Unix domain socket and over TCP, with a scripted server of each era.

use lockkeeper::model::{BackendId, BackendSpec, SocketAddress, TransportSpec, status::BackendState};
use tempfile::TempDir;

use super::{
    channel_script::{ChannelServer, ScriptedEra},
    scripted_servers::{client, failure, next, started, text, tool, until},
};
use crate::kit::{carriers::Carrier, peer::named};

#[tokio::test]
async fn both_eras_are_served_over_both_sockets() {
    for (kind, name) in [(Carrier::Unix, "unix"), (Carrier::Tcp, "tcp")] {
        for (era, version) in [(ScriptedEra::Legacy, "2025-06-18"), (ScriptedEra::Modern, "2026-07-28")] {
            let peer = ChannelServer::start(kind, era);
            let (supervisor, server) = started(peer.spec()).await;
            let status = supervisor.status().remove(0);
            assert_eq!(status.state, BackendState::Ready);
            assert_eq!((status.transport.as_str(), status.protocol_version.as_deref()), (name, Some(version)));
            for tool_name in ["x", "noise", "x"] {
                let told = text(tool(&server, client("one", "{}"), &named(tool_name))).await;
                assert_eq!(told, "over a channel", "{kind:?}");
            }
            let mut silent = tool(&server, client("one", "{}"), &named("silent"));
            tokio::select! {
                event = next(&mut silent) => panic!("the server is silent: {event:?}"),
                _ = until("the call", || peer.message(|message| message["params"]["name"] == "silent")) => {}
            }
            drop(silent);
            until("the cancellation", || peer.has_got("notifications/cancelled")).await;
            supervisor.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_closed_connection_is_lost_and_made_again() {
    let peer = ChannelServer::start(Carrier::Unix, ScriptedEra::Legacy);
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("close"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let address = SocketAddress::Unix(folder.path().join("none.sock"));
    let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::Socket(address));
    let (supervisor, _server) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status()[0].state.clone() else { panic!("no socket") };
    assert!(reason.contains("none.sock cannot be connected to"), "{reason}");
}
