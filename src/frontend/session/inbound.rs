//! Messages of a legacy client, turned into calls: the handshake, pings, log levels, cancels and answers end here,
//! everything else goes on to the server. Knows nothing of transports.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream::SelectAll};
use tokio_util::task::TaskTracker;

pub(crate) use super::initialize::introduction;
use super::{
    Session,
    exchange::{Exchange, Loss, Terms},
    initialize,
};
use crate::{
    frontend::{sender::Sender, state::FrontendState},
    mcp::{
        Call, ClientInfo, Context, ErrorObject, Farewell, Feature, Message, Method, Outcome, Payload, Reply, RequestId,
        client_translator::ClientTranslator, jsonrpc::Malformed,
    },
    model::{Requester, Target},
};

/// One message, or a batch of them, in its session.
#[derive(Debug)]
pub(crate) struct Inbound<'a> {
    /// The servers and the bounds.
    pub(crate) state: &'a FrontendState,
    /// The session.
    pub(crate) session: &'a Arc<Session>,
    /// The sender of the message.
    pub(crate) sender: &'a Sender,
}

/// The refusal of a batch as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedBatch {
    /// The reason.
    pub(crate) error: ErrorObject,
    /// The request that is to blame.
    pub(crate) id: Option<RequestId>,
}

// === impl Inbound ===

impl Inbound<'_> {
    /// Begins to serve a message; `None` if there is nothing to answer.
    pub(crate) async fn message(&self, message: Message) -> Option<Exchange> {
        match message {
            Message::Request { id, method, params } => return Some(self.request(id, method, params)),
            Message::Notification { method, params } => self.notification(method, params).await,
            Message::Response { id, outcome } => self.response(id.as_ref(), outcome),
        }
        None
    }

    /// Begins to serve a batch (2025-03-26 alone): its requests run at the same time, each answered for itself.
    ///
    /// # Errors
    ///
    /// The refusal of a batch that this session cannot have.
    pub(crate) async fn batch(
        &self,
        messages: Vec<Result<Message, Malformed>>,
    ) -> Result<SelectAll<Exchange>, RefusedBatch> {
        let refuse = |text: &str, id| {
            let error = ErrorObject::new(ErrorObject::INVALID_REQUEST, &format!("Invalid Request: {text}"));
            Err(RefusedBatch { error, id })
        };
        if !self.session.revision().has(Feature::Batches) {
            let text = format!("batches are not part of protocol version {}", self.session.revision());
            return refuse(&text, None);
        }
        // 2025-03-26 lifecycle: `initialize` is never part of a batch
        if let Some(id) = opening(&messages) {
            return refuse("initialize must not be part of a batch", Some(id));
        }
        let most = self.state.settings().batch;
        if messages.len() > most {
            return refuse(&format!("a batch may have at most {most} messages"), None);
        }
        let mut exchanges = SelectAll::new();
        for message in messages {
            match message {
                Ok(message) => exchanges.extend(self.message(message).await),
                Err(malformed) => {
                    // JSON-RPC 2.0, section 6: each invalid element has its own error
                    let id = malformed.id().cloned().unwrap_or(RequestId::NULL);
                    exchanges.push(self.refuse(id, malformed.to_error()));
                }
            }
        }
        Ok(exchanges)
    }

    /// Begins to serve a request.
    fn request(&self, id: RequestId, method: Method, params: Bytes) -> Exchange {
        tracing::debug!(session = ?self.session.id, method = %method, "request");
        match (method, self.session.client()) {
            (Method::Ping, _) => self.result(id),
            (Method::Initialize, None) => self.introduce(id, &params),
            (Method::Initialize, Some(_)) => self.refuse(
                id,
                ErrorObject::new(ErrorObject::INVALID_REQUEST, "Invalid Request: the session is initialized already"),
            ),
            (_, None) => {
                let message = "Invalid Request: the session begins with initialize";
                self.refuse(id, ErrorObject::new(ErrorObject::INVALID_REQUEST, message))
            }
            // the gateway's own calls by these names are not for clients to make
            (method, Some(_)) if method.is_sessionless() => {
                self.refuse(id, ErrorObject::method_not_found(method.as_str()))
            }
            (Method::SetLevel, Some(client)) => self.set_level(id, Payload::new(client.revision, params), client),
            (method @ (Method::ResourcesSubscribe | Method::ResourcesUnsubscribe), Some(client)) => {
                self.subscribe(id, &method, Payload::new(client.revision, params), client)
            }
            (method, Some(client)) => self.forward(id, method, Payload::new(client.revision, params), client),
        }
    }

    /// Takes note of a notification. One that goes on to the server is under way when this returns, and need not have
    /// arrived.
    async fn notification(&self, method: Method, params: Bytes) {
        let Some(client) = self.session.client() else { return };
        match method {
            Method::Initialized => {
                if self.session.set_initialized() {
                    self.state.sessions().save(self.session).await;
                }
                // what is said before the client opens a stream waits for it
                self.listen();
            }
            Method::Cancelled => self.session.calls.cancel_named(&params),
            Method::Progress => self.session.questions.progress(&Payload::new(client.revision, params)),
            method => {
                let params = Payload::new(client.revision, params);
                self.pass_on(self.call(Call { method, params, context: self.context(client) }));
            }
        }
    }

    /// Brings an answer to whom it was asked by.
    fn response(&self, id: Option<&RequestId>, outcome: Result<Bytes, ErrorObject>) {
        let revision = self.session.revision();
        if let Some(id) = id {
            self.session.questions.answer(id, outcome.map(|result| Payload::new(revision, result)));
        }
    }

    /// Opens the session's listen, where it is not open for this very caller: what the servers say outside any call goes
    /// to the session's queue (design rule 13).
    pub(crate) fn listen(&self) {
        let Some(client) = self.session.client() else { return };
        let mut slot = self.session.listen.lock();
        if let Some((caller, cancelled)) = slot.as_ref() {
            if **caller == *self.sender.admission.caller && !cancelled.is_cancelled() {
                return;
            }
            cancelled.cancel();
        }
        let cancelled = self.session.ended.child_token();
        *slot = Some((Arc::clone(&self.sender.admission.caller), cancelled.clone()));
        drop(slot);
        let params = Payload::absent(client.revision);
        let terms = self.terms(client, Loss::Cancels, &Method::Listen, &params);
        let reply = self.call(Call { method: Method::Listen, params, context: self.context(client) });
        let session = Arc::clone(self.session);
        let mut heard = Exchange::listen(Arc::clone(&session), reply, cancelled.clone(), terms);
        self.state.tracker().spawn(async move {
            while let Some(message) = heard.next().await {
                session.queue.push(message);
            }
            // so that the next stream opens another
            cancelled.cancel();
        });
    }

    /// The handshake: the client is known from here on, and the server is asked what it can do.
    pub(crate) fn greet(&self, id: RequestId, client: ClientInfo) -> Exchange {
        let revision = client.revision;
        let client = match self.session.endpoint.target {
            // a task that the client executes has an id of the client's own making: among many servers nobody could tell
            // whose it is
            Target::Merged => client.without_tasks(),
            // and where its version has no tasks, the word means something else
            Target::Backend(_) if !revision.has(Feature::CoreTasks) => client.without_tasks(),
            Target::Backend(_) => client,
        };
        if !self.session.introduce(client) {
            return self.refuse(id, ErrorObject::internal("the session is being initialized already"));
        }
        let Some(client) = self.session.client() else { return self.result(id) };
        tracing::info!(session = ?self.session.id, revision = %revision, user = %self.sender.admission.caller.user,
            client = %client.display(), "a client opens a session");
        // the session begins with the answer: until then the server is asked outside of it
        let context = Context { requester: Requester::Gateway, ..self.context(client) };
        let reply = self.call(Call { method: Method::Discover, params: Payload::absent(revision), context });
        let (state, session) = (self.state.clone(), Arc::clone(self.session));
        let reply = async move {
            let error = match reply.outcome().await {
                Outcome::Complete(discovered) => {
                    state.sessions().keep(&session).await;
                    return Reply::complete(initialize::result(&discovered, revision));
                }
                Outcome::Failed(error) => error,
                Outcome::InputRequired(_) => ErrorObject::internal("the server asks before it says who it is"),
            };
            // a session that is its connection ends with that: the error has yet to go down it
            if !session.is_connection() {
                state.sessions().forget(&session);
            }
            Reply::failed(error)
        };
        // all versions, cancellation: `initialize` is never cancelled
        let terms = self.terms(client, self.loss(), &Method::Initialize, &Payload::absent(revision));
        self.exchange((id, None), Reply::later(reply), terms)
    }

    fn introduce(&self, id: RequestId, params: &Bytes) -> Exchange {
        match introduction(params) {
            Ok(client) => self.greet(id, client),
            Err(error) => self.refuse(id, error),
        }
    }

    fn forward(&self, id: RequestId, method: Method, params: Payload, client: &Arc<ClientInfo>) -> Exchange {
        let terms = self.terms(client, self.loss(), &method, &params);
        let call = Call { method, params, context: self.context(client) };
        let farewell = call.context.farewell.clone();
        let reply = self.call(call);
        self.exchange((id.clone(), Some((id, farewell))), reply, terms)
    }

    /// Drives the reply to a notification: at once where nothing has to be waited for, else beside.
    fn pass_on(&self, reply: Reply) {
        let mut told = Box::pin(reply.outcome());
        if (&mut told).now_or_never().is_some() {
            return;
        }
        let Some(running) = self.session.calls.begin(None) else {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return;
        };
        let (ended, revoked) = (self.session.ended.clone(), Arc::clone(&self.sender.admission.lease.revoked));
        self.state.tracker().spawn(async move {
            tokio::select! {
                _ = told => {}
                () = ended.cancelled() => {}
                () = revoked.cancelled() => {}
            }
            drop(running);
        });
    }

    /// The exchange of a reply, answered under the one id and cancelled by the client by the other.
    pub(super) fn exchange(
        &self,
        (id, cancel_by): (RequestId, Option<(RequestId, Farewell)>),
        reply: Reply,
        terms: Terms,
    ) -> Exchange {
        let Some(running) = self.session.calls.begin(cancel_by) else {
            let message = "too many calls run in this session; wait until some have ended";
            return self.refuse(id, ErrorObject::retryable(message));
        };
        Exchange::request(Arc::clone(self.session), (id, running), reply, terms)
    }

    pub(super) fn terms(&self, client: &Arc<ClientInfo>, loss: Loss, method: &Method, params: &Payload) -> Terms {
        let spoken = ClientTranslator::new(client, self.state.settings().profile(client), method, params);
        Terms {
            revoked: Arc::clone(&self.sender.admission.lease.revoked),
            loss,
            spoken,
            tracker: self.tracker().clone(),
        }
    }

    /// What happens to a call whose reader goes away.
    pub(super) fn loss(&self) -> Loss {
        if self.session.is_connection() { Loss::Cancels } else { Loss::GoesOn(self.tracker().clone()) }
    }

    /// Who owns what goes on without a reader.
    pub(crate) fn tracker(&self) -> &TaskTracker {
        self.state.tracker()
    }

    pub(super) fn call(&self, call: Call) -> Reply {
        match self.state.server(&self.session.endpoint.target) {
            Some(server) => server.call(call),
            None => Reply::failed(ErrorObject::internal("the backend of this session is no longer configured")),
        }
    }

    pub(super) fn context(&self, client: &Arc<ClientInfo>) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            requester: Requester::Session(self.session.id.clone()),
            mirror: None,
            client: Arc::clone(client),
            profile: self.state.settings().profile(client),
            farewell: Farewell::default(),
            // its session ends then
            revoked: None,
            trace: self.sender.trace.clone(),
        }
    }

    fn result(&self, id: RequestId) -> Exchange {
        Exchange::answered(Arc::clone(self.session), Message::result(id, Bytes::from_static(b"{}")))
    }

    pub(super) fn refuse(&self, id: RequestId, error: ErrorObject) -> Exchange {
        Exchange::answered(Arc::clone(self.session), Message::error(id, error))
    }
}

/// The `initialize` in a batch.
pub(crate) fn opening(messages: &[Result<Message, Malformed>]) -> Option<RequestId> {
    messages.iter().flatten().find_map(|message| match message {
        Message::Request { id, method: Method::Initialize, .. } => Some(id.clone()),
        _ => None,
    })
}
