//! Requests of the server to its client (sampling, elicitation, roots). Each waits for its answer, and ends with the
//! call that carries it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    background::BackgroundSender,
    calls::Calls,
    client_tasks::ClientTasks,
    ownership::{CallOwner, OwnedId},
};
use crate::{
    backend::{interests::listens::Listens, sharing::connection_key::ConnectionKey, task_group::TaskGroup},
    mcp::{
        AnswerEvent, AnswerReceiver, ErrorObject, Event, Message, Method, Payload, RequestId, ServerRequest,
        deferred_requests::{DeferredLimits, DeferredRequests},
        large_messages::{MessageOwner, OffWorker, answer_size, off_worker},
    },
    model::BackendId,
    support::{Account, memory::Charge},
};

/// Maximum number of open requests on one connection; more are refused.
const MAX_OPEN: usize = 64;
/// Maximum number of requests that wait for a call; more are refused.
const DEFERRED_LIMITS: DeferredLimits = DeferredLimits { all: 16, together: 16 };

/// Open requests of the server on one connection.
pub(crate) struct ServerRequests {
    open: Mutex<HashMap<RequestId, PendingServerRequest>>,
    /// Requests outside of any call, while no listen is open: each waits for the next call that allows server requests
    /// (`translation` 4b.2 (v)). Servers ask for the roots this way, right after the handshake.
    pub(super) deferred: Arc<DeferredRequests<RequestId>>,
    /// Tasks that the client runs for these requests.
    pub(super) client_tasks: ClientTasks,
    context: RequestContext,
}

pub(super) struct RequestContext {
    pub(super) backend: BackendId,
    /// Account that pays for kept requests.
    pub(super) account: Account,
    /// The connection's calls, which carry requests.
    pub(super) calls: Arc<Calls>,
    pub(super) key: ConnectionKey,
    /// The clients' listens, for requests outside of calls.
    pub(super) listens: Arc<Listens>,
    /// Sends answers to the server.
    pub(super) sender: BackgroundSender,
    /// Runs the waits for answers.
    pub(super) tasks: TaskGroup,
    /// Cancelled when the connection ends.
    pub(super) end: CancellationToken,
}

#[derive(Debug)]
struct PendingServerRequest {
    method: Method,
    withdrawn: CancellationToken,
    /// The time when it was sent to the client.
    since: Instant,
    /// The call that carries it; `None` if it went to a listen.
    call: Option<u64>,
    /// Memory of its parameters, which the client's side keeps until it answers.
    _charge: Charge,
}

// === impl ServerRequests ===

impl ServerRequests {
    pub(super) fn new(context: RequestContext) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            deferred: DeferredRequests::new(DEFERRED_LIMITS),
            client_tasks: ClientTasks::default(),
            context,
        })
    }

    /// Forwards a request to the client: in `call` if there is one, else on its listen. Returns the event for the call.
    pub(super) fn forward(
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
            let Ok(charge) = Charge::of(self.context.account.clone(), params.json().len()) else {
                drop(open);
                self.refuse(id, ErrorObject::internal("the gateway's memory for messages is used up; ask again later"));
                return None;
            };
            let (since, withdrawn) = (Instant::now(), withdrawn.clone());
            let method = method.clone();
            let request = PendingServerRequest { method, withdrawn, since, call: None, _charge: charge };
            open.insert(id.clone(), request);
        }
        if let Some(call) = call {
            self.carried(&id, call, &params);
        }
        let (question, answered) = ServerRequest::new(method.clone(), params);
        self.await_answer(id.clone(), method, answered, withdrawn);
        if let Some(call) = call {
            return Some((call, Event::Asked(question)));
        }
        if let Err(question) = self.ask_listener(question) {
            self.defer(id, question);
        }
        None
    }

    /// Forwards a request that no call carries to the only open listen. If it may concern other clients, it is dropped,
    /// which refuses it.
    ///
    /// # Errors
    ///
    /// Returns the request if no listen is open; it may wait for a call.
    pub(super) fn ask_listener(&self, question: ServerRequest) -> Result<(), ServerRequest> {
        let RequestContext { listens, calls, key, .. } = &self.context;
        if calls.have_several_owners() {
            return Ok(());
        }
        listens.forward_request(key, question, |caller| calls.may_concern(caller))
    }

    /// Answers the request `id` with `error`.
    pub(super) fn refuse(&self, id: RequestId, error: ErrorObject) {
        self.context.sender.send(Message::error(id, error));
    }

    /// Refuses a request that the client does not support.
    pub(super) fn refuse_unsupported(&self, id: RequestId, method: &Method) {
        self.refuse(id, unsupported(method));
    }

    /// Refuses a request that may belong to a cancelled call.
    pub(super) fn refuse_cancelled(&self, id: RequestId, method: &Method) {
        self.context.sender.send(cancelled(id, method));
    }

    /// Closes a request that the server cancelled.
    pub(super) fn withdraw(&self, params: &Payload) {
        let Some(id) = params.member("requestId").map(str::to_owned) else { return };
        let request = RequestId::read(&id.into()).and_then(|id| self.open.lock().remove(&id));
        if let Some(request) = request {
            self.closed(&request);
            request.withdrawn.cancel();
        }
    }

    /// Closes the requests of a call whose client will not answer any more. Returns the answers for the server.
    pub(super) fn close_of(&self, call: u64) -> Vec<Message> {
        let closed: Vec<_> = self.open.lock().extract_if(|_, request| request.call == Some(call)).collect();
        let close = |(id, request): (RequestId, PendingServerRequest)| {
            self.closed(&request);
            request.withdrawn.cancel();
            cancelled(id, &request.method)
        };
        closed.into_iter().map(close).collect()
    }

    /// Drops all requests when the connection ends.
    pub(super) fn clear(&self) {
        self.open.lock().clear();
        drop(self.deferred.take(|_| true));
    }

    /// True if a request is open in the call `call`.
    pub(super) fn is_open_in(&self, call: u64) -> bool {
        self.open.lock().values().any(|request| request.call == Some(call))
    }

    /// Calls with open requests, once for each request.
    pub(super) fn carriers(&self) -> Vec<u64> {
        self.open.lock().values().filter_map(|request| request.call).collect()
    }

    /// The time when the oldest open request that a call carries was sent to its client.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.open.lock().values().filter_map(|request| request.call.map(|_| request.since)).min()
    }

    /// Calls with requests that have been open for `time` or longer, once for each request.
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

    /// Moves deferred requests into a new call. If the call comes from a second owner, they are dropped, which refuses
    /// them: they may concern the first one.
    pub(super) fn forward_deferred(&self, call: u64) {
        let deferred = self.deferred.take(|_| true);
        if self.context.calls.have_several_owners() {
            return;
        }
        for (id, question) in deferred {
            self.carried(&id, call, &question.params);
            if let Some(Event::Asked(question)) = self.context.calls.deliver(call, Event::Asked(question)) {
                // the call has just ended; without a listen the request is dropped, which refuses it
                drop(self.ask_listener(question));
            }
        }
    }

    /// Keeps a request until the next call that can carry it. If none comes in time, it is dropped, which refuses it.
    fn defer(&self, id: RequestId, question: ServerRequest) {
        let end = self.context.end.clone();
        if let Ok(wait) = self.deferred.hold(id, question, &|_| true) {
            self.context.tasks.spawn(async move {
                drop(end.run_until_cancelled(wait).await);
            });
        }
    }

    /// Binds a request to the call that carries it. The later `notifications/elicitation/complete` of a URL elicitation
    /// goes to the same client.
    fn carried(&self, id: &RequestId, call: u64, params: &Payload) {
        if let Some(request) = self.open.lock().get_mut(id) {
            (request.call, request.since) = (Some(call), Instant::now());
        }
        let Some(elicitation) = params.string("elicitationId") else {
            return;
        };
        let calls = &self.context.calls;
        if let Some(client) = calls.owner(call) {
            calls.ownership.lock().note(OwnedId::Elicitation(elicitation), CallOwner { token: None, ..client });
        }
    }

    /// Handles the end of a request: the server's silence counts again from here.
    fn closed(&self, request: &PendingServerRequest) {
        if let Some(call) = request.call {
            self.context.calls.change(call, |call| {
                (call.answered, call.request_closed) = (Some(Instant::now()), None);
            });
        }
    }

    /// Waits for the answer in a separate task, because the reply that carries the request goes on.
    fn await_answer(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        mut answered: AnswerReceiver,
        withdrawn: CancellationToken,
    ) {
        let requests = Arc::clone(self);
        let owner = MessageOwner::Server(self.context.backend.clone());
        let waiting = async move {
            let context = &requests.context;
            let answer = loop {
                let heard = tokio::select! {
                    heard = answered.next() => heard,
                    // the caller drops `answered`, which cancels the request at the client
                    () = withdrawn.cancelled() => return,
                    () = context.end.cancelled() => return,
                };
                match heard {
                    Some(AnswerEvent::Progress(params)) => {
                        let params = params.into_params();
                        context.sender.send(Message::Notification { method: Method::Progress, params });
                    }
                    Some(AnswerEvent::Answer(answer)) => break Some(answer),
                    None => break None,
                }
            };
            let request = requests.open.lock().remove(&id);
            let Some(request) = request else { return };
            requests.closed(&request);
            off_worker(answer.as_ref().map_or(0, answer_size)).await;
            let message = match answer {
                Some(Ok(result)) => Message::result(id, requests.client_tasks.answered(&method, result).json().clone()),
                Some(Err(error)) => Message::error(id, error),
                // the client left together with its call
                None if request.call.is_some_and(|call| !context.calls.is_open(call)) => cancelled(id, &method),
                None => Message::error(id, unsupported(&method)),
            };
            context.sender.send(message);
        };
        self.context.tasks.spawn(OffWorker::future(owner, Box::pin(waiting)));
    }
}

/// The answer to a request whose call was cancelled or timed out: an elicitation is cancelled, anything else fails
/// (`translation` 4b.6).
fn cancelled(id: RequestId, method: &Method) -> Message {
    match method {
        Method::Elicit => Message::result(id, Bytes::from_static(br#"{"action":"cancel"}"#)),
        _ => Message::error(id, ErrorObject::internal("The request was cancelled before the client answered it")),
    }
}

/// The error for a request that the client does not support: `-32601` for roots, `-32602` for others (`translation`
/// 4.6).
fn unsupported(method: &Method) -> ErrorObject {
    match method {
        Method::CreateMessage => ErrorObject::invalid_params("No client is there that supports sampling"),
        Method::Elicit => ErrorObject::invalid_params("No client is there that supports elicitation"),
        Method::RootsList => ErrorObject::roots_not_supported(),
        method => ErrorObject::method_not_found(method.as_str()),
    }
}
