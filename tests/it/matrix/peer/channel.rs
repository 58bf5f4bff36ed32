//! A client's end of a channel: a WebSocket connection, or the pipes to a gateway of its own.

use std::future::pending;

use futures_util::{SinkExt as _, StreamExt as _};
use lockkeeper::{app::StdioApp, config::Config, model::Naming, telemetry::Telemetry};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message as Frame, client::IntoClientRequest as _},
};

use super::{Arrived, Binding, Door, Origin, Peer, stateless::SUBSCRIPTION};

/// Capacity of a pipe in bytes.
const PIPE: usize = 1 << 16;

/// Both directions of a channel.
pub(super) struct Channel {
    /// The messages to be sent; dropping it closes the channel.
    output: UnboundedSender<String>,
    tasks: JoinSet<()>,
}

/// The part of a WebSocket handshake that has the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenPlace {
    Header,
    /// Web pages cannot set a header.
    Subprotocol,
}

// === impl Channel ===

impl Channel {
    /// Opens a WebSocket connection to the endpoint of one server.
    async fn socket(door: Door<'_>, token: TokenPlace, receive: impl Fn(Value) + Send + 'static) -> Self {
        let authority = door.url.trim_start_matches("http://");
        let mut request = format!("ws://{authority}/ws/{}", door.backend).into_client_request().unwrap();
        let (name, value, protocols) = match token {
            TokenPlace::Header => ("authorization", format!("Bearer {}", door.key), "mcp".to_owned()),
            TokenPlace::Subprotocol => ("accept", "*/*".to_owned(), format!("mcp, bearer.{}", door.key)),
        };
        request.headers_mut().insert(name, value.parse().unwrap());
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap());
        let stream = TcpStream::connect(authority).await.unwrap();
        let (socket, response) = client_async(request, stream).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
        let (output, messages) = unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(exchange(socket, messages, receive));
        Self { output, tasks }
    }

    /// Starts a gateway for this client alone, with one of the servers.
    async fn pipes(door: Door<'_>, receive: impl Fn(Value) + Send + 'static) -> Self {
        let mut config: Config = door.config.clone();
        config.backends.retain(|backend| backend.id.as_str() == door.backend);
        config.naming = Naming::Plain;
        let app = Box::pin(StdioApp::build(&config, None, Telemetry::detached().unwrap())).await.unwrap();
        let ((mut input, theirs), (ours, written)) = (duplex(PIPE), duplex(PIPE));
        let (output, mut messages) = unbounded_channel::<String>();
        let mut tasks = JoinSet::new();
        tasks.spawn(Box::pin(app.serve(theirs, ours, pending())));
        tasks.spawn(async move {
            while let Some(message) = messages.recv().await {
                input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
        });
        tasks.spawn(async move {
            let mut lines = BufReader::new(written).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                receive(serde_json::from_str(&line).unwrap());
            }
        });
        Self { output, tasks }
    }

    pub(super) fn send(&self, message: &Value) {
        self.output.send(message.to_string()).unwrap();
    }

    /// Closes the channel, and waits for its end at the gateway.
    pub(super) async fn close(self) {
        let Self { output, mut tasks } = self;
        drop(output);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Sends and receives messages until the connection is closed.
async fn exchange(
    mut socket: WebSocketStream<TcpStream>,
    mut messages: UnboundedReceiver<String>,
    receive: impl Fn(Value),
) {
    let mut is_open = true;
    loop {
        tokio::select! {
            message = messages.recv(), if is_open => {
                is_open = message.is_some();
                match message {
                    Some(message) => socket.send(Frame::text(message)).await.unwrap(),
                    None => socket.close(None).await.unwrap(),
                }
            }
            frame = socket.next() => match frame {
                Some(Ok(Frame::Text(text))) => receive(serde_json::from_str(&text).unwrap()),
                Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
                Some(Ok(frame)) => assert!(frame.is_close(), "{frame}"),
                Some(Err(_)) | None => return,
            },
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Opens the channel of its binding.
    pub(super) async fn open_channel(&self, door: Door<'_>) -> Channel {
        let inbox = self.inbox.0.clone();
        let receive = move |message| {
            let _ = inbox.send(Arrived { on: Origin::Channel, event: None, message, status: None });
        };
        match (self.pair.binding, self.is_stateless()) {
            (Binding::Stdio, _) => Channel::pipes(door, receive).await,
            (_, false) => Channel::socket(door, TokenPlace::Header, receive).await,
            (_, true) => Channel::socket(door, TokenPlace::Subprotocol, receive).await,
        }
    }

    pub(super) fn send_on_channel(&mut self, message: &Value) {
        self.expect_answers(message);
        self.channel.as_ref().unwrap().send(message);
    }

    /// The request of a message on a channel. Restores its progress token.
    pub(super) fn request_on_channel(&self, message: &mut Value) -> Value {
        let tag = message["params"]["_meta"].get(SUBSCRIPTION).cloned();
        let wire = match message["method"].as_str() {
            None => message["id"].clone(),
            Some("notifications/progress") => {
                let token = &mut message["params"]["progressToken"];
                let known = self.legs.tokens.get(&token.to_string());
                let (wire, original) = known.unwrap_or_else(|| panic!("{self:?}: nobody chose {token}")).clone();
                *token = original;
                wire
            }
            // nothing tells whose it is
            Some("notifications/message") => self.newest_call(),
            Some(_) => tag.unwrap_or_else(|| panic!("{self:?}: {message} belongs to no request")),
        };
        let key = wire.to_string();
        let known = self.pending.contains_key(&key) || self.legs.left.contains(&key);
        assert!(known, "{self:?}: nobody asked for {message}");
        wire
    }

    /// The newest running request that is no listen.
    fn newest_call(&self) -> Value {
        let running = self.pending.iter().filter(|(_, method)| *method != "subscriptions/listen");
        let newest = running.filter_map(|(id, _)| id.parse::<u64>().ok()).max();
        json!(newest.unwrap_or_else(|| panic!("{self:?}: a log message outside of calls")))
    }
}
