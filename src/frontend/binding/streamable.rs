//! Streamable HTTP (2025-03-26, 2025-06-18 and 2025-11-25, transports): POST, GET and DELETE at one path.
//!
//! A GET or DELETE without a session is answered 405, not 400: that tells older clients that there is no stream to be
//! had without a session, and none of them takes 405 for an error.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::State,
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, future::BoxFuture, stream::SelectAll};
use http::{HeaderValue, StatusCode};

use super::{
    event_stream::{self, Manner, Priming, Source},
    refusal::Refusal,
    request_head::{RequestHead, VersionHeader},
    response::{self, Begun, Form},
    stateless,
};
use crate::{
    frontend::{
        event_id::{EventId, StreamId},
        exchange::Exchange,
        legacy::{Conversation, introduction},
        modern,
        sender::lapse,
        session::Session,
        state::FrontendState,
    },
    mcp::{
        ErrorObject, Message, Method, RequestId,
        json::Object,
        jsonrpc::{Frame, Malformed},
        revision::Feature,
    },
    model::Serves,
    wire::{headers, sse},
};

/// A message, a batch of them, or the `initialize` that opens a session.
pub(super) async fn post(
    State(state): State<FrontendState>,
    head: RequestHead,
    body: Body,
) -> Result<Response, Refusal> {
    serve(&state, &head, body).await.map_err(|refusal| refusal.toward(head.named()))
}

async fn serve(state: &FrontendState, head: &RequestHead, body: Body) -> Result<Response, Refusal> {
    if !headers::accepts(&head.headers, headers::JSON) || !headers::accepts(&head.headers, sse::MEDIA_TYPE) {
        return Err(Refusal::not_acceptable("both application/json and text/event-stream"));
    }
    if !headers::is_json(&head.headers) {
        return Err(Refusal::not_json());
    }
    let body = read(state, body).await?;
    let frame = match era(head, Frame::parse(&body).and_then(Frame::unambiguous))? {
        Spoken::Modern(Message::Request { id, method, params }) => {
            return stateless::serve(state, head, (id, method), params).await;
        }
        Spoken::Modern(_) => return Ok(response::accepted()),
        Spoken::Legacy(frame) if state.settings().serves == Serves::ModernAlone => return Err(sessionless(&frame)),
        Spoken::Legacy(frame) => frame,
    };
    let Some(id) = head.session() else {
        let frame = frame.map_err(|malformed| Refusal::malformed(&malformed))?;
        return open(state, head, frame).await;
    };
    let session = find(state, head, id).await?;
    let talk = Conversation { state, session: &session, sender: &head.sender };
    talk.revive().await;
    let served = match (head.version(), frame) {
        (VersionHeader::Unknown, _) => Err(Refusal::unsupported_version()),
        (_, Err(malformed)) => Err(Refusal::malformed(&malformed)),
        (_, Ok(Frame::Single(message))) => single(&talk, message).await,
        (_, Ok(Frame::Batch(messages))) => batch(&talk, messages).await,
    };
    served.map_err(|refusal| refusal.toward(Some(session.revision())))
}

/// In which era something is said.
enum Spoken {
    Legacy(Result<Frame, Malformed>),
    Modern(Message),
}

/// Which semantics a POST has: the first rule of `translation` 2.8 that matches.
fn era(head: &RequestHead, frame: Result<Frame, Malformed>) -> Result<Spoken, Refusal> {
    let headed = head.version() == VersionHeader::Modern;
    let (params, id) = match &frame {
        Ok(Frame::Single(Message::Request { params, id, .. })) => (params, Some(id.clone())),
        Ok(Frame::Single(Message::Notification { params, .. })) => (params, None),
        Ok(Frame::Single(Message::Response { .. })) if headed => {
            return Err(Refusal::invalid("Invalid Request: this protocol version has no responses of clients"));
        }
        Ok(Frame::Batch(messages)) if messages.iter().any(is_enveloped) => {
            return Err(Refusal::invalid("Invalid Request: this protocol version has no batches"));
        }
        _ => return Ok(Spoken::Legacy(frame)),
    };
    if modern::is_around(params) || headed && id.is_none() {
        let Ok(Frame::Single(message)) = frame else { return Ok(Spoken::Legacy(frame)) };
        return Ok(Spoken::Modern(message));
    }
    match id {
        Some(id) if headed => Err(without_envelope(&frame, id)),
        _ => Ok(Spoken::Legacy(frame)),
    }
}

fn is_enveloped(message: &Result<Message, Malformed>) -> bool {
    matches!(message, Ok(Message::Request { params, .. } | Message::Notification { params, .. }) if modern::is_around(params))
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
            Refusal::modern(modern::unsupported(&requested.unwrap_or_default()), id.clone())
        }
        Ok(Frame::Single(Message::Request { id, .. })) => without_envelope(frame, id.clone()),
        Ok(_) => Refusal::invalid("Invalid Request: protocol versions with sessions are not served here"),
        Err(malformed) => Refusal::malformed(malformed),
    }
}

/// A standalone stream: what the servers say outside any call.
pub(super) async fn get(State(state): State<FrontendState>, head: RequestHead) -> Result<Response, Refusal> {
    stream(&state, &head).await.map_err(|refusal| refusal.toward(head.named()))
}

async fn stream(state: &FrontendState, head: &RequestHead) -> Result<Response, Refusal> {
    if !headers::accepts(&head.headers, sse::MEDIA_TYPE) {
        return Err(Refusal::not_acceptable("text/event-stream"));
    }
    let session = named(state, head).await?;
    let talk = Conversation { state, session: &session, sender: &head.sender };
    let source = source(head, &session).map_err(|refusal| refusal.toward(Some(session.revision())))?;
    talk.listen();
    talk.revive().await;
    let lapse = lapse(&head.sender.admission.lease, state.sessions().now());
    Ok(match source {
        // the end of the session is told on the stream, as it is to who read it first
        Source::Call(..) => response::stream(event_stream::events(source, manner(&talk), lapse)),
        Source::Standalone(_) => {
            let manner = Manner { lifetime: None, ..manner(&talk) };
            response::stream(event_stream::events(source, manner, ended(state, &session, lapse)))
        }
    })
}

/// What a GET reads: where it names an event, the rest of that stream and of no other (2025-03-26 to 2025-11-25,
/// transports, *Resumability and Redelivery*); else a fresh standalone stream. An id that this session never gave, such
/// as one from before a restart, names nothing: nobody knows what came after it.
fn source(head: &RequestHead, session: &Arc<Session>) -> Result<Source, Refusal> {
    let last = head.headers.get(headers::LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    let resumed = match last.and_then(|id| session.streams.mark.read(id)) {
        Some(EventId { stream: StreamId::Call(serial), number }) => {
            let reader = session.streams.resume(serial, number).ok_or_else(Refusal::forgotten_stream)?;
            Some(Source::Call(serial, reader))
        }
        Some(EventId { stream: StreamId::Standalone(serial), number }) => {
            session.outbox.resume(serial, number).map(Source::Standalone)
        }
        None => None,
    };
    metrics::counter!("lockkeeper_frontend_resumed_streams_total").increment(u64::from(resumed.is_some()));
    Ok(resumed.unwrap_or_else(|| Source::Standalone(session.outbox.attach())))
}

/// Ends with the session, the gateway, or the credential.
pub(super) fn ended(
    state: &FrontendState,
    session: &Session,
    lapse: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, ()> {
    let (ended, drained) = (session.ended.clone(), state.drained().clone());
    Box::pin(async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = drained.cancelled() => {}
            () = lapse => {}
        }
    })
}

fn manner(talk: &Conversation<'_>) -> Manner {
    let resumable = talk.session.revision().has(Feature::PrimingEvent);
    Manner {
        opening: None,
        ids: Some(talk.session.streams.mark.clone()),
        priming: if resumable { Priming::First } else { Priming::Never },
        lifetime: talk.state.settings().stream_lifetime.filter(|_| resumable),
    }
}

/// Answers a POST: as JSON where nothing but responses comes and they come soon, else as a stream. A stream is written by
/// a task, whether anybody reads it or not: a slow reader does not keep a cancel from its call, and one that went away
/// may come back.
async fn respond<S>(talk: &Conversation<'_>, messages: S, form: Form) -> Response
where
    S: Stream<Item = Message> + Unpin + Send + 'static,
{
    let (ready, mut rest) = match response::begin(messages).await {
        Begun::Whole(messages) => return response::json(&messages, form),
        Begun::Stream(ready, rest) => (ready, rest),
    };
    let (serial, transcript) = talk.session.streams.open();
    let reader = transcript.read_after(0);
    for message in ready {
        transcript.push(message);
    }
    let session = Arc::clone(talk.session);
    talk.tracker().spawn(async move {
        while let Some(message) = rest.next().await {
            transcript.push(message);
        }
        session.streams.finish(serial, &transcript);
    });
    // the end of the session, and of the credential, is the call's own: it is told on the stream
    response::stream(event_stream::events(Source::Call(serial, reader), manner(talk), std::future::pending()))
}

/// The end of a session.
pub(super) async fn delete(State(state): State<FrontendState>, head: RequestHead) -> Result<Response, Refusal> {
    let session = named(&state, &head).await.map_err(|refusal| refusal.toward(head.named()))?;
    state.sessions().end(&session).await;
    tracing::info!(session = ?session.id, user = %session.owner.user, "the client ends its session");
    Ok(response::empty(StatusCode::NO_CONTENT))
}

/// The session that a GET or DELETE names.
async fn named(state: &FrontendState, head: &RequestHead) -> Result<Arc<Session>, Refusal> {
    let served = |_: &&str| state.settings().serves == Serves::BothEras;
    let id = head.session().filter(served).ok_or_else(Refusal::method_not_allowed)?;
    let session = find(state, head, id).await?;
    if head.version() == VersionHeader::Unknown {
        return Err(Refusal::unsupported_version().toward(Some(session.revision())));
    }
    Ok(session)
}

async fn find(state: &FrontendState, head: &RequestHead, id: &str) -> Result<Arc<Session>, Refusal> {
    state.sessions().find(id, &head.sender.endpoint, &head.sender.admission.caller).await.map_err(Refusal::missing)
}

/// Reads a body of bounded length.
pub(super) async fn read(state: &FrontendState, body: Body) -> Result<Bytes, Refusal> {
    let most = state.settings().body;
    // a body that breaks off is refused in the same way: nobody reads that answer
    to_bytes(body, most).await.map_err(|_| Refusal::too_large(most))
}

/// What comes without a session can only be the `initialize` that opens one. The version is negotiated in it; a header
/// beside it says nothing (field: unknown versions are negotiated, not refused), unless it names a version that has no
/// `initialize`.
async fn open(state: &FrontendState, head: &RequestHead, frame: Frame) -> Result<Response, Refusal> {
    let message = match frame {
        Frame::Single(message) => message,
        Frame::Batch(messages) => {
            refuse_opening(&messages)?;
            return Err(Refusal::invalid("Bad Request: a batch needs an Mcp-Session-Id header"));
        }
    };
    let (id, params) = match message {
        Message::Request { id, method: Method::Initialize, params } => (id, params),
        _ if head.version() == VersionHeader::Unknown => {
            return Err(Refusal::unsupported_version().with_id(request_id(&message)));
        }
        message => {
            let refusal = Refusal::invalid("Bad Request: the Mcp-Session-Id header is missing; begin with initialize");
            return Err(refusal.with_id(request_id(&message)));
        }
    };
    let client = match introduction(&params) {
        Ok(client) => client,
        Err(error) => {
            return Ok(response::single(Message::error(id, error)));
        }
    };
    let owner = Arc::clone(&head.sender.admission.caller);
    let opened = state.sessions().open(head.sender.endpoint.clone(), owner).await;
    let session = opened.map_err(|full| Refusal::full(full).with_id(Some(id.clone())))?;
    let talk = Conversation { state, session: &session, sender: &head.sender };
    let mut response = respond(&talk, talk.greet(id, client), Form::Single).await;
    // a handshake that failed leaves no session
    if !session.ended.is_cancelled()
        && let Ok(value) = HeaderValue::from_str(session.id.as_str())
    {
        response.headers_mut().insert(headers::SESSION_ID, value);
    }
    Ok(response)
}

async fn single(talk: &Conversation<'_>, message: Message) -> Result<Response, Refusal> {
    match message {
        Message::Request { id, method: Method::Initialize, .. } => {
            let message = "Invalid Request: the session is initialized already; send initialize without a session id";
            Err(Refusal::invalid(message).with_id(Some(id)))
        }
        Message::Request { id, method, params } => {
            Ok(respond(talk, talk.request(id, method, params), Form::Single).await)
        }
        Message::Notification { method, params } => {
            talk.notification(method, params).await;
            Ok(response::accepted())
        }
        Message::Response { id, outcome } => {
            talk.response(id.as_ref(), outcome);
            Ok(response::accepted())
        }
    }
}

/// A batch (2025-03-26 alone): its requests run at the same time, each answered for itself.
async fn batch(talk: &Conversation<'_>, messages: Vec<Result<Message, Malformed>>) -> Result<Response, Refusal> {
    if !talk.session.revision().has(Feature::Batches) {
        let message = format!("Invalid Request: batches are not part of protocol version {}", talk.session.revision());
        return Err(Refusal::invalid(&message));
    }
    refuse_opening(&messages)?;
    let most = talk.state.settings().batch;
    if messages.len() > most {
        return Err(Refusal::invalid(&format!("Invalid Request: a batch may have at most {most} messages")));
    }
    let exchanges = begin(talk, messages).await;
    if exchanges.is_empty() {
        return Ok(response::accepted());
    }
    Ok(respond(talk, exchanges, Form::Batch).await)
}

/// 2025-03-26 lifecycle: `initialize` is never part of a batch.
pub(super) fn refuse_opening(messages: &[Result<Message, Malformed>]) -> Result<(), Refusal> {
    let opening = messages.iter().flatten().find_map(|message| match message {
        Message::Request { id, method: Method::Initialize, .. } => Some(id.clone()),
        _ => None,
    });
    let Some(id) = opening else { return Ok(()) };
    Err(Refusal::invalid("Invalid Request: initialize must not be part of a batch").with_id(Some(id)))
}

/// Begins to serve the messages of a batch, in which there is no `initialize`.
pub(super) async fn begin(talk: &Conversation<'_>, messages: Vec<Result<Message, Malformed>>) -> SelectAll<Exchange> {
    let mut exchanges = SelectAll::new();
    for message in messages {
        match message {
            Ok(Message::Request { id, method, params }) => exchanges.push(talk.request(id, method, params)),
            Ok(Message::Notification { method, params }) => talk.notification(method, params).await,
            Ok(Message::Response { id, outcome }) => talk.response(id.as_ref(), outcome),
            Err(malformed) => {
                // JSON-RPC 2.0, section 6: each invalid element has its own error
                let id = malformed.id().cloned().unwrap_or(RequestId::NULL);
                let answer = Message::error(id, malformed.to_error());
                exchanges.push(Exchange::answered(Arc::clone(talk.session), answer));
            }
        }
    }
    exchanges
}

fn request_id(message: &Message) -> Option<RequestId> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}
