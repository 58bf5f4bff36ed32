//! A server behind a Streamable HTTP endpoint (2025-03-26 and later, transports).

mod answer;
mod authorized;
mod client;
mod cookies;
mod endpoint;
mod mirrored_headers;
mod refusal;
mod response;
mod standalone;
mod target;
mod unsolicited;

pub use crate::fetch::connector::ClientError;
pub(crate) use client::Client;
pub(super) use refusal::{Refused, read as read_refusal};
pub(super) use response::{Response, is_events, read_small};
pub(crate) use standalone::LateStreams;
pub(super) use target::{HttpTarget, configured_headers, identity_header};

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::Method as Verb;
use tokio::time::timeout;

use self::endpoint::HttpEndpoint;
use super::interface::{Exchange, Incoming, RequestTerms, Transport, TransportError};
use crate::{
    backend::error::StartError,
    mcp::{Message, Revision},
    model::{BackendId, HttpSpec},
    support::{Account, pin_in_box},
};

/// Timeout of the DELETE that ends a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one endpoint; with a session if the server opens one.
#[derive(Clone)]
pub(crate) struct HttpTransport(Arc<HttpEndpoint>);

/// Creates a connection; nothing is sent before the first request. `late` is shared by all connections to this server.
pub(crate) fn connect(
    spec: &HttpSpec,
    backend: &BackendId,
    client: &Client,
    late: &LateStreams,
    account: &Account,
) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let endpoint = HttpEndpoint::new(HttpTarget::new(backend, client, spec)?, late);
    let transport = HttpTransport(Arc::new(endpoint));
    let incoming = unsolicited::incoming(Arc::clone(&transport.0), account.clone());
    Ok((Arc::new(transport), incoming))
}

// === impl HttpTransport ===

impl Transport for HttpTransport {
    fn request(&self, request: Message, terms: RequestTerms) -> Exchange {
        Exchange::Own(pin_in_box(|| answer::answer(Arc::clone(&self.0), request, terms)))
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let endpoint = Arc::clone(&self.0);
        async move {
            // 2026-07-28, transports: clients post only requests, and cancel one by closing its response
            if endpoint.is_sessionless() {
                return Ok(());
            }
            match endpoint.post(&message, None).await {
                Ok(_) => Ok(()),
                Err(Refused::Error(error)) => Err(error),
                Err(Refused::Message(Message::Response { outcome: Err(error), .. })) => {
                    Err(TransportError::Refused(error.to_string()))
                }
                Err(Refused::Message(_)) => Err(TransportError::Refused("it answered with no success".to_owned())),
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

    fn may_be_http_sse(&self) -> bool {
        self.0.may_be_http_sse()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let endpoint = Arc::clone(&self.0);
        async move {
            if endpoint.session.get().is_some() {
                // any status will do, such as 405: the server then lets the session expire
                let content = || (endpoint.headers("*/*"), Bytes::new());
                let _ = timeout(DELETE_TIMEOUT, endpoint.send(Verb::DELETE, &content)).await;
            }
        }
        .boxed()
    }
}
