//! A server with a prescribed answer for each request. The test sees everything that it receives, and answers
//! everything else itself.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use lockkeeper::mcp::Revision;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::{
    carriers::{Actor, Received, Session},
    outlet::{Outlet, Piece},
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A server's answer to a message.
#[derive(Debug)]
pub(crate) enum Said {
    /// The response, with this status over HTTP.
    Answer(u16, String),
    /// An event that opens a stream.
    Opens(String),
    Ends,
    /// The test answers.
    Nothing,
}

/// Something received by the server.
#[derive(Debug)]
pub(crate) enum Came {
    Message(Heard),
    /// A connection, or a session, was ended.
    Closed,
}

/// A message from the gateway.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) message: Value,
    /// `None` on channels.
    pub(crate) headers: Option<HeaderMap>,
    /// Output to the exchange that it came on: a line for each message, written at once.
    here: Outlet,
    /// Output outside of any exchange.
    aside: Aside,
}

/// Output for messages that belong to no exchange.
#[derive(Debug, Clone)]
enum Aside {
    /// The standalone stream of a session, or the channel.
    Session(Outlet),
    /// The listens that are open (2026-07-28).
    Listens(Listens),
    /// Nowhere: without sessions, every stream belongs to a request.
    Nowhere,
}

/// The listens at one server: the id of each, and its stream.
type Listens = Arc<Mutex<Vec<(Value, Outlet)>>>;

/// How a server keeps track of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Sessions, on a channel or with an id over HTTP.
    Sessions,
    /// Nothing: before 2026-07-28, over HTTP without an id.
    Nothing,
    Listens,
}

/// The server. Any state belongs to the function.
#[derive(Clone)]
pub(crate) struct PrescribedServer {
    keeping: Keeping,
    answers: Arc<dyn Fn(&Value) -> Said + Send + Sync>,
    came: UnboundedSender<Came>,
    listens: Listens,
}

/// A session or connection of the server.
struct Prescribed {
    server: PrescribedServer,
    aside: Aside,
    end: CancellationToken,
}

// === impl PrescribedServer ===

impl PrescribedServer {
    /// A server with these answers, and everything that it receives.
    pub(crate) fn new(
        keeping: Keeping,
        answers: impl Fn(&Value) -> Said + Send + Sync + 'static,
    ) -> (Self, UnboundedReceiver<Came>) {
        let (sender, came) = unbounded_channel();
        (Self { keeping, answers: Arc::new(answers), came: sender, listens: Listens::default() }, came)
    }

    /// Forwards the message to the test, and returns the prescribed answer.
    fn hear(&self, heard: Heard) -> Said {
        let Heard { message, here, .. } = &heard;
        let said = (self.answers)(message);
        if let Said::Opens(first) = &said {
            here.lines_now(first.clone());
            let mut listens = self.listens.lock();
            listens.retain(|(_, stream)| !stream.is_closed());
            listens.push((message["id"].clone(), here.clone()));
        }
        let _ = self.came.send(Came::Message(heard));
        said
    }
}

impl Actor for PrescribedServer {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        let aside = match self.keeping {
            Keeping::Sessions => Aside::Session(aside),
            Keeping::Listens => Aside::Listens(Arc::clone(&self.listens)),
            Keeping::Nothing => Aside::Nowhere,
        };
        Arc::new(Prescribed { server: self.clone(), aside, end: CancellationToken::new() })
    }

    fn has_sessions(&self) -> bool {
        self.keeping == Keeping::Sessions
    }

    fn streams_always(&self) -> bool {
        false
    }
}

// === impl Prescribed ===

impl Session for Prescribed {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let Received { message, headers, .. } = received;
        let status = |code: u16| Piece::Answer(Bytes::new(), StatusCode::from_u16(code).unwrap());
        let is_http = headers.is_some();
        let has_id = headers.as_ref().is_some_and(|headers| headers.contains_key("mcp-session-id"));
        let said = if has_id && !self.server.has_sessions() {
            Some(status(400))
        } else {
            match self.server.hear(Heard { message, headers, here: outlet.clone(), aside: self.aside.clone() }) {
                Said::Answer(code, answer) => Some(Piece::Answer(answer.into(), StatusCode::from_u16(code).unwrap())),
                Said::Ends if is_http => Some(status(502)),
                Said::Ends => {
                    self.end.cancel();
                    None
                }
                Said::Opens(_) | Said::Nothing => None,
            }
        };
        Box::pin(async move {
            if let Some(piece) = said {
                outlet.write(piece).await;
            }
        })
    }

    fn misused(&self, verb: &str) {
        if verb == "DELETE" {
            self.closed();
        }
    }

    fn closed(&self) {
        let _ = self.server.came.send(Came::Closed);
    }

    fn end(&self) -> &CancellationToken {
        &self.end
    }
}

// === impl Heard ===

impl Heard {
    /// Sends a message on the exchange.
    pub(crate) fn say(&self, message: &Value) {
        self.here.lines_now(message.to_string());
    }

    /// Sends several messages on the exchange with nothing in between.
    pub(crate) fn say_at_once(&self, messages: impl Iterator<Item = Value>) {
        let lines: Vec<String> = messages.map(|message| message.to_string()).collect();
        self.here.lines_now(lines.join("\n"));
    }

    /// Ends a request with this result.
    pub(crate) fn answer(&self, result: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }));
    }

    /// Ends a call of a tool.
    pub(crate) fn finish(&self) {
        let mut result = json!({ "content": [{ "type": "text", "text": "done" }] });
        if self.message["params"]["_meta"][VERSION] == Revision::V2026_07_28.as_str() {
            result["resultType"] = "complete".into();
        }
        self.answer(&result);
    }

    /// Ends a request with server requests and a state (2026-07-28).
    pub(crate) fn ask(&self, questions: &Value, state: &Value) {
        let result = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": state });
        self.answer(&result);
    }

    /// Sends a message outside of any exchange: on the standalone stream, or on every listen under its id.
    pub(crate) fn say_aside(&self, message: &Value) {
        match &self.aside {
            Aside::Nowhere => {}
            Aside::Session(stream) => drop(stream.lines_now(message.to_string())),
            Aside::Listens(listens) => {
                for (id, stream) in listens.lock().iter() {
                    let mut message = message.clone();
                    message["params"]["_meta"][SUBSCRIPTION] = id.clone();
                    stream.lines_now(message.to_string());
                }
            }
        }
    }

    /// True if the exchange is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.here.is_closed()
    }

    /// Waits until the exchange is over.
    pub(crate) async fn closed(&self) {
        self.here.closed().await;
    }
}
