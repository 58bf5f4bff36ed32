//! WebSocket (no released version of MCP has it; `translation` 2.5): subprotocol `mcp`, one message in each text frame,
//! and pings to find dead connections.
//!
//! One task reads, serves and writes. If a frame is not a message, or is too long, the connection ends with a close
//! code for the reason (RFC 6455 7.4.1).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Extension,
    extract::{State, WebSocketUpgrade},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message as Frame,
        handshake::derive_accept_key,
        protocol::{
            CloseFrame, Role,
            frame::{Utf8Bytes, coding::CloseCode},
        },
    },
};

use super::{
    channel::{CLOSE_TIMEOUT, ChannelClient, ChannelInput, ChannelOutput},
    refusal::RequestRefusal,
    request_head::RequestHead,
    response::keep_alive,
};
use crate::{
    frontend::state::{FrontendState, Sender},
    mcp::large_messages::{MessageOwner, OffWorker},
    resource::ConnectionCredential,
    support::{
        Fence,
        memory::Claim,
        piece::{CONNECTION_BUFFER, piece},
        silence::was_frozen,
    },
    wire::websocket::{self, LimitedStream, WebSocketViolation},
};

const SUBPROTOCOL: &str = "mcp";
/// Time without any frame, pongs included, after which a client counts as disconnected.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// Conditions that must hold for each message.
struct FrameTerms {
    max: usize,
    credential: Option<ConnectionCredential>,
}

pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    upgraded: Option<Extension<OnUpgrade>>,
    upgrade: WebSocketUpgrade,
    credential: Option<Extension<ConnectionCredential>>,
    headers: HeaderMap,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    head.check_taken(&state)?;
    if upgrade.protocols([SUBPROTOCOL]).selected_protocol().is_none() {
        return Err(RequestRefusal::invalid("Bad Request: the WebSocket subprotocol `mcp` must be offered"));
    }
    // axum has checked the request; the connection is taken over here, because axum cannot limit its bytes
    let (Some(Extension(upgraded)), Some(key)) = (upgraded, headers.get(header::SEC_WEBSOCKET_KEY)) else {
        return Err(RequestRefusal::invalid("Bad Request: the connection cannot become a WebSocket"));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|_| RequestRefusal::invalid("Bad Request: the WebSocket key is no text"))?;
    let credential = credential.map(|Extension(credential)| credential);
    let tracker = state.tracker.clone();
    let limits = state.settings.limits.get();
    let (limits, message_timeout) = (websocket::config(limits.request_body), limits.body_timeout);
    let account = state.sessions.account(&head.sender.admission.caller);
    let owner = MessageOwner::User(head.sender.admission.caller.user.clone());
    let connection = async move {
        let Ok(upgraded) = upgraded.await else { return };
        let stream = LimitedStream::upgraded(TokioIo::new(upgraded), message_timeout, account);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
        serve(state, head.sender, credential, socket).await;
    };
    tracker.spawn(OffWorker::future(owner, Box::pin(connection)));
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL)),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Serves the connection until it ends.
async fn serve(
    state: Arc<FrontendState>,
    sender: Sender,
    credential: Option<ConnectionCredential>,
    socket: impl Stream<Item = Result<Frame, Error>> + Sink<Frame>,
) {
    let (mut sink, frames) = socket.split();
    let (fault, revoked) = (OnceLock::new(), Arc::clone(&sender.admission.lease.revoked));
    let terms = FrameTerms { max: state.settings.limits.get().request_body, credential };
    // the input ends with the connection, so no answer can be sent
    let fence = state.fence.clone();
    let (client, messages) = ChannelClient::new(state, sender, Duration::ZERO);
    Box::pin(client.run(Box::pin(received(frames, &terms, &fault)), write(messages, &mut sink, &fence))).await;
    let closed = match fault.into_inner() {
        _ if revoked.is_cancelled() => close(CloseCode::Policy),
        Some(fault) => fault,
        None => close(CloseCode::Away),
    };
    let farewell = async {
        // after the client's close frame, our close frame is queued, and no other may follow
        if sink.send(Frame::Close(Some(closed))).await.is_err() {
            let _ = sink.close().await;
        }
    };
    let _ = timeout(CLOSE_TIMEOUT, farewell).await;
}

/// The messages from the frames, until the connection is closed, is silent for too long, or has a `fault`.
fn received(
    mut frames: impl Stream<Item = Result<Frame, Error>> + Unpin,
    terms: &FrameTerms,
    fault: &OnceLock<CloseFrame>,
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
                                let _ = fault.set(close(CloseCode::Again));
                                return;
                            }
                            // a message is a slice of the connection's buffer
                            yield ChannelInput::Message(piece(text.into(), CONNECTION_BUFFER));
                        }
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => {}
                        Some(Ok(Frame::Binary(_))) => {
                            let _ = fault.set(close(CloseCode::Unsupported));
                            let what = "Invalid Request: a message is one text frame";
                            return yield ChannelInput::Refused(RequestRefusal::invalid(what));
                        }
                        Some(Err(Error::Capacity(_))) => {
                            let _ = fault.set(close(CloseCode::Size));
                            return yield ChannelInput::Refused(RequestRefusal::too_large(terms.max));
                        }
                        Some(Err(error)) => {
                            if let Some(violation) = WebSocketViolation::of(&error) {
                                let reason = violation.label();
                                metrics::counter!("lockkeeper_connections_ended_total", "reason" => reason).increment(1);
                                let _ = fault.set(violation.close_frame());
                            }
                            match error {
                                Error::Protocol(_) => drop(fault.set(close(CloseCode::Protocol))),
                                Error::Utf8(_) => drop(fault.set(close(CloseCode::Invalid))),
                                _ => {}
                            }
                            return;
                        }
                        Some(Ok(Frame::Close(_))) | None => return,
                    }
                }
                due = checks.tick() => {
                    // after a freeze, frames may be waiting, and the next check comes after a ping
                    if last_frame.elapsed() >= SILENCE_TIMEOUT && !was_frozen(due, Instant::now()) {
                        return;
                    }
                }
            }
        }
    }
}

impl FrameTerms {
    /// True if the credential of the connection is valid, as far as the database can tell.
    async fn are_met(&self) -> bool {
        match &self.credential {
            Some(credential) => credential.is_valid().await,
            None => true,
        }
    }
}

fn close(code: CloseCode) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::default() }
}

/// Writes messages and pings until the connection is closed or there are no more messages. Waits while the fence is
/// closed.
async fn write(mut messages: ChannelOutput, sink: &mut (impl Sink<Frame> + Unpin), fence: &Fence) {
    let mut pings = keep_alive();
    loop {
        let mut claim = Claim::nothing(messages.account().clone());
        let frame = tokio::select! {
            biased;
            message = messages.next() => match message {
                Some(message) if claim.grow_soon(message.payload_len()).await.is_err() => return,
                Some(message) => Utf8Bytes::try_from(message.encode()).map(Frame::Text),
                None => return,
            },
            _ = pings.tick() => Ok(Frame::Ping(Bytes::new())),
        };
        // text that is not UTF-8 is not JSON, so it was never parsed
        let Ok(frame) = frame else { continue };
        fence.opened().await;
        let sent = tokio::select! {
            sent = sink.send(frame) => sent.is_ok(),
            _ = claim.reclaimed() => false,
        };
        if !sent {
            return;
        }
    }
}
