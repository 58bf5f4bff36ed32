//! Reader of a client's responses, as a whole or by event. Validates every message against the official schema of the
//! client's version, once that is known.

use std::{collections::HashMap, sync::Arc};

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use lockkeeper::mcp::Revision;
use parking_lot::Mutex;
use serde_json::Value;

use crate::support::strict;

/// A body that is read by event.
pub(super) struct Events {
    body: BodyDataStream,
    /// The events that came and were not read yet.
    came: String,
    reader: Reader,
}

/// The requests of one client, to identify answers. Attached to each response.
#[derive(Debug, Clone, Default)]
pub(super) struct Reader(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The version in the answer to `initialize`.
    revision: Option<Revision>,
    /// The method of each request, by its id.
    asked: HashMap<String, String>,
}

/// The whole body.
pub(super) async fn text(response: Response<Body>) -> String {
    let reader = Reader::of(&response);
    let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    if text.starts_with(['{', '[']) {
        reader.reads(&text);
    } else {
        text.lines().filter_map(|line| line.strip_prefix("data: ")).for_each(|data| reader.reads(data));
    }
    text
}

/// The whole body, as one message or a batch.
pub(super) async fn body(response: Response<Body>) -> Value {
    assert_eq!(response.headers()["content-type"], "application/json");
    serde_json::from_str(&text(response).await).unwrap()
}

// === impl Events ===

impl Events {
    pub(super) fn of(response: Response<Body>) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()["cache-control"], "no-cache");
        let reader = Reader::of(&response);
        Self { body: response.into_body().into_data_stream(), came: String::new(), reader }
    }

    /// The next event or comment, verbatim; `None` at the end.
    pub(super) async fn raw(&mut self) -> Option<String> {
        let end = loop {
            match self.came.find("\n\n") {
                Some(end) => break end + 2,
                None => self.came.push_str(std::str::from_utf8(&self.body.next().await?.unwrap()).unwrap()),
            }
        };
        let rest = self.came.split_off(end);
        let text = std::mem::replace(&mut self.came, rest);
        text.lines().filter_map(|line| line.strip_prefix("data: ")).for_each(|data| self.reader.reads(data));
        Some(text)
    }

    /// Id and data of the next event that has an id.
    pub(super) async fn numbered(&mut self) -> Option<(String, String)> {
        loop {
            let text = self.raw().await?;
            let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let Some(id) = field("id: ") {
                return Some((id, field("data: ").unwrap_or_default()));
            }
        }
    }

    /// The data of the next event; `None` at the end.
    pub(super) async fn data(&mut self) -> Option<String> {
        loop {
            let text = self.raw().await?;
            let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            // an event with only an id is for resumption
            if data.iter().any(|line| !line.is_empty()) {
                return Some(data.join("\n"));
            }
        }
    }

    /// The next message; `None` at the end.
    pub(super) async fn message(&mut self) -> Option<Value> {
        self.data().await.map(|data| serde_json::from_str(&data).unwrap())
    }
}

// === impl Reader ===

impl Reader {
    fn of(response: &Response<Body>) -> Self {
        response.extensions().get().cloned().unwrap_or_default()
    }

    /// Records the requests in a message or a batch.
    pub(super) fn asks(&self, message: &Value) {
        let all = message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice);
        for one in all {
            if let (Some(id), Some(method)) = (one.get("id"), one["method"].as_str()) {
                self.0.lock().asked.insert(id.to_string(), method.to_owned());
            }
        }
    }

    /// Validates a message. Data that is no JSON, such as the URL of a session, is no message.
    fn reads(&self, data: &str) {
        let Ok(message) = serde_json::from_str::<Value>(data) else { return };
        let all = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
        for one in all {
            self.reads_one(one);
        }
    }

    fn reads_one(&self, message: &Value) {
        let (id, method) = (&message["id"], message["method"].as_str());
        let mut state = self.0.lock();
        let asked = state.asked.get(&id.to_string()).cloned();
        if asked.as_deref() == Some("initialize")
            && let Some(version) = message["result"]["protocolVersion"].as_str()
        {
            state.revision = Revision::parse(version);
        }
        let Some(revision) = state.revision else { return };
        drop(state);
        let checked = match (method, asked) {
            // before 2025-11-25 the schemas have no error without an id, which JSON-RPC requires
            (None, _) if id.is_null() && message.get("error").is_some() => Ok(()),
            (None, asked) => strict::answer(revision, asked.as_deref().unwrap_or_default(), message),
            (Some(_), _) if id.is_null() => strict::notification(revision, message),
            (Some(_), _) => strict::request(revision, message),
        };
        checked.unwrap_or_else(|fault| panic!("{fault}"));
    }
}
