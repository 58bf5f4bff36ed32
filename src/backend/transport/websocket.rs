//! A server behind a WebSocket, subprotocol `mcp`: a custom transport with the rules of stdio, one JSON-RPC message in each
//! text frame (`translation` 2.5). A legacy session lasts as long as its connection.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, Sink, SinkExt as _, StreamExt as _, future::BoxFuture};
use http::{HeaderValue, header};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};
use tokio_tungstenite::{
    connect_async_with_config,
    tungstenite::{
        Error, Message as Frame, Utf8Bytes, client::IntoClientRequest as _, handshake::client::Request,
        protocol::WebSocketConfig,
    },
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    http::configured_headers,
    interface::{Arrival, Incoming, Transport, TransportError},
};
use crate::{
    backend::{error::StartError, task_group::TaskGroup},
    mcp::Message,
    model::HttpSpec,
    wire::events::MAX_EVENT,
};

/// The subprotocol.
const SUBPROTOCOL: &str = "mcp";
/// Messages that wait for a server that does not read. Callers wait beyond that, each for itself.
const QUEUE: usize = 64;
/// The time to connect, with TLS and the upgrade.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A connection on which nothing came for this time, no pong either, is lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);
/// The time to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// One WebSocket connection.
pub(crate) struct WebSocketTransport {
    queue: mpsc::Sender<Utf8Bytes>,
    stop: CancellationToken,
    closed: CancellationToken,
}

/// The writing half of a connection, before it is connected.
struct Outgoing {
    queue: mpsc::Receiver<Utf8Bytes>,
    stop: CancellationToken,
    /// Tells that the connection is closed.
    _closed: DropGuard,
}

/// Prepares a connection; it is made when what comes on it is received.
pub(crate) fn connect(spec: &HttpSpec, tasks: &TaskGroup) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let (stop, closed) = (tasks.end().child_token(), CancellationToken::new());
    let outgoing = Outgoing { queue: outgoing, stop: stop.clone(), _closed: closed.clone().drop_guard() };
    let incoming = incoming(request(spec)?, outgoing, tasks.clone());
    Ok((Arc::new(WebSocketTransport { queue, stop, closed }), incoming))
}

/// The request that asks for the connection.
fn request(spec: &HttpSpec) -> Result<Request, StartError> {
    let url = |error: Error| StartError::Refused(format!("`url` is no WebSocket address: {error}"));
    let mut request = spec.url.as_str().into_client_request().map_err(url)?;
    let headers = request.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    headers.extend(configured_headers(spec)?);
    Ok(request)
}

/// Connects, and gives the messages that come until the connection is lost.
fn incoming(request: Request, outgoing: Outgoing, tasks: TaskGroup) -> Incoming {
    let arrivals = async_stream::stream! {
        let limits = WebSocketConfig::default().max_message_size(Some(MAX_EVENT)).max_frame_size(Some(MAX_EVENT));
        let connecting = connect_async_with_config(request, Some(limits), true);
        let (sink, mut frames) = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok((socket, _))) => socket.split(),
            Ok(Err(error)) => {
                yield Arrival::Lost(not_connected(&error));
                return;
            }
            Err(_) => {
                yield Arrival::Lost("the server cannot be reached in time: is it running, is `url` right?".to_owned());
                return;
            }
        };
        tasks.spawn(outgoing.run(sink));
        loop {
            match timeout(SILENCE_TIMEOUT, frames.next()).await {
                Ok(Some(Ok(Frame::Text(text)))) => yield Arrival::Text(text.into()),
                Ok(Some(Ok(Frame::Close(_))) | None) => {
                    yield Arrival::Lost("the server closed the connection".to_owned());
                    return;
                }
                // pings are answered by the library; messages are text
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => {
                    yield Arrival::Lost(format!("the connection broke ({error})"));
                    return;
                }
                Err(_) => {
                    yield Arrival::Lost("the server does not answer pings any more".to_owned());
                    return;
                }
            }
        }
    };
    arrivals.boxed()
}

fn not_connected(error: &Error) -> String {
    match error {
        Error::Http(response) => format!("the server answered {} instead of a WebSocket", response.status()),
        error => format!("the server cannot be reached ({error}): is it running, is `url` right?"),
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// Sends what is queued, and pings, until it is to stop; then closes the connection.
    async fn run(mut self, mut sink: impl Sink<Frame, Error = Error> + Unpin + Send) {
        let stop = self.stop.clone();
        let sent = stop.run_until_cancelled(async {
            let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
            loop {
                let frame = tokio::select! {
                    text = self.queue.recv() => match text {
                        Some(text) => Frame::Text(text),
                        None => return,
                    },
                    _ = pings.tick() => Frame::Ping(Bytes::new()),
                };
                if sink.send(frame).await.is_err() {
                    return;
                }
            }
        });
        sent.await;
        let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
    }
}

// === impl WebSocketTransport ===

impl Transport for WebSocketTransport {
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (queue, text) = (self.queue.clone(), Utf8Bytes::try_from(message.encode()));
        async move {
            let text = text.map_err(|_| TransportError::Refused("the message is not UTF-8".to_owned()))?;
            queue.send(text).await.map_err(|_| TransportError::Gone("the connection is closed".to_owned()))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let closed = self.closed.clone();
        async move {
            let _ = timeout(CLOSE_TIMEOUT * 2, closed.cancelled()).await;
        }
        .boxed()
    }
}
