//! The head of a request. Also decides by head and body whether a request belongs to a session.

use std::sync::Arc;

use axum::{
    body::{Body, HttpBody as _},
    extract::FromRequestParts,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};

use super::refusal::RequestRefusal;
use crate::{
    frontend::{
        state::{FrontendState, Sender},
        stateless_request::unsupported,
    },
    mcp::{
        ErrorObject, IndexedJson, Message, Method, RequestId, Revision, json,
        jsonrpc::{Frame, Malformed},
        large_messages::{LARGE, MessageOwner, OffWorker},
        meta,
    },
    model::{Binding, Caller, Endpoint, LimitsConfig, ReplicaNumber, RequestPlace, Serves},
    resource::Authorized,
    support::memory::Claim,
    wire::{
        body::{self, BodyError},
        headers, sse,
    },
};

/// Names of body codings, for the refusal of a compressed body.
const CODINGS: [&str; 6] = ["gzip", "x-gzip", "br", "zstd", "deflate", "compress"];

/// The first bytes of compressed bodies, to find a coding that no header names.
const MAGIC: [(&[u8], &str); 2] = [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// The head of a request.
#[derive(Debug)]
pub(crate) struct RequestHead {
    /// The client, and the endpoint.
    pub(crate) sender: Sender,
    pub(crate) headers: HeaderMap,
    /// The version header: absent, or the kind of version it names.
    pub(crate) version: VersionHeader,
    /// The version in the header, if the gateway supports it.
    pub(crate) revision: Option<Revision>,
    /// The replicas that may answer the request.
    pub(super) place: RequestPlace,
    /// The forms of answers that the client of a POST accepts.
    pub(super) answers: AnswerForm,
}

/// The forms of answers that a client of Streamable HTTP accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Both,
    Json,
}

/// The value of `MCP-Protocol-Version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionHeader {
    Absent,
    /// A version with sessions.
    Legacy,
    /// A version without sessions.
    Modern,
    Unknown,
}

/// The way to handle a message.
pub(super) enum Semantics {
    /// In a session: the frame, or the error in it.
    Session(Result<Frame, Malformed>),
    /// A request of a version without sessions.
    Request(EnvelopedRequest),
    /// A notification of a version without sessions.
    Notification(Method, IndexedJson),
}

/// A request of a version without sessions.
pub(super) struct EnvelopedRequest {
    pub(super) id: RequestId,
    pub(super) method: Method,
    /// The parameters, with the envelope.
    pub(super) params: IndexedJson,
}

// === impl RequestHead ===

impl RequestHead {
    /// Reads the head of an authorized request.
    ///
    /// # Errors
    ///
    /// If its path is not an endpoint.
    pub(super) fn read(
        parts: &mut Parts,
        admission: Authorized,
        state: &FrontendState,
    ) -> Result<Self, RequestRefusal> {
        let revision = headers::sole(&parts.headers, &headers::PROTOCOL_VERSION).and_then(Revision::parse);
        let version = match revision {
            None if !parts.headers.contains_key(headers::PROTOCOL_VERSION) => VersionHeader::Absent,
            None => VersionHeader::Unknown,
            Some(revision) if Revision::LEGACY.contains(&revision) => VersionHeader::Legacy,
            Some(_) => VersionHeader::Modern,
        };
        let place = parts.extensions.get().copied().unwrap_or_default();
        let endpoint = match parts.uri.path() {
            "/messages" => Some(Endpoint { binding: Binding::Sse, ..Endpoint::MERGED }),
            path => Endpoint::from_path(path),
        };
        let found = endpoint
            .and_then(|endpoint| Some((state.servers_at(&endpoint.target)?, endpoint)))
            .ok_or_else(|| RequestRefusal::no_endpoint().toward(revision));
        let (servers, endpoint) = found?;
        Ok(Self {
            sender: Sender { admission, endpoint, servers },
            headers: std::mem::take(&mut parts.headers),
            version,
            revision,
            place,
            answers: AnswerForm::Both,
        })
    }

    /// Checks the headers of a Streamable HTTP POST, and records which answers the client accepts.
    ///
    /// # Errors
    ///
    /// 406 unless the client accepts JSON, 415 unless the body is JSON.
    pub(super) fn check_post(&mut self) -> Result<(), RequestRefusal> {
        let accepts = |media_type| headers::accepts(&self.headers, media_type);
        // the value of the official SDKs, which needs no parsing
        let is_usual = self.headers.get_all(header::ACCEPT).iter().eq([headers::JSON_AND_EVENTS]);
        if !is_usual {
            if !accepts(headers::JSON) {
                return Err(RequestRefusal::not_acceptable("both application/json and text/event-stream"));
            }
            if !accepts(sse::MEDIA_TYPE) {
                self.answers = AnswerForm::Json;
            }
        }
        self.check_json()
    }

    /// Checks that the body is JSON.
    ///
    /// # Errors
    ///
    /// 415.
    pub(super) fn check_json(&self) -> Result<(), RequestRefusal> {
        if headers::is_json(&self.headers) { Ok(()) } else { Err(RequestRefusal::not_json()) }
    }

    /// Checks that the client accepts a stream of events.
    ///
    /// # Errors
    ///
    /// 406.
    pub(super) fn check_event_stream(&self) -> Result<(), RequestRefusal> {
        if headers::accepts(&self.headers, sse::MEDIA_TYPE) {
            return Ok(());
        }
        Err(RequestRefusal::not_acceptable("text/event-stream, since the answer to this GET is a stream of events"))
    }

    /// Checks a body that could not be parsed: a compressed one is reported as such.
    ///
    /// # Errors
    ///
    /// 415.
    pub(super) fn check_compression(&self, body: &[u8]) -> Result<(), RequestRefusal> {
        let named = self.headers.get(header::CONTENT_ENCODING).and_then(|coding| coding.to_str().ok());
        let named =
            CODINGS.into_iter().find(|coding| named.is_some_and(|named| named.trim().eq_ignore_ascii_case(coding)));
        let magic = MAGIC.into_iter().find(|(magic, _)| body.starts_with(magic)).map(|(_, coding)| coding);
        named.or(magic).map_or(Ok(()), |coding| Err(RequestRefusal::compressed(coding)))
    }

    /// The other replica that holds the suspended call of this request; `None` if there is none.
    pub(super) fn owner_elsewhere(&self, state: &FrontendState, request: &EnvelopedRequest) -> Option<ReplicaNumber> {
        if state.replica == ReplicaNumber::SOLE || self.place != RequestPlace::Anywhere {
            return None;
        }
        request.replica().filter(|named| *named != state.replica)
    }

    /// Checks that this gateway still accepts new requests.
    ///
    /// # Errors
    ///
    /// 421 if another replica forwarded the request while this one is stopping.
    pub(super) fn check_taken(&self, state: &FrontendState) -> Result<(), RequestRefusal> {
        if self.place == RequestPlace::Carried && state.drained.is_cancelled() {
            return Err(RequestRefusal::elsewhere(state.replica));
        }
        Ok(())
    }

    /// The session id in the request's header.
    pub(crate) fn session(&self) -> Option<&str> {
        let mut values = self.headers.get_all(headers::SESSION_ID).iter();
        let (first, second) = (values.next()?, values.next());
        // an id that is not visible ASCII, or is given twice, fits no session
        Some(first.to_str().ok().filter(|_| second.is_none()).map(str::trim).unwrap_or_default())
    }
}

// === impl EnvelopedRequest ===

impl EnvelopedRequest {
    /// The replica that holds the suspended call that the request resumes.
    pub(super) fn replica(&self) -> Option<ReplicaNumber> {
        let request_state = self.params.member("requestState").and_then(json::unquoted)?;
        let (_, named) = ReplicaNumber::unmark(&request_state);
        (named != ReplicaNumber::SOLE).then_some(named)
    }
}

impl FromRequestParts<Arc<FrontendState>> for RequestHead {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<FrontendState>) -> Result<Self, RequestRefusal> {
        let Some(admission) = parts.extensions.remove::<Authorized>() else {
            tracing::error!("a request came past the gate");
            let message = "Internal error: nobody was admitted";
            return Err(RequestRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorObject::INTERNAL_ERROR, message));
        };
        Self::read(parts, admission, state)
    }
}

/// Parses a body.
///
/// # Errors
///
/// If it is not a message, or if it can be read in two ways.
pub(super) fn parse(body: &Bytes) -> Result<Frame, Malformed> {
    Frame::parse(body).and_then(Frame::unambiguous)
}

/// Reads a body of limited length, with the user's claim to memory for it. The claim is held while the body is
/// processed.
///
/// # Errors
///
/// 413, also for an incomplete body, because its client will not read an answer; 503 if there is no memory for it.
pub(super) async fn read(
    state: &FrontendState,
    caller: &Caller,
    body: Body,
) -> Result<(Bytes, Option<Claim>), RequestRefusal> {
    let most = body.size_hint().upper();
    let is_allowed = most.is_some_and(|most| most <= LimitsConfig::ALLOWED_BODY as u64);
    let max = if is_allowed { LimitsConfig::ALLOWED_BODY } else { state.settings.limits.get().request_body };
    let read = if most.is_some_and(|most| most < LARGE as u64) {
        body::read(body, max, || Claim::nothing(state.sessions.account(caller))).await
    } else {
        let (owner, account) = (MessageOwner::User(caller.user.clone()), state.sessions.account(caller));
        let reading = body::read(body, max, move || Claim::nothing(account));
        OffWorker::future(owner, Box::pin(reading)).await
    };
    read.map_err(|error| match error {
        BodyError::Exhausted => RequestRefusal::out_of_memory(),
        BodyError::TooLarge | BodyError::Broken(_) => RequestRefusal::too_large(max),
    })
}

/// Applies the first matching rule of `translation` 2.8.
///
/// # Errors
///
/// If the message contradicts itself, or belongs to an era that this gateway does not serve.
pub(super) fn choose(
    serves: Serves,
    version: VersionHeader,
    frame: Result<Frame, Malformed>,
) -> Result<Semantics, RequestRefusal> {
    match semantics(version, frame)? {
        Semantics::Session(frame) if serves == Serves::ModernAlone => Err(sessionless(&frame)),
        semantics => Ok(semantics),
    }
}

fn semantics(version: VersionHeader, frame: Result<Frame, Malformed>) -> Result<Semantics, RequestRefusal> {
    let headed = version == VersionHeader::Modern;
    match frame {
        Ok(Frame::Single(Message::Request { id, method, params })) if meta::has_envelope(&params) => {
            Ok(Semantics::Request(EnvelopedRequest { id, method, params }))
        }
        Ok(Frame::Single(Message::Request { id, method, .. })) if headed => Err(without_envelope(&method, id)),
        Ok(Frame::Single(Message::Notification { method, params })) if headed || meta::has_envelope(&params) => {
            Ok(Semantics::Notification(method, params))
        }
        Ok(Frame::Single(Message::Response { .. })) if headed => {
            Err(RequestRefusal::invalid("Invalid Request: this protocol version has no responses of clients"))
        }
        Ok(Frame::Batch(messages)) if messages.iter().any(is_enveloped) => {
            Err(RequestRefusal::invalid("Invalid Request: this protocol version has no batches"))
        }
        frame => Ok(Semantics::Session(frame)),
    }
}

fn is_enveloped(message: &Result<Message, Malformed>) -> bool {
    matches!(message, Ok(Message::Request { params, .. } | Message::Notification { params, .. }) if meta::has_envelope(params))
}

/// Refuses a body without an envelope whose header names a stateless version. It is never served in a session.
fn without_envelope(method: &Method, id: RequestId) -> RequestRefusal {
    if *method == Method::Initialize {
        return RequestRefusal::sessionless_initialize().with_id(Some(id));
    }
    let message =
        "Invalid params: `_meta` must have `io.modelcontextprotocol/protocolVersion` in this protocol version";
    RequestRefusal::modern(ErrorObject::invalid_params(message), id)
}

/// Refuses a session's message at a gateway that serves no sessions.
fn sessionless(frame: &Result<Frame, Malformed>) -> RequestRefusal {
    match frame {
        Ok(Frame::Single(Message::Request { id, method: Method::Initialize, params })) => {
            let requested = json::member(params, "protocolVersion").and_then(json::unquote);
            RequestRefusal::modern(unsupported(&requested.unwrap_or_default()), id.clone())
        }
        Ok(Frame::Single(Message::Request { id, method, .. })) => without_envelope(method, id.clone()),
        Ok(_) => RequestRefusal::invalid("Invalid Request: protocol versions with sessions are not served here"),
        Err(malformed) => RequestRefusal::malformed(malformed),
    }
}
