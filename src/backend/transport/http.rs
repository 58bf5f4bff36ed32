//! A server behind a Streamable HTTP endpoint (2025-03-26 and later, transports).

mod answer;
mod client;
mod connector;
mod mirrored;
mod standalone;
mod unsolicited;

pub(crate) use client::Client;
pub(super) use client::configured_headers;
pub use connector::ClientError;
pub(crate) use standalone::LateStreams;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Method as Verb, Request, header};
use http_body_util::Full;
use hyper::body::Incoming as Body;
use tokio::time::timeout;

use self::{client::Target, standalone::Opening};
use super::interface::{Incoming, Transport, TransportError};
use crate::{
    backend::error::StartError,
    mcp::{Era, Feature, Message, Method, Revision, mirrored::Mirror},
    model::HttpSpec,
    wire::headers::{JSON_AND_EVENTS, LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID},
};

/// How long the last request of a session, its DELETE, may take.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);
/// Room for the headers of most requests.
const HEADERS: usize = 16;

/// A response, its body not yet read.
pub(super) type Response = http::Response<Body>;

/// The connection to one endpoint: one session of it, or none where the server keeps none.
#[derive(Clone)]
pub(crate) struct HttpTransport(Arc<Endpoint>);

pub(super) struct Endpoint {
    client: Client,
    target: Target,
    session: OnceLock<HeaderValue>,
    revision: OnceLock<Revision>,
    opening: Opening,
}

/// Prepares a connection; nothing is sent before the first request. `late` is shared by all connections to this server.
pub(crate) fn connect(
    client: &Client,
    spec: &HttpSpec,
    late: &LateStreams,
) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let endpoint = Endpoint {
        client: client.clone(),
        target: client.target(spec)?,
        session: OnceLock::new(),
        revision: OnceLock::new(),
        opening: Opening::new(late),
    };
    let link = HttpTransport(Arc::new(endpoint));
    let incoming = unsolicited::incoming(Arc::clone(&link.0));
    Ok((Arc::new(link), incoming))
}

// === impl Endpoint ===

impl Endpoint {
    /// The headers of every request, and the one for what the client accepts.
    fn headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.extend(self.target.headers.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if let Some(session) = self.session.get() {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(revision) = self.revision.get().filter(|revision| revision.has(Feature::ProtocolVersionHeader)) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        headers
    }

    async fn send(&self, verb: Verb, headers: HeaderMap, body: Bytes) -> Result<Response, TransportError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = verb;
        *request.uri_mut() = self.target.uri.clone();
        *request.headers_mut() = headers;
        self.client.send(request).await
    }

    /// Posts one message and gives the response where the server took it.
    async fn post(&self, message: &Message, mirror: Option<&Mirror>) -> Result<Response, Turned> {
        let mut headers = self.headers(JSON_AND_EVENTS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.is_modern() {
            mirrored::insert(&mut headers, message, mirror);
        }
        let response = self.send(Verb::POST, headers, message.encode()).await.map_err(Turned::Error)?;
        if response.status().is_success() {
            if matches!(message, Message::Request { method: Method::Initialize, .. }) {
                self.keep_session(&response);
            }
            return Ok(response);
        }
        Err(answer::turned(response, self.session.get().is_some()).await)
    }

    /// Whether every request stands alone (2026-07-28).
    fn is_modern(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.era() == Era::Modern)
    }

    /// Opens a stream of events: the one for unsolicited messages, or the rest of one that broke off.
    async fn stream(&self, after: Option<&str>) -> Result<Response, Turned> {
        let mut headers = self.headers("text/event-stream");
        if let Some(id) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let response = self.send(Verb::GET, headers, Bytes::new()).await.map_err(Turned::Error)?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(answer::turned(response, self.session.get().is_some()).await)
    }

    /// The session id is taken from a 2xx to `initialize` alone; it is visible ASCII (2025-03-26 and later, transports).
    fn keep_session(&self, response: &Response) {
        let id = response.headers().get(SESSION_ID);
        if let Some(id) = id.filter(|id| !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)) {
            let _ = self.session.set(id.clone());
        }
    }
}

/// The server did not take a message.
pub(super) enum Turned {
    /// It sent a JSON-RPC error along.
    Message(Message),
    /// It did not.
    Error(TransportError),
}

// === impl HttpTransport ===

impl Transport for HttpTransport {
    fn request(
        &self,
        request: Message,
        mirror: Option<Arc<Mirror>>,
    ) -> BoxStream<'static, Result<Message, TransportError>> {
        answer::answer(Arc::clone(&self.0), request, mirror).boxed()
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let endpoint = Arc::clone(&self.0);
        async move {
            // 2026-07-28 transports: nothing but requests is posted, and closing the answer is what cancels one
            if endpoint.is_modern() {
                return Ok(());
            }
            match endpoint.post(&message, None).await {
                Ok(_) => Ok(()),
                Err(Turned::Error(error)) => Err(error),
                Err(Turned::Message(Message::Response { outcome: Err(error), .. })) => {
                    Err(TransportError::Refused(error.to_string()))
                }
                Err(Turned::Message(_)) => Err(TransportError::Refused("it answered with no success".to_owned())),
            }
        }
        .boxed()
    }

    fn negotiated(&self, revision: Revision) {
        let _ = self.0.revision.set(revision);
    }

    fn opened(&self) {
        self.0.opening.begin();
    }

    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.opening.wait()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let endpoint = Arc::clone(&self.0);
        async move {
            if endpoint.session.get().is_some() {
                // 405 and everything else is as good: the server keeps its own time then
                let end = endpoint.send(Verb::DELETE, endpoint.headers("*/*"), Bytes::new());
                let _ = timeout(DELETE_TIMEOUT, end).await;
            }
        }
        .boxed()
    }

    fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }
}
