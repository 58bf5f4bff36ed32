//! The servers of vectors. What a [`Plan`] does not answer, and everything that is no request, is the test's to see and to
//! answer.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::plan::{Plan, Said};
use crate::kit::{
    carriers::{Actor, Received, Session},
    outlet::{Outlet, Piece},
};

/// Something that a server got.
#[derive(Debug)]
pub(super) enum Came {
    Message(Heard),
    /// A connection, or a session, was ended.
    Closed,
}

/// A message of the gateway's.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) message: Value,
    /// None on stdio.
    pub(super) headers: Option<HeaderMap>,
    /// To the exchange on which it came: a line for each message, written at once.
    pub(super) here: Outlet,
    /// Outside of any exchange.
    pub(super) aside: Aside,
}

/// Where a server says what belongs to no exchange.
#[derive(Debug, Clone)]
pub(super) enum Aside {
    /// The standalone stream of a session, or the channel.
    Session(Outlet),
    /// The listens that are open (2026-07-28).
    Listens(Listens),
    /// A server without sessions has no stream that is nobody's.
    Nowhere,
}

/// The listens at one server: the id of each, and its stream.
pub(super) type Listens = Arc<Mutex<Vec<(Value, Outlet)>>>;

/// A server of a vector.
#[derive(Clone)]
pub(super) struct PlannedServer {
    plan: Arc<Plan>,
    is_channel: bool,
    came: UnboundedSender<Came>,
    listens: Listens,
}

/// One of its sessions, or connections.
struct Conversed {
    server: PlannedServer,
    aside: Aside,
    end: CancellationToken,
}

// === impl PlannedServer ===

impl PlannedServer {
    /// The server, on a channel or over HTTP, and what comes to it.
    pub(super) fn new(plan: Plan, is_channel: bool) -> (Self, UnboundedReceiver<Came>) {
        let (sender, came) = mpsc::unbounded_channel();
        (Self { plan: Arc::new(plan), is_channel, came: sender, listens: Listens::default() }, came)
    }

    /// Tells the test, and gives what is planned to be said.
    fn hear(&self, heard: Heard) -> Said {
        let Heard { message, here, .. } = &heard;
        if message["params"]["ref"]["name"] == "lockkeeper-probe" {
            // asked by the gateway, of servers whose version has no word for it
            let error = json!({ "code": -32601, "message": "Method not found" });
            return Said::Answer(200, json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }).to_string());
        }
        let said = self.plan.respond(message);
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

impl Actor for PlannedServer {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        let aside = if self.plan.is_modern() {
            Aside::Listens(Arc::clone(&self.listens))
        } else if self.is_channel || self.plan.has_session_id() {
            Aside::Session(aside)
        } else {
            Aside::Nowhere
        };
        Arc::new(Conversed { server: self.clone(), aside, end: CancellationToken::new() })
    }

    fn has_sessions(&self) -> bool {
        self.plan.has_session_id()
    }

    fn streams_always(&self) -> bool {
        false
    }
}

// === impl Conversed ===

impl Session for Conversed {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let Received { message, headers, .. } = received;
        let status = |code: u16| Piece::Answer(Bytes::new(), StatusCode::from_u16(code).unwrap());
        let is_http = headers.is_some();
        let has_id = headers.as_ref().is_some_and(|headers| headers.contains_key("mcp-session-id"));
        let is_stray = has_id && !self.server.plan.has_session_id();
        let said = if is_stray {
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

// === impl Aside ===

impl Aside {
    /// Says it on the standalone stream, or on every listen under its id; how many hear it.
    pub(super) fn say(&self, message: &Value) -> usize {
        match self {
            Self::Nowhere => 0,
            Self::Session(stream) => usize::from(stream.lines_now(message.to_string())),
            Self::Listens(listens) => {
                let listens = listens.lock();
                let heard = listens.iter().filter(|(id, stream)| {
                    let mut message = message.clone();
                    message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
                    stream.lines_now(message.to_string())
                });
                heard.count()
            }
        }
    }
}
