//! The HTTP bindings of a client: requests, their headers, and the streams of their responses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lockkeeper::mcp::Revision;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::{Arrived, Origin, Peer};
use crate::{
    kit::tap::{Event, Tap},
    support::in_time,
};

impl Peer {
    /// Opens the connection that is the session (2024-11-05).
    pub(super) async fn connect(&mut self, address: &str, url: &str) {
        let opened = in_time(format!("{self:?}: the stream"), self.request(self.http.get(address)).send()).await;
        let mut tap = Tap::of(opened.unwrap());
        let endpoint = async {
            loop {
                let event = tap.next().await.expect("the endpoint event");
                if event.name.as_deref() == Some("endpoint") {
                    break event;
                }
            }
        };
        let endpoint = in_time(format!("{self:?}: the endpoint event"), endpoint).await;
        self.address = format!("{url}{}", endpoint.data.unwrap());
        self.read(Origin::Standalone, tap);
    }

    /// Posts a message, and returns the response.
    pub(super) async fn exchange(&mut self, message: &Value) -> Response {
        self.expect_answers(message);
        let request = self.http.post(&self.address).header("content-type", "application/json");
        let response = self.request(request).body(message.to_string()).send();
        let response = in_time(format!("{self:?}: the response to {message}"), response).await.unwrap();
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.session = Some(id.to_str().unwrap().to_owned());
        }
        response
    }

    /// Opens a standalone stream, or resumes the one of the event `last`.
    pub(super) async fn resume(&self, last: Option<&str>) -> Tap {
        let mut request = self.request(self.http.get(&self.address));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = in_time(format!("{self:?}: a standalone stream"), request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{self:?}");
        Tap::of(response)
    }

    pub(super) fn request(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.bearer_auth(&self.key).header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) if self.pair.client >= Revision::V2025_06_18 => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", self.pair.client.as_str())
            }
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    /// Reads a stream into the inbox.
    pub(super) fn read(&mut self, on: Origin, mut tap: Tap) {
        let inbox = self.inbox.0.clone();
        self.reading.spawn(async move {
            while let Some(Event { id, data, .. }) = tap.next().await {
                let Some(data) = data.filter(|data| !data.is_empty()) else { continue };
                let messages = match serde_json::from_str(&data).unwrap() {
                    Value::Array(messages) => messages,
                    message => vec![message],
                };
                for message in messages {
                    let _ = inbox.send(Arrived { on: on.clone(), event: id.clone(), message, status: None });
                }
            }
        });
    }

    /// A request with the headers that mirror it.
    pub(super) fn mirrored(&self, message: &Value) -> RequestBuilder {
        let request = self.http.post(&self.address).bearer_auth(&self.key);
        let mut request = request
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", self.pair.client.as_str())
            .header("mcp-method", message["method"].as_str().unwrap());
        let params = &message["params"];
        let name = match message["method"].as_str().unwrap() {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            _ => None,
        };
        if let Some(name) = name {
            request = request.header("mcp-name", header_value(name));
        }
        if name == Some("mirrored") {
            for (header, pointer) in [("Region", "/region"), ("Count", "/count"), ("Flag", "/deep/flag")] {
                let value = match params["arguments"].pointer(pointer) {
                    None | Some(Value::Null) => continue,
                    Some(Value::String(text)) => header_value(text),
                    Some(value) => value.to_string(),
                };
                request = request.header(format!("Mcp-Param-{header}"), value);
            }
        }
        request.body(message.to_string())
    }
}

/// The status of a response that is no stream (`translation` 2.2).
pub(super) fn status_of(message: &Value) -> StatusCode {
    match message["error"]["code"].as_i64() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A value in a form that a header can carry.
fn header_value(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
    if plain && !value.starts_with("=?base64?") {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(value))
    }
}
