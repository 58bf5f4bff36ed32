//! The bound of the requests that a trusted proxy may have running for one client: its connections say nothing about that,
//! while those of other clients are bounded by the listener. Knows nothing of what is requested.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use http::StatusCode;
use ipnet::IpNet;

use super::{refusal::Refusal, settings::Settings};
use crate::{
    listener::{AddressPermit, Addresses},
    model::ClientIp,
};

/// The delay after which a client may try again that has too many requests running.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The requests that proxies forward, counted by the address that they forward.
#[derive(Debug)]
pub(super) struct Forwarded {
    requests: Arc<Addresses>,
    proxies: Vec<IpNet>,
}

/// A body that holds the permit of its request until it has ended.
struct Held {
    body: Body,
    _permit: AddressPermit,
}

// === impl Forwarded ===

impl Forwarded {
    /// None runs yet.
    pub(super) fn new(settings: &Settings) -> Self {
        let requests = Addresses::new(settings.requests_per_address);
        Self { requests, proxies: settings.trusted_proxies.clone() }
    }

    /// Counts a request that a proxy forwards for `from`, or refuses it with 429: it is one client that has too many
    /// running, not the gateway that is overloaded (RFC 6585 4). Loopback and the proxies themselves are exempt.
    pub(super) fn enter(&self, from: ClientIp) -> Result<Option<AddressPermit>, Refusal> {
        if from.0.is_loopback() || self.proxies.iter().any(|proxy| proxy.contains(&from.0)) {
            return Ok(None);
        }
        self.requests.enter(from).map(Some).ok_or_else(|| {
            let description = "Too many requests of this address are running. Try again when some have ended.";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", description).retry_after(RETRY_AFTER)
        })
    }
}

/// Keeps the permit until the body of the response has ended: a stream counts as long as it is open.
pub(super) fn hold(permit: AddressPermit, response: Response) -> Response {
    response.map(|body| Body::new(Held { body, _permit: permit }))
}

// === impl Held ===

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
