//! Refusals before any call starts: the HTTP status and the JSON-RPC error.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use crate::{
    frontend::{
        session::inbound::RefusedBatch,
        sessions::{LimitReached, LookupError},
    },
    mcp::{ErrorObject, Message, RequestId, Revision, jsonrpc::Malformed, revision::Feature},
    model::{Binding, Endpoint, OwnedElsewhere, RefusalReason, ReplicaNumber, Serves},
    wire::headers,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestRefusal {
    status: StatusCode,
    error: ErrorObject,
    id: Option<RequestId>,
    /// The client's version, which decides the form of an error without an id.
    revision: Option<Revision>,
    hint: Option<Hint>,
    /// Set if another replica can answer the request.
    elsewhere: Option<OwnedElsewhere>,
}

/// A header sent with the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    Allow(&'static str),
    RetryAfter,
    /// The client should send the body uncompressed (RFC 9110 15.5.16).
    Uncompressed,
}

impl RequestRefusal {
    /// Refuses with this status, code and message.
    pub(crate) fn new(status: StatusCode, code: i64, message: &str) -> Self {
        Self { status, error: ErrorObject::new(code, message), id: None, revision: None, hint: None, elsewhere: None }
    }

    /// Refuses a request outside of sessions with this error, and with the HTTP status for its code (`translation`
    /// 2.2).
    pub(crate) fn modern(error: ErrorObject, id: RequestId) -> Self {
        let status = match error.code() {
            ErrorObject::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, error, id: Some(id), revision: Some(Revision::NEWEST), hint: None, elsewhere: None }
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorObject::INVALID_REQUEST, message)
    }

    /// 400 with `-32020` (2026-07-28): the message contradicts the version in its header.
    pub(crate) fn sessionless_initialize() -> Self {
        let newest = Revision::NEWEST;
        let message = format!("Header mismatch: initialize sent with MCP-Protocol-Version {newest}");
        Self::new(StatusCode::BAD_REQUEST, ErrorObject::HEADER_MISMATCH, &message)
    }

    /// 400 with the JSON-RPC error for malformed text.
    pub(crate) fn malformed(malformed: &Malformed) -> Self {
        let mut refusal = Self::invalid("");
        refusal.error = malformed.to_error();
        refusal.with_id(malformed.id().cloned())
    }

    /// 400 for a batch that is invalid in its session.
    pub(crate) fn batch(refused: RefusedBatch) -> Self {
        let RefusedBatch { error, id } = refused;
        Self { status: StatusCode::BAD_REQUEST, error, id, revision: None, hint: None, elsewhere: None }
    }

    /// 406: the client does not accept a form that the answer needs.
    pub(crate) fn not_acceptable(wanted: &str) -> Self {
        let message = format!("Not Acceptable: the Accept header must list {wanted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, ErrorObject::INVALID_REQUEST, &message)
    }

    pub(crate) fn not_json() -> Self {
        let message = "Unsupported Media Type: Content-Type must be application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorObject::INVALID_REQUEST, message)
    }

    /// 415: the body is compressed.
    pub(crate) fn compressed(coding: &str) -> Self {
        let message =
            format!("Unsupported Media Type: the body is compressed ({coding}), and bodies are read uncompressed here");
        let refusal = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorObject::INVALID_REQUEST, &message);
        Self { hint: Some(Hint::Uncompressed), ..refusal }
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("Payload Too Large: a message may have at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorObject::INVALID_REQUEST, &message)
    }

    /// 503: the memory for messages is used up, and the user holds much of it.
    pub(crate) fn out_of_memory() -> Self {
        let message = "Service Unavailable: the gateway's memory for messages is used up, and too much of it by you; read the \
                       answers and streams that you have open, and send it again";
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorObject::INTERNAL_ERROR, message);
        Self { hint: Some(Hint::RetryAfter), ..refusal }
    }

    /// 503: the request was ended to free memory, and may have run.
    pub(crate) fn given_up() -> Self {
        Self { error: ErrorObject::out_of_memory(), ..Self::out_of_memory() }
    }

    /// 404: there is no such endpoint.
    pub(crate) fn no_endpoint() -> Self {
        let message = "Not Found: there is no server of this name; `/mcp` leads to all of them";
        Self::new(StatusCode::NOT_FOUND, ErrorObject::INVALID_REQUEST, message)
    }

    /// 405: the request needs a session, but names none. Tells clients of either HTTP transport where to go.
    pub(crate) fn method_not_allowed(endpoint: &Endpoint, serves: Serves) -> Self {
        let target = &endpoint.target;
        let path = |binding| Endpoint { binding, target: target.clone() };
        let (sse, mcp) = (path(Binding::Sse), path(Binding::Mcp));
        let (allowed, elsewhere) = match (endpoint.binding, serves) {
            (_, Serves::ModernAlone) => ("POST", String::new()),
            (Binding::Sse, _) => {
                ("GET, POST", format!("; a GET opens the stream of HTTP+SSE (2024-11-05), {mcp} is the newer one"))
            }
            _ => ("POST", format!("; a client of HTTP+SSE (2024-11-05) opens its stream at {sse}")),
        };
        let message = format!(
            "Method Not Allowed: without an Mcp-Session-Id header only POST is served, which begins with initialize{elsewhere}"
        );
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, ErrorObject::INVALID_REQUEST, &message);
        Self { hint: Some(Hint::Allow(allowed)), ..refusal }
    }

    /// 405 for Streamable HTTP at `/sse` with a credential that is only for HTTP+SSE streams. A client that tries both
    /// transports then uses HTTP+SSE.
    pub(crate) fn opens_stream_alone() -> Self {
        let message = "Method Not Allowed: this credential opens the stream of HTTP+SSE here, with GET, and nothing else; messages go \
                       to the address in its first event. Streamable HTTP needs a token, or a key that was created with --direct, in \
                       the header `Authorization: Bearer`, here or at /mcp";
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, ErrorObject::INVALID_REQUEST, message);
        Self { hint: Some(Hint::Allow("GET")), ..refusal }
    }

    /// 400: the version in the header cannot be used in a session.
    pub(crate) fn unsupported_version() -> Self {
        let known: Vec<_> = Revision::LEGACY.map(Revision::as_str).into();
        Self::invalid(&format!(
            "Bad Request: unsupported MCP-Protocol-Version (supported versions: {})",
            known.join(", ")
        ))
    }

    /// 404 for a session that does not exist (never 401 or 400, design rule 9); 503 if the store cannot be read; 429 if
    /// the caller has reached a limit.
    pub(crate) fn missing(missing: LookupError) -> Self {
        match missing {
            LookupError::Unknown => Self::new(
                StatusCode::NOT_FOUND,
                ErrorObject::INVALID_REQUEST,
                "Session not found: it ended or never was; send initialize without a session id to open a new one",
            ),
            LookupError::Elsewhere(owner) => Self::elsewhere(owner),
            LookupError::Unavailable => Self::retry(
                StatusCode::SERVICE_UNAVAILABLE,
                "Service Unavailable: sessions cannot be looked up at the moment; try again",
            ),
            LookupError::TooManyLookups => Self::retry(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests of this caller wait for sessions to be looked up; try again later",
            ),
            LookupError::Limit(full) => Self::full(full, Binding::Mcp),
        }
    }

    /// 404 for a message to an HTTP+SSE stream that has ended, or that another credential opened.
    pub(crate) fn ended_stream() -> Self {
        let message = "Session not found: its stream has ended, or never was; open /sse again";
        Self::new(StatusCode::NOT_FOUND, ErrorObject::INVALID_REQUEST, message)
    }

    /// 421 for a request that another replica must answer. The client gets it only if that replica cannot be reached.
    pub(crate) fn elsewhere(owner: ReplicaNumber) -> Self {
        let message = "Misdirected Request: another replica of this gateway has the session or the call; try again";
        let refusal = Self::retry(StatusCode::MISDIRECTED_REQUEST, message);
        Self { elsewhere: Some(OwnedElsewhere { owner, body: Bytes::new() }), ..refusal }
    }

    /// Keeps the request's body for the replica that must answer it.
    pub(crate) fn with_body(mut self, body: Option<Bytes>) -> Self {
        if let (Some(elsewhere), Some(body)) = (&mut self.elsewhere, body) {
            elsewhere.body = body;
        }
        self
    }

    /// 429 if the user has reached the limit, 503 if the gateway has; both with `Retry-After`.
    pub(crate) fn full(full: LimitReached, binding: Binding) -> Self {
        match full {
            LimitReached::User if binding.is_connection() => Self::retry(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many connections: you have as many open as one user may have, through all of your apps, and all are in use; \
                 close one, or ask the operator to raise limits.sessions_per_user",
            ),
            LimitReached::User => Self::retry(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sessions: you have as many as one user may have, through all of your apps, and all are in use; end one \
                 with DELETE, or ask the operator to raise limits.sessions_per_user",
            ),
            LimitReached::Gateway => Self::retry(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many sessions: the gateway can hold no more at the moment; try again later",
            ),
        }
    }

    /// Sets the id of the refused request.
    pub(crate) fn with_id(self, id: Option<RequestId>) -> Self {
        Self { id, ..self }
    }

    /// Sets the version that decides the form, unless it is set already.
    pub(crate) fn toward(self, revision: Option<Revision>) -> Self {
        Self { revision: self.revision.or(revision), ..self }
    }

    fn retry(status: StatusCode, message: &str) -> Self {
        let refusal = Self::new(status, ErrorObject::INTERNAL_ERROR, message);
        Self { hint: Some(Hint::RetryAfter), ..refusal }
    }

    /// The JSON-RPC error response. If it has no id, the member `id` is `null`, or absent for versions that want that.
    pub(crate) fn into_message(self) -> Message {
        let idless = self.revision.is_some_and(|revision| revision.has(Feature::IdlessErrors));
        let id = self.id.or_else(|| (!idless).then_some(RequestId::NULL));
        Message::Response { id, outcome: Err(self.error) }
    }
}

impl IntoResponse for RequestRefusal {
    fn into_response(mut self) -> Response {
        let (status, hint, elsewhere) = (self.status, self.hint, self.elsewhere.take());
        let reason = RefusalReason::new(self.error.message());
        let mut response = Response::new(Body::from(self.into_message().encode()));
        response.extensions_mut().insert(reason);
        *response.status_mut() = status;
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
        match hint {
            Some(Hint::Allow(methods)) => drop(fields.insert(header::ALLOW, HeaderValue::from_static(methods))),
            Some(Hint::Uncompressed) => {
                drop(fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity")));
            }
            Some(Hint::RetryAfter) => drop(fields.insert(header::RETRY_AFTER, HeaderValue::from_static("30"))),
            None => {}
        }
        if let Some(elsewhere) = elsewhere {
            response.extensions_mut().insert(elsewhere);
        }
        response
    }
}
