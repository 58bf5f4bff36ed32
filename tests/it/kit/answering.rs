//! A server whose answers are a function of the request.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    carriers::{Actor, Received, Session},
    outlet::Outlet,
};

/// The result of a request with this method and these parameters; `None` if the server lacks the method.
type Answers = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// The server. What it keeps is the function's.
pub(crate) struct AnsweringServer {
    has_sessions: bool,
    answers: Arc<Answers>,
}

/// One of its sessions.
struct Answering {
    answers: Arc<Answers>,
    end: CancellationToken,
}

impl AnsweringServer {
    pub(crate) fn new(
        version: Revision,
        answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self { has_sessions: version.era() == Era::Legacy, answers: Arc::new(answers) }
    }
}

impl Actor for AnsweringServer {
    fn open(&self, _: Outlet) -> Arc<dyn Session> {
        Arc::new(Answering { answers: Arc::clone(&self.answers), end: CancellationToken::new() })
    }

    fn has_sessions(&self) -> bool {
        self.has_sessions
    }

    fn streams_always(&self) -> bool {
        false
    }
}

impl Session for Answering {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let message = received.message;
        let answer = message["method"].as_str().filter(|_| message.get("id").is_some()).map(|method| {
            let result = (self.answers)(method, &message["params"]);
            match result {
                Some(result) => json!({ "id": message["id"], "result": result }),
                None => json!({ "id": message["id"], "error": { "code": -32601, "message": "no" } }),
            }
        });
        Box::pin(async move {
            if let Some(answer) = answer {
                outlet.answer(answer, StatusCode::OK).await;
            }
        })
    }

    fn misused(&self, _: &str) {}

    fn end(&self) -> &CancellationToken {
        &self.end
    }
}
