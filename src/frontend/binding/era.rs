//! The choice between a session and a request that stands alone, for each message that comes in. Knows nothing of how
//! either is served.

use super::{refusal::Refusal, request_head::VersionHeader};
use crate::{
    frontend::request,
    mcp::{
        ErrorObject, Message, Method, RequestId,
        json::Object,
        jsonrpc::{Frame, Malformed},
    },
    model::Serves,
};

/// The semantics of a message.
pub(super) enum Chosen {
    /// Those of a session: the frame, or what is wrong with it.
    Session(Result<Frame, Malformed>),
    /// Those of a version without sessions.
    Request(Message),
}

/// Chooses by the first rule of `translation` 2.8 that matches.
///
/// # Errors
///
/// The refusal of what contradicts itself, or is of an era that is not served.
pub(super) fn choose(
    serves: Serves,
    version: VersionHeader,
    frame: Result<Frame, Malformed>,
) -> Result<Chosen, Refusal> {
    match chosen(version, frame)? {
        Chosen::Session(frame) if serves == Serves::ModernAlone => Err(sessionless(&frame)),
        chosen => Ok(chosen),
    }
}

fn chosen(version: VersionHeader, frame: Result<Frame, Malformed>) -> Result<Chosen, Refusal> {
    let headed = version == VersionHeader::Modern;
    let (params, id) = match &frame {
        Ok(Frame::Single(Message::Request { params, id, .. })) => (params, Some(id.clone())),
        Ok(Frame::Single(Message::Notification { params, .. })) => (params, None),
        Ok(Frame::Single(Message::Response { .. })) if headed => {
            return Err(Refusal::invalid("Invalid Request: this protocol version has no responses of clients"));
        }
        Ok(Frame::Batch(messages)) if messages.iter().any(is_enveloped) => {
            return Err(Refusal::invalid("Invalid Request: this protocol version has no batches"));
        }
        _ => return Ok(Chosen::Session(frame)),
    };
    if request::is_around(params) || headed && id.is_none() {
        let Ok(Frame::Single(message)) = frame else { return Ok(Chosen::Session(frame)) };
        return Ok(Chosen::Request(message));
    }
    match id {
        Some(id) if headed => Err(without_envelope(&frame, id)),
        _ => Ok(Chosen::Session(frame)),
    }
}

fn is_enveloped(message: &Result<Message, Malformed>) -> bool {
    matches!(message, Ok(Message::Request { params, .. } | Message::Notification { params, .. }) if request::is_around(params))
}

/// The refusal of a header that says 2026-07-28 above a body that does not: never served as of a session.
fn without_envelope(frame: &Result<Frame, Malformed>, id: RequestId) -> Refusal {
    if let Ok(Frame::Single(Message::Request { method: Method::Initialize, .. })) = frame {
        return Refusal::sessionless_initialize().with_id(Some(id));
    }
    let message =
        "Invalid params: `_meta` must have `io.modelcontextprotocol/protocolVersion` in this protocol version";
    Refusal::modern(ErrorObject::invalid_params(message), id)
}

/// The refusal of what is of a version with sessions, where none of those is served.
fn sessionless(frame: &Result<Frame, Malformed>) -> Refusal {
    match frame {
        Ok(Frame::Single(Message::Request { id, method: Method::Initialize, params })) => {
            let requested = Object::parse(params).and_then(|params| params.string("protocolVersion"));
            Refusal::modern(request::unsupported(&requested.unwrap_or_default()), id.clone())
        }
        Ok(Frame::Single(Message::Request { id, .. })) => without_envelope(frame, id.clone()),
        Ok(_) => Refusal::invalid("Invalid Request: protocol versions with sessions are not served here"),
        Err(malformed) => Refusal::malformed(malformed),
    }
}
