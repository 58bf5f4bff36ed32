//! The fast backend on channels: HTTP+SSE and WebSocket on one port, lines over TCP on another.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{
        Query, State,
        ws::{Message as Frame, WebSocket, WebSocketUpgrade},
    },
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
    serve::ListenerExt as _,
};
use futures_util::stream;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
};

use crate::peers::{Era, reply};

/// The HTTP+SSE streams, by session.
type Streams = Arc<Mutex<HashMap<usize, UnboundedSender<String>>>>;

/// Serves HTTP+SSE and WebSocket until it is killed.
pub(crate) async fn http(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?.tap_io(|stream| {
        // best effort: without it, small messages wait for each other
        let _ = stream.set_nodelay(true);
    });
    let socket = async |upgrade: WebSocketUpgrade| upgrade.protocols(["mcp"]).on_upgrade(converse);
    let app = Router::new().route("/sse", get(open)).route("/messages", post(take)).route("/ws", get(socket));
    Ok(axum::serve(listener, app.with_state(Streams::default())).await?)
}

/// Serves lines over TCP until it is killed.
pub(crate) async fn lines(port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(serve_lines(stream));
    }
}

async fn serve_lines(stream: TcpStream) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(answer) = reply(Era::Legacy, line.as_bytes()) else { continue };
        if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn converse(mut socket: WebSocket) {
    while let Some(Ok(frame)) = socket.recv().await {
        let Frame::Text(text) = frame else { continue };
        let Some(answer) = reply(Era::Legacy, text.as_bytes()) else { continue };
        if socket.send(Frame::Text(answer.into())).await.is_err() {
            return;
        }
    }
}

async fn open(State(streams): State<Streams>) -> Response {
    let (sender, events) = unbounded_channel();
    {
        let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
        let session = streams.len();
        let _ = sender.send(format!("event: endpoint\ndata: /messages?session={session}\n\n"));
        streams.insert(session, sender);
    }
    let events =
        stream::unfold(events, |mut events| async { Some((Ok::<_, std::io::Error>(events.recv().await?), events)) });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn take(
    State(streams): State<Streams>,
    Query(query): Query<HashMap<String, usize>>,
    message: Bytes,
) -> StatusCode {
    let streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stream) = query.get("session").and_then(|session| streams.get(session)) else {
        return StatusCode::NOT_FOUND;
    };
    if let Some(answer) = reply(Era::Legacy, &message) {
        let _ = stream.send(format!("event: message\ndata: {answer}\n\n"));
    }
    StatusCode::ACCEPTED
}
