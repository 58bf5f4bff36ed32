//! Requests of 2026-07-28 over Streamable HTTP, and the form of their answers.

use std::sync::Arc;

use axum::response::Response;

use super::{
    mirrored_request::MirroredRequest,
    refusal::RequestRefusal,
    request_head::{AnswerForm, EnvelopedRequest, RequestHead},
    response::{self, EventSource, Payer, ResponseForm, ResponseStart, StreamOptions, credential_end},
};
use crate::{
    frontend::{
        state::{FrontendState, Sender},
        stateless_request::{RequestEnvelope, RequestMessages, StatelessReply, StatelessRequest},
    },
    mcp::{CancelReason, Message, Method},
};

/// Serves a request.
///
/// # Errors
///
/// The refusal of an invalid envelope or invalid headers.
pub(super) async fn serve(
    state: &FrontendState,
    head: &RequestHead,
    EnvelopedRequest { id, method, params }: EnvelopedRequest,
) -> Result<Response, RequestRefusal> {
    let envelope = RequestEnvelope::read(&params).and_then(|envelope| {
        let mirror = MirroredRequest::of(&head.headers).checked(&envelope, &method, &params)?;
        envelope.check(&method)?;
        Ok((envelope, mirror))
    });
    let (envelope, mirror) = envelope.map_err(|error| RequestRefusal::modern(error, id.clone()))?;
    if head.answers == AnswerForm::Json && method == Method::Listen {
        let wanted = "text/event-stream, since the answer to subscriptions/listen is a stream of events";
        return Err(RequestRefusal::not_acceptable(wanted).with_id(Some(id)).toward(head.revision));
    }
    let request = StatelessRequest {
        state,
        sender: &head.sender,
        id: id.clone(),
        method,
        envelope,
        mirror: Some(Arc::new(mirror)),
        // a client that closes the response states no reason
        cancel_reason: CancelReason::new("client disconnected"),
    };
    let payer = Payer { state, caller: &head.sender.admission.caller };
    Ok(match request.serve(params) {
        Ok(StatelessReply::Call(messages)) if head.answers == AnswerForm::Json => {
            response::answers_alone(messages, ResponseForm::Request, payer).await
        }
        Ok(StatelessReply::Call(messages)) => match response::start(messages, ResponseForm::Request, payer).await {
            ResponseStart::Complete(response) => response,
            ResponseStart::Stream(ready, rest) => stream(state, &head.sender, ready, rest),
        },
        Ok(StatelessReply::Listen(messages)) => stream(state, &head.sender, Vec::new(), messages),
        Err(error) => response::json(&[Message::error(id, error)], ResponseForm::Request, payer).await,
    })
}

/// A stream that cannot be resumed. The request ends when its reader leaves.
fn stream(state: &FrontendState, sender: &Sender, ready: Vec<Message>, rest: RequestMessages) -> Response {
    let end = credential_end(&sender.admission.lease, state.clock.now());
    let account = state.sessions.account(&sender.admission.caller);
    response::stream(EventSource::Request(ready.into_iter(), rest, account), StreamOptions::default(), end)
}
