//! The attempts at one call: a second one, if the connection was lost before the call ran (`translation` 4c). Each leases
//! a connection, in a question slot if the call needs one.

use std::sync::Arc;

use super::{
    call_meters::{CallEnd, RunningCall},
    external_backend::ExternalBackend,
};
use crate::{
    backend::{
        connection::ServerConnection,
        interests::Interest,
        sharing::{
            connection_key::ConnectionKey,
            connection_slot::LeasedConnection,
            slots::{SlotAccess, SlotGuard, SlotRequest},
        },
        transport::NotSent,
    },
    crossing::tasks::AwaitedTasks,
    mcp::{Call, Era, ErrorObject, Event, Method, Outcome, Reply, Server},
    model::OnLoss,
};

/// The route of a call to its server.
pub(super) struct Route {
    /// The era of the server.
    pub(super) era: Era,
    /// The key of the connection.
    pub(super) key: ConnectionKey,
    /// The connection, if it is usable at once.
    pub(super) ready: Option<LeasedConnection>,
}

/// The attempts at one call.
pub(super) struct Attempts {
    backend: Arc<ExternalBackend>,
    running: RunningCall,
    /// The connection of the next attempt.
    route: Route,
    slot: Option<SlotGuard>,
    /// Attempts left after this one.
    left: u8,
    /// The reason why this attempt did not run.
    lost: Option<String>,
}

/// One attempt.
pub(super) struct CallAttempt {
    leased: LeasedConnection,
    /// Keeps the server at the log level of the call.
    _level: Option<Interest>,
}

/// What follows an attempt.
pub(super) enum AfterAttempt {
    /// Nothing: the call ran.
    Over,
    /// Another attempt.
    Again,
    /// The end of the call.
    GivenUp(Event),
}

// === impl Route ===

impl Route {
    /// The route to the connection of `key`.
    pub(super) const fn of(era: Era, key: ConnectionKey) -> Self {
        Self { era, key, ready: None }
    }
}

// === impl Attempts ===

impl Attempts {
    /// Attempts on the connection of this route. If the operator allows sessions to be reopened there may be a second, but no
    /// third, which could loop.
    pub(super) fn new(backend: Arc<ExternalBackend>, route: Route) -> Self {
        let left = u8::from(backend.spec.on_loss == OnLoss::Reinit);
        let running = RunningCall::begin(&backend.meters);
        Self { backend, running, route, slot: None, left, lost: None }
    }

    /// True if the call needs a slot: if client sessions share its connection, the client has capabilities, and the server
    /// asks outside of exchanges. A server request on the exchange of its call is unambiguous.
    pub(super) fn need_slot(&self, method: &Method) -> bool {
        let key = &self.route.key;
        !key.is_of_one_client() && key.can_be_asked() && method.may_ask() && self.backend.opener.transport.asks_apart()
    }

    /// Waits for a slot of the sharer, at most `slot_wait`, and makes the attempts there. The client is told meanwhile.
    pub(super) async fn wait_for_slot(&mut self, call: &Call) -> Result<(), ErrorObject> {
        let Self { backend, running, route: Route { era, key, ready }, .. } = self;
        // whoever waits keeps no connection
        drop(ready.take());
        let message = format!("waiting for a free process of `{}`", backend.spec.id);
        call.context.wait.set(move || Some(message.clone()));
        let slot = slot(backend, key, call).await;
        call.context.wait.set(|| None);
        let slot = slot.inspect_err(|_| running.ended(&call.method, CallEnd::Unavailable))?;
        self.route = Route::of(*era, slot.key().clone());
        self.slot = Some(slot);
        Ok(())
    }

    /// Begins the next attempt.
    ///
    /// # Errors
    ///
    /// The reply, if the server does not get the call.
    pub(super) async fn begin(&mut self, call: &Call) -> Result<CallAttempt, Reply> {
        let Self { backend, running, route, slot, .. } = self;
        let leased = match backend.connection((route.era, &route.key), route.ready.take(), &call.context).await {
            Ok(leased) => leased,
            Err(error) => return Err(Arc::clone(backend).reply_not_begun(error, call.clone(), running)),
        };
        let connection = &leased.connection;
        if matches!(call.method, Method::Discover)
            && let Some(result) = backend.discovered(connection).await
        {
            return Err(Reply::complete(result));
        }
        if let Err(error) = connection.check(&call.method, &call.params) {
            running.ended(&call.method, CallEnd::Error);
            return Err(Reply::failed(error));
        }
        let level = connection.with_level(&call.context).await;
        if let Some(slot) = slot {
            slot.begin();
        }
        Ok(CallAttempt { leased, _level: level })
    }

    /// The decorator around the connection of this attempt, if the call needs one.
    pub(super) fn bridge(
        &self,
        connection: &ServerConnection,
        call: &Call,
    ) -> Option<impl FnOnce(Arc<dyn Server>) -> AwaitedTasks + use<>> {
        self.backend.crossing.around_connection(&call.context.client, connection.tasks())
    }

    /// Processes an event of this attempt; returns the event for the caller, and counts the end.
    pub(super) fn take(
        &mut self,
        event: Result<Event, NotSent>,
        (attempt, call): (&CallAttempt, &Call),
    ) -> Option<Event> {
        let event = match event {
            Ok(event) => event,
            Err(NotSent(reason)) => {
                self.lost = Some(reason);
                return None;
            }
        };
        if let Event::Done(outcome) = &event {
            let end = if matches!(outcome, Outcome::Failed(_)) { CallEnd::Error } else { CallEnd::Ok };
            self.running.ended(&call.method, end);
            // before the client gets the result, so that the next caller finds the slot free
            let is_free = |_: &mut SlotGuard| outcome.is_of_server() || attempt.connection().is_over();
            if let Some(slot) = self.slot.take_if(is_free) {
                slot.answered();
            }
        }
        Some(event)
    }

    /// What follows this attempt, after its last event: another one if the call certainly did not run.
    pub(super) async fn after(&mut self, attempt: CallAttempt, call: &Call) -> AfterAttempt {
        let Some(reason) = self.lost.take() else { return AfterAttempt::Over };
        if !attempt.connection().is_over() {
            self.backend.refresh_server_info(attempt.connection()).await;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.running.ended(&call.method, CallEnd::Lost);
            return AfterAttempt::GivenUp(Event::Done(Outcome::Failed(self.backend.unavailable(&reason))));
        };
        self.left = left;
        AfterAttempt::Again
    }
}

// === impl CallAttempt ===

impl CallAttempt {
    /// Its connection.
    pub(super) const fn connection(&self) -> &Arc<ServerConnection> {
        &self.leased.connection
    }
}

/// Waits for a slot of the sharer of `key`, at most `slot_wait`.
async fn slot(backend: &ExternalBackend, key: &ConnectionKey, call: &Call) -> Result<SlotGuard, ErrorObject> {
    // a task is awaited on the connection that created it
    let only = call.method.is_of_core_tasks().then_some(key.slot());
    // over HTTP, the first session has calls that hold no slot: those from before the server was seen to ask there
    let first = usize::from(!backend.opener.transport.is_channel());
    let (user, holder) = (call.context.caller.user.clone(), call.context.requester.clone());
    let access = SlotAccess {
        questions: || backend.pool.questions(key),
        close: |slot| backend.pool.close_questions(key, slot),
        has_room: || backend.pool.has_room(),
    };
    let slot = backend.slots.acquire(key, SlotRequest { user, holder, only, first }, access).await;
    let busy = "all its shared processes serve other clients; try again later, or raise `parallel`";
    slot.map_err(|_| backend.unavailable(busy))
}
