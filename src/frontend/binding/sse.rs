//! HTTP+SSE (2024-11-05, transports): the connection is the session, and its one stream carries all messages to the
//! client. Any legacy version may be negotiated on it.

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
    refusal::RequestRefusal,
    request_head::{RequestHead, look_into, parse, read},
    response::{self, EventSource, StreamOptions, credential_end, session_end},
};
use crate::{
    frontend::{
        session::{Session, exchange::SessionExchange, inbound::Inbound},
        state::{FrontendState, Sender},
    },
    mcp::jsonrpc::Frame,
    model::Serves,
    resource::MessageTicket,
    wire::sse,
};

/// The query of `/messages`.
#[derive(Deserialize)]
pub(super) struct MessagesQuery {
    session_id: Option<String>,
}

/// Ends the session when its connection does.
struct SseConnection {
    state: Arc<FrontendState>,
    session: Arc<Session>,
    /// Credential for `/messages` of a client that sent its key in the query.
    ticket: Option<Arc<MessageTicket>>,
}

/// Opens a session and its stream.
pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    ticket: Option<Extension<Arc<MessageTicket>>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    head.check_event_stream()?;
    if state.settings.serves == Serves::ModernAlone {
        return Err(RequestRefusal::method_not_allowed());
    }
    head.check_taken(&state)?;
    let owner = Arc::clone(&head.sender.admission.caller);
    let session = state.sessions.open(head.sender.endpoint.clone(), owner).await.map_err(RequestRefusal::full)?;
    let credential_end = credential_end(&head.sender.admission.lease, state.clock.now());
    let end = session_end(&state, &session, credential_end);
    let source = EventSource::Standalone(session.queue.attach());
    let connection = SseConnection { state, session, ticket: ticket.map(|Extension(ticket)| ticket) };
    let opening = Some(sse::event("endpoint", connection.address().as_bytes()));
    let options = StreamOptions { opening, ..StreamOptions::default() };
    Ok(response::stream(source, options, async move {
        // dropped with the stream, also if it is never read
        let _connection = connection;
        end.await;
    }))
}

/// A message for the session that the query names.
pub(super) async fn post(
    State(state): State<Arc<FrontendState>>,
    Query(query): Query<MessagesQuery>,
    head: RequestHead,
    body: Body,
) -> Result<Response, RequestRefusal> {
    receive(&state, query, &head, body).await.map_err(|refusal| refusal.toward(head.revision))
}

async fn receive(
    state: &Arc<FrontendState>,
    query: MessagesQuery,
    head: &RequestHead,
    body: Body,
) -> Result<Response, RequestRefusal> {
    head.check_json()?;
    let id = query.session_id.ok_or_else(|| RequestRefusal::invalid("Bad Request: the query has no session_id"))?;
    let found = state.sessions.find_connected(&id, &head.sender.admission.caller);
    let session = found.map_err(RequestRefusal::missing)?;
    let refuse = |refusal: RequestRefusal| refusal.toward(session.client().map(|client| client.revision));
    let body = read(state, body).await.map_err(refuse)?;
    let frame = look_into(body, parse).await;
    let frame = frame.map_err(|malformed| refuse(RequestRefusal::malformed(&malformed)))?;
    let servers = state.servers_at(&session.endpoint.target).ok_or_else(RequestRefusal::no_endpoint)?;
    let sender = Sender { servers, ..head.sender.clone() };
    let inbound = Inbound { state, session: &session, sender: &sender };
    match frame {
        Frame::Single(message) => {
            if let Some(exchange) = inbound.message(message).await {
                run(&inbound, exchange);
            }
        }
        Frame::Batch(messages) => {
            for exchange in inbound.batch(messages).await.map_err(|refused| refuse(RequestRefusal::batch(refused)))? {
                run(&inbound, exchange);
            }
        }
    }
    Ok(response::accepted())
}

/// Drives a call: its messages are added to the one stream even if that is not read. If the stream was closed because its
/// reader is too slow, the session ends here: the connection would notice only when its peer reads on.
fn run(inbound: &Inbound<'_>, mut exchange: SessionExchange) {
    let (state, session) = (Arc::clone(inbound.state), Arc::clone(inbound.session));
    inbound.state.tracker.spawn(async move {
        while let Some(message) = exchange.next().await {
            session.queue.push(message);
            if session.queue.open_streams() == 0 {
                state.sessions.forget(&session);
            }
        }
    });
}

impl SseConnection {
    /// The path to which the client posts; its credential is never in it (OA-122).
    fn address(&self) -> String {
        let path = format!("/messages?session_id={}", self.session.id.as_str());
        self.ticket.as_ref().map_or(path.clone(), |ticket| format!("{path}&{}", ticket.parameter()))
    }
}

impl Drop for SseConnection {
    fn drop(&mut self) {
        self.state.sessions.forget(&self.session);
    }
}
