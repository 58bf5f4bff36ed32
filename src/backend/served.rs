//! One backend as a [`Server`]: each call finds its session, opened where there is none, and runs on it.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::ready, stream};
use tokio::time::{sleep, timeout};

use super::{
    era::Known,
    error::StartError,
    health::Health,
    key::Key,
    life::Life,
    listens::Listens,
    missed::Missed,
    open::{Failure, Room},
    pool::{Lease, Pool, Slot, SlotState},
    question_slots::QuestionSlots,
    starting,
    transport::http::LateStreams,
    wants::Wants,
};
use crate::{
    crossing::tasks::{Pair, TaskBridges, heard_by},
    mcp::{Call, ClientInfo, Context, Era, ErrorObject, Method, Notification, Outcome, Payload, Reply, Server, listen},
    model::{BackendSpec, OnLoss},
};

/// One backend.
pub(crate) struct Backend {
    pub(super) spec: BackendSpec,
    pub(super) era: Known,
    pub(super) health: Health,
    pub(super) pool: Pool,
    pub(super) listens: Arc<Listens>,
    pub(super) wants: Arc<Wants>,
    pub(super) slots: Arc<QuestionSlots>,
    pub(super) tasks: Arc<TaskBridges>,
    pub(super) late_streams: LateStreams,
    pub(super) room: Room,
}

/// A [`Backend`] behind the interface that everything else sees.
pub(crate) struct Served(pub(crate) Arc<Backend>);

/// A [`Backend`] at a server of this era, as the server itself serves it.
struct Unbridged {
    backend: Arc<Backend>,
    era: Era,
}

impl Server for Unbridged {
    fn call(&self, call: Call) -> Reply {
        Arc::clone(&self.backend).pass(self.era, call)
    }
}

impl Server for Served {
    fn call(&self, call: Call) -> Reply {
        let backend = Arc::clone(&self.0);
        if backend.is_there(&call.context) {
            return backend.begin_call(call);
        }
        let (token, context) = (starting::token(&call), call.context.clone());
        let reply = Arc::clone(&backend).begin_call(call);
        match token {
            Some(token) => {
                let message = format!("waiting for `{}` to start", backend.spec.id);
                starting::heard(reply, token, message, move || backend.is_there(&context))
            }
            None => reply,
        }
    }
}

impl Backend {
    /// Begins a call, once it is known how the server is spoken to.
    fn begin_call(self: Arc<Self>, call: Call) -> Reply {
        match self.era.now() {
            Some(era) => self.dispatch(era, call),
            None => Reply::later(async move {
                match self.found_era(&call.method).await {
                    Ok(era) => self.dispatch(era, call),
                    Err(error) => Reply::failed(error),
                }
            }),
        }
    }

    /// A backend that is not started yet.
    pub(crate) fn new(spec: BackendSpec, room: Room) -> Self {
        let pool = Pool::new(room.sessions);
        let slots = QuestionSlots::new(spec.parallel, room.slot_limits);
        let (listens, wants) = (Arc::default(), Arc::default());
        let era = Known::new(&spec, &room.memory, &room.clock);
        let (health, late_streams) = (Health::starting(), LateStreams::default());
        let background = room.tasks.clone();
        let spawn = move |task| background.spawn_until_end(task);
        let tasks = TaskBridges::new(spec.id.clone(), spec.call_timeout, Arc::clone(&room.clock), Box::new(spawn));
        Self { spec, era, health, pool, listens, wants, slots, tasks, late_streams, room }
    }

    /// The way of a call at a server of this era, through the bridge that the pair needs.
    pub(super) fn dispatch(self: Arc<Self>, era: Era, call: Call) -> Reply {
        match self.tasks.pair(&call, era) {
            Pair::Alike => self.pass(era, call),
            Pair::NotMet => Reply::later(self.meet_first(era, call)),
            Pair::Bridged(bridge) => {
                let bridges = Arc::clone(&self.tasks);
                bridges.serve(bridge, Arc::new(Unbridged { backend: self, era }), call)
            }
        }
    }

    /// Waits for a connection, so that it is known which bridge the pair needs.
    async fn meet_first(self: Arc<Self>, era: Era, call: Call) -> Reply {
        let key = self.key(era, &call.context);
        match self.life(&key, &call.context, era).await {
            Ok((_lease, life)) => {
                self.tasks.met(life.tasks());
                self.dispatch(era, call)
            }
            Err(missed) => self.missed(missed, call),
        }
    }

    /// Who shares what serves this client at a server of this era.
    fn key(&self, era: Era, context: &Context) -> Key {
        match era {
            Era::Legacy => Key::of(self.spec.share, context),
            Era::Modern => Key::of_modern(&self.spec, context),
        }
    }

    /// The way of a call at a server of this era, as the server itself serves it.
    fn pass(self: Arc<Self>, era: Era, call: Call) -> Reply {
        match (era, &call.method) {
            (_, Method::Initialize) => Reply::failed(ErrorObject::method_not_found("initialize")),
            (_, Method::Listen) => self.listen(era, call),
            (Era::Legacy, Method::SetLevel) => Reply::later(self.set_level(call)),
            (Era::Legacy, Method::ResourcesSubscribe) => Reply::later(self.subscribe(call)),
            (Era::Legacy, Method::ResourcesUnsubscribe) => Reply::later(self.unsubscribe(call)),
            (Era::Legacy, method) if method.is_notification() => Reply::later(self.notify(call)),
            (Era::Legacy, _) => self.serve(call),
            (Era::Modern, _) => self.serve_alone(call),
        }
    }

    /// Waits until it is known how the server is spoken to: up to `start_timeout`, but for a listen, which waits for good.
    async fn found_era(&self, method: &Method) -> Result<Era, ErrorObject> {
        if *method == Method::Listen {
            return Ok(self.era.wait().await);
        }
        let failed = async {
            loop {
                if let Err(error) = self.pool.base().wait().await {
                    return error;
                }
                // it is known in this moment
                self.era.wait().await;
            }
        };
        let patience = self.spec.start_timeout;
        tokio::select! {
            biased;
            era = self.era.wait() => Ok(era),
            error = failed => Err(error.of_call(&self.spec.id)),
            () = sleep(patience) => {
                Err(self.unavailable(&format!("it is still starting after {} s", patience.as_secs())))
            }
        }
    }

    /// Everything that is said to this client outside of calls. It ends where the server turns out to be of another era.
    fn listen(self: Arc<Self>, era: Era, call: Call) -> Reply {
        let (context, tasks) = (call.context, listen::task_ids(&call.params));
        let (key, methods) = (self.key(era, &context), listen::methods(&call.params));
        let turned = self.era.clone().turned_from(era);
        if !methods.is_empty() {
            let heard = self.listens.listen_for(methods, &key, context.requester.clone()).take_until(turned);
            return Reply::new(stream::iter([listen::honouring([])]).chain(heard));
        }
        let heard = self.listens.listen(&key, context.requester.clone()).take_until(turned);
        let is_for = heard_by(&context.client);
        let heard = heard.filter(move |event| ready(is_for(event)));
        match era {
            Era::Legacy => Reply::new(heard),
            Era::Modern => self.hear_tasks(tasks, context, heard),
        }
    }

    /// Whether what serves calls may remember something of its clients. Where nothing of a request but its answer comes back
    /// on a connection, the loss of it is no loss to them.
    fn can_lose_state(&self) -> bool {
        self.era.now() == Some(Era::Legacy) || self.spec.is_channel()
    }

    /// What serves `key` at a server of this era, opened where there is nothing. Waits up to `start_timeout`.
    pub(super) async fn life(
        self: &Arc<Self>,
        key: &Key,
        context: &Context,
        era: Era,
    ) -> Result<(Lease, Life), Missed> {
        let unavailable = |reason: &str| Missed::Unavailable(self.unavailable(reason));
        let lease = self.pool.lease(key).map_err(|full| unavailable(&full.to_string()))?;
        if let (OnLoss::End, Some(session)) = (self.spec.on_loss, context.requester.session())
            && self.can_lose_state()
        {
            lease.slot().bind(session);
        }
        let found = async {
            loop {
                if let Some(other) = self.era.now().filter(|now| *now != era) {
                    return Err(Missed::Turned(other));
                }
                if !key.is_base() {
                    self.begin(lease.slot(), key, &context.client);
                }
                match lease.slot().wait().await {
                    Ok(Some(life)) if life.era() == era => return Ok(life),
                    // it is of another era and being ended, unless the server is
                    Ok(Some(life)) if self.era.now() == Some(era) => drop(life.over().await),
                    Ok(_) => {}
                    Err(error) => return Err(Missed::Unavailable(error.of_call(&self.spec.id))),
                }
            }
        };
        let patience = self.spec.start_timeout;
        let found = timeout(patience, found).await;
        let late = || unavailable(&format!("it is still starting after {} s", patience.as_secs()));
        Ok((lease, found.unwrap_or_else(|_| Err(late()))?))
    }

    /// Sees to it that the session of `slot` is being opened, by a task that all who wait for it share.
    fn begin(self: &Arc<Self>, slot: &Arc<Slot>, key: &Key, client: &Arc<ClientInfo>) {
        if !slot.begin() {
            return;
        }
        if let Some(trouble) = self.health.trouble() {
            slot.set(SlotState::Failed(trouble));
            return;
        }
        let (backend, slot, key, client) = (Arc::clone(self), Arc::clone(slot), key.clone(), Arc::clone(client));
        self.room.tasks.spawn(async move {
            let era = backend.era.now();
            match backend.open(&key, &client).await {
                Ok(life) => backend.live_in(&slot, &key, life).await,
                // who waits begins again
                Err(_) if backend.era.now() != era => slot.set(SlotState::Gone),
                Err(Failure { error, stderr_tail }) => {
                    tracing::warn!(backend = %backend.spec.id, %error, stderr = ?stderr_tail, "no session could be opened");
                    slot.set(SlotState::Failed(error.clone()));
                    backend.contradicted(era, &error);
                }
            }
        });
    }

    /// One life in a slot, from when it can be used to its end.
    async fn live_in(self: &Arc<Self>, slot: &Slot, key: &Key, life: Life) {
        if let Life::Legacy(session) = &life {
            self.bring_up(key, session).await;
        }
        if slot.has_lived() {
            self.tell_fresh(key, &life);
        }
        slot.set(SlotState::Ready(life.clone()));
        if self.era.now() != Some(life.era()) {
            // it was being opened when the others were ended
            life.end("the server was found to be of another era");
        }
        if let Life::Legacy(session) = &life {
            // who set one in the moment before did not find the session yet
            self.bring_to_level(key, session).await;
        }
        let reason = life.over().await;
        slot.gone();
        self.lost(slot);
        tracing::info!(backend = %self.spec.id, reason, "a session at the backend ended");
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

    /// Opens what serves `key`, with what is to be logged and counted of it. The era must be known.
    pub(super) async fn open(&self, key: &Key, client: &Arc<ClientInfo>) -> Result<Life, Failure> {
        let opened = self.open_in(self.era.now().unwrap_or(Era::Legacy), key, client).await;
        self.opened(opened.as_ref().ok());
        opened
    }

    /// Opens what serves `key` at a server of this era.
    pub(super) async fn open_in(&self, era: Era, key: &Key, client: &Arc<ClientInfo>) -> Result<Life, Failure> {
        match era {
            Era::Modern => self.meet(key).await.map(Life::Modern),
            Era::Legacy => self.greet(key, client).await.map(Life::Legacy),
        }
    }

    /// Logs and counts a start, and notes how the server has tasks.
    pub(super) fn opened(&self, life: Option<&Life>) {
        let outcome = if life.is_some() { "ok" } else { "error" };
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_backend_starts_total", "backend" => backend, "outcome" => outcome).increment(1);
        if let Some(life) = life {
            self.tasks.met(life.tasks());
        }
        if let Some(said) = life.and_then(Life::said) {
            tracing::info!(backend = %self.spec.id, revision = %said.revision, server = said.server, "connected to the backend");
        }
    }

    /// Tells the client that the server behind it is a fresh one (design rule 9).
    fn tell_fresh(&self, key: &Key, life: &Life) {
        if let Life::Legacy(session) = life
            && session.can_log()
        {
            let text =
                format!("Backend `{}` was started anew; what it remembered of this session is gone", self.spec.id);
            let params = serde_json::json!({ "level": "warning", "logger": "lockkeeper", "data": text });
            let params = Payload::of(crate::mcp::Revision::NEWEST_LEGACY, &params);
            self.listens.tell(key, &Notification { method: Method::LoggingMessage, params }, |_| true);
        }
        self.listens.tell_all_changed(key);
    }

    /// The error of a call that may be tried again.
    pub(super) fn unavailable(&self, reason: &str) -> ErrorObject {
        StartError::Unreachable(reason.to_owned()).of_call(&self.spec.id)
    }

    /// Counts a call by how the server ended it.
    pub(super) fn count_end(&self, method: &Method, outcome: &Outcome) {
        self.count(method, if matches!(outcome, Outcome::Failed(_)) { "error" } else { "ok" });
    }

    pub(super) fn count(&self, method: &Method, outcome: &'static str) {
        // a name that no version knows would let a client make up metrics
        let method = if matches!(method, Method::Other(_)) { "other" } else { method.as_str() }.to_owned();
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_backend_calls_total", "backend" => backend, "method" => method, "outcome" => outcome)
            .increment(1);
    }
}
