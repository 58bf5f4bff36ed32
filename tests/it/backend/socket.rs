//! Lines over a Unix domain socket and over TCP, with a scripted server of each era.

use std::sync::Arc;

use lockkeeper::model::{BackendId, BackendSpec, SocketAddress, TransportSpec, status::BackendState};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpListener, UnixListener},
    task::JoinSet,
};

use super::{
    channel_script::{ScriptedEra, answers},
    scripted_http_server::named,
    scripted_servers::{client, failure, next, started, text, tool, until},
};

/// A scripted server.
struct Server {
    address: SocketAddress,
    seen: Arc<Mutex<Vec<Value>>>,
    _folder: TempDir,
    _task: JoinSet<()>,
}

#[derive(Debug, Clone, Copy)]
enum SocketKind {
    Unix,
    Tcp,
}

impl Server {
    async fn start(kind: SocketKind, era: ScriptedEra) -> Self {
        let folder = TempDir::new().unwrap();
        let (seen, mut task) = (Arc::<Mutex<Vec<Value>>>::default(), JoinSet::new());
        let said = Arc::clone(&seen);
        let address = match kind {
            SocketKind::Unix => {
                let path = folder.path().join("mcp.sock");
                let listener = UnixListener::bind(&path).unwrap();
                task.spawn(async move {
                    let mut served = JoinSet::new();
                    loop {
                        let (read, write) = listener.accept().await.unwrap().0.into_split();
                        served.spawn(serve(era, Arc::clone(&said), read, write));
                    }
                });
                SocketAddress::Unix(path)
            }
            SocketKind::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                task.spawn(async move {
                    let mut served = JoinSet::new();
                    loop {
                        let (read, write) = listener.accept().await.unwrap().0.into_split();
                        served.spawn(serve(era, Arc::clone(&said), read, write));
                    }
                });
                SocketAddress::Tcp { host: "localhost".to_owned(), port }
            }
        };
        Self { address, seen, _folder: folder, _task: task }
    }

    fn spec(&self) -> BackendSpec {
        BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::Socket(self.address.clone()))
    }

    fn has_got(&self, method: &str) -> Option<()> {
        self.seen.lock().iter().any(|message| message["method"] == method).then_some(())
    }
}

async fn serve(
    era: ScriptedEra,
    seen: Arc<Mutex<Vec<Value>>>,
    read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
) {
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        seen.lock().push(message.clone());
        let name = message["params"]["name"].as_str().unwrap_or_default();
        if name == "close" {
            return;
        }
        if name == "noise" {
            write.write_all("\u{feff}ready\n\n\u{0}\n{\"half\": \n".as_bytes()).await.unwrap();
        }
        for answer in answers(era, &message) {
            // byte by byte
            for byte in format!("{answer}\r\n").as_bytes() {
                write.write_all(&[*byte]).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn both_eras_are_served_over_both_sockets() {
    for (kind, name) in [(SocketKind::Unix, "unix"), (SocketKind::Tcp, "tcp")] {
        for (era, version) in [(ScriptedEra::Legacy, "2025-06-18"), (ScriptedEra::Modern, "2026-07-28")] {
            let peer = Server::start(kind, era).await;
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
                () = until("the call", || {
                    let seen = peer.seen.lock();
                    seen.iter().any(|message| message["params"]["name"] == "silent").then_some(())
                }) => {}
            }
            drop(silent);
            until("the cancellation", || peer.has_got("notifications/cancelled")).await;
            supervisor.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_closed_connection_is_lost_and_made_again() {
    let peer = Server::start(SocketKind::Unix, ScriptedEra::Legacy).await;
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
