//! HTTP+SSE (2024-11-05, transports). The connection is the session, and its single stream carries all messages to the
//! client. The client may negotiate any legacy version on it.

use std::{future::pending, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header;
use serde::Deserialize;

use super::{
    refusal::RequestRefusal,
    request_head::{RequestHead, VersionHeader, parse, read},
    response::{self, EventSource, StreamOptions, credential_end},
};
use crate::{
    frontend::{
        session::{Session, exchange::SessionExchange, inbound::Inbound},
        sessions::{Arrival, Continued, LookupError},
        state::{FrontendState, Sender},
    },
    mcp::{
        Message, Method,
        jsonrpc::Frame,
        large_messages::{MessageOwner, begun_off_worker, off_worker},
    },
    model::{Binding, Endpoint, Serves, SessionAddress},
    resource::{Authorized, MessageTicket, MessagesReach, StreamLease},
    support::Timestamp,
    wire::{headers, sse},
};

/// The query of `/messages`.
#[derive(Deserialize)]
pub(super) struct MessagesQuery {
    pub(super) session_id: Option<String>,
}

/// Ends the session when the connection ends.
struct SseConnection {
    state: Arc<FrontendState>,
    session: Arc<Session>,
    /// Credential for `/messages`, for a client that sent its key in the query.
    ticket: Option<Arc<MessageTicket>>,
}

/// Opens a session and its stream.
pub(super) async fn open(
    state: Arc<FrontendState>,
    ticket: Option<Arc<MessageTicket>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    head.check_event_stream()?;
    if state.settings.serves == Serves::ModernAlone {
        return Err(RequestRefusal::method_not_allowed(&head.sender.endpoint, state.settings.serves));
    }
    head.check_taken(&state)?;
    let owner = Arc::clone(&head.sender.admission.caller);
    let address = SessionAddress { endpoint: head.sender.endpoint.clone(), binding: Binding::Sse };
    let opened = state.sessions.open(address, owner).await;
    let session = opened.map_err(|full| RequestRefusal::full(full, Binding::Sse))?;
    session.lease.send_replace(Some(head.sender.admission.lease.clone()));
    let (ended, lease_end) = (session.ended.clone(), lease_end(Arc::clone(&session), Arc::clone(&state)));
    let end = async move { ended.run_until_cancelled(lease_end).await };
    let source = EventSource::Standalone(session.queue.attach());
    let pinged = takes_comments_for_errors(&head).then(|| Arc::clone(&session));
    let connection = SseConnection { state: Arc::clone(&state), session: Arc::clone(&session), ticket };
    let arrival = arrival(&head);
    if matches!(arrival, Arrival::Return(_)) {
        recognize(&state, &session, &head.sender, arrival).await?;
    }
    let opening = Some(sse::event("endpoint", connection.address().as_bytes()));
    let options = StreamOptions { opening, pinged, ..StreamOptions::default() };
    Ok(response::stream(source, options, async move {
        // dropped with the stream, even if it is never read
        let _connection = connection;
        end.await;
    }))
}

/// Identifies a client that continues without `initialize`, once per session.
async fn recognize(
    state: &Arc<FrontendState>,
    session: &Arc<Session>,
    sender: &Sender,
    arrival: Arrival,
) -> Result<(), RequestRefusal> {
    let recognized = session.recognized.get_or_try_init(async || {
        let continued = state.sessions.recognize(session, arrival).await?;
        if session.client().is_some() {
            tracing::info!(session = %session.id, user = %session.owner.user, "a client comes back over HTTP+SSE");
            go_on(state, session, sender, continued);
        }
        Ok::<(), LookupError>(())
    });
    recognized.await.copied().map_err(RequestRefusal::missing)
}

/// Starts to listen, and restores the client's settings. Runs in the background, because servers may have to start.
fn go_on(state: &Arc<FrontendState>, session: &Arc<Session>, sender: &Sender, continued: Option<Continued>) {
    let (state, session, sender) = (Arc::clone(state), Arc::clone(session), sender.clone());
    state.tracker.clone().spawn(async move {
        let inbound = Inbound { state: &state, session: &session, sender: &sender };
        inbound.listen();
        if let Some(continued) = continued {
            state.sessions.keep(&session, continued).await;
        }
        if session.take_restored() {
            inbound.restore_subscriptions();
        }
    });
}

/// True for a message that a client sends only after the handshake.
fn goes_on(frame: &Frame) -> bool {
    let goes_on = |message: &Message| matches!(message, Message::Request { method, .. } if !matches!(method, Method::Initialize | Method::Ping));
    match frame {
        Frame::Single(message) => goes_on(message),
        Frame::Batch(messages) => messages.iter().flatten().any(goes_on),
    }
}

fn arrival(head: &RequestHead) -> Arrival {
    match head.version {
        VersionHeader::Legacy => Arrival::Return(head.revision),
        _ if head.headers.contains_key(headers::LAST_EVENT_ID) => Arrival::Return(None),
        _ => Arrival::First,
    }
}

/// True for HTTP clients of the Java SDK, which stops reading after a comment up to 0.11.1 (java-sdk#93, #272).
fn takes_comments_for_errors(head: &RequestHead) -> bool {
    let agent = head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    ["ReactorNetty/", "Java-http-client/"].iter().any(|client| agent.starts_with(client))
}

/// Waits until the session's newest lease (OA-116) or the gateway ends. Returns at once if the lease is revoked. If it
/// expires, or the gateway is about to stop, running calls are answered first; the stream then ends when its queue is
/// empty.
async fn lease_end(session: Arc<Session>, state: Arc<FrontendState>) {
    let mut leases = session.lease.subscribe();
    loop {
        let Some(lease) = leases.borrow_and_update().clone() else { return pending().await };
        tokio::select! {
            biased;
            () = credential_end(&lease, state.clock.now()) => {}
            () = state.drained.cancelled() => {}
            _ = leases.changed() => continue,
        }
        session.deliveries.close();
        tokio::select! {
            biased;
            () = lease.revoked.cancelled() => return,
            () = session.deliveries.wait() => break,
            _ = leases.changed() => {
                session.deliveries.reopen();
            }
        }
    }
    session.queue.finish();
    let revoked = session.lease.borrow().as_ref().map(|lease| Arc::clone(&lease.revoked));
    match revoked {
        Some(revoked) => revoked.cancelled().await,
        None => pending().await,
    }
}

/// Extends the session until the credential of this message expires, if that is later and the credential belongs to the
/// same grant.
fn renew(session: &Session, admission: &Authorized) {
    if admission.caller.grant != session.owner.grant {
        return;
    }
    let ends = |lease: &StreamLease| lease.expires.map_or(i64::MAX, Timestamp::as_millis);
    session.lease.send_if_modified(|held| {
        let is_later = held.as_ref().is_some_and(|held| ends(&admission.lease) > ends(held));
        if is_later {
            *held = Some(admission.lease.clone());
        }
        is_later
    });
}

/// A message for the session that the query names.
pub(super) async fn post(
    State(state): State<Arc<FrontendState>>,
    Query(query): Query<MessagesQuery>,
    reach: Option<Extension<MessagesReach>>,
    head: RequestHead,
    body: Body,
) -> Result<Response, RequestRefusal> {
    let opens = |endpoint: &Endpoint| reach.as_ref().is_none_or(|reach| reach.opens(endpoint));
    let found = named(&state, query, &head).and_then(|session| {
        if opens(&session.address.endpoint) { Ok(session) } else { Err(RequestRefusal::ended_stream()) }
    });
    let revision = head.revision;
    let received = match found {
        Ok(session) => receive(state, session, head, body).await,
        Err(refusal) => Err(refusal),
    };
    received.map_err(|refusal| refusal.toward(revision))
}

/// The session named in the query.
fn named(state: &FrontendState, query: MessagesQuery, head: &RequestHead) -> Result<Arc<Session>, RequestRefusal> {
    head.check_json()?;
    let id = query.session_id.ok_or_else(|| RequestRefusal::invalid("Bad Request: the query has no session_id"))?;
    let found = state.sessions.find_connected(&id, &head.sender.admission.caller);
    found.map_err(|_| RequestRefusal::ended_stream())
}

async fn receive(
    state: Arc<FrontendState>,
    session: Arc<Session>,
    head: RequestHead,
    body: Body,
) -> Result<Response, RequestRefusal> {
    renew(&session, &head.sender.admission);
    let revision = || session.client().map(|client| client.revision);
    let read = read(&state, &head.sender.admission.caller, body).await;
    let (body, _claim) = read.map_err(|refusal| refusal.toward(revision()))?;
    let owner = MessageOwner::User(head.sender.admission.caller.user.clone());
    begun_off_worker(owner, body.len(), async move { serve(&state, &session, &head, &body).await }).await
}

/// Begins to serve a body.
async fn serve(
    state: &Arc<FrontendState>,
    session: &Arc<Session>,
    head: &RequestHead,
    body: &Bytes,
) -> Result<Response, RequestRefusal> {
    let refuse = |refusal: RequestRefusal| refusal.toward(session.client().map(|client| client.revision));
    let frame = parse(body);
    if frame.is_err() {
        head.check_compression(body).map_err(refuse)?;
    }
    let frame = frame.map_err(|malformed| refuse(RequestRefusal::malformed(&malformed)))?;
    let servers = state.servers_at(&session.address.endpoint.target).ok_or_else(RequestRefusal::no_endpoint)?;
    let sender = Sender { servers, ..head.sender.clone() };
    if session.queue.ended_at().is_some() {
        return Err(RequestRefusal::ended_stream());
    }
    if session.client().is_none() && goes_on(&frame) {
        // not every returning client shows that it returns when it opens its stream
        recognize(state, session, &sender, Arrival::First).await.map_err(refuse)?;
        off_worker(body.len()).await;
    }
    let inbound = Inbound { state, session, sender: &sender };
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

/// Runs a call and adds its messages to the single stream, even if it is not read. If the stream was closed because its
/// reader is too slow, the session ends here: the connection would notice only when the client reads again.
fn run(inbound: &Inbound<'_>, mut exchange: SessionExchange) {
    let (state, session) = (Arc::clone(inbound.state), Arc::clone(inbound.session));
    let delivery = session.deliveries.token();
    inbound.state.tracker.spawn(async move {
        let _delivery = delivery;
        while let Some(message) = exchange.next().await {
            session.queue.push(message);
            if session.queue.open_streams() == 0 {
                state.sessions.forget(&session);
            }
        }
    });
}

impl SseConnection {
    /// The path for the client's posts. It never contains the credential (OA-122).
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
