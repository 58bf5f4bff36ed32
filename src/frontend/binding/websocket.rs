//! WebSocket (no released version of MCP has it; `translation` 2.5): subprotocol `mcp`, one message a text frame, pings for
//! liveness.
//!
//! One task reads, serves and writes.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message as Frame, Utf8Bytes, close_code},
    },
    response::Response,
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, timeout};

use super::{
    channel::{CLOSE_TIMEOUT, ChannelClient, ChannelInput, ChannelOutput},
    refusal::RequestRefusal,
    request_head::RequestHead,
    response::keep_alive,
};
use crate::frontend::state::{FrontendState, Sender};

/// The subprotocol.
const SUBPROTOCOL: &str = "mcp";
/// The time without any frame, pongs included, after which a client counts as gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// Opens a connection.
pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    upgrade: WebSocketUpgrade,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    let max = state.settings.body;
    let upgrade = upgrade.protocols([SUBPROTOCOL]).max_message_size(max).max_frame_size(max);
    if upgrade.selected_protocol().is_none() {
        return Err(RequestRefusal::invalid("Bad Request: the WebSocket subprotocol `mcp` must be offered"));
    }
    let token = state.tracker.token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        serve(state, head.sender, socket).await;
        drop(token);
    }))
}

/// Serves the connection until it ends.
async fn serve<S, E>(state: Arc<FrontendState>, sender: Sender, socket: S)
where
    S: Stream<Item = Result<Frame, E>> + Sink<Frame>,
{
    let (mut sink, frames) = socket.split();
    // the end of the input is the end of the connection: nobody waits for answers
    let (client, messages) = ChannelClient::new(state, sender, Duration::ZERO);
    Box::pin(client.run(Box::pin(received(frames)), write(messages, &mut sink))).await;
    let closed = Frame::Close(Some(CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::default() }));
    let _ = timeout(CLOSE_TIMEOUT, sink.send(closed)).await;
}

/// The messages in the frames, until the connection is closed or silent for too long.
fn received<E>(mut frames: impl Stream<Item = Result<Frame, E>> + Unpin) -> impl Stream<Item = ChannelInput> {
    async_stream::stream! {
        let mut checks = keep_alive();
        let mut last_frame = Instant::now();
        loop {
            tokio::select! {
                frame = frames.next() => {
                    last_frame = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => yield ChannelInput::Message(Bytes::from(text)),
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
                        // a message is text
                        Some(Ok(Frame::Binary(_) | Frame::Close(_)) | Err(_)) | None => return,
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

/// Writes the messages, and pings, until the connection is closed or the messages end.
async fn write(mut messages: ChannelOutput, sink: &mut (impl Sink<Frame> + Unpin)) {
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
        // what is no UTF-8 is no JSON either, and was never parsed
        let Ok(frame) = frame else { continue };
        if sink.send(frame).await.is_err() {
            return;
        }
    }
}
