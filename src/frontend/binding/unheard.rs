//! Takes clients' answers out of refused requests. A client sends an answer once, and a person gives it once, so the
//! server's request must not wait for another until it times out.

use axum::extract::{Query, Request};
use bytes::Bytes;
use http::Method;

use super::{
    request_head::{parse, read},
    sse::MessagesQuery,
};
use crate::{
    frontend::{session::Session, state::FrontendState},
    mcp::{
        ErrorObject, Message, Payload, RequestId,
        jsonrpc::Frame,
        large_messages::{MessageOwner, begun_off_worker},
    },
    resource::Unheard,
    wire::headers,
};

/// Ends the waits for the answers in a refused request: servers get the answers, or errors if the credential could not
/// be checked.
pub(crate) async fn take_unheard(state: &FrontendState, request: Request, unheard: Unheard) {
    if request.method() != Method::POST {
        return;
    }
    let named = request.headers().get(headers::SESSION_ID).and_then(|id| Some(id.to_str().ok()?.to_owned()));
    let in_query = || Query::<MessagesQuery>::try_from_uri(request.uri()).ok()?.0.session_id;
    let (Unheard::Unchecked(caller) | Unheard::Late(caller)) = &unheard;
    let Some(session) = named.or_else(in_query).and_then(|id| state.sessions.held(&id, caller)) else { return };
    let Ok((body, _claim)) = read(state, caller, request.into_body()).await else { return };
    let owner = MessageOwner::User(caller.user.clone());
    let messages = match begun_off_worker(owner, body.len(), async move { parse(&body) }).await {
        Ok(Frame::Single(message)) => vec![message],
        Ok(Frame::Batch(messages)) => messages.into_iter().flatten().collect(),
        Err(_) => return,
    };
    for message in messages {
        if let Message::Response { id: Some(id), outcome } = message {
            answer(&session, &id, &unheard, outcome);
        }
    }
}

fn answer(session: &Session, id: &RequestId, unheard: &Unheard, outcome: Result<Bytes, ErrorObject>) {
    let revision = session.revision();
    let outcome = match unheard {
        Unheard::Late(_) => outcome.map(|result| Payload::new(revision, result)),
        Unheard::Unchecked(_) => {
            tracing::warn!(session = %session.id, "a client's answer was refused: the request that it answers fails");
            let text = "the client has answered, but the gateway could not take the answer, since its database did not answer: \
                        ask again";
            Err(ErrorObject::internal(text))
        }
    };
    session.requests.answer(id, outcome);
}
