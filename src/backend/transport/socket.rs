//! A server behind a Unix domain socket or a TCP port, with the framing of stdio (2026-07-28, transports, *Custom
//! Transports*). A legacy session lasts as long as its connection.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{
    connector::Connector,
    http::Client,
    interface::{Incoming, ServerInput, ServerLocation, Transport},
    line_input::{LineSource, LineWriter, server_input},
    output_tail::OutputTail,
    queued::{CLOSE_TIMEOUT, Outgoing, QueuedTransport},
};
use crate::{backend::task_group::TaskGroup, model::SocketAddress, wire::lines::line};

/// Maximum time to connect to a Unix domain socket, whose backlog may be full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Prepares a connection. It is opened when the incoming messages are first polled.
pub(super) fn connect(with: &Connector<'_>, address: &SocketAddress) -> (Arc<dyn Transport>, Incoming) {
    let (transport, outgoing) = QueuedTransport::new(with.tasks, with.account.clone());
    let (backend, account, output) = (with.backend.clone(), with.account.clone(), OutputTail::default());
    let source = LineSource { writer: LineWriter::Peer, backend, output, account };
    let (address, client, tasks) = (address.clone(), with.client.clone(), with.tasks.clone());
    let incoming = async_stream::stream! {
        let mut arrivals = match address {
            SocketAddress::Unix(path) => match unix(&path).await {
                Ok(stream) => {
                    outgoing.connected(ServerLocation::ThisMachine);
                    let (read, write) = stream.into_split();
                    begin(read, write, outgoing, &tasks, source)
                }
                Err(reason) => lost(reason),
            },
            SocketAddress::Tcp { host, port } => match tcp(&client, &host, port).await {
                Ok((stream, peer)) => {
                    outgoing.connected(peer.ip().into());
                    let (read, write) = stream.into_split();
                    begin(read, write, outgoing, &tasks, source)
                }
                Err(reason) => lost(reason),
            },
        };
        while let Some(arrival) = arrivals.next().await {
            yield arrival;
        }
    };
    (Arc::new(transport), incoming.boxed())
}

/// Starts the task that writes, and returns the incoming messages.
fn begin(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    outgoing: Outgoing,
    tasks: &TaskGroup,
    source: LineSource,
) -> Incoming {
    tasks.spawn(run(outgoing, write));
    server_input(read, source, async { "the server closed the connection".to_owned() })
}

fn lost(reason: String) -> Incoming {
    futures_util::stream::iter([ServerInput::Lost(reason)]).boxed()
}

/// Writes queued messages until it is stopped, then closes the connection.
async fn run(mut outgoing: Outgoing, mut write: impl AsyncWrite + Unpin) {
    let stop = outgoing.stop.clone();
    let writing = stop.run_until_cancelled(async {
        while let Some(message) = outgoing.queue.next().await {
            if write.write_all(&line(message.text.clone())).await.is_err() {
                return;
            }
        }
    });
    writing.await;
    let _ = timeout(CLOSE_TIMEOUT, write.shutdown()).await;
}

async fn unix(path: &Path) -> Result<UnixStream, String> {
    let refused = |error: io::Error| {
        format!("{} cannot be connected to ({error}): is the server running, is its URL right?", path.display())
    };
    let connecting = timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await;
    connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(refused)
}

/// The connection, and the address of the server.
async fn tcp(client: &Client, host: &str, port: u16) -> Result<(TcpStream, SocketAddr), String> {
    let refused = |reason: String| {
        format!("{host}:{port} cannot be connected to ({reason}): is the server running, is its URL right?")
    };
    let stream = client.connect_tcp(host, port).await.map_err(refused)?;
    let peer = stream.peer_addr().map_err(|error| refused(error.to_string()))?;
    Ok((stream, peer))
}
