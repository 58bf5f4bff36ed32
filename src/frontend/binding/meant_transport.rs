//! Finds out which transport a request over HTTP is for, because clients of Streamable HTTP are often configured with
//! the address for HTTP+SSE, and the reverse. Each address accepts both, except where clients need a refusal to find
//! the other.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};

use super::{
    refusal::RequestRefusal,
    request_head::{RequestHead, VersionHeader},
    sse,
    streamable::{self, StreamableHttp},
};
use crate::{
    frontend::state::FrontendState,
    model::Serves,
    resource::{Authorized, MessageTicket, OpensStreamAlone},
};

/// A GET at `/mcp`: a stream of a session, or the stream of an HTTP+SSE client.
pub(super) async fn get_at_mcp(
    State(state): State<Arc<FrontendState>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    if means_http_sse(&state, &head).await? {
        return sse::open(state, None, head).await;
    }
    streamable::get(State(state), head).await
}

/// A GET at `/sse`: the stream of an HTTP+SSE client, or a stream of a session.
pub(super) async fn get_at_sse(
    State(state): State<Arc<FrontendState>>,
    ticket: Option<Extension<Arc<MessageTicket>>>,
    stream_alone: Option<Extension<OpensStreamAlone>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    match (head.session(), stream_alone) {
        (None, _) => sse::open(state, ticket.map(|Extension(ticket)| ticket), head).await,
        (Some(_), None) => streamable::get(State(state), head).await,
        (Some(_), Some(_)) => Err(RequestRefusal::opens_stream_alone()),
    }
}

/// A POST at `/sse`: a message of Streamable HTTP.
pub(super) async fn post_at_sse(
    State(state): State<Arc<FrontendState>>,
    stream_alone: Option<Extension<OpensStreamAlone>>,
    Extension(authorized): Extension<Authorized>,
    request: Request,
) -> Response {
    match stream_alone {
        None => StreamableHttp::new(state).post(request, authorized).await,
        Some(_) => RequestRefusal::opens_stream_alone().into_response(),
    }
}

/// A DELETE at `/sse`: the end of a session of Streamable HTTP.
pub(super) async fn delete_at_sse(
    State(state): State<Arc<FrontendState>>,
    stream_alone: Option<Extension<OpensStreamAlone>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    match stream_alone {
        None => streamable::delete(State(state), head).await,
        Some(_) => Err(RequestRefusal::opens_stream_alone()),
    }
}

/// True for a GET of an HTTP+SSE client: it names no session, and before its handshake no version. A Streamable HTTP
/// client that looks for a stream names a version, and needs the 405. An HTTP+SSE client that reopens a lost stream
/// names its version too, so it is recognized by the stream that it had here.
async fn means_http_sse(state: &FrontendState, head: &RequestHead) -> Result<bool, RequestRefusal> {
    if head.session().is_some() || state.settings.serves == Serves::ModernAlone || head.check_event_stream().is_err() {
        return Ok(false);
    }
    let (caller, endpoint) = (&head.sender.admission.caller, &head.sender.endpoint);
    match head.version {
        VersionHeader::Absent => Ok(true),
        VersionHeader::Legacy => {
            let is_known = state.sessions.has_ended_connection(caller, endpoint, head.revision).await;
            is_known.map_err(RequestRefusal::missing)
        }
        VersionHeader::Modern | VersionHeader::Unknown => Ok(false),
    }
}
