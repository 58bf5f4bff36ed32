//! A server controlled by a function that reacts to each message.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use http::{StatusCode, request::Parts};
use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    carriers::{Actor, Received, Session},
    outlet::{Outlet, Piece},
};

/// An action of such a server.
pub(crate) enum Act {
    /// Sends a message, adding its `jsonrpc`.
    Say(Value),
    /// Writes bytes that need not be a message.
    Write(Piece),
    /// Ends the session and its connection.
    End,
}

/// The actions for a message.
type Acts = dyn Fn(&Value) -> Vec<Act> + Send + Sync;
/// The verdict on a request over HTTP.
type Admits = dyn Fn(&Parts) -> Result<(), StatusCode> + Send + Sync;

/// The server. Any state belongs to the function.
pub(crate) struct AnsweringServer {
    has_sessions: bool,
    acts: Arc<Acts>,
    admits: Box<Admits>,
    open: Arc<AtomicUsize>,
}

/// A session of the server.
struct Answering {
    acts: Arc<Acts>,
    /// Held during the actions for one message, so that they stay together.
    turn: tokio::sync::Mutex<()>,
    open: Arc<AtomicUsize>,
    end: CancellationToken,
}

// === impl AnsweringServer ===

impl AnsweringServer {
    /// A server that answers a request with the result that `answers` returns for its method and parameters; `None` if
    /// it lacks the method.
    pub(crate) fn new(
        version: Revision,
        answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::acting(version, move |message| {
            let answer =
                message["method"].as_str().filter(|_| message.get("id").is_some()).map(|method| {
                    match answers(method, &message["params"]) {
                        Some(result) => json!({ "id": message["id"], "result": result }),
                        None => json!({ "id": message["id"], "error": { "code": -32601, "message": "no" } }),
                    }
                });
            answer.map(Act::Say).into_iter().collect()
        })
    }

    /// A server with these actions for each message.
    pub(crate) fn acting(version: Revision, acts: impl Fn(&Value) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let has_sessions = version.era() == Era::Legacy;
        Self { has_sessions, acts: Arc::new(acts), admits: Box::new(|_| Ok(())), open: Arc::default() }
    }

    /// The same, with a verdict on each HTTP request.
    pub(crate) fn admitting(self, admits: impl Fn(&Parts) -> Result<(), StatusCode> + Send + Sync + 'static) -> Self {
        Self { admits: Box::new(admits), ..self }
    }

    /// The number of its open sessions; follows changes.
    pub(crate) fn open_sessions(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.open)
    }
}

impl Actor for AnsweringServer {
    fn open(&self, _: Outlet) -> Arc<dyn Session> {
        self.open.fetch_add(1, Ordering::AcqRel);
        Arc::new(Answering {
            acts: Arc::clone(&self.acts),
            turn: tokio::sync::Mutex::default(),
            open: Arc::clone(&self.open),
            end: CancellationToken::new(),
        })
    }

    fn has_sessions(&self) -> bool {
        self.has_sessions
    }

    fn streams_always(&self) -> bool {
        false
    }

    fn admit(&self, request: &Parts) -> Result<(), StatusCode> {
        (self.admits)(request)
    }
}

// === impl Answering ===

impl Session for Answering {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let acts = (self.acts)(&received.message);
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            for act in acts {
                match act {
                    Act::Say(message) if message.get("method").is_some() => outlet.message(message).await,
                    Act::Say(answer) => outlet.answer(answer, StatusCode::OK).await,
                    Act::Write(piece) => drop(outlet.write(piece).await),
                    Act::End => self.end.cancel(),
                }
            }
        })
    }

    fn misused(&self, _: &str) {}

    fn closed(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn end(&self) -> &CancellationToken {
        &self.end
    }
}
