//! HTTP requests of the examination, within bounds: no redirects, 10 seconds (hosted clients wait no longer), 256 KiB.
//! Documents are fetched once for all clients.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::finding::Finding;
use crate::{
    fetch::{BodyBound, FetchRequest, OpenBounds, OpenClient, is_stream},
    oauth_client::OAuthRefusal,
    support::Timestamp,
};

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024;

/// The `User-Agent` of the requests.
const AGENT: &str = concat!("lockkeeper-doctor/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(super) struct ProbeRequest<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: &'a [(&'static str, &'a str)],
    pub(super) body: String,
}

#[derive(Debug)]
pub(super) struct ProbeResponse {
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

/// HTTP client of the examination.
pub(super) struct Prober {
    http: OpenClient,
    documents: Mutex<HashMap<Url, Arc<ProbeResponse>>>,
}

// === impl Prober ===

impl Prober {
    pub(super) fn new(http: OpenClient) -> Self {
        Self { http, documents: Mutex::default() }
    }

    /// The document at `url`, which all clients request in the same way.
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
        let unreachable = |reason: String| {
            let advice = "check the address, the certificate and that it answers within 10 s";
            Finding::blocks(asked.url.as_str(), format!("it cannot be reached ({reason})"), advice)
        };
        let mut headers = HeaderMap::from_iter([(http::header::USER_AGENT, HeaderValue::from_static(AGENT))]);
        for (name, value) in asked.headers {
            let value = HeaderValue::try_from(*value).map_err(|error| unreachable(error.to_string()))?;
            headers.append(HeaderName::from_static(name), value);
        }
        let request = FetchRequest::new(asked.method.clone(), asked.url.clone(), headers, asked.body.clone().into());
        // the rest of a streaming or overlong answer makes no difference
        let bounds = OpenBounds { deadline: TIMEOUT, body: BodyBound::Beginning(MAX_RESPONSE) };
        let response = self.http.send(request, bounds).await.map_err(|error| unreachable(error.reason()))?;
        let (head, body) = response.into_parts();
        Ok(ProbeResponse { url: asked.url.clone(), status: head.status.as_u16(), headers: head.headers, body })
    }
}

// === impl ProbeResponse ===

impl ProbeResponse {
    /// The first value of a header, or an empty string.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON; null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True if it looks like an MCP server's answer: JSON-RPC, or a stream of events.
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

    /// The OAuth error code in the body, or an empty string.
    pub(super) fn error(&self) -> String {
        self.refusal().code.unwrap_or_default()
    }

    /// Status and error text, for people.
    pub(super) fn outline(&self) -> String {
        let OAuthRefusal { code, description, .. } = self.refusal();
        let said = [code, description].into_iter().flatten().collect::<Vec<_>>().join(": ");
        if said.is_empty() { self.status.to_string() } else { format!("{} ({said})", self.status) }
    }

    fn refusal(&self) -> OAuthRefusal {
        OAuthRefusal::read(self.status, &self.headers, &self.body, Timestamp::from_seconds(0))
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
            map.append(*name, HeaderValue::from_static(value));
        }
        Self { url: Url::parse(url).unwrap(), status, headers: map, body: body.to_owned().into() }
    }
}
