//! Attempts at one call: if the connection is lost before the call ran, there is a second one (`translation` 4c). Each
//! attempt leases a connection, and a slot for server requests if the call needs one.

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

/// Connection that a call takes.
pub(super) struct Route {
    pub(super) era: Era,
    pub(super) key: ConnectionKey,
    /// The connection, if one is open; `None` leads to opening one.
    pub(super) ready: Option<LeasedConnection>,
}

pub(super) struct Attempts {
    backend: Arc<ExternalBackend>,
    running: RunningCall,
    /// Route of the next attempt.
    route: Route,
    slot: Option<SlotGuard>,
    /// Number of attempts left after this one.
    left: u8,
    /// Why this attempt did not run, if so.
    lost: Option<String>,
}

/// An attempt: a leased connection.
pub(super) struct CallAttempt {
    leased: LeasedConnection,
    /// Keeps the server at the log level of the call.
    _level: Option<Interest>,
}

/// The next step after an attempt.
pub(super) enum AfterAttempt {
    /// Nothing: the call ran.
    Over,
    /// Make another attempt, on a new connection.
    Again,
    /// End the call with this event.
    GivenUp(Event),
}

// === impl Route ===

impl Route {
    /// A route to the connection of `key`, which may have to be opened.
    pub(super) const fn of(era: Era, key: ConnectionKey) -> Self {
        Self { era, key, ready: None }
    }
}

// === impl Attempts ===

impl Attempts {
    /// Prepares the attempts, on this route first. If the operator allows sessions to be reopened, there may be a
    /// second attempt, but no third: that could go on forever.
    pub(super) fn new(backend: Arc<ExternalBackend>, route: Route) -> Self {
        let left = u8::from(backend.spec.on_loss == OnLoss::Reinit);
        let running = RunningCall::begin(&backend.meters);
        Self { backend, running, route, slot: None, left, lost: None }
    }

    /// True if the call needs a slot: its connection is shared by client sessions, the client has capabilities, and the
    /// server sends requests outside of exchanges. A request on the exchange of its call needs none, because it names
    /// its call.
    pub(super) fn need_slot(&self, method: &Method) -> bool {
        let key = &self.route.key;
        !key.is_of_one_client() && key.can_be_asked() && method.may_ask() && self.backend.opener.transport.asks_apart()
    }

    /// Waits for a slot of the sharer, for at most `slot_wait`. The attempts then use its connection. Progress
    /// notifications let the client know about the wait.
    pub(super) async fn wait_for_slot(&mut self, call: &Call) -> Result<(), ErrorObject> {
        let Self { backend, running, route: Route { era, key, ready }, .. } = self;
        // hold no connection during the wait
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
    /// The reply for the client, if the call is not sent to the server.
    pub(super) async fn begin(&mut self, call: &Call) -> Result<CallAttempt, Reply> {
        let Self { backend, running, route, slot, .. } = self;
        let leased = match backend.connection(route.era, &route.key, route.ready.take(), &call.context).await {
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

    /// The decorator for the connection of this attempt, if the call needs one.
    pub(super) fn bridge(
        &self,
        connection: &ServerConnection,
        call: &Call,
    ) -> Option<impl FnOnce(Arc<dyn Server>) -> AwaitedTasks + use<>> {
        self.backend.crossing.around_connection(&call.context.client, connection.tasks())
    }

    /// Handles an event of this attempt: counts the end and releases the slot. Returns the event for the caller.
    pub(super) fn take(&mut self, event: Result<Event, NotSent>, attempt: &CallAttempt, call: &Call) -> Option<Event> {
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
            // before the client gets the result, so that the slot is free for the client's next call
            let is_free = |_: &mut SlotGuard| outcome.is_of_server() || attempt.connection().is_over();
            if let Some(slot) = self.slot.take_if(is_free) {
                slot.answered();
            }
        }
        Some(event)
    }

    /// Decides after the last event: another attempt if the call certainly did not run.
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
    pub(super) const fn connection(&self) -> &Arc<ServerConnection> {
        &self.leased.connection
    }
}

/// Waits for a slot of the sharer of `key`, for at most `slot_wait`.
async fn slot(backend: &ExternalBackend, key: &ConnectionKey, call: &Call) -> Result<SlotGuard, ErrorObject> {
    // a task is awaited on the connection that created it
    let only = call.method.is_of_core_tasks().then_some(key.slot());
    // over HTTP, calls from before the server first sent a request outside of exchanges run in the first session,
    // without a slot
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
