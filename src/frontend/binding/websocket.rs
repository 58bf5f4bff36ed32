//! WebSocket (no released version of MCP has it; `translation` 2.5): subprotocol `mcp`, one message a text frame, pings for
//! liveness.
//!
//! One task reads, serves and writes. A frame that is not a message, or is too long, ends the connection with a close code
//! for the reason (RFC 6455 7.4.1).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Extension,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseCode, CloseFrame, Message as Frame, Utf8Bytes, close_code},
    },
    response::Response,
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite;

use super::{
    channel::{CLOSE_TIMEOUT, ChannelClient, ChannelInput, ChannelOutput},
    refusal::RequestRefusal,
    request_head::RequestHead,
    response::keep_alive,
};
use crate::{
    frontend::state::{FrontendState, Sender},
    resource::ConnectionCredential,
    support::Fence,
};

/// The subprotocol.
const SUBPROTOCOL: &str = "mcp";
/// The time without any frame, pongs included, after which a client counts as gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// What each message has to meet.
struct FrameTerms {
    /// Maximum length.
    max: usize,
    credential: Option<ConnectionCredential>,
}

/// Opens a connection.
pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    upgrade: WebSocketUpgrade,
    credential: Option<Extension<ConnectionCredential>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    head.check_taken(&state)?;
    let max = state.settings.body;
    let upgrade = upgrade.protocols([SUBPROTOCOL]).max_message_size(max).max_frame_size(max);
    if upgrade.selected_protocol().is_none() {
        return Err(RequestRefusal::invalid("Bad Request: the WebSocket subprotocol `mcp` must be offered"));
    }
    let token = state.tracker.token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        serve(state, (head.sender, credential.map(|Extension(credential)| credential)), socket).await;
        drop(token);
    }))
}

/// Serves the connection until it ends.
async fn serve(
    state: Arc<FrontendState>,
    (sender, credential): (Sender, Option<ConnectionCredential>),
    socket: impl Stream<Item = Result<Frame, axum::Error>> + Sink<Frame>,
) {
    let (mut sink, frames) = socket.split();
    let (fault, revoked) = (OnceLock::new(), Arc::clone(&sender.admission.lease.revoked));
    let terms = FrameTerms { max: state.settings.body, credential };
    // the end of the input is the end of the connection: no answer can be sent
    let fence = state.fence.clone();
    let (client, messages) = ChannelClient::new(state, sender, Duration::ZERO);
    Box::pin(client.run(Box::pin(received(frames, &terms, &fault)), write(messages, &mut sink, &fence))).await;
    let code = match fault.get() {
        _ if revoked.is_cancelled() => close_code::POLICY,
        Some(code) => *code,
        None => close_code::AWAY,
    };
    let closed = Frame::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() }));
    let _ = timeout(CLOSE_TIMEOUT, sink.send(closed)).await;
}

/// The messages in the frames, until the connection is closed, silent for too long, or has a `fault`.
fn received(
    mut frames: impl Stream<Item = Result<Frame, axum::Error>> + Unpin,
    terms: &FrameTerms,
    fault: &OnceLock<CloseCode>,
) -> impl Stream<Item = ChannelInput> {
    async_stream::stream! {
        let mut checks = keep_alive();
        let mut last_frame = Instant::now();
        loop {
            tokio::select! {
                frame = frames.next() => {
                    last_frame = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => {
                            if !terms.are_met().await {
                                let _ = fault.set(close_code::AGAIN);
                                return;
                            }
                            yield ChannelInput::Message(Bytes::from(text));
                        }
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
                        Some(Ok(Frame::Binary(_))) => {
                            let _ = fault.set(close_code::UNSUPPORTED);
                            let what = "Invalid Request: a message is one text frame";
                            return yield ChannelInput::Refused(RequestRefusal::invalid(what));
                        }
                        Some(Err(error)) if is_too_long(&error) => {
                            let _ = fault.set(close_code::SIZE);
                            return yield ChannelInput::Refused(RequestRefusal::too_large(terms.max));
                        }
                        Some(Ok(Frame::Close(_)) | Err(_)) | None => return,
                    }
                }
                _ = checks.tick() => {
                    if last_frame.elapsed() >= SILENCE_TIMEOUT {
                        return;
                    }
                }
            }
        }
    }
}

impl FrameTerms {
    /// True if the credential of the connection is valid, as far as the database can be asked.
    async fn are_met(&self) -> bool {
        match &self.credential {
            Some(credential) => credential.is_valid().await,
            None => true,
        }
    }
}

/// Returns `true` if a message was longer than the limit.
fn is_too_long(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<tungstenite::Error>());
    matches!(source, Some(tungstenite::Error::Capacity(_)))
}

/// Writes the messages, and pings, until the connection is closed or the messages end; while the fence is closed it waits.
async fn write(mut messages: ChannelOutput, sink: &mut (impl Sink<Frame> + Unpin), fence: &Fence) {
    let mut pings = keep_alive();
    loop {
        let frame = tokio::select! {
            biased;
            message = messages.next() => match message {
                Some(message) => Utf8Bytes::try_from(message.encode()).map(Frame::Text),
                None => return,
            },
            _ = pings.tick() => Ok(Frame::Ping(Bytes::new())),
        };
        // text that is not UTF-8 is not JSON, and was never parsed
        let Ok(frame) = frame else { continue };
        fence.opened().await;
        if sink.send(frame).await.is_err() {
            return;
        }
    }
}
