//! A server behind a Streamable HTTP endpoint (2025-03-26 and later, transports).

mod answer;
mod client;
mod mirrored;
mod standalone;
mod unsolicited;

pub(crate) use client::guarded;
pub(super) use client::headers as configured_headers;
pub(crate) use standalone::LateStreams;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};
use http::{HeaderMap, Method as Verb, header};
use reqwest::{RequestBuilder, Response};
use tokio::time::timeout;
use url::Url;

use self::standalone::Opening;
use super::interface::{Incoming, Transport, TransportError};
use crate::{
    backend::error::StartError,
    mcp::{Era, Feature, Message, Method, Revision, mirrored::Mirror},
    model::HttpSpec,
    wire::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID},
};

/// How long the last request of a session, its DELETE, may take.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connection to one endpoint: one session of it, or none where the server keeps none.
#[derive(Clone)]
pub(crate) struct HttpTransport(Arc<Endpoint>);

pub(super) struct Endpoint {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    session: OnceLock<String>,
    revision: OnceLock<Revision>,
    opening: Opening,
}

/// Prepares a connection; nothing is sent before the first request. `late` is shared by all connections to this server.
pub(crate) fn connect(
    client: &reqwest::Client,
    spec: &HttpSpec,
    late: &LateStreams,
) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let endpoint = Endpoint {
        client: client.clone(),
        url: spec.url.clone(),
        headers: client::headers(spec)?,
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
    fn request(&self, verb: Verb) -> RequestBuilder {
        let mut request = self.client.request(verb, self.url.clone()).headers(self.headers.clone());
        if let Some(session) = self.session.get() {
            request = request.header(SESSION_ID, session);
        }
        match self.revision.get() {
            Some(revision) if revision.has(Feature::ProtocolVersionHeader) => {
                request.header(PROTOCOL_VERSION, revision.as_str())
            }
            _ => request,
        }
    }

    /// Posts one message and gives the response where the server took it.
    async fn post(&self, message: &Message, mirror: Option<&Mirror>) -> Result<Response, Turned> {
        let mut request = self
            .request(Verb::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        if self.is_modern() {
            request = request.headers(mirrored::headers(message, mirror));
        }
        let request = request.body(message.encode());
        let response = request.send().await.map_err(|error| Turned::Error(client::broken(&error)))?;
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
        let mut request = self.request(Verb::GET).header(header::ACCEPT, "text/event-stream");
        if let Some(id) = after {
            request = request.header(LAST_EVENT_ID, id);
        }
        let response = request.send().await.map_err(|error| Turned::Error(client::broken(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(answer::turned(response, self.session.get().is_some()).await)
    }

    /// The session id is taken from a 2xx to `initialize` alone; it is visible ASCII (2025-03-26 and later, transports).
    fn keep_session(&self, response: &Response) {
        let id = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(id) = id.filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic())) {
            let _ = self.session.set(id.to_owned());
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
                let _ = timeout(DELETE_TIMEOUT, endpoint.request(Verb::DELETE).send()).await;
            }
        }
        .boxed()
    }

    fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }
}
