//! The guard around every route: request id, log, panics, and what is refused before anybody looks at the request.
//! Knows nothing of MCP, OAuth and pages.
//!
//! All checks run in one function, cheapest first, and nothing in it is boxed: it is passed by every call. Nothing here ever answers with a redirect: clients of `/mcp` and of the discovery documents follow none (`OA-17`).

pub mod client_ip;
pub mod forwarded;
pub mod headers;
pub mod host;
pub mod origin;
pub mod refusal;
mod settings;
pub mod trace;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use http_body_util::Limited;
use ipnet::IpNet;
use tracing::Instrument as _;

pub use self::settings::{BODY_LIMIT, Bound, Settings};
pub use crate::model::{ClientIp, RequestId};
use crate::{
    listener::AddressPermit,
    support::{Random, panics},
};
use refusal::Refusal;

/// What is around every route.
pub struct Guard {
    hosts: host::Hosts,
    origins: origin::Origins,
    proxies: Vec<IpNet>,
    headers: headers::Common,
    body_limit: usize,
    forwarded: forwarded::Forwarded,
    random: Arc<dyn Random>,
    answers: trace::Answers,
}

/// The response in place of a handler's that panics: it tells nothing of the inside (`OA-142`).
fn server_error() -> Response {
    let description = "The gateway failed at this request. The log has the reason under this request id.";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description).into_response()
}

// === impl Guard ===

impl Guard {
    /// A guard with these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            hosts: host::Hosts::new(settings),
            origins: origin::Origins::new(settings),
            proxies: settings.trusted_proxies.clone(),
            headers: headers::Common::new(&settings.public_url),
            body_limit: settings.body_limit,
            forwarded: forwarded::Forwarded::new(settings),
            random: Arc::clone(&settings.random),
            answers: trace::Answers::register(),
        }
    }

    /// Answers a request by what `handler` returns, or with a refusal. The handler finds the [`RequestId`] and the
    /// [`ClientIp`] in the request's extensions. `ConnectInfo<SocketAddr>` is expected among them; where it is absent the
    /// client counts as loopback.
    pub async fn answer<F>(&self, mut request: Request, handler: impl FnOnce(Request) -> F + Send) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let id = RequestId::mint(&*self.random);
        let from = client_ip::of(&request, &self.proxies);
        let span = trace::span(&request, id, from);
        request.extensions_mut().insert(id);
        request.extensions_mut().insert(from);
        let mut answer = async {
            let answer = match self.admit(&request, from) {
                Ok(permit) => {
                    forwarded::hold(permit, panics::caught(handler(self.limited(request)), server_error).await)
                }
                Err(refusal) => refusal.into_response(),
            };
            self.answers.add(&answer);
            answer
        }
        .instrument(span)
        .await;
        self.headers.dress(&mut answer, id);
        answer
    }

    /// Checks the request, and counts it where a proxy forwards it.
    fn admit(&self, request: &Request, from: ClientIp) -> Result<Option<AddressPermit>, Refusal> {
        let permit = self.forwarded.enter(request, from)?;
        self.hosts.check(request)?;
        self.origins.check(request)?;
        self.announced_size(request)?;
        Ok(permit)
    }

    /// Refuses a message that announces itself as too large, in JSON-RPC. Pages and OAuth endpoints have limits of their
    /// own, and answer in their own form.
    fn announced_size(&self, request: &Request) -> Result<(), Refusal> {
        if !origin::is_guarded(request.uri().path()) || self.fits(announced(request)) {
            return Ok(());
        }
        let message =
            format!("The request body is larger than the {} bytes that this gateway accepts.", self.body_limit);
        Err(Refusal::json_rpc(StatusCode::PAYLOAD_TOO_LARGE, message, request.headers()))
    }

    /// Whether nothing announces more than is accepted.
    fn fits(&self, announced: Option<u64>) -> bool {
        announced.is_none_or(|length| length <= u64::try_from(self.body_limit).unwrap_or(u64::MAX))
    }

    /// Cuts a body off that grows too large while it is read. One that announced a size cannot exceed that: HTTP sees to
    /// it.
    fn limited(&self, request: Request) -> Request {
        match announced(&request) {
            Some(length) if self.fits(Some(length)) => request,
            Some(_) | None => request.map(|body| Body::new(Limited::new(body, self.body_limit))),
        }
    }
}

/// The length of the body in bytes, where the request says it and nothing overrides it (RFC 9112 6.3).
fn announced(request: &Request) -> Option<u64> {
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
