//! A client on a channel: pipes, a WebSocket, or HTTP+SSE. Answers come in any order.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, stream::BoxStream};
use http::{HeaderValue, Method};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Duration, Instant},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message as Frame, client::IntoClientRequest as _},
};

use crate::{
    client::{Connection, Endpoint, HELLO, INITIALIZED},
    load::{call, check},
};

/// A channel with an open session.
pub(crate) enum Channel {
    /// Standard input and output of a child process.
    Pipes {
        input: ChildStdin,
        output: BufReader<ChildStdout>,
        child: Box<Child>,
    },
    WebSocket(Box<WebSocketStream<TcpStream>>),
    /// An event stream, and a connection for posts.
    Sse {
        posts: Connection,
        endpoint: Endpoint,
        events: BoxStream<'static, Result<Bytes>>,
        rest: Vec<u8>,
    },
}

// === impl Channel ===

impl Channel {
    /// Starts a program that communicates over its pipes.
    pub(crate) fn pipes(command: &mut Command) -> Result<Self> {
        use std::process::Stdio;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self::Pipes { input, output, child: Box::new(child) })
    }

    pub(crate) async fn websocket(port: u16, path: &str, key: &str) -> Result<Self> {
        let mut request = format!("ws://127.0.0.1:{port}{path}").into_client_request()?;
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse()?);
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self::WebSocket(Box::new(client_async(request, stream).await?.0)))
    }

    pub(crate) async fn sse(port: u16, path: &str, key: &str) -> Result<Self> {
        let mut endpoint = Endpoint::new(port, path, Some(key))?;
        let response = Connection::open(port).await?.into_stream(&endpoint, Method::GET).await?;
        let events = response.map(|chunk| chunk.context("the event stream broke")).boxed();
        let mut channel =
            Self::Sse { posts: Connection::open(port).await?, endpoint: endpoint.clone(), events, rest: Vec::new() };
        endpoint.path = String::from_utf8(channel.next().await?.to_vec())?;
        if let Self::Sse { endpoint: of_posts, .. } = &mut channel {
            *of_posts = endpoint;
        }
        Ok(channel)
    }

    pub(crate) async fn greet(&mut self) -> Result<()> {
        self.send(HELLO.to_owned()).await?;
        self.next().await?;
        self.send(INITIALIZED.to_owned()).await
    }

    /// The process, if the channel has one.
    pub(crate) fn process(&self) -> Option<u32> {
        match self {
            Self::Pipes { child, .. } => child.id(),
            Self::WebSocket(_) | Self::Sse { .. } => None,
        }
    }

    /// Makes calls for `length`, `at_once` of them at any time.
    pub(crate) async fn load(&mut self, tool: &str, at_once: usize, length: Duration) -> Result<Vec<Duration>> {
        let end = Instant::now() + length;
        let (mut latencies, mut under_way, mut id) = (Vec::new(), HashMap::new(), 0_usize);
        while Instant::now() < end || !under_way.is_empty() {
            while under_way.len() < at_once && Instant::now() < end {
                id += 1;
                under_way.insert(id, Instant::now());
                self.send(call(id, tool)).await?;
            }
            let answer = self.next().await?;
            let answered = answered(&answer).context("a message without an id")?;
            let started: Instant = under_way.remove(&answered).context("an answer to nothing")?;
            latencies.push(started.elapsed());
            check(&answer, answered)?;
        }
        Ok(latencies)
    }

    async fn send(&mut self, message: String) -> Result<()> {
        match self {
            Self::Pipes { input, .. } => Ok(input.write_all(format!("{message}\n").as_bytes()).await?),
            Self::WebSocket(socket) => Ok(socket.send(Frame::Text(message.into())).await?),
            Self::Sse { posts, endpoint, .. } => posts.post(endpoint, message).await.map(drop),
        }
    }

    async fn next(&mut self) -> Result<Bytes> {
        match self {
            Self::Pipes { output, .. } => {
                let mut line = String::new();
                ensure!(output.read_line(&mut line).await? > 0, "the program ended");
                Ok(line.into())
            }
            Self::WebSocket(socket) => loop {
                if let Frame::Text(text) = socket.next().await.context("the socket was closed")?? {
                    return Ok(text.into());
                }
            },
            Self::Sse { events, rest, .. } => loop {
                if let Some(end) = memchr::memmem::find(rest, b"\n\n") {
                    let event: Vec<u8> = rest.drain(..end + 2).collect();
                    let data = memchr::memmem::find(&event, b"data: ").map(|at| &event[at + 6..end]);
                    if let Some(data) = data {
                        return Ok(Bytes::copy_from_slice(data));
                    }
                    continue;
                }
                rest.extend_from_slice(&events.next().await.context("the event stream ended")??);
            },
        }
    }
}

/// The id of an answer.
fn answered(answer: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(answer, b"\"id\":")? + 5;
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&answer[at..at + digits]).ok()?.parse().ok()
}
