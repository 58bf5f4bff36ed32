//! Streamable HTTP (2025-03-26, 2025-06-18 and 2025-11-25, transports): POST, GET and DELETE at one path.
//!
//! A DELETE without a session gets a 405, not a 400, and so does a GET that opens nothing else. Older clients read a
//! 405 as "no stream here", not as an error.

use std::{future::pending, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, Method as Verb, StatusCode};

use super::{
    refusal::RequestRefusal,
    request_head::{AnswerForm, RequestHead, Semantics, VersionHeader, choose, parse, read},
    response::{
        self, EventSource, Payer, Priming, ResponseForm, ResponseStart, StreamOptions, credential_end, session_end,
    },
    stateless,
};
use crate::{
    frontend::{
        replay::{
            event_id::{CallStream, LastEvent},
            streams::AnswerRest,
        },
        session::{
            Session,
            exchange::SessionExchange,
            inbound::{Inbound, initialize_in},
            initialize::read_client,
        },
        state::FrontendState,
    },
    mcp::{
        ErrorObject, Message, Method, RequestId,
        jsonrpc::{Frame, Malformed},
        large_messages::{MessageOwner, OffWorker, off_worker},
        revision::Feature,
    },
    model::{Binding, RequestPlace, Serves, SessionAddress},
    resource::Authorized,
    support::memory::Claim,
    wire::headers,
};

/// The endpoints, for POST.
pub struct StreamableHttp(Arc<FrontendState>);

// === impl StreamableHttp ===

impl StreamableHttp {
    pub(crate) const fn new(state: Arc<FrontendState>) -> Self {
        Self(state)
    }

    pub fn takes(&self, request: &Request) -> bool {
        let below = request.uri().path().strip_prefix("/mcp");
        request.method() == Verb::POST && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }

    /// Answers an authorized POST: a message, a batch of them, or the `initialize` that opens a session.
    pub async fn post(&self, request: Request, authorized: Authorized) -> Response {
        let (mut parts, body) = request.into_parts();
        let mut head = match RequestHead::read(&mut parts, authorized, &self.0) {
            Ok(head) => head,
            Err(refusal) => return refusal.into_response(),
        };
        let served = match receive(&self.0, &mut head, body).await {
            Ok((body, Some(claim))) => {
                // boxed, so that the future of every call does not have to hold it
                Box::pin(serve_large(Arc::clone(&self.0), head, body, claim)).await
            }
            Ok((body, None)) => serve(&self.0, &head, body).await.map_err(|refusal| refusal.toward(head.revision)),
            Err(refusal) => Err(refusal.toward(head.revision)),
        };
        served.unwrap_or_else(RequestRefusal::into_response)
    }
}

/// A POST behind a router.
pub(super) async fn post(
    State(state): State<Arc<FrontendState>>,
    Extension(authorized): Extension<Authorized>,
    request: Request,
) -> Response {
    StreamableHttp(state).post(request, authorized).await
}

/// Receives the body of a request whose headers were checked.
async fn receive(
    state: &FrontendState,
    head: &mut RequestHead,
    body: Body,
) -> Result<(Bytes, Option<Claim>), RequestRefusal> {
    head.check_post()?;
    read(state, &head.sender.admission.caller, body).await
}

/// Serves a large body off the worker, until it waits for something. It may be ended to free memory for others.
async fn serve_large(
    state: Arc<FrontendState>,
    head: RequestHead,
    body: Bytes,
    mut claim: Claim,
) -> Result<Response, RequestRefusal> {
    // its translation needs the same amount of memory again
    if claim.grow_soon(body.len()).await.is_err() {
        return Err(RequestRefusal::out_of_memory().toward(head.revision));
    }
    let (owner, revision) = (MessageOwner::User(head.sender.admission.caller.user.clone()), head.revision);
    let served = async move { serve(&state, &head, body).await.map_err(|refusal| refusal.toward(head.revision)) };
    tokio::select! {
        served = OffWorker::future(owner, Box::pin(served)) => served,
        _ = claim.reclaimed() => Err(RequestRefusal::given_up().toward(revision)),
    }
}

async fn serve(state: &Arc<FrontendState>, head: &RequestHead, body: Bytes) -> Result<Response, RequestRefusal> {
    let size = body.len();
    off_worker(size).await;
    let kept = state.kept(&body);
    let frame = parse(&body);
    if frame.is_err() {
        head.check_compression(&body)?;
    }
    let frame = match choose(state.settings.serves, head.version, frame)? {
        Semantics::Request(request) => {
            if let Some(owner) = head.owner_elsewhere(state, &request) {
                return Err(RequestRefusal::elsewhere(owner).with_body(kept));
            }
            if let Err(elsewhere) = head.check_taken(state)
                && request.replica() != Some(state.replica)
            {
                return Err(elsewhere);
            }
            return stateless::serve(state, head, request).await;
        }
        Semantics::Notification(..) => return Ok(response::accepted()),
        Semantics::Session(frame) => frame,
    };
    let Some(id) = head.session() else {
        let frame = frame.map_err(|malformed| RequestRefusal::malformed(&malformed))?;
        // boxed, so that the future of every call does not have to hold it
        return Box::pin(open(state, head, frame)).await;
    };
    let session = find(state, head, id).await.map_err(|refusal| refusal.with_body(kept))?;
    off_worker(size).await;
    let inbound = Inbound { state, session: &session, sender: &head.sender };
    if session.take_restored() {
        inbound.restore_subscriptions();
    }
    let served = match (head.version, frame) {
        (VersionHeader::Unknown, _) => Err(RequestRefusal::unsupported_version()),
        (_, Err(malformed)) => Err(RequestRefusal::malformed(&malformed)),
        (_, Ok(Frame::Single(message))) => single(&inbound, message, head.answers).await,
        (_, Ok(Frame::Batch(messages))) => Box::pin(batch(&inbound, messages, head.answers)).await,
    };
    served.map_err(|refusal| refusal.toward(Some(session.revision())))
}

/// Opens a standalone stream, for server messages outside of calls.
pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    stream(&state, &head).await.map_err(|refusal| refusal.toward(head.revision))
}

async fn stream(state: &Arc<FrontendState>, head: &RequestHead) -> Result<Response, RequestRefusal> {
    head.check_event_stream()?;
    let session = named(state, head).await?;
    let inbound = Inbound { state, session: &session, sender: &head.sender };
    let source = match source(head, &session) {
        Resumption::Stream(source) => source,
        // with this status, an `EventSource` does not reconnect
        Resumption::Over => return Ok(response::empty(StatusCode::NO_CONTENT)),
        Resumption::Lost(id) => {
            let event = session.answers.prefix.answer(&CallStream::over(), 1);
            return Ok(response::one_event(&event, &Message::error(id, ErrorObject::lost_answer())));
        }
    };
    inbound.listen();
    if session.take_restored() {
        inbound.restore_subscriptions();
    }
    let credential_end = credential_end(&head.sender.admission.lease, state.clock.now());
    Ok(match source {
        // the stream ends with the session, as it did for its first reader
        EventSource::Call(..) | EventSource::Request(..) => response::stream(source, options(&inbound), credential_end),
        EventSource::Standalone(_) => {
            let options = StreamOptions { lifetime: None, ..options(&inbound) };
            response::stream(source, options, session_end(state, &session, credential_end))
        }
    })
}

/// The answer to a GET.
enum Resumption {
    Stream(EventSource),
    /// Nothing: the call that the event belongs to has ended, and its client has read everything.
    Over,
    /// An error for a call that is no longer known.
    Lost(RequestId),
}

/// The answer to a GET. If it names an event, it continues that stream and no other (2025-03-26 to 2025-11-25,
/// transports, *Resumability and Redelivery*). Otherwise it is a new standalone stream. If the event belongs to a
/// standalone stream of another session, or from before a restart, the messages after it are not known.
fn source(head: &RequestHead, session: &Arc<Session>) -> Resumption {
    let last = head.headers.get(headers::LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    let unknown = |request: Option<RequestId>| request.map_or(Resumption::Over, Resumption::Lost);
    let resumed = match last.and_then(|id| session.answers.prefix.read(id)) {
        Some(LastEvent::Answer { serial, number, request }) => match session.answers.resume(serial, number) {
            AnswerRest::Events(stream, reader) => Some(EventSource::Call(stream, reader)),
            AnswerRest::Nothing => return Resumption::Over,
            AnswerRest::Unknown => return unknown(request),
        },
        Some(LastEvent::ForeignAnswer { request }) => return unknown(request),
        Some(LastEvent::Standalone { serial, number }) => {
            session.queue.resume(serial, number).map(EventSource::Standalone)
        }
        None => None,
    };
    metrics::counter!("lockkeeper_frontend_resumed_streams_total").increment(u64::from(resumed.is_some()));
    Resumption::Stream(resumed.unwrap_or_else(|| EventSource::Standalone(session.queue.attach())))
}

fn options(inbound: &Inbound<'_>) -> StreamOptions {
    let resumable = inbound.session.revision().has(Feature::PrimingEvent);
    StreamOptions {
        opening: None,
        ids: Some(inbound.session.answers.prefix.clone()),
        priming: if resumable { Priming::First } else { Priming::Never },
        lifetime: if resumable { inbound.state.settings.limits.get().stream_lifetime } else { None },
        pinged: None,
    }
}

/// Answers a POST: with JSON if only answers come, and in time, otherwise with a stream. A task runs the call even if
/// the stream is not read, so that a slow reader does not delay cancellations and a reader may reconnect. `request` is
/// the only request that it answers.
async fn respond<S>(
    inbound: &Inbound<'_>,
    request: Option<&RequestId>,
    messages: S,
    form: ResponseForm,
    answers: AnswerForm,
) -> Response
where
    S: Stream<Item = Message> + Unpin + Send + 'static,
{
    let payer = Payer { state: inbound.state, caller: &inbound.session.owner };
    if answers == AnswerForm::Json {
        return Box::pin(response::answers_alone(messages, form, payer)).await;
    }
    let (ready, mut rest) = match response::start(messages, form, payer).await {
        ResponseStart::Complete(response) => return response,
        ResponseStart::Stream(ready, rest) => (ready, rest),
    };
    let (stream, buffer, reader) = inbound.session.answers.open(request);
    let source = EventSource::Call(stream.clone(), reader);
    for message in ready {
        buffer.push(message);
    }
    let session = Arc::clone(inbound.session);
    inbound.state.tracker.spawn(async move {
        while let Some(message) = rest.next().await {
            buffer.push(message);
        }
        session.answers.finish(&stream, &buffer);
    });
    // the call itself ends with the session and with the credential, and reports that on the stream
    response::stream(source, options(inbound), pending())
}

/// The end of a session.
pub(super) async fn delete(
    State(state): State<Arc<FrontendState>>,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    let session = named(&state, &head).await.map_err(|refusal| refusal.toward(head.revision))?;
    state.sessions.end(&session).await;
    tracing::info!(session = %session.id, user = %session.owner.user, "the client ends its session");
    Ok(response::empty(StatusCode::NO_CONTENT))
}

/// The session named by a GET or DELETE.
async fn named(state: &FrontendState, head: &RequestHead) -> Result<Arc<Session>, RequestRefusal> {
    let is_served = |_: &&str| state.settings.serves == Serves::BothEras;
    let id = head
        .session()
        .filter(is_served)
        .ok_or_else(|| RequestRefusal::method_not_allowed(&head.sender.endpoint, state.settings.serves))?;
    let session = find(state, head, id).await?;
    if head.version == VersionHeader::Unknown {
        return Err(RequestRefusal::unsupported_version().toward(Some(session.revision())));
    }
    Ok(session)
}

async fn find(state: &FrontendState, head: &RequestHead, id: &str) -> Result<Arc<Session>, RequestRefusal> {
    if head.place == RequestPlace::Carried && state.drained.is_cancelled() && state.sessions.give_up(id).await {
        return Err(RequestRefusal::elsewhere(state.replica));
    }
    state.sessions.find(id, &head.sender.endpoint, &head.sender.admission.caller).await.map_err(RequestRefusal::missing)
}

/// Serves a message without a session, which can only be the `initialize` that opens one. The version is negotiated in
/// the message, and a version header is ignored, because clients in the field send unknown versions there. If the
/// header names a version without `initialize`, the message is refused.
async fn open(state: &Arc<FrontendState>, head: &RequestHead, frame: Frame) -> Result<Response, RequestRefusal> {
    head.check_taken(state)?;
    let message = match frame {
        Frame::Single(message) => message,
        Frame::Batch(messages) => {
            return Err(match initialize_in(&messages) {
                Some(id) => {
                    RequestRefusal::invalid("Invalid Request: initialize must not be part of a batch").with_id(Some(id))
                }
                None => RequestRefusal::invalid("Bad Request: a batch needs an Mcp-Session-Id header"),
            });
        }
    };
    let (id, params) = match message {
        Message::Request { id, method: Method::Initialize, params } => (id, params),
        _ if head.version == VersionHeader::Unknown => {
            return Err(RequestRefusal::unsupported_version().with_id(request_id(&message)));
        }
        message => {
            let refusal =
                RequestRefusal::invalid("Bad Request: the Mcp-Session-Id header is missing; begin with initialize");
            return Err(refusal.with_id(request_id(&message)));
        }
    };
    let client = match read_client(&params) {
        Ok(client) => client,
        Err(error) => {
            let payer = Payer { state, caller: &head.sender.admission.caller };
            return Ok(response::json(&[Message::error(id, error)], ResponseForm::Session, payer).await);
        }
    };
    let owner = Arc::clone(&head.sender.admission.caller);
    let address = SessionAddress { endpoint: head.sender.endpoint.clone(), binding: Binding::Mcp };
    let opened = state.sessions.open(address, owner).await;
    let session = opened.map_err(|full| RequestRefusal::full(full, Binding::Mcp).with_id(Some(id.clone())))?;
    let inbound = Inbound { state, session: &session, sender: &head.sender };
    let mut exchange = inbound.open(id.clone(), client);
    read_by(head.answers, [&mut exchange]);
    let mut response = respond(&inbound, Some(&id), exchange, ResponseForm::Session, head.answers).await;
    // a failed handshake leaves no session
    if !session.ended.is_cancelled()
        && let Ok(value) = HeaderValue::from_str(session.id.as_str())
    {
        response.headers_mut().insert(headers::SESSION_ID, value);
    }
    Ok(response)
}

async fn single(inbound: &Inbound<'_>, message: Message, answers: AnswerForm) -> Result<Response, RequestRefusal> {
    if let Message::Request { id, method: Method::Initialize, .. } = message {
        let text = "Invalid Request: the session is initialized already; send initialize without a session id";
        return Err(RequestRefusal::invalid(text).with_id(Some(id)));
    }
    let id = request_id(&message);
    match inbound.message(message).await {
        Some(mut exchange) => {
            read_by(answers, [&mut exchange]);
            Ok(respond(inbound, id.as_ref(), exchange, ResponseForm::Session, answers).await)
        }
        None => Ok(response::accepted()),
    }
}

async fn batch(
    inbound: &Inbound<'_>,
    messages: Vec<Result<Message, Malformed>>,
    answers: AnswerForm,
) -> Result<Response, RequestRefusal> {
    let mut exchanges = inbound.batch(messages).await.map_err(RequestRefusal::batch)?;
    if exchanges.is_empty() {
        return Ok(response::accepted());
    }
    read_by(answers, exchanges.iter_mut());
    Ok(respond(inbound, None, exchanges, ResponseForm::Batch, answers).await)
}

/// Tells the exchanges which answers the client reads.
fn read_by<'e>(answers: AnswerForm, exchanges: impl IntoIterator<Item = &'e mut SessionExchange>) {
    if answers == AnswerForm::Json {
        exchanges.into_iter().for_each(SessionExchange::read_response_alone);
    }
}

fn request_id(message: &Message) -> Option<RequestId> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}
