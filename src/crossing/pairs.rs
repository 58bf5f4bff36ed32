//! Table of pairs: client side × server side → decorators, and a backend that applies them. Knows nothing of
//! connections and of how a decorator works.
//!
//! | client \ server | asks in mid-call (2024-11-05 to 2025-11-25), has tasks of 2025-11-25 or none | ends the call with its requests (2026-07-28), has the tasks extension or none |
//! |---|---|---|
//! | with a session (2024-11-05 to 2025-11-25) | none: the client is asked on the spot; `tasks`, if it has none and the server does | `repeat`, `listens::SessionOverRequests`, `tasks::CoreOverExtension` |
//! | without (2026-07-28) | `listens::RequestsOverSession`, `tasks::ExtensionOverCore`; at the endpoint `suspend` for calls, `deferred` for listens | at the endpoint `suspend`, for the sealed state alone |
//! | the gateway itself | none | none |
//!
//! The table is read for each attempt at a call, since only then the server is known. The decorators at an endpoint of
//! the gateway are independent of it: they stand around every client without a session, and pass a reply through until
//! the server sends a request.

use std::{sync::Arc, time::Duration};

use super::{
    listens::{ClientSubscriptions, Ended, RequestsOverSession, SessionOverRequests},
    repeat,
    tasks::{self, AwaitedTasks, Bridge, OwnNotifications, ServerTasks, Spawn, TaskBridges},
};
use crate::{
    mcp::{Call, ClientInfo, Era, Method, Reply, Server, ServerOrigin},
    model::Requester,
    support::Clock,
};

/// Need of a call between its client and its server.
pub(crate) enum Pair {
    /// No decorator.
    Alike,
    /// Unknown until the server has been met.
    NotMet,
    /// The call continues one that a former server ended; it cannot be served.
    Gone,
    /// Decorators.
    Differ(Decorators),
}

/// The decorators of a pair, the outer ones first.
#[derive(Clone, Copy)]
pub(crate) struct Decorators {
    rounds: RoundTrips,
    tasks: Option<Bridge>,
    listens: Option<ListenDecorator>,
}

/// Number of calls to the server for one call of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundTrips {
    /// One.
    One,
    /// One more for each that ends with server requests: [`repeat`].
    Many,
}

/// Decorator of levels and subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenDecorator {
    /// [`super::listens::SessionOverRequests`].
    SessionOverRequests,
    /// [`super::listens::RequestsOverSession`].
    RequestsOverSession,
}

/// The decorators of one backend, and their state.
pub(crate) struct ServerCrossing {
    tasks: Arc<TaskBridges>,
    listens: Arc<ClientSubscriptions>,
}

// === impl ServerCrossing ===

impl ServerCrossing {
    /// Creates the decorators of a backend with this `call_timeout`.
    pub(crate) fn new(
        (origin, call_timeout): (ServerOrigin, Duration),
        clock: Arc<dyn Clock>,
        spawn: Spawn,
        ended: Ended,
    ) -> Arc<Self> {
        let tasks = TaskBridges::new(origin, call_timeout, clock, spawn);
        Arc::new(Self { tasks, listens: ClientSubscriptions::new(ended) })
    }

    /// Stores the form of tasks of the current server.
    pub(crate) fn set_server_tasks(&self, server: ServerTasks) {
        self.tasks.set_server_tasks(server);
    }

    /// The need of `call` at a server of this era.
    pub(crate) fn pair(&self, call: &Call, era: Era) -> Pair {
        let is_further_round = call.params.origin().is_some();
        let (requester, client) = (&call.context.requester, call.context.client.revision.era());
        let (rounds, listens) = match (requester, era) {
            // the round before was ended by a server without sessions
            (_, Era::Legacy) if is_further_round => return Pair::Gone,
            (Requester::Session(_), Era::Modern) => {
                let is_first = !is_further_round && call.method.may_require_input();
                let rounds = if is_first { RoundTrips::Many } else { RoundTrips::One };
                (rounds, Some(ListenDecorator::SessionOverRequests))
            }
            (Requester::Request(_) | Requester::TasksOf(_), Era::Legacy) => {
                (RoundTrips::One, Some(ListenDecorator::RequestsOverSession))
            }
            _ => (RoundTrips::One, None),
        };
        // the only methods with decorators between peers of the same era
        let is_list = matches!(call.method, Method::ToolsList | Method::Listen);
        if client == era && listens.is_none() && !is_list {
            return Pair::Alike;
        }
        match tasks::bridge(call, era, self.tasks.server(era)) {
            Err(tasks::NotMet) => Pair::NotMet,
            Ok(None) if listens.is_none() && !hides_tasks(call) => Pair::Alike,
            Ok(tasks) => Pair::Differ(Decorators { rounds, tasks, listens }),
        }
    }

    /// Serves a call at `server` through these decorators. Further rounds go to `backend`, since each leases its own
    /// connection.
    pub(crate) fn serve<S, B>(&self, decorators: Decorators, (server, backend): (S, B), call: Call) -> Reply
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
        let Decorators { tasks, listens, .. } = decorators;
        if hides_tasks(&call) {
            return self.serve_listens(listens, (tasks, OwnNotifications::new(Arc::new(server))), call);
        }
        self.serve_listens(listens, (tasks, server), call)
    }

    fn serve_listens<S: Server + Clone + 'static>(
        &self,
        decorator: Option<ListenDecorator>,
        (tasks, server): (Option<Bridge>, S),
        call: Call,
    ) -> Reply {
        let listens = || Arc::clone(&self.listens);
        match decorator {
            None => self.serve_tasks(tasks, server, call),
            Some(ListenDecorator::SessionOverRequests) => {
                self.serve_tasks(tasks, SessionOverRequests { server, listens: listens() }, call)
            }
            Some(ListenDecorator::RequestsOverSession) => {
                self.serve_tasks(tasks, RequestsOverSession { server, listens: listens() }, call)
            }
        }
    }

    fn serve_tasks<S: Server + 'static>(&self, bridge: Option<Bridge>, server: S, call: Call) -> Reply {
        match bridge {
            None => server.call(call),
            Some(bridge) => self.tasks.serve(bridge, Arc::new(server), call),
        }
    }

    /// The decorator around a connection for calls of `client`; `None` if there is none.
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
        self.listens.ended(requester);
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
