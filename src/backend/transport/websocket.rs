//! A server behind a WebSocket, subprotocol `mcp`: a custom transport with the rules of stdio, and one JSON-RPC message
//! in each text frame (`translation` 2.5). A legacy session lasts as long as its connection.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, StreamExt as _};
use http::{HeaderValue, header};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Error, Message as Frame, Utf8Bytes, client::IntoClientRequest as _, handshake::client::Request},
};

use super::{
    connector::Connector,
    http::{Client, configured_headers, identity_header},
    interface::{Incoming, ServerInput, Transport},
    queued::{CLOSE_TIMEOUT, Outgoing, QueuedTransport},
};
use crate::{
    backend::error::StartError,
    model::HttpSpec,
    support::{
        Account,
        piece::{CONNECTION_BUFFER, piece},
        silence::overdue,
    },
    wire::{
        events::MAX_EVENT,
        websocket::{self, LimitedStream, WebSocketViolation},
    },
};

const SUBPROTOCOL: &str = "mcp";
/// Maximum time for the upgrade, after connecting.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum time without any frame, including pongs.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);

/// Maximum silence within a message, like the default for the body of a client's request.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Prepares a connection. It is opened when the incoming messages are first polled.
pub(super) fn connect(with: &Connector<'_>, spec: &HttpSpec) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let (transport, outgoing) = QueuedTransport::new(with.tasks, with.account.clone());
    let (client, request) = (with.client.clone(), request(spec)?);
    let (tasks, account) = (with.tasks.clone(), with.account.clone());
    let arrivals = async_stream::stream! {
        let (sink, mut frames) = match Box::pin(open(&client, request, account)).await {
            Ok(socket) => socket.split(),
            Err(reason) => {
                yield ServerInput::Lost(reason);
                return;
            }
        };
        let violation = Arc::new(OnceLock::new());
        tasks.spawn(run(outgoing, sink, Arc::clone(&violation)));
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.next() => frame,
                () = overdue(Instant::now() + SILENCE_TIMEOUT) => {
                    yield ServerInput::Lost("the server does not answer pings any more".to_owned());
                    return;
                }
            };
            match frame {
                Some(Ok(Frame::Text(text))) => yield ServerInput::Text(piece(text.into(), CONNECTION_BUFFER)),
                Some(Ok(Frame::Close(_))) | None => {
                    yield ServerInput::Lost("the server closed the connection".to_owned());
                    return;
                }
                // the library answers pings; messages are text
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    if let Some(found) = WebSocketViolation::of(&error) {
                        let _ = violation.set(found);
                    }
                    yield ServerInput::Lost(format!("the connection broke ({error})"));
                    return;
                }
            }
        }
    };
    Ok((Arc::new(transport), arrivals.boxed()))
}

/// The request for the upgrade.
fn request(spec: &HttpSpec) -> Result<Request, StartError> {
    let url = |error: Error| StartError::Refused(format!("its URL is no WebSocket address: {error}"));
    let mut request = spec.url.as_str().into_client_request().map_err(url)?;
    let headers = request.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    headers.extend(configured_headers(spec)?);
    if let Some(identity) = &spec.identity {
        let (name, value) = identity_header(identity).map_err(StartError::Refused)?;
        headers.insert(name, value);
    }
    Ok(request)
}

/// Connects, directly or through a proxy, and makes the upgrade.
///
/// # Errors
///
/// Why it failed, as a text for people.
async fn open(
    client: &Client,
    request: Request,
    account: Account,
) -> Result<WebSocketStream<impl AsyncRead + AsyncWrite + Send + Unpin + use<>>, String> {
    let unreachable =
        |reason: String| format!("the server cannot be reached ({reason}): is it running, is its URL right?");
    let stream = client.connect_for_upgrade(request.uri()).await.map_err(unreachable)?;
    let stream = LimitedStream::upgrading(stream, MESSAGE_TIMEOUT, account);
    let limits = websocket::config(MAX_EVENT);
    let upgrading = Box::pin(client_async_with_config(request, stream, Some(limits)));
    match timeout(UPGRADE_TIMEOUT, upgrading).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(Error::Http(response))) => {
            Err(format!("the server answered {} instead of a WebSocket", response.status()))
        }
        Ok(Err(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable(format!("no upgrade after {UPGRADE_TIMEOUT:?}"))),
    }
}

/// Sends queued messages, and pings, until it is stopped; then closes the connection.
async fn run(
    mut outgoing: Outgoing,
    mut sink: impl Sink<Frame, Error = Error> + Unpin + Send,
    violation: Arc<OnceLock<WebSocketViolation>>,
) {
    let stop = outgoing.stop.clone();
    let sending = stop.run_until_cancelled(async {
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        // after a freeze, send one ping and not all that were missed
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // holds the memory charge of the message until it is written
            let message;
            let frame = tokio::select! {
                next = outgoing.queue.next() => {
                    let Some(next) = next else { return };
                    message = next;
                    // messages are JSON, which is always UTF-8
                    let Ok(text) = Utf8Bytes::try_from(message.text.clone()) else { continue };
                    Frame::Text(text)
                }
                _ = pings.tick() => Frame::Ping(Bytes::new()),
            };
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    });
    sending.await;
    let _ = timeout(CLOSE_TIMEOUT, async {
        if let Some(violation) = violation.get() {
            sink.send(Frame::Close(Some(violation.close_frame()))).await?;
        }
        sink.close().await
    })
    .await;
}
