//! HTTP requests of the examination, within bounds: no redirects, 10 seconds (hosted clients wait no longer), 256 KiB.
//! Documents are fetched once for all clients. Knows nothing of their content.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use reqwest::{Method, header::HeaderMap, redirect::Policy};
use serde_json::Value;
use url::Url;

use super::finding::Finding;
use crate::fetch::open_client::{self, ClientSetupError};

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024;

/// A request.
#[derive(Debug)]
pub(super) struct ProbeRequest<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: &'a [(&'static str, &'a str)],
    pub(super) body: String,
}

/// A whole response.
#[derive(Debug)]
pub(super) struct ProbeResponse {
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
}

/// HTTP client of the examination.
pub(super) struct Prober {
    http: reqwest::Client,
    documents: Mutex<HashMap<Url, Arc<ProbeResponse>>>,
}

// === impl Prober ===

impl Prober {
    /// Creates the client; proxies come from the environment.
    pub(super) fn new() -> Result<Self, ClientSetupError> {
        let agent = concat!("lockkeeper-doctor/", env!("CARGO_PKG_VERSION"));
        let http = open_client::client(|http| http.redirect(Policy::none()).timeout(TIMEOUT).user_agent(agent))?;
        Ok(Self { http, documents: Mutex::default() })
    }

    /// The document at `url`, which all clients ask for in the same way.
    pub(super) async fn document(&self, url: &Url) -> Result<Arc<ProbeResponse>, Finding> {
        let known = self.documents.lock().get(url).map(Arc::clone);
        if let Some(known) = known {
            return Ok(known);
        }
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-11-25")];
        let answer =
            self.send(ProbeRequest { method: Method::GET, url, headers: &headers, body: String::new() }).await?;
        let answer = Arc::new(answer);
        self.documents.lock().insert(url.clone(), Arc::clone(&answer));
        Ok(answer)
    }

    /// Sends a request and reads the response.
    pub(super) async fn send(&self, asked: ProbeRequest<'_>) -> Result<ProbeResponse, Finding> {
        let unreachable = |error: &dyn std::error::Error| {
            let problem = format!("it cannot be reached ({})", innermost(error));
            let advice = "check the address, the certificate and that it answers within 10 s";
            Finding::blocks(asked.url.as_str(), problem, advice)
        };
        let mut request = self.http.request(asked.method.clone(), asked.url.clone());
        for (name, value) in asked.headers {
            request = request.header(*name, *value);
        }
        if !asked.body.is_empty() {
            request = request.body(asked.body.clone());
        }
        let mut response = request.send().await.map_err(|error| unreachable(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        // the rest of an answer that streams, or is too long, changes nothing
        while body.len() < MAX_RESPONSE && !is_stream(&headers) {
            match response.chunk().await.map_err(|error| unreachable(&error))? {
                Some(chunk) => body.extend_from_slice(&chunk),
                None => break,
            }
        }
        Ok(ProbeResponse { url: asked.url.clone(), status, headers, body })
    }
}

// === impl ProbeResponse ===

impl ProbeResponse {
    /// The first value of a header; empty if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON; null if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True if it is what an MCP server answers: JSON-RPC, or a stream of events.
    pub(super) fn is_mcp(&self) -> bool {
        let json = self.json();
        let first = json.as_array().and_then(|batch| batch.first()).unwrap_or(&json);
        is_stream(&self.headers) || first["jsonrpc"] == "2.0"
    }

    /// Values of a header, as a browser joins them.
    pub(super) fn joined(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(", ")
    }

    /// The OAuth error code in the body; empty if there is none.
    pub(super) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Status, and what is said of the error, for people.
    pub(super) fn outline(&self) -> String {
        let json = self.json();
        let said = [&json["error"], &json["error_description"]].map(|part| part.as_str().unwrap_or_default());
        let said = said.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        if said.is_empty() { self.status.to_string() } else { format!("{} ({said})", self.status) }
    }

    /// True if the response sends the client to another URL.
    pub(super) fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// True if the request was served.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

#[cfg(test)]
impl ProbeResponse {
    /// A response, for tests.
    pub(super) fn of(url: &str, status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Self {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, reqwest::header::HeaderValue::from_static(value));
        }
        Self { url: Url::parse(url).unwrap(), status, headers: map, body: body.as_bytes().to_vec() }
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.starts_with("text/event-stream")
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
