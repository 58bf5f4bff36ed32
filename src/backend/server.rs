//! One backend as a [`Server`]. Each call leases a connection, which is opened if needed, and runs on it. The era from
//! the handshake selects [`SessionServer`] or [`RequestServer`].

mod era_changes;
mod listen;
mod request_server;
mod route;
mod session_server;

use std::{pin::pin, sync::Arc};

use futures_util::{StreamExt as _, future::Either};

use self::{request_server::RequestServer, route::Route, session_server::SessionServer};
use super::{
    connection::{OutboundCall, call_through},
    connection_key::ConnectionKey,
    error::DispatchError,
    external_backend::{CallCounter, ExternalBackend},
    introductions::Introductions,
    pool::LeasedConnection,
    slots::{SlotGuard, SlotRequest},
    transport::NotSent,
};
use crate::{
    crossing::Pair,
    mcp::{Call, Context, Era, ErrorObject, Event, Method, Outcome, Reply, Server},
    model::OnLoss,
};

/// A backend behind the interface that the gateway uses.
pub(crate) struct BackendServer(pub(crate) Arc<ExternalBackend>);

/// Retry of one call: a second attempt, if the connection was lost before the call ran (`translation` 4c).
struct CallRetry<'a> {
    backend: &'a ExternalBackend,
    method: &'a Method,
    /// Attempts left after this one.
    left: u8,
    /// The reason why this attempt did not run.
    lost: Option<String>,
}

/// The step after an attempt.
enum AttemptOutcome {
    /// None: the call ran.
    Over,
    /// Another attempt.
    Again,
    /// The end of the call.
    GivenUp(Event),
}

impl Server for BackendServer {
    fn call(&self, call: Call) -> Reply {
        let backend = Arc::clone(&self.0);
        let Some(era) = backend.pool.era() else { return backend.call_at_start(call) };
        let route = backend.route(era, &call);
        if route.ready.is_some() || backend.pool.is_there(&route.key) {
            backend.dispatch(route, call)
        } else {
            backend.call_at_start(call)
        }
    }

    fn expect(&self, client: &Context) {
        Introductions(&self.0).expect(client);
    }
}

impl ExternalBackend {
    /// Serves a call through the decorators of its client and server.
    fn dispatch(self: Arc<Self>, route: Route, call: Call) -> Reply {
        let crossing = &self.crossing;
        match (crossing.pair(&call, route.era), route.era) {
            (Pair::Alike, Era::Legacy) => SessionServer(self).serve(route, call),
            (Pair::Alike, Era::Modern) => RequestServer(self).serve(route, call),
            (Pair::Differ(decorators), Era::Legacy) => {
                let further = BackendServer(Arc::clone(&self));
                Arc::clone(crossing).serve(decorators, (SessionServer(self), further), call)
            }
            (Pair::Differ(decorators), Era::Modern) => {
                let further = BackendServer(Arc::clone(&self));
                Arc::clone(crossing).serve(decorators, (RequestServer(self), further), call)
            }
            (Pair::NotMet, _) => Reply::later(self.wait_for_server(route, call)),
            // it may have run up to its server request
            (Pair::Gone, _) => Reply::failed(self.may_have_run("its server was replaced while it waited for input")),
        }
    }

    /// The route of a client's call to a server of this era.
    fn route(&self, era: Era, call: &Call) -> Route {
        let key = self.key(era, &call.context);
        let ready = |key: &ConnectionKey| self.pool.ready(key).filter(|ready| ready.connection.era() == era);
        if let Some(changed) = self.listens.changed_at(&key, &call.method)
            && let Some(ready) = ready(&changed)
        {
            return Route { era, key: changed, ready: Some(ready) };
        }
        let ready = ready(&key);
        Route { era, key, ready }
    }

    /// The key of a client's connection to a server of this era.
    pub(super) fn key(&self, era: Era, context: &Context) -> ConnectionKey {
        let key = match era {
            Era::Legacy => ConnectionKey::of(&self.spec, context),
            Era::Modern => ConnectionKey::of_modern(&self.spec, context),
        };
        match self.sole_client() {
            Some(sole) if key.is_base() || key.identity.is_none() && sole.is(&context.client) => self.base_key(),
            _ => key,
        }
    }

    /// Serves a call on its connection, in a question slot if it needs one.
    fn serve(self: Arc<Self>, route: Route, call: Call) -> Reply {
        if self.needs_slot(&call.method, &route.key) {
            return self.serve_in_slot(route, call);
        }
        self.serve_on(route, None, call)
    }

    fn serve_in_slot(self: Arc<Self>, Route { era, key, .. }: Route, call: Call) -> Reply {
        Reply::later(async move {
            let message = format!("waiting for a free process of `{}`", self.spec.id);
            call.context.wait.set(move || Some(message.clone()));
            let slot = self.slot(&call.method, &key, &call.context).await;
            call.context.wait.set(|| None);
            match slot {
                Ok(slot) => self.serve_on(Route::of(era, slot.key().clone()), Some(slot), call),
                Err(error) => {
                    self.count(&call.method, "unavailable");
                    Reply::failed(error)
                }
            }
        })
    }

    /// Serves a call on its connection.
    fn serve_on(self: Arc<Self>, route: Route, mut slot: Option<SlotGuard>, call: Call) -> Reply {
        Reply::of(|| {
            async_stream::stream! {
                let Route { era, key, mut ready } = route;
                let mut retry = CallRetry::of(&self, &call.method);
                loop {
                    let leased = match self.connection((era, &key), ready.take(), &call.context).await {
                        Ok(leased) => leased,
                        Err(error) => {
                            for await event in Arc::clone(&self).reply_not_begun(error, call.clone()) {
                                yield event;
                            }
                            return;
                        }
                    };
                    let connection = &leased.connection;
                    if matches!(call.method, Method::Discover)
                        && let Some(result) = self.discovered(connection).await
                    {
                        yield Event::Done(Outcome::Complete(result));
                        return;
                    }
                    if let Err(error) = connection.check(&call.method, &call.params) {
                        yield retry.refused(error);
                        return;
                    }
                    let _level = connection.with_level(&call.context).await;
                    if let Some(slot) = &mut slot {
                        slot.begin();
                    }
                    let bridge = self.crossing.around_connection(&call.context.client, connection.tasks());
                    let events = if let Some(bridge) = bridge {
                        Either::Left(call_through(connection, bridge, call.clone(), self.spec.call_timeout))
                    } else {
                        let outbound = OutboundCall::by(&call.context, &call.method, &call.params);
                        Either::Right(connection.call(outbound, self.spec.call_timeout))
                    };
                    let mut events = pin!(events);
                    while let Some(event) = events.next().await {
                        let Some(event) = retry.take(event) else { continue };
                        // before the client gets the result, so that the next caller finds the slot free
                        if let Event::Done(outcome) = &event
                            && let Some(slot) = slot.take_if(|_| outcome.is_of_server() || connection.is_over())
                        {
                            slot.answered();
                        }
                        yield event;
                    }
                    if retry.is_lost() && !connection.is_over() {
                        self.refresh_server_info(connection).await;
                    }
                    match retry.next() {
                        AttemptOutcome::Again => {}
                        AttemptOutcome::Over => return,
                        AttemptOutcome::GivenUp(event) => {
                            yield event;
                            return;
                        }
                    }
                }
            }
        })
    }

    /// True if a call needs a slot: if client sessions share its channel and the client has capabilities. With an
    /// exchange of its own, a server request is unambiguous.
    fn needs_slot(&self, method: &Method, key: &ConnectionKey) -> bool {
        !key.is_of_one_client() && key.can_be_asked() && method.may_ask() && self.opener.transport.is_channel()
    }

    /// Waits for a slot of the sharer, at most `slot_wait`.
    async fn slot(&self, method: &Method, key: &ConnectionKey, context: &Context) -> Result<SlotGuard, ErrorObject> {
        // a task is awaited on the connection that created it
        let only = method.is_of_core_tasks().then_some(key.slot());
        let request = SlotRequest { user: context.caller.user.clone(), holder: context.requester.clone(), only };
        let slot = self.slots.acquire(key, request, |missing| self.pool.reclaim(key, missing)).await;
        let busy = "all its shared processes serve other clients; try again later, or raise `parallel`";
        slot.map_err(|_| self.unavailable(busy))
    }

    /// Leases the connection of `key` at a server of this era: `ready`, if it is still usable.
    pub(super) async fn connection(
        self: &Arc<Self>,
        (era, key): (Era, &ConnectionKey),
        ready: Option<LeasedConnection>,
        context: &Context,
    ) -> Result<LeasedConnection, DispatchError> {
        let is_usable = |leased: &LeasedConnection| leased.connection.era() == era && !leased.connection.is_over();
        let leased = match ready.or_else(|| self.pool.ready(key)).filter(is_usable) {
            Some(leased) => leased,
            None => self.opened((era, key), context).await?,
        };
        if let (OnLoss::End, Some(session)) = (self.spec.on_loss, context.requester.session())
            && self.can_lose_state()
        {
            leased.lease.slot().bind(session);
        }
        Ok(leased)
    }

    /// True if the server may keep state about its clients. With exchanges and no sessions, the loss of a connection
    /// loses nothing.
    fn can_lose_state(&self) -> bool {
        self.era.has_sessions() || self.spec.is_channel()
    }

    /// Counts a call by its outcome.
    fn count_end(&self, method: &Method, outcome: &Outcome) {
        self.count(method, if matches!(outcome, Outcome::Failed(_)) { "error" } else { "ok" });
    }

    /// Counts a call.
    pub(super) fn count(&self, method: &Method, outcome: &'static str) {
        tracing::debug!(server = %self.spec.id, %method, outcome, "a call has ended");
        // names from clients do not become labels of metrics
        let is_other = matches!(method, Method::Other(_));
        let is_it = |known: &&CallCounter| {
            known.outcome == outcome
                && (known.method == *method || is_other && matches!(known.method, Method::Other(_)))
        };
        if let Some(known) = self.calls.read().iter().find(is_it) {
            known.counter.increment(1);
            return;
        }
        let method = if is_other { Method::Other("other".into()) } else { method.clone() };
        let (backend, name) = (self.spec.id.to_string(), method.to_string());
        let counter = metrics::counter!("lockkeeper_server_calls_total", "server" => backend, "method" => name, "outcome" => outcome);
        counter.increment(1);
        self.calls.write().push(CallCounter { method, outcome, counter });
    }
}

// === impl CallRetry ===

impl<'a> CallRetry<'a> {
    /// The first attempt. If the operator allows sessions to be reopened there may be a second, but no third, which
    /// could loop.
    fn of(backend: &'a ExternalBackend, method: &'a Method) -> Self {
        Self { backend, method, left: u8::from(backend.spec.on_loss == OnLoss::Reinit), lost: None }
    }

    /// The error of a call that is not sent because the server does not support it.
    fn refused(&self, error: ErrorObject) -> Event {
        self.backend.count(self.method, "error");
        Event::Done(Outcome::Failed(error))
    }

    /// Processes an event of this attempt; returns the event for the caller, and counts the end.
    fn take(&mut self, event: Result<Event, NotSent>) -> Option<Event> {
        match event {
            Ok(event) => {
                if let Event::Done(outcome) = &event {
                    self.backend.count_end(self.method, outcome);
                }
                Some(event)
            }
            Err(NotSent(reason)) => {
                self.lost = Some(reason);
                None
            }
        }
    }

    /// True if this attempt did not run.
    const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The next step, after the last event: another attempt if the call certainly did not run.
    fn next(&mut self) -> AttemptOutcome {
        let Some(reason) = self.lost.take() else { return AttemptOutcome::Over };
        let Some(left) = self.left.checked_sub(1) else {
            self.backend.count(self.method, "lost");
            return AttemptOutcome::GivenUp(Event::Done(Outcome::Failed(self.backend.unavailable(&reason))));
        };
        self.left = left;
        AttemptOutcome::Again
    }
}
