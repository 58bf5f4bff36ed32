//! Limits the concurrent requests that a trusted proxy forwards for one client, because the connections belong to the
//! proxy and not to the client.

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

use super::{guard_settings::GuardSettings, refusal::EarlyRefusal};
use crate::{
    listener::{AddressPermit, Addresses},
    model::ClientIp,
};

/// `Retry-After` of a client with too many concurrent requests.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Forwarded requests, counted by the forwarded address.
#[derive(Debug)]
pub(super) struct Forwarded {
    requests: Arc<Addresses>,
    proxies: Vec<IpNet>,
}

/// A body that holds the permit of its request until it ends.
struct PermittedBody {
    body: Body,
    _permit: AddressPermit,
}

// === impl Forwarded ===

impl Forwarded {
    pub(super) fn new(settings: &GuardSettings) -> Self {
        let requests = Addresses::new(settings.limits.clone());
        Self { requests, proxies: settings.trusted_proxies.clone() }
    }

    /// Counts a request that a proxy forwards for `from`. Refuses it with 429 if there are too many: the client is at
    /// fault, and the gateway is not overloaded (RFC 6585 4). Loopback and the proxies themselves are exempt.
    pub(super) fn enter(&self, from: ClientIp) -> Result<Option<AddressPermit>, EarlyRefusal> {
        if from.0.is_loopback() || self.proxies.iter().any(|proxy| proxy.contains(&from.0)) {
            return Ok(None);
        }
        self.requests.enter(from).map(Some).ok_or_else(|| {
            let description = "Too many requests of this address are running. Try again when some have ended.";
            EarlyRefusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", description).retry_after(RETRY_AFTER)
        })
    }
}

/// Holds the permit until the response body ends: a stream counts while it is open.
pub(super) fn hold(permit: AddressPermit, response: Response) -> Response {
    response.map(|body| Body::new(PermittedBody { body, _permit: permit }))
}

// === impl PermittedBody ===

impl HttpBody for PermittedBody {
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
