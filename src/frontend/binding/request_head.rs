//! The head of a request: its sender, and its headers.

use axum::{
    Extension, RequestPartsExt as _,
    extract::FromRequestParts,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, request::Parts};

use super::refusal::Refusal;
use crate::{
    frontend::{sender::Sender, state::FrontendState},
    mcp::{Era, Revision, Trace},
    model::{Binding, Endpoint},
    resource::Admission,
    wire::headers,
};

/// The head of a request.
#[derive(Debug)]
pub(crate) struct RequestHead {
    /// The client, and the endpoint.
    pub(crate) sender: Sender,
    /// The headers.
    pub(crate) headers: HeaderMap,
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

impl RequestHead {
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

impl FromRequestParts<FrontendState> for RequestHead {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &FrontendState) -> Result<Self, Response> {
        let Extension(admission) =
            parts.extract::<Extension<Admission>>().await.map_err(axum::response::IntoResponse::into_response)?;
        let endpoint = match parts.uri.path() {
            "/messages" => Endpoint { binding: Binding::Sse, ..Endpoint::MERGED },
            path => Endpoint::from_path(path)
                .filter(|endpoint| state.server(&endpoint.target).is_some())
                .ok_or_else(|| Refusal::no_endpoint().toward(named(&parts.headers)).into_response())?,
        };
        let request = parts.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let trace = Trace { request: request.to_owned() };
        Ok(Self { sender: Sender { admission, endpoint, trace }, headers: std::mem::take(&mut parts.headers) })
    }
}

fn named(headers: &HeaderMap) -> Option<Revision> {
    headers::sole(headers, &headers::PROTOCOL_VERSION).and_then(Revision::parse)
}
