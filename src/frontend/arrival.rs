//! What every request to the front brings: who sends it, to which endpoint, and its headers.

use std::future::{self, Future};

use axum::{
    Extension, RequestPartsExt as _,
    extract::FromRequestParts,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, request::Parts};

use super::{Frontend, refusal::Refusal};
use crate::{
    mcp::{Era, Revision, Trace},
    model::{Binding, Endpoint},
    resource::{Admission, Lease},
    support::Timestamp,
    wire::headers,
};

/// How long a stream outlives the credential that it rests on, so that a client has time to renew it.
const GRACE: std::time::Duration = std::time::Duration::from_secs(30);

/// What a request brings beside its body.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Who sends it.
    pub(crate) admission: Admission,
    /// To which endpoint; that of `/messages` is told by the session.
    pub(crate) endpoint: Endpoint,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// What ties it to the logs.
    pub(crate) trace: Trace,
}

/// What `MCP-Protocol-Version` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionHeader {
    /// Nothing.
    Absent,
    /// A version that sessions have.
    Known,
    /// A version that has no sessions.
    Modern,
    /// Something else.
    Unknown,
}

impl Arrival {
    /// The session that the request names.
    pub(crate) fn session(&self) -> Option<&str> {
        // an id that is not visible ASCII, or one of two, is one that nobody was given
        let given = self.headers.contains_key(headers::SESSION_ID);
        given.then(|| headers::sole(&self.headers, &headers::SESSION_ID).unwrap_or_default())
    }

    /// The version that the request names.
    pub(crate) fn version(&self) -> VersionHeader {
        if !self.headers.contains_key(headers::PROTOCOL_VERSION) {
            return VersionHeader::Absent;
        }
        match self.named() {
            Some(revision) if revision.era() == Era::Legacy => VersionHeader::Known,
            Some(_) => VersionHeader::Modern,
            None => VersionHeader::Unknown,
        }
    }

    /// The version in the header, where it is one that the gateway speaks.
    pub(crate) fn named(&self) -> Option<Revision> {
        named(&self.headers)
    }
}

impl FromRequestParts<Frontend> for Arrival {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, frontend: &Frontend) -> Result<Self, Response> {
        let Extension(admission) =
            parts.extract::<Extension<Admission>>().await.map_err(axum::response::IntoResponse::into_response)?;
        let endpoint = match parts.uri.path() {
            "/messages" => Endpoint { binding: Binding::Sse, ..Endpoint::MERGED },
            path => Endpoint::from_path(path)
                .filter(|endpoint| frontend.server(&endpoint.target).is_some())
                .ok_or_else(|| Refusal::no_endpoint().toward(named(&parts.headers)).into_response())?,
        };
        let request = parts.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let trace = Trace { request: request.to_owned() };
        Ok(Self { admission, endpoint, headers: std::mem::take(&mut parts.headers), trace })
    }
}

fn named(headers: &HeaderMap) -> Option<Revision> {
    headers::sole(headers, &headers::PROTOCOL_VERSION).and_then(Revision::parse)
}

/// Ends when streams that rest on the lease must: at its revocation, or a little after its expiry.
pub(crate) fn lapse(lease: &Lease, now: Timestamp) -> impl Future<Output = ()> + Send + 'static + use<> {
    let revoked = lease.revoked.clone();
    let left = lease.expires.map(|expires| expires.since(now) + GRACE);
    async move {
        let expired = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            () = revoked.cancelled() => {}
            () = expired => {}
        }
    }
}
