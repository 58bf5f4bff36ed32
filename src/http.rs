//! The guard, a middleware around every route: request id, log, panics, and early refusals.
//!
//! All checks run in one function, the cheapest first, and without boxing, because every call passes through it. The
//! guard never answers with a redirect, because clients of `/mcp` and of the discovery documents do not follow any
//! (`OA-17`).

mod answers;
pub(crate) mod client_ip;
mod forwarded;
mod guard_settings;
mod host;
mod logged_path;
mod origin;
mod refusal;
mod refusal_budget;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request},
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use http_body_util::Limited;
use ipnet::IpNet;
use tracing::field::display;

pub use self::{
    answers::Probed,
    guard_settings::{Bound, GuardSettings},
};
pub use crate::model::{ClientIp, CorrelationId};
use crate::{
    listener::{AddressPermit, ConnectionPlace},
    model::{CorrelationIds, LimitsConfig, RequestPlace},
    support::{
        Live,
        log_context::{Fields, log_with},
        panics,
    },
};
use {answers::Answers, logged_path::logged_path, refusal::EarlyRefusal};

/// Middleware around every route.
pub struct Guard {
    hosts: host::Hosts,
    origins: origin::Origins,
    proxies: Vec<IpNet>,
    limits: Live<LimitsConfig>,
    forwarded: forwarded::Forwarded,
    ids: CorrelationIds,
    answers: Answers,
}

/// The request's context for the log. It never includes the query, which may hold a key (`OA-123`).
fn log_context(request: &Request, id: CorrelationId, from: ClientIp) -> impl Fn() -> Fields + Send + Sync + use<> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    move || {
        vec![
            ("method", Box::new(display(method.clone()))),
            ("path", Box::new(logged_path(&uri))),
            ("request_id", Box::new(display(id))),
            ("client_ip", Box::new(display(from.0))),
        ]
    }
}

/// The address at the other end. If another replica forwarded the request, it has found the address (`ConnectInfo`).
fn peer(request: &Request) -> IpAddr {
    let carried = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    let peer = carried.or_else(|| request.extensions().get().map(ConnectionPlace::peer));
    peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip().to_canonical())
}

/// The response after a handler panicked. It reveals no internals (`OA-142`).
fn server_error() -> Response {
    let description = "The gateway failed at this request. The log has the reason under this request id.";
    EarlyRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description).into_response()
}

// === impl Guard ===

impl Guard {
    /// A guard with these settings.
    pub fn new(settings: &GuardSettings) -> Self {
        Self {
            hosts: host::Hosts::new(settings),
            origins: origin::Origins::new(settings),
            proxies: settings.trusted_proxies.clone(),
            limits: settings.limits.clone(),
            forwarded: forwarded::Forwarded::new(settings),
            ids: CorrelationIds::new(&*settings.random),
            answers: Answers::new(&settings.public_url, Arc::clone(&settings.random)),
        }
    }

    /// Handles a request with `handler`, or refuses it. The handler finds the [`CorrelationId`] and the [`ClientIp`] in
    /// the request's extensions. Reads `ConnectInfo<SocketAddr>` or `ConnectionPlace` there; if both are missing, the
    /// client counts as loopback.
    pub async fn answer<F>(&self, mut request: Request, handler: impl FnOnce(Request) -> F + Send) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        let id = self.ids.issue();
        let peer = peer(&request);
        let from = self.client(peer, &request);
        let context = log_context(&request, id, from);
        request.extensions_mut().insert(id);
        request.extensions_mut().insert(from);
        let answer = pin!(async {
            let answer = match self.admit(&mut request, peer, from) {
                Ok(permit) => {
                    // pinned here and below, because passing a future by value copies it
                    let handler = pin!(handler(request));
                    let answer = panics::caught(handler, server_error).await;
                    if let Some(permit) = permit { forwarded::hold(permit, answer) } else { answer }
                }
                Err(refusal) => refusal.into_response(),
            };
            self.answers.log(&answer, from);
            answer
        });
        let mut answer = log_with(id.digits(), context, answer).await;
        self.answers.add_headers(&mut answer, id);
        answer
    }

    /// The client's address. If another replica carried the request, it has already found the address.
    fn client(&self, peer: IpAddr, request: &Request) -> ClientIp {
        let is_carried = || request.extensions().get() == Some(&RequestPlace::Carried);
        if self.proxies.is_empty() || is_carried() {
            return ClientIp(peer);
        }
        ClientIp(client_ip::behind(peer, request.headers(), &self.proxies))
    }

    /// Checks the request, counts it if a proxy forwards it, and limits the size of its body.
    fn admit(
        &self,
        request: &mut Request,
        peer: IpAddr,
        from: ClientIp,
    ) -> Result<Option<AddressPermit>, EarlyRefusal> {
        let permit = if from.0 == peer { None } else { self.forwarded.enter(from)? };
        self.hosts.check(request)?;
        if let Some(origin) = request.headers().get(header::ORIGIN) {
            self.origins.check(origin, request)?;
        }
        let announced = announced(request);
        // every configuration allows this much
        if announced.is_some_and(|length| length <= LimitsConfig::ALLOWED_BODY) {
            return Ok(permit);
        }
        let max = self.limits.get().request_body;
        match announced {
            // HTTP ensures that the body is no longer than announced
            Some(length) if length <= max => {}
            Some(_) if origin::is_guarded(request.uri().path()) => return Err(too_large(request, max)),
            // an unknown length, or a page with a limit of its own: counted while the body is read
            Some(_) | None => {
                let body = std::mem::take(request.body_mut());
                *request.body_mut() = Body::new(Limited::new(body, max));
            }
        }
        Ok(permit)
    }
}

/// Refuses a message whose announced length exceeds `max`, in JSON-RPC. Pages and OAuth endpoints have their own limits
/// and formats.
fn too_large(request: &Request, max: usize) -> EarlyRefusal {
    let message = format!("The request body is larger than the {max} bytes that this gateway accepts.");
    EarlyRefusal::json_rpc(StatusCode::PAYLOAD_TOO_LARGE, message, request.headers())
}

/// The length of the body in bytes, if the request announces it and nothing overrides it (RFC 9112 6.3).
fn announced(request: &Request) -> Option<usize> {
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let length: u64 = request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
    Some(usize::try_from(length).unwrap_or(usize::MAX))
}
