//! Turns the messages of a client with a session into calls. Pings, cancellations and answers are handled here;
//! everything else goes to the server.

use std::{future::poll_fn, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt as _, stream::SelectAll};

use super::{
    Session,
    exchange::{ExchangeContext, OnDisconnect, RunningRequest, SessionExchange},
};
use crate::{
    frontend::{
        request_limits::RequestKind,
        state::{FrontendState, Sender},
        unfinished_tasks::UnfinishedTasks,
    },
    mcp::{
        Call, CancelReason, ClientInfo, Context, ErrorObject, Feature, IndexedJson, Message, Method, Payload, Reply,
        RequestId, WaitNotice, client_translator::ClientTranslator, jsonrpc::Malformed,
    },
    model::Requester,
};

/// One message, or a batch of them, in its session.
#[derive(Debug)]
pub(crate) struct Inbound<'a> {
    /// The servers and the limits.
    pub(crate) state: &'a Arc<FrontendState>,
    pub(crate) session: &'a Arc<Session>,
    /// The sender of the message.
    pub(crate) sender: &'a Sender,
}

/// The refusal of a batch as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedBatch {
    pub(crate) error: ErrorObject,
    /// The id of the invalid request; `None` if it has none that can be read.
    pub(crate) id: Option<RequestId>,
}

// === impl Inbound ===

impl Inbound<'_> {
    /// Starts to serve a message. Returns `None` if it needs no answer.
    pub(crate) async fn message(&self, message: Message) -> Option<SessionExchange> {
        match message {
            Message::Request { id, method, params } => return Some(self.request(id, method, params)),
            Message::Notification { method, params } => self.notification(method, params).await,
            Message::Response { id, outcome } => self.response(id.as_ref(), outcome),
        }
        None
    }

    /// Starts to serve a batch (only 2025-03-26). Its requests run at the same time, each with its own answer.
    ///
    /// # Errors
    ///
    /// If the batch is invalid in this session.
    pub(crate) async fn batch(
        &self,
        messages: Vec<Result<Message, Malformed>>,
    ) -> Result<SelectAll<SessionExchange>, RefusedBatch> {
        let reject = |text: &str, id| {
            let error = ErrorObject::new(ErrorObject::INVALID_REQUEST, &format!("Invalid Request: {text}"));
            Err(RefusedBatch { error, id })
        };
        if !self.session.revision().has(Feature::Batches) {
            let text = format!("batches are not part of protocol version {}", self.session.revision());
            return reject(&text, None);
        }
        // 2025-03-26 lifecycle: `initialize` is never part of a batch
        if let Some(id) = initialize_in(&messages) {
            return reject("initialize must not be part of a batch", Some(id));
        }
        let max = self.state.settings.limits.get().batch;
        if messages.len() > max {
            return reject(&format!("a batch may have at most {max} messages"), None);
        }
        let mut exchanges = SelectAll::new();
        for message in messages {
            match message {
                Ok(message) => exchanges.extend(self.message(message).await),
                Err(malformed) => {
                    // JSON-RPC 2.0, section 6: each invalid element gets its own error
                    let id = malformed.id().cloned().unwrap_or(RequestId::NULL);
                    exchanges.push(refuse(id, malformed.to_error()));
                }
            }
        }
        Ok(exchanges)
    }

    /// Starts to serve a request.
    fn request(&self, id: RequestId, method: Method, params: IndexedJson) -> SessionExchange {
        tracing::debug!(session = %self.session.id, method = %method, "request");
        match (method, self.session.client()) {
            (Method::Ping, _) => empty(id),
            (Method::Initialize, _) => self.initialize(id, &params),
            (_, None) => {
                let message = "Invalid Request: the session begins with initialize";
                refuse(id, ErrorObject::new(ErrorObject::INVALID_REQUEST, message))
            }
            // the former are reserved for the gateway's own calls; the latter have no answer
            (method, Some(_)) if method.is_sessionless() || method.is_notification() => {
                refuse(id, ErrorObject::method_not_found(method.as_str()))
            }
            (Method::SetLevel, Some(client)) => self.set_level(id, Payload::of_params(client.revision, params), client),
            (method @ (Method::ResourcesSubscribe | Method::ResourcesUnsubscribe), Some(client)) => {
                self.subscribe(id, &method, Payload::of_params(client.revision, params), client)
            }
            (method, Some(client)) => self.forward(id, method, Payload::of_params(client.revision, params), client),
        }
    }

    /// Serves a notification. When this returns, it may not have reached the server yet.
    async fn notification(&self, method: Method, params: IndexedJson) {
        let Some(client) = self.session.client() else { return };
        match method {
            Method::Initialized => {
                if self.session.set_initialized() {
                    self.state.sessions.save(self.session).await;
                }
                // notifications wait until the client opens a stream
                self.listen();
            }
            Method::Cancelled => self.session.calls.cancel_named(&params),
            Method::Progress => self.session.requests.progress(&Payload::of_params(client.revision, params)),
            method => {
                let params = Payload::of_params(client.revision, params);
                let call = Call { method, params, context: self.context(client) };
                self.forward_notification(self.sender.servers.sessions.call(call));
            }
        }
    }

    /// Forwards an answer to the server that sent the request.
    fn response(&self, id: Option<&RequestId>, outcome: Result<Bytes, ErrorObject>) {
        let revision = self.session.revision();
        if let Some(id) = id {
            self.session.requests.answer(id, outcome.map(|result| Payload::new(revision, result)));
        }
    }

    fn forward(&self, id: RequestId, method: Method, params: Payload, client: &Arc<ClientInfo>) -> SessionExchange {
        let call = Call { method, params, context: self.context(client) };
        let (context, cancel_reason) =
            (self.exchange_context(self.on_disconnect(), &call), call.context.cancel_reason.clone());
        let is_noted =
            self.state.has_others() && client.revision.has_core_tasks() && UnfinishedTasks::concerns(&call.method);
        let noted = is_noted.then(|| (call.method.clone(), call.params.clone()));
        let mut reply = self.sender.servers.sessions.call(call);
        if let Some((method, params)) = noted {
            reply = self.state.sessions.tasks.watch(reply, &self.session.id, method, params);
        }
        self.exchange(id, reply, Some(cancel_reason), context)
    }

    /// Runs the reply to a notification: at once if it is ready, otherwise in the background.
    fn forward_notification(&self, reply: Reply) {
        let mut outcome = Box::pin(reply.outcome());
        if (&mut outcome).now_or_never().is_some() {
            return;
        }
        let Ok(permit) = self.session.user.begin(RequestKind::Call) else {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return;
        };
        let guard = self.session.calls.begin(None);
        let revoked = Arc::clone(&self.sender.admission.lease.revoked);
        self.state.tracker.spawn(async move {
            let _permit = permit;
            tokio::select! {
                _ = outcome => {}
                () = poll_fn(|cx| guard.poll_cancelled(cx)) => {}
                () = revoked.cancelled() => {}
            }
        });
    }

    /// The exchange for the reply to the request `id`. `cancel_reason` receives the client's reason if it cancels the
    /// request; `None` if it cannot.
    pub(super) fn exchange(
        &self,
        id: RequestId,
        reply: Reply,
        cancel_reason: Option<CancelReason>,
        context: ExchangeContext,
    ) -> SessionExchange {
        match self.session.user.begin(RequestKind::Call) {
            Ok(permit) => {
                let cancelled_by = cancel_reason.map(|reason| (id.clone(), reason));
                let running = RunningRequest::new(self.session.calls.begin(cancelled_by), permit);
                SessionExchange::request(Arc::clone(self.session), id, reply, running, context)
            }
            Err(error) => refuse(id, error),
        }
    }

    /// The context for the exchange of `call`.
    pub(super) fn exchange_context(&self, on_disconnect: OnDisconnect, call: &Call) -> ExchangeContext {
        let Context { client, profile, .. } = &call.context;
        ExchangeContext {
            revoked: Arc::clone(&self.sender.admission.lease.revoked),
            on_disconnect,
            translator: ClientTranslator::new(client, *profile, &call.method, &call.params),
            tracker: self.state.tracker.clone(),
        }
    }

    /// The behaviour of a call whose reader disconnects.
    pub(super) fn on_disconnect(&self) -> OnDisconnect {
        if self.session.is_connection() { OnDisconnect::Cancel } else { OnDisconnect::Continue }
    }

    pub(super) fn context(&self, client: &Arc<ClientInfo>) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            account: self.session.user.account.clone(),
            requester: Requester::Session(self.session.id.clone()),
            mirror: None,
            level: self.session.log_level(),
            client: Arc::clone(client),
            profile: self.session.profile(),
            cancel_reason: CancelReason::default(),
            // if the credential is revoked, its session ends
            revoked: None,
            wait: WaitNotice::default(),
            heard: None,
        }
    }
}

/// An exchange with an empty result.
pub(super) fn empty(id: RequestId) -> SessionExchange {
    SessionExchange::answered(Message::result(id, Bytes::from_static(b"{}")))
}

/// An exchange with an error.
pub(super) fn refuse(id: RequestId, error: ErrorObject) -> SessionExchange {
    SessionExchange::answered(Message::error(id, error))
}

/// The id of an `initialize` in a batch; `None` if there is none.
pub(crate) fn initialize_in(messages: &[Result<Message, Malformed>]) -> Option<RequestId> {
    messages.iter().flatten().find_map(|message| match message {
        Message::Request { id, method: Method::Initialize, .. } => Some(id.clone()),
        _ => None,
    })
}
