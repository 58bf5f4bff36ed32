//! HTTP+SSE (2024-11-05, transports): the connection is the session, and everything for the client goes down its one
//! stream. Any legacy version may be negotiated on it.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::SelectAll};
use serde::Deserialize;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    Frontend, answer,
    arrival::{Arrival, lapse},
    exchange::Exchange,
    legacy::Conversation,
    refusal::Refusal,
    session::Session,
    streamable::{begin, read},
};
use crate::{
    mcp::{Message, jsonrpc::Frame, revision::Feature},
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
    frontend: Frontend,
    session: Arc<Session>,
    /// What opens `/messages` to a client that brought its key in the query.
    ticket: Option<Arc<Ticket>>,
}

/// Opens a session and its stream.
pub(super) async fn get(
    State(frontend): State<Frontend>,
    ticket: Option<Extension<Arc<Ticket>>>,
    arrival: Arrival,
) -> Result<Response, Refusal> {
    if !headers::accepts(&arrival.headers, sse::MEDIA_TYPE) {
        return Err(Refusal::not_acceptable("text/event-stream"));
    }
    let (sender, intake) = mpsc::channel(frontend.settings().calls_per_session);
    let owner = Arc::clone(&arrival.admission.caller);
    let opened = frontend.sessions().open(arrival.endpoint.clone(), owner, Some(sender)).await;
    let session = opened.map_err(Refusal::full)?;
    let lapse = lapse(&arrival.admission.lease, frontend.sessions().now());
    let ticket = ticket.map(|Extension(ticket)| ticket);
    Ok(answer::stream(events(Connection { frontend, session, ticket }, intake, lapse)))
}

/// A message for the session that the query names.
pub(super) async fn post(
    State(frontend): State<Frontend>,
    Query(names): Query<Names>,
    arrival: Arrival,
    body: Body,
) -> Result<Response, Refusal> {
    if !headers::is_json(&arrival.headers) {
        return Err(Refusal::not_json());
    }
    let id = names.session_id.ok_or_else(|| Refusal::invalid("Bad Request: the query has no session_id"))?;
    let found = frontend.sessions().find_connected(&id, &arrival.admission.caller);
    let session = found.map_err(Refusal::missing)?;
    let refuse = |refusal: Refusal| refusal.toward(Some(session.revision()));
    let body = read(&frontend, body).await.map_err(refuse)?;
    let frame = Frame::parse(&body).map_err(|malformed| refuse(Refusal::malformed(&malformed)))?;
    let talk =
        Conversation { frontend: &frontend, session: &session, admission: &arrival.admission, trace: &arrival.trace };
    match frame {
        Frame::Single(Message::Request { id, method, params }) => {
            send(&session, talk.request(id.clone(), method, params)).map_err(|refusal| refusal.with_id(Some(id)))?;
        }
        Frame::Single(Message::Notification { method, params }) => talk.notification(method, params).await,
        Frame::Single(Message::Response { id, outcome }) => talk.response(id.as_ref(), outcome),
        Frame::Batch(messages)
            if session.revision().has(Feature::Batches) && messages.len() <= frontend.settings().batch =>
        {
            for exchange in begin(&talk, messages).await {
                send(&session, exchange)?;
            }
        }
        Frame::Batch(_) => {
            return Err(refuse(Refusal::invalid("Invalid Request: a batch that this session cannot have")));
        }
    }
    Ok(answer::accepted())
}

/// Hands a call to the connection. One that is not read has no room for it at some point; one that is gone has ended
/// the call.
fn send(session: &Session, exchange: Exchange) -> Result<(), Refusal> {
    let sent = session.intake.as_ref().map(|intake| intake.try_send(exchange));
    if let Some(Err(TrySendError::Full(_))) = sent {
        metrics::counter!("lockkeeper_frontend_unread_connections_total").increment(1);
        return Err(Refusal::unread());
    }
    Ok(())
}

fn events(
    connection: Connection,
    mut intake: mpsc::Receiver<Exchange>,
    lapse: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let stream = connection.session.outbox.attach();
    async_stream::stream! {
        // dropped with the stream, also where it is never read
        let connection = connection;
        yield sse::event("endpoint", connection.address().as_bytes());
        let mut heartbeat = answer::heartbeat();
        let mut exchanges: SelectAll<Exchange> = SelectAll::new();
        let (ended, drained) = (connection.session.ended.clone(), connection.frontend.drained().clone());
        tokio::pin!(lapse);
        loop {
            tokio::select! {
                biased;
                () = ended.cancelled() => break,
                () = drained.cancelled() => break,
                () = &mut lapse => break,
                Some(exchange) = intake.recv() => exchanges.push(exchange),
                Some(message) = exchanges.next() => yield sse::message(&message.encode()),
                message = stream.next() => match message {
                    Some(message) => yield sse::message(&message.encode()),
                    None => break,
                },
                _ = heartbeat.tick() => yield sse::KEEP_ALIVE,
            }
        }
    }
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
        self.frontend.sessions().forget(&self.session);
    }
}
