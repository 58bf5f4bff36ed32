//! Requests of the server to its client (sampling, elicitation, roots): each waits for its answer, and ends with the call
//! that carries it. Knows nothing of how a call is made.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    background::BackgroundSender,
    calls::Calls,
    ownership::{CallOwner, Thing},
};
use crate::{
    backend::{connection_key::ConnectionKey, listens::Listens, task_group::TaskGroup},
    mcp::{
        Answered, ErrorObject, Event, Heard, Message, Method, Payload, Question, RequestId,
        deferred_requests::{DeferredLimits, DeferredRequests},
    },
    model::BackendId,
};

/// Requests that one server may have open at once.
const MAX_OPEN: usize = 64;
/// Requests outside of any call that wait for one at once; what comes beyond is refused.
const DEFERRED_LIMITS: DeferredLimits = DeferredLimits { all: 16, together: 16 };

/// Requests of one server that are open.
pub(crate) struct ServerRequests {
    open: Mutex<HashMap<RequestId, PendingServerRequest>>,
    /// Requests that came outside of any call while nobody listened: each waits for the next call in which the client can be
    /// asked (`translation` 4b.2 (v)). Servers ask for the roots so, as soon as the handshake is done.
    pub(super) deferred: Arc<DeferredRequests<RequestId>>,
    context: RequestContext,
}

/// What the requests of one connection belong to.
pub(super) struct RequestContext {
    /// The backend.
    pub(super) backend: BackendId,
    /// Calls that carry them.
    pub(super) calls: Arc<Calls>,
    /// The owner of the connection.
    pub(super) key: ConnectionKey,
    /// Where those go that no call carries.
    pub(super) listens: Arc<Listens>,
    /// Sends the answers.
    pub(super) sender: BackgroundSender,
    /// Where their waiting runs.
    pub(super) tasks: TaskGroup,
    /// Cancelled when the connection is over.
    pub(super) end: CancellationToken,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct PendingServerRequest {
    method: Method,
    withdrawn: CancellationToken,
    /// The time at which it was put to the client.
    since: Instant,
    /// The call that carries it.
    call: Option<u64>,
}

// === impl ServerRequests ===

impl ServerRequests {
    /// No requests.
    pub(super) fn new(context: RequestContext) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), deferred: DeferredRequests::new(DEFERRED_LIMITS), context })
    }

    /// Puts a request to the client: into `call`, else to the listen. Gives what the call is to be told.
    pub(super) fn put(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        params: Payload,
        call: Option<u64>,
    ) -> Option<(u64, Event)> {
        let withdrawn = CancellationToken::new();
        {
            let mut open = self.open.lock();
            if open.len() >= MAX_OPEN || open.contains_key(&id) {
                drop(open);
                self.refuse(id, ErrorObject::internal("too many questions at once, or one id twice"));
                return None;
            }
            let (since, withdrawn) = (Instant::now(), withdrawn.clone());
            open.insert(id.clone(), PendingServerRequest { method: method.clone(), withdrawn, since, call: None });
        }
        if let Some(call) = call {
            self.carried(&id, call, &params);
        }
        let (question, answered) = Question::new(method.clone(), params);
        self.await_answer(id.clone(), method, answered, withdrawn);
        if let Some(call) = call {
            return Some((call, Event::Asked(question)));
        }
        if let Err(question) = self.context.listens.ask(&self.context.key, question) {
            self.defer(id, question);
        }
        None
    }

    /// Answers a request with this error.
    pub(super) fn refuse(&self, id: RequestId, error: ErrorObject) {
        self.context.sender.tell(Message::error(id, error));
    }

    /// Answers a request that no client can be asked.
    pub(super) fn refuse_unsupported(&self, id: RequestId, method: &Method) {
        self.refuse(id, unsupported(method));
    }

    /// Answers a request whose call may have been given up.
    pub(super) fn refuse_cancelled(&self, id: RequestId, method: &Method) {
        self.context.sender.tell(cancelled(id, method));
    }

    /// The server takes a request back.
    pub(super) fn withdraw(&self, params: &Payload) {
        let Some(id) = params.member("requestId").map(str::to_owned) else { return };
        let request = RequestId::read(&id.into()).and_then(|id| self.open.lock().remove(&id));
        if let Some(request) = request {
            self.closed(&request);
            request.withdrawn.cancel();
        }
    }

    /// Closes the requests of a call whose client answers no more; gives the answers for the server.
    pub(super) fn close_of(&self, call: u64) -> Vec<Message> {
        let closed: Vec<_> = self.open.lock().extract_if(|_, request| request.call == Some(call)).collect();
        let close = |(id, request): (RequestId, PendingServerRequest)| {
            self.closed(&request);
            request.withdrawn.cancel();
            cancelled(id, &request.method)
        };
        closed.into_iter().map(close).collect()
    }

    /// Forgets all: the connection is over.
    pub(super) fn clear(&self) {
        self.open.lock().clear();
        drop(self.deferred.take(|_| true));
    }

    /// Whether one is open in this call.
    pub(super) fn is_open_in(&self, call: u64) -> bool {
        self.open.lock().values().any(|request| request.call == Some(call))
    }

    /// The calls in which requests are open, each as often as there are.
    pub(super) fn carriers(&self) -> Vec<u64> {
        self.open.lock().values().filter_map(|request| request.call).collect()
    }

    /// The time since which the oldest is open that a call carries.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.open.lock().values().filter_map(|request| request.call.map(|_| request.since)).min()
    }

    /// The calls in which one is open for `time` or longer, each as often as there are.
    pub(super) fn carriers_after(&self, time: Duration) -> Vec<u64> {
        let open = self.open.lock();
        open.values().filter(|request| request.since.elapsed() >= time).filter_map(|request| request.call).collect()
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.context.calls
    }

    pub(super) const fn backend(&self) -> &BackendId {
        &self.context.backend
    }

    pub(super) const fn sender(&self) -> &BackgroundSender {
        &self.context.sender
    }

    /// Puts what is deferred into a call that has just begun.
    pub(super) fn put_deferred(&self, call: u64) {
        for (id, question) in self.deferred.take(|_| true) {
            self.carried(&id, call, &question.params);
            if let Some(Event::Asked(question)) = self.context.calls.deliver(call, Event::Asked(question)) {
                // if nobody listens it is refused by being dropped
                drop(self.context.listens.ask(&self.context.key, question));
            }
        }
    }

    /// Keeps a request for the next call. If none comes, it is refused by being dropped.
    fn defer(&self, id: RequestId, question: Question) {
        let end = self.context.end.clone();
        if let Ok(wait) = self.deferred.hold(id, question, &|_| true) {
            self.context.tasks.spawn(async move {
                drop(end.run_until_cancelled(wait).await);
            });
        }
    }

    /// Ties a request to the call that carries it. That an elicitation by URL is complete is told later, to the one who was
    /// asked.
    fn carried(&self, id: &RequestId, call: u64, params: &Payload) {
        if let Some(request) = self.open.lock().get_mut(id) {
            (request.call, request.since) = (Some(call), Instant::now());
        }
        let Some(elicitation) = params.string("elicitationId") else {
            return;
        };
        let calls = &self.context.calls;
        if let Some(holder) = calls.read(call, |call| call.holder.clone()) {
            calls.ownership.lock().note(Thing::Elicitation(elicitation), CallOwner { holder, token: None });
        }
    }

    /// The client has answered, or need not any more: from now on silence is the server's again.
    fn closed(&self, request: &PendingServerRequest) {
        if let Some(call) = request.call {
            self.context.calls.change(call, |call| {
                (call.answered, call.request_closed) = (Some(Instant::now()), None);
            });
        }
    }

    /// Waits for the answer in a task of its own, since the reply that carries the request goes on meanwhile.
    fn await_answer(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        mut answered: Answered,
        withdrawn: CancellationToken,
    ) {
        let requests = Arc::clone(self);
        self.context.tasks.spawn(async move {
            let context = &requests.context;
            let answer = loop {
                let heard = tokio::select! {
                    heard = answered.next() => heard,
                    // dropping `answered` tells the client's side that nobody waits any more
                    () = withdrawn.cancelled() => return,
                    () = context.end.cancelled() => return,
                };
                match heard {
                    Some(Heard::Progress(params)) => {
                        let params = params.json().clone();
                        context.sender.tell(Message::Notification { method: Method::Progress, params });
                    }
                    Some(Heard::Answer(answer)) => break Some(answer),
                    None => break None,
                }
            };
            let request = requests.open.lock().remove(&id);
            let Some(request) = request else { return };
            requests.closed(&request);
            let message = match answer {
                Some(Ok(result)) => Message::result(id, result.json().clone()),
                Some(Err(error)) => Message::error(id, error),
                // whoever was to answer left together with the call
                None if request.call.is_some_and(|call| !context.calls.is_open(call)) => cancelled(id, &method),
                None => Message::error(id, unsupported(&method)),
            };
            context.sender.tell(message);
        });
    }
}

/// The answer to a request whose call was cancelled, or whose time is over: a dialog was closed, anything else fails
/// (`translation` 4b.6).
fn cancelled(id: RequestId, method: &Method) -> Message {
    match method {
        Method::Elicit => Message::result(id, Bytes::from_static(br#"{"action":"cancel"}"#)),
        _ => Message::error(id, ErrorObject::internal("The request was cancelled before the client answered it")),
    }
}

/// The error for a request that no client can answer: roots say `-32601`, the others `-32602` (`translation` 4.6).
fn unsupported(method: &Method) -> ErrorObject {
    match method {
        Method::CreateMessage => ErrorObject::invalid_params("No client is there that supports sampling"),
        Method::Elicit => ErrorObject::invalid_params("No client is there that supports elicitation"),
        Method::RootsList => ErrorObject::roots_not_supported(),
        method => ErrorObject::method_not_found(method.as_str()),
    }
}
