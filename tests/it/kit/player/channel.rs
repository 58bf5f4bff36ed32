//! A client's end of a channel: a WebSocket connection, or the pipes to its own gateway.

use futures_util::{SinkExt as _, StreamExt as _};
use lockkeeper::{app::StdioApp, config::Config, mcp::Era, model::Naming, telemetry::Telemetry};
use serde_json::Value;
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
use tokio_util::sync::CancellationToken;

use super::connection::{Arrival, Arrived, Binding, Card, Door, Origin};

/// Capacity of a pipe in bytes.
const PIPE: usize = 1 << 16;

/// Both directions of a channel.
pub(super) struct Channel {
    /// Messages to send; dropping it closes the channel.
    output: UnboundedSender<String>,
    tasks: JoinSet<()>,
    /// Stops the client's own gateway.
    stop: CancellationToken,
}

/// The place of the token in a WebSocket handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenPlace {
    Header,
    /// For web pages, which cannot set a header.
    Subprotocol,
}

// === impl Channel ===

impl Channel {
    /// Opens the channel of this client's binding.
    pub(super) async fn open(card: &Card, inbox: UnboundedSender<Arrival>) -> Self {
        let receive = move |message| {
            let _ = inbox.send(Ok(Arrived { on: Origin::Channel, event: None, message, status: None }));
        };
        match (card.binding, card.version.era()) {
            (Binding::Stdio, _) => Self::pipes(&card.door, receive).await,
            (_, Era::Legacy) => Self::socket(&card.door, TokenPlace::Header, receive).await,
            (_, Era::Modern) => Self::socket(&card.door, TokenPlace::Subprotocol, receive).await,
        }
    }

    /// Opens a WebSocket connection to the endpoint.
    async fn socket(door: &Door, token: TokenPlace, receive: impl Fn(Value) + Send + 'static) -> Self {
        let authority = door.url.trim_start_matches("http://");
        let mut request = format!("ws://{authority}/ws{}", door.path).into_client_request().unwrap();
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
        Self { output, tasks, stop: CancellationToken::new() }
    }

    /// Starts a gateway only for this client, with the servers of its endpoint.
    async fn pipes(door: &Door, receive: impl Fn(Value) + Send + 'static) -> Self {
        let mut config: Config = (**door.config.as_ref().unwrap()).clone();
        if let Some(name) = door.path.strip_prefix('/') {
            config.backends.retain(|backend| backend.id.as_str() == name);
            config.naming = Naming::Plain;
        }
        let app = Box::pin(StdioApp::build(&config, None, Telemetry::detached())).await.unwrap();
        let ((mut input, theirs), (ours, written)) = (duplex(PIPE), duplex(PIPE));
        let (output, mut messages) = unbounded_channel::<String>();
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(Box::pin(app.serve(theirs, ours, stop.clone().cancelled_owned())));
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
        Self { output, tasks, stop }
    }

    pub(super) fn send(&self, message: &Value) {
        self.output.send(message.to_string()).unwrap();
    }

    pub(super) fn stop_gateway(&self) {
        self.stop.cancel();
    }

    /// Closes the channel, and waits until the gateway has closed it too.
    pub(super) async fn close(self) {
        let Self { output, mut tasks, .. } = self;
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
