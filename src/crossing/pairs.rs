//! Table of pairs: client side × server side → decorators, and a backend that applies them.
//!
//! | client \ server | asks in mid-call (2024-11-05 to 2025-11-25), has tasks of 2025-11-25 or none | ends the call with its requests (2026-07-28), has the tasks extension or none |
//! |---|---|---|
//! | with a session (2024-11-05 to 2025-11-25) | `subscriptions`; `tasks`, if it has none and the server does; else none: the client gets the request during its call | `repeat`, `subscriptions`, `tasks::CoreOverExtension` |
//! | without (2026-07-28) | `tasks::ExtensionOverCore`; at the endpoint `suspend` for calls, `deferred` for listens | at the endpoint `suspend`, only to seal the state |
//! | the gateway itself | none | none |
//!
//! The table is read for each attempt at a call, since only then the server is known. The decorators at an endpoint of
//! the gateway are independent of it: they wrap every client without a session, and pass a reply through until the
//! server sends a request.

use std::{sync::Arc, time::Duration};

use super::{
    repeat,
    subscriptions::SubscriptionsOverListens,
    tasks::{self, AwaitedTasks, Bridge, OwnNotifications, ServerTasks, Spawn, TaskBridges},
};
use crate::{
    mcp::{Call, ClientInfo, Era, Method, Reply, Server, ServerOrigin},
    model::Requester,
    support::Clock,
};

/// The adaptation that a call needs between its client and its server.
pub(crate) enum Pair {
    Alike,
    /// Not known until the gateway has met the server.
    NotMet,
    /// The call continues a call of a former server, so it cannot be served.
    Gone,
    Differ(Decorators),
}

/// The decorators of a pair, the outer ones first.
#[derive(Clone, Copy)]
pub(crate) struct Decorators {
    rounds: RoundTrips,
    tasks: Option<Bridge>,
    subscriptions: Subscriptions,
}

/// Number of calls to the server for one call of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundTrips {
    One,
    /// One more for each that ends with server requests: [`repeat`].
    Many,
}

/// A session's request for a subscription, or another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscriptions {
    None,
    /// It is a listen: [`SubscriptionsOverListens`].
    AsListens,
}

/// The decorators of one backend, and their state.
pub(crate) struct ServerCrossing {
    tasks: Arc<TaskBridges>,
}

// === impl ServerCrossing ===

impl ServerCrossing {
    /// Creates the decorators of a backend with this `call_timeout`.
    pub(crate) fn new(origin: ServerOrigin, call_timeout: Duration, clock: Arc<dyn Clock>, spawn: Spawn) -> Arc<Self> {
        let tasks = TaskBridges::new(origin, call_timeout, clock, spawn);
        Arc::new(Self { tasks })
    }

    /// Stores the form of tasks of the current server.
    pub(crate) fn set_server_tasks(&self, server: ServerTasks) {
        self.tasks.set_server_tasks(server);
    }

    /// The need of `call` at a server of this era.
    pub(crate) fn pair(&self, call: &Call, era: Era) -> Pair {
        let is_further_round = call.params.origin().is_some();
        let (requester, client) = (&call.context.requester, call.context.client.revision.era());
        let rounds = match (requester, era) {
            // the previous round ended at a server without sessions
            (_, Era::Legacy) if is_further_round => return Pair::Gone,
            (Requester::Session(_), Era::Modern) if !is_further_round && call.method.may_require_input() => {
                RoundTrips::Many
            }
            _ => RoundTrips::One,
        };
        let subscriptions = match (requester, &call.method) {
            (Requester::Session(_), Method::ResourcesSubscribe) => Subscriptions::AsListens,
            _ => Subscriptions::None,
        };
        let is_plain = rounds == RoundTrips::One && subscriptions == Subscriptions::None;
        // the only methods with decorators between peers of the same era
        let is_list = matches!(call.method, Method::ToolsList | Method::Listen);
        if client == era && is_plain && !is_list {
            return Pair::Alike;
        }
        match tasks::bridge(call, era, self.tasks.server(era)) {
            Err(tasks::NotMet) => Pair::NotMet,
            Ok(None) if is_plain && !hides_tasks(call) => Pair::Alike,
            Ok(tasks) => Pair::Differ(Decorators { rounds, tasks, subscriptions }),
        }
    }

    /// Serves a call at `server` through these decorators. Further rounds go to `backend`, since each leases its own
    /// connection.
    pub(crate) fn serve<S, B>(&self, decorators: Decorators, server: S, backend: B, call: Call) -> Reply
    where
        S: Server + Clone + 'static,
        B: Server + Unpin + 'static,
    {
        match decorators.rounds {
            RoundTrips::One => self.serve_round(decorators, server, call),
            RoundTrips::Many => repeat::repeated(self.serve_round(decorators, server, call.clone()), backend, call),
        }
    }

    fn serve_round<S: Server + Clone + 'static>(&self, decorators: Decorators, server: S, call: Call) -> Reply {
        let Decorators { tasks, subscriptions, .. } = decorators;
        if hides_tasks(&call) {
            return self.serve_tasks(tasks, OwnNotifications::new(Arc::new(server)), call);
        }
        match subscriptions {
            Subscriptions::None => self.serve_tasks(tasks, server, call),
            Subscriptions::AsListens => self.serve_tasks(tasks, SubscriptionsOverListens(server), call),
        }
    }

    fn serve_tasks<S: Server + 'static>(&self, bridge: Option<Bridge>, server: S, call: Call) -> Reply {
        match bridge {
            None => server.call(call),
            Some(bridge) => self.tasks.serve(bridge, Arc::new(server), call),
        }
    }

    /// The decorator around a connection for calls of `client`; `None` if it needs none.
    pub(crate) fn around_connection(
        &self,
        client: &ClientInfo,
        server: ServerTasks,
    ) -> Option<impl FnOnce(Arc<dyn Server>) -> AwaitedTasks + use<>> {
        awaits_tasks(client, server).then(|| self.tasks.awaited(server))
    }

    /// Drops the state of a client that is gone.
    pub(crate) fn ended(&self, requester: &Requester) {
        self.tasks.ended(requester);
    }
}

/// True if a connection needs [`AwaitedTasks`]: the server may run a tool as a task, and its client has no tasks.
pub(super) fn awaits_tasks(client: &ClientInfo, server: ServerTasks) -> bool {
    matches!(server, ServerTasks { era: Era::Legacy, has_tasks: true, .. }) && !client.takes_tasks()
}

/// True if a listen needs [`OwnNotifications`]: its client has no tasks, and its calls may run as tasks.
fn hides_tasks(call: &Call) -> bool {
    call.method == Method::Listen && !call.context.client.takes_tasks()
}
