//! Requests of 2026-07-28 over Streamable HTTP: the headers that mirror the body, so that proxies can route without
//! reading it (transports, *Request Metadata*), and the form and status of the answer. A request whose headers differ from
//! its body is refused: a proxy may have decided by the headers.

use std::{borrow::Cow, sync::Arc};

use axum::response::Response;
use http::HeaderMap;

use super::{
    refusal::RequestRefusal,
    request_head::{EnvelopedRequest, RequestHead},
    response::{self, EventSource, ResponseForm, ResponseStart, StreamOptions, credential_end},
};
use crate::{
    frontend::{
        state::{FrontendState, Sender},
        stateless_request::{RequestEnvelope, RequestMessages, StatelessReply, StatelessRequest},
    },
    mcp::{CancelReason, ErrorObject, IndexedJson, Message, Method, json, mirrored_params::Mirror},
    wire::headers,
};

/// Serves a request.
///
/// # Errors
///
/// The refusal of an envelope or headers that are wrong.
pub(super) async fn serve(
    state: &FrontendState,
    head: &RequestHead,
    EnvelopedRequest { id, method, params }: EnvelopedRequest,
) -> Result<Response, RequestRefusal> {
    let envelope = RequestEnvelope::read(&params).and_then(|envelope| {
        check(&head.headers, &envelope, &method, &params)?;
        envelope.check(&method)?;
        Ok(envelope)
    });
    let envelope = envelope.map_err(|error| RequestRefusal::modern(error, id.clone()))?;
    let request = StatelessRequest {
        state,
        sender: &head.sender,
        id: id.clone(),
        method,
        envelope,
        mirror: Some(Arc::new(mirrored(&head.headers))),
        // a client that closes the response gives no reason
        cancel_reason: CancelReason::new("client disconnected"),
    };
    Ok(match request.serve(params) {
        Ok(StatelessReply::Call(messages)) => match response::start(messages, ResponseForm::Request).await {
            ResponseStart::Complete(response) => response,
            ResponseStart::Stream(ready, rest) => stream(state, &head.sender, ready, rest),
        },
        Ok(StatelessReply::Listen(messages)) => stream(state, &head.sender, Vec::new(), messages),
        Err(error) => response::json(&[Message::error(id, error)], ResponseForm::Request),
    })
}

/// A stream that cannot be resumed. The request ends with its reader.
fn stream(state: &FrontendState, sender: &Sender, ready: Vec<Message>, rest: RequestMessages) -> Response {
    let end = credential_end(&sender.admission.lease, state.clock.now());
    response::stream(EventSource::Request(ready.into_iter(), rest), StreamOptions::default(), end)
}

/// Compares `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` with the body.
///
/// # Errors
///
/// `-32020` if one is missing, repeated or different.
fn check(
    headers: &HeaderMap,
    envelope: &RequestEnvelope,
    method: &Method,
    params: &IndexedJson,
) -> Result<(), ErrorObject> {
    let stated = headers::sole(headers, &headers::PROTOCOL_VERSION);
    let stated =
        stated.ok_or_else(|| mismatch("the MCP-Protocol-Version header is missing, or is there more than once"))?;
    if stated != envelope.version {
        return Err(mismatch("the MCP-Protocol-Version header and the body name different versions"));
    }
    let stated = headers::sole(headers, &headers::METHOD);
    let stated = stated.ok_or_else(|| mismatch("the Mcp-Method header is missing, or is there more than once"))?;
    if stated != method.as_str() {
        return Err(mismatch("the Mcp-Method header and the body name different methods"));
    }
    let Some(key) = headers::named_by(method) else { return Ok(()) };
    // parameters without a name are invalid, which the server reports
    let Some(name) = params.member(key).and_then(json::unquoted) else { return Ok(()) };
    let stated = headers::sole(headers, &headers::NAME);
    let stated = stated.ok_or_else(|| mismatch("the Mcp-Name header is missing, or is there more than once"))?;
    match headers::unmirrored(stated) {
        Some(stated) if stated == name => Ok(()),
        Some(_) => Err(mismatch("the Mcp-Name header and the body name different things")),
        None => Err(mismatch("the Mcp-Name header is no base64 between its marks")),
    }
}

/// The values of the `Mcp-Param-` headers; `None` for one that is repeated or has invalid characters.
fn mirrored(headers: &HeaderMap) -> Mirror {
    let names = headers.keys().filter_map(|name| Some((name, name.as_str().strip_prefix(headers::PARAM)?)));
    let visible = |value: &&str| value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    names
        .map(|(name, param)| {
            (
                param.to_owned(),
                headers::sole(headers, name).filter(visible).and_then(headers::unmirrored).map(Cow::into_owned),
            )
        })
        .collect()
}

/// The error for headers that do not mirror the body.
fn mismatch(reason: &str) -> ErrorObject {
    ErrorObject::new(ErrorObject::HEADER_MISMATCH, &format!("Header mismatch: {reason}"))
}
