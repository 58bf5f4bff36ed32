//! One backend as a [`Server`]: each call finds its session, opened where there is none, and runs on it.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::join_all};
use tokio::time::timeout;

use super::{
    error::StartError,
    health::Health,
    key::Key,
    lanes::{Lanes, Turn},
    legacy::{
        Session,
        call::{Asked, NotRun},
    },
    listens::Listens,
    open::{Failure, Room},
    pool::{Lease, Pool, Slot, SlotState},
    wants::Wants,
};
use crate::{
    mcp::{Call, ClientInfo, Context, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Server, meta},
    model::{BackendSpec, OnLoss, SessionId, TransportSpec},
};

/// One backend.
pub(crate) struct Backend {
    pub(super) spec: BackendSpec,
    pub(super) health: Health,
    pub(super) pool: Pool,
    pub(super) listens: Arc<Listens>,
    pub(super) wants: Arc<Wants>,
    lanes: Arc<Lanes>,
    pub(super) room: Room,
}

/// What one call wants of a session for as long as it runs.
struct Wish(Arc<Backend>, SessionId);

impl Drop for Wish {
    fn drop(&mut self) {
        self.0.session_ended(&self.1);
    }
}

/// A [`Backend`] behind the interface that everything else sees.
pub(crate) struct Served(pub(crate) Arc<Backend>);

impl Server for Served {
    fn call(&self, call: Call) -> Reply {
        let backend = Arc::clone(&self.0);
        match call.method {
            Method::Listen => {
                let key = Key::of(backend.spec.share, &call.context);
                Reply::new(backend.listens.listen(&key, call.context.holder()))
            }
            Method::SetLevel => Reply::later(backend.set_level(call)),
            Method::ResourcesSubscribe => Reply::later(backend.subscribe(call)),
            Method::ResourcesUnsubscribe => Reply::later(backend.unsubscribe(call)),
            Method::Initialize => Reply::failed(ErrorObject::method_not_found("initialize")),
            ref method if method.is_notification() => Reply::later(backend.notify(call)),
            _ => backend.serve(call),
        }
    }
}

impl Backend {
    /// A backend that is not started yet.
    pub(crate) fn new(spec: BackendSpec, room: Room) -> Self {
        let pool = Pool::new(room.sessions);
        let lanes = Lanes::new(spec.parallel);
        let (listens, wants) = (Arc::default(), Arc::default());
        Self { spec, health: Health::starting(), pool, listens, wants, lanes, room }
    }

    /// Passes a client's notification on to every session that it shares.
    async fn notify(self: Arc<Self>, call: Call) -> Reply {
        let sessions = self.pool.sessions(&Key::of(self.spec.share, &call.context));
        let absent = Payload::absent(call.params.revision);
        // the backend's own handshake and cancellations are made where they belong
        if !matches!(call.method, Method::Initialized | Method::Cancelled) {
            let Call { method, params, context } = &call;
            let told = sessions.iter().map(|session| session.notify(method.clone(), params.clone(), context.profile));
            join_all(told).await;
        }
        Reply::complete(absent)
    }

    pub(super) fn serve(self: Arc<Self>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let Call { method, params, context } = call;
            let mut again = self.spec.on_loss == OnLoss::Reinit;
            let (home, holder) = (self.home(&method, &params, &context), context.holder());
            let mut turn = match self.turn(&method, &home, &context).await {
                Ok(turn) => turn,
                Err(error) => {
                    self.count(&method, "unavailable");
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
            };
            let key = turn.as_ref().map_or_else(|| home.clone(), |turn| turn.key().clone());
            let _wish = self.wish(&key, &params, &context);
            loop {
                let (lease, session) = match self.session(&key, &context).await {
                    Ok(found) => found,
                    Err(error) => {
                        self.count(&method, "unavailable");
                        yield Event::Done(Outcome::Failed(error));
                        return;
                    }
                };
                if let (Method::Discover, Some(greeting)) = (&method, session.greeting()) {
                    yield Event::Done(Outcome::Complete(greeting.discover(&self.spec.id)));
                    return;
                }
                if let Err(error) = session.may_be_asked_for(&method, &params, &holder) {
                    self.count(&method, "error");
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
                let asked = Asked::by(&context, &method, &params);
                let calling = session.call_for(context.client.revision, asked, self.spec.call_timeout);
                let mut events = std::pin::pin!(calling);
                let mut lost = None;
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => {
                            if let Event::Done(outcome) = &event {
                                if let Some(turn) = &mut turn {
                                    turn.answered();
                                }
                                self.count(&method, if matches!(outcome, Outcome::Failed(_)) { "error" } else { "ok" });
                            }
                            yield session.own_part(&method, event, &holder);
                        }
                        Err(NotRun(reason)) => lost = Some(reason),
                    }
                }
                let Some(reason) = lost else { return };
                drop(lease);
                // it has certainly not run, so this is no second time; once only, lest two sides chase each other
                if !std::mem::take(&mut again) {
                    self.count(&method, "lost");
                    yield Event::Done(Outcome::Failed(self.unavailable(&reason)));
                    return;
                }
            }
        })
    }

    /// Notes for the time of a call which log messages it is to give, where it says so itself (2026-07-28, logging).
    fn wish(self: &Arc<Self>, key: &Key, params: &Payload, context: &Context) -> Option<Wish> {
        let request = context.request.clone().filter(|_| context.session.is_none())?;
        let level = meta::log_level(params)?;
        self.wants.set_level(key, Some(request.clone()), level);
        Some(Wish(Arc::clone(self), request))
    }

    /// The session that a call is for, the first of its sharer's where any will do: what is asked of a task is asked where
    /// it was made, since no other process knows of it (2025-11-25, tasks).
    fn home(&self, method: &Method, params: &Payload, context: &Context) -> Key {
        let key = Key::of(self.spec.share, context);
        let task = if method.is_of_core_tasks() { params.string("taskId") } else { None };
        let Some(task) = task else { return key };
        let sessions = self.pool.sessions(&key);
        sessions.iter().find(|session| session.made_task(&task)).map_or(key, |session| session.about.key.clone())
    }

    /// The turn on a channel that several client sessions share, where the client can be asked in this call; `None` where
    /// none is needed. Over HTTP the exchange tells whose question it is. Waits up to `call_timeout`.
    async fn turn(&self, method: &Method, key: &Key, context: &Context) -> Result<Option<Turn>, ErrorObject> {
        let is_channel = matches!(self.spec.transport, TransportSpec::Stdio(_));
        if !is_channel || key.is_of_one_client() || !key.can_be_asked() || !method.may_ask() {
            return Ok(None);
        }
        // a task is waited for where it was made
        let at = method.is_of_core_tasks().then_some(key.lane());
        let turn = timeout(self.spec.call_timeout, self.lanes.turn(key, &context.holder(), at)).await;
        let busy = || "all its shared processes serve other clients; try again later, or raise `parallel`";
        turn.map(Some).map_err(|_| self.unavailable(busy()))
    }

    /// The session of `key`, opened where there is none. Waits up to `start_timeout`.
    async fn session(self: &Arc<Self>, key: &Key, context: &Context) -> Result<(Lease, Arc<Session>), ErrorObject> {
        let lease = self.pool.lease(key).map_err(|full| self.unavailable(&full.to_string()))?;
        if let (OnLoss::End, Some(session)) = (self.spec.on_loss, &context.session) {
            lease.slot().bind(session);
        }
        let found = async {
            loop {
                if !key.is_base() {
                    self.begin(lease.slot(), key, &context.client);
                }
                match lease.slot().wait().await {
                    Ok(Some(session)) => return Ok(session),
                    Ok(None) => {}
                    Err(error) => return Err(self.unavailable(&error.to_string())),
                }
            }
        };
        let patience = self.spec.start_timeout;
        let found = timeout(patience, found).await;
        let late = || self.unavailable(&format!("it is still starting after {} s", patience.as_secs()));
        let session = found.unwrap_or_else(|_| Err(late()))?;
        if context.session.is_none() && context.request.is_some() {
            self.bring_to_level(key, &session).await;
        }
        Ok((lease, session))
    }

    /// Sees to it that the session of `slot` is being opened, by a task that all who wait for it share.
    fn begin(self: &Arc<Self>, slot: &Arc<Slot>, key: &Key, client: &Arc<ClientInfo>) {
        if !slot.begin() {
            return;
        }
        if let Some(trouble) = self.health.trouble() {
            slot.set(SlotState::Failed(StartError::Unreachable(trouble)));
            return;
        }
        let (backend, slot, key, client) = (Arc::clone(self), Arc::clone(slot), key.clone(), Arc::clone(client));
        self.room.tasks.spawn(async move {
            match backend.open(&key, &client).await {
                Ok(session) => {
                    backend.bring_up(&key, &session).await;
                    if slot.has_lived() {
                        backend.tell_fresh(&key, &session);
                    }
                    slot.set(SlotState::Ready(Arc::clone(&session)));
                    // who set one in the moment before did not find the session yet
                    backend.bring_to_level(&key, &session).await;
                    let reason = session.over().await;
                    slot.gone();
                    backend.lost(&slot);
                    tracing::info!(backend = %backend.spec.id, reason, "a session at the backend ended");
                }
                Err(Failure { error, last_words }) => {
                    tracing::warn!(backend = %backend.spec.id, %error, stderr = ?last_words, "no session could be opened");
                    slot.set(SlotState::Failed(error));
                }
            }
        });
    }

    /// Ends the client sessions that called on a backend session that is gone, where that is how it is to be: of a shared
    /// one every such session, since none knows what of its own was there. Sessions that the gateway leaves at its own
    /// end are kept: they survive it.
    pub(super) fn lost(&self, slot: &Slot) {
        let bound = slot.take_bound();
        if self.room.tasks.end().is_cancelled() {
            return;
        }
        for session in bound {
            // nobody may be there to be told
            let _ = self.room.lost.send(session);
        }
    }

    /// Opens a session, with what is to be logged and counted of it.
    pub(super) async fn open(&self, key: &Key, client: &Arc<ClientInfo>) -> Result<Arc<Session>, Failure> {
        let opened = self.room.open(&self.spec, key, client, (&self.listens, &self.wants)).await;
        let outcome = if opened.is_ok() { "ok" } else { "error" };
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_backend_starts_total", "backend" => backend, "outcome" => outcome).increment(1);
        if let Ok(Some(greeting)) = opened.as_ref().map(|session| session.greeting()) {
            let server = greeting.server();
            tracing::info!(backend = %self.spec.id, revision = %greeting.revision, server, "connected to the backend");
        }
        opened
    }

    /// Tells the client that the server behind its session is a fresh one (design rule 9).
    fn tell_fresh(&self, key: &Key, session: &Session) {
        let logs = session.greeting().is_some_and(|greeting| greeting.capabilities().get("logging").is_some());
        if logs {
            let text =
                format!("Backend `{}` was started anew; what it remembered of this session is gone", self.spec.id);
            let params = serde_json::json!({ "level": "warning", "logger": "lockkeeper", "data": text });
            let params = Payload::of(crate::mcp::Revision::NEWEST_LEGACY, &params);
            self.listens.tell(key, &Notification { method: Method::LoggingMessage, params }, |_| true);
        }
        self.listens.tell_all_changed(key);
    }

    fn unavailable(&self, reason: &str) -> ErrorObject {
        ErrorObject::retryable(&format!("Backend `{}` is not available: {reason}", self.spec.id))
    }

    fn count(&self, method: &Method, outcome: &'static str) {
        // a name that no version knows would let a client make up metrics
        let method = if matches!(method, Method::Other(_)) { "other" } else { method.as_str() }.to_owned();
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_backend_calls_total", "backend" => backend, "method" => method, "outcome" => outcome)
            .increment(1);
    }
}
