//! Answers of clients that could not be taken, since the database is away. A client sends an answer once, and a person gives it
//! once: the server's request must not wait for another one until it times out.

use axum::extract::{Query, Request};
use http::Method;

use super::{
    request_head::{look_into, parse, read},
    sse::MessagesQuery,
};
use crate::{
    frontend::{session::Session, state::FrontendState},
    mcp::{ErrorObject, Message, jsonrpc::Frame},
    model::Caller,
    wire::headers,
};

/// Lets the requests fail that the messages of a refused request of this caller answer.
pub(crate) async fn refused_answer(state: &FrontendState, request: Request, caller: &Caller) {
    if request.method() != Method::POST {
        return;
    }
    let named = request.headers().get(headers::SESSION_ID).and_then(|id| Some(id.to_str().ok()?.to_owned()));
    let in_query = || Query::<MessagesQuery>::try_from_uri(request.uri()).ok()?.0.session_id;
    let id = named.or_else(in_query);
    let Some(session) = id.and_then(|id| state.sessions.held(&id, caller)) else { return };
    let Ok(body) = read(state, request.into_body()).await else { return };
    match look_into(body, parse).await {
        Ok(Frame::Single(message)) => fail(&session, &message),
        Ok(Frame::Batch(messages)) => messages.iter().flatten().for_each(|message| fail(&session, message)),
        Err(_) => {}
    }
}

fn fail(session: &Session, message: &Message) {
    if let Message::Response { id: Some(id), .. } = message {
        let text = "the client has answered, but the gateway could not take the answer, since its database did not answer: \
                    ask again";
        tracing::warn!(session = ?session.id, "a client's answer was refused: the request that it answers fails");
        session.requests.answer(id, Err(ErrorObject::internal(text)));
    }
}
