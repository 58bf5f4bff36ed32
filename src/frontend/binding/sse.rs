//! HTTP+SSE (2024-11-05, transports): the connection is the session, and everything for the client goes down its one
//! stream. Any legacy version may be negotiated on it.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    response::Response,
};
use futures_util::StreamExt as _;
use serde::Deserialize;

use super::{
    event_stream::{self, Priming, Source, StreamOptions},
    refusal::Refusal,
    request_head::RequestHead,
    response,
    streamable::{ended, read},
};
use crate::{
    frontend::{
        sender::lapse,
        session::{Session, exchange::Exchange, inbound::Inbound},
        state::FrontendState,
    },
    mcp::jsonrpc::Frame,
    model::Serves,
    resource::Ticket,
    wire::{headers, sse},
};

/// The query of `/messages`.
#[derive(Deserialize)]
pub(super) struct Names {
    session_id: Option<String>,
}

/// Ends the session when its connection does.
struct Connection {
    state: FrontendState,
    session: Arc<Session>,
    /// What opens `/messages` to a client that brought its key in the query.
    ticket: Option<Arc<Ticket>>,
}

/// Opens a session and its stream.
pub(super) async fn get(
    State(state): State<FrontendState>,
    ticket: Option<Extension<Arc<Ticket>>>,
    head: RequestHead,
) -> Result<Response, Refusal> {
    if !headers::accepts(&head.headers, sse::MEDIA_TYPE) {
        return Err(Refusal::not_acceptable("text/event-stream"));
    }
    if state.settings().serves == Serves::ModernAlone {
        return Err(Refusal::method_not_allowed());
    }
    let owner = Arc::clone(&head.sender.admission.caller);
    let session = state.sessions().open(head.sender.endpoint.clone(), owner).await.map_err(Refusal::full)?;
    let ended = ended(&state, &session, lapse(&head.sender.admission.lease, state.sessions().now()));
    let ticket = ticket.map(|Extension(ticket)| ticket);
    let connection = Connection { state, session, ticket };
    let opening = Some(sse::event("endpoint", connection.address().as_bytes()));
    let options = StreamOptions { opening, ids: None, priming: Priming::Never, lifetime: None };
    let events = event_stream::events(Source::Standalone(connection.session.queue.attach()), options, ended);
    Ok(response::stream(async_stream::stream! {
        // dropped with the stream, also where it is never read
        let _connection = connection;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            yield event;
        }
    }))
}

/// A message for the session that the query names.
pub(super) async fn post(
    State(state): State<FrontendState>,
    Query(names): Query<Names>,
    head: RequestHead,
    body: Body,
) -> Result<Response, Refusal> {
    take(&state, names, &head, body).await.map_err(|refusal| refusal.toward(head.named()))
}

async fn take(state: &FrontendState, names: Names, head: &RequestHead, body: Body) -> Result<Response, Refusal> {
    if !headers::is_json(&head.headers) {
        return Err(Refusal::not_json());
    }
    let id = names.session_id.ok_or_else(|| Refusal::invalid("Bad Request: the query has no session_id"))?;
    let found = state.sessions().find_connected(&id, &head.sender.admission.caller);
    let session = found.map_err(Refusal::missing)?;
    let refuse = |refusal: Refusal| refusal.toward(session.client().map(|client| client.revision));
    let body = read(state, body).await.map_err(refuse)?;
    let frame = Frame::parse(&body).and_then(Frame::unambiguous);
    let frame = frame.map_err(|malformed| refuse(Refusal::malformed(&malformed)))?;
    let inbound = Inbound { state, session: &session, sender: &head.sender };
    match frame {
        Frame::Single(message) => {
            if let Some(exchange) = inbound.message(message).await {
                run(&inbound, exchange);
            }
        }
        Frame::Batch(messages) => {
            for exchange in inbound.batch(messages).await.map_err(|refused| refuse(Refusal::batch(refused)))? {
                run(&inbound, exchange);
            }
        }
    }
    Ok(response::accepted())
}

/// Lets a call run: what it says goes down the one stream, whether that is read or not. A stream that was closed on a
/// reader that is too slow ends the session here: nobody may look at the connection before its peer reads on.
fn run(inbound: &Inbound<'_>, mut exchange: Exchange) {
    let (state, session) = (inbound.state.clone(), Arc::clone(inbound.session));
    inbound.tracker().spawn(async move {
        while let Some(message) = exchange.next().await {
            session.queue.push(message);
            if session.queue.open_streams() == 0 {
                state.sessions().forget(&session);
            }
        }
    });
}

impl Connection {
    /// Where the client posts: a path, in which its credential never is (OA-122).
    fn address(&self) -> String {
        let path = format!("/messages?session_id={}", self.session.id.as_str());
        self.ticket.as_ref().map_or(path.clone(), |ticket| format!("{path}&{}", ticket.parameter()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.state.sessions().forget(&self.session);
    }
}
