//! Client side × server side → the decorators of that pair, as one table, and a backend that puts them on. Knows nothing of
//! how a decorator works, and of connections.
//!
//! | client \ server | asks in mid-call (2024-11-05 to 2025-11-25), has tasks of 2025-11-25 or none | ends the call with its requests (2026-07-28), has the tasks extension or none |
//! |---|---|---|
//! | with a session (2024-11-05 to 2025-11-25) | none: the client is asked on the spot; `tasks`, if it has none and the server does | `repeat`, `listens::SessionOverRequests`, `tasks::CoreOverExtension` |
//! | without (2026-07-28) | `listens::RequestsOverSession`, `tasks::ExtensionOverCore`; at the endpoint `suspend` for calls, `deferred` for listens | at the endpoint `suspend`, for the sealed state alone |
//! | the gateway itself | none | none |
//!
//! The table is read for each attempt at a call, since the server is known then. At an endpoint of the gateway it is not: the
//! decorators there are put on for every client without a session, and let a reply pass as it is until the server asks.

use std::{sync::Arc, time::Duration};

use super::{
    listens::{ClientSubscriptions, Ended, RequestsOverSession, SessionOverRequests},
    repeat,
    tasks::{self, AwaitedTasks, Bridge, OwnNotifications, ServerTasks, Spawn, TaskBridges},
};
use crate::{
    mcp::{Call, ClientInfo, Era, Method, Reply, Server},
    model::{BackendId, Requester},
    support::Clock,
};

/// What a call needs between its client and its server.
pub(crate) enum Pair {
    /// Nothing.
    Alike,
    /// That is not known before the server has been met.
    NotMet,
    /// The call goes on with what another server has ended, and cannot be served.
    Gone,
    /// Decorators.
    Differ(Decorators),
}

/// The decorators of a pair, the outer ones first.
#[derive(Clone, Copy)]
pub(crate) struct Decorators {
    rounds: Rounds,
    tasks: Option<Bridge>,
    listens: Option<ListenDecorator>,
}

/// Calls that the server may need for one of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounds {
    /// One.
    One,
    /// One more for each that it ends with requests: [`repeat`].
    Many,
}

/// The decorator of levels and subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenDecorator {
    /// [`super::listens::SessionOverRequests`].
    SessionOverRequests,
    /// [`super::listens::RequestsOverSession`].
    RequestsOverSession,
}

/// The decorators of one backend, and what they keep.
pub(crate) struct ServerCrossing {
    tasks: Arc<TaskBridges>,
    listens: Arc<ClientSubscriptions>,
}

// === impl ServerCrossing ===

impl ServerCrossing {
    /// The decorators of a backend that may be silent for `call_timeout` in a call.
    pub(crate) fn new(
        (backend, call_timeout): (BackendId, Duration),
        clock: Arc<dyn Clock>,
        spawn: Spawn,
        ended: Ended,
    ) -> Arc<Self> {
        let tasks = TaskBridges::new(backend, call_timeout, clock, spawn);
        Arc::new(Self { tasks, listens: ClientSubscriptions::new(ended) })
    }

    /// Notes how the server has tasks that is behind the backend now.
    pub(crate) fn met(&self, server: ServerTasks) {
        self.tasks.met(server);
    }

    /// What `call` needs at a server of this era.
    pub(crate) fn pair(&self, call: &Call, era: Era) -> Pair {
        let is_further_round = call.params.origin().is_some();
        let (requester, client) = (&call.context.requester, call.context.client.revision.era());
        let (rounds, listens) = match (requester, era) {
            // what ended the round before had no sessions
            (_, Era::Legacy) if is_further_round => return Pair::Gone,
            (Requester::Session(_), Era::Modern) => {
                let is_first = !is_further_round && call.method.may_require_input();
                let rounds = if is_first { Rounds::Many } else { Rounds::One };
                (rounds, Some(ListenDecorator::SessionOverRequests))
            }
            (Requester::Request(_) | Requester::TasksOf(_), Era::Legacy) => {
                (Rounds::One, Some(ListenDecorator::RequestsOverSession))
            }
            _ => (Rounds::One, None),
        };
        // of equals, these alone may need something
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

    /// Serves a call at `server` through these decorators; further rounds of it are calls to `backend`, since each finds its
    /// own connection.
    pub(crate) fn serve<S, B>(&self, decorators: Decorators, (server, backend): (S, B), call: Call) -> Reply
    where
        S: Server + Clone + 'static,
        B: Server + Unpin + 'static,
    {
        match decorators.rounds {
            Rounds::One => self.serve_round(decorators, server, call),
            Rounds::Many => repeat::repeated(self.serve_round(decorators, server, call.clone()), backend, call),
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

    /// What is put around a connection for calls of `client`; `None` if the two need nothing.
    pub(crate) fn around_connection(
        &self,
        client: &ClientInfo,
        server: ServerTasks,
    ) -> Option<impl FnOnce(Arc<dyn Server>) -> AwaitedTasks + use<>> {
        awaits_tasks(client, server).then(|| self.tasks.awaited(server))
    }

    /// Whether a task is known to be another's than this client's.
    pub(crate) fn is_of_another(&self, id: &str, owner: &Requester) -> bool {
        self.tasks.is_of_another(id, owner)
    }

    /// Forgets a client that is over.
    pub(crate) fn ended(&self, requester: &Requester) {
        self.tasks.ended(requester);
        self.listens.ended(requester);
    }
}

/// Whether a connection is put behind [`AwaitedTasks`]: the server may run a tool as a task, and its client has none.
pub(super) fn awaits_tasks(client: &ClientInfo, server: ServerTasks) -> bool {
    matches!(server, ServerTasks { era: Era::Legacy, has_tasks: true, .. }) && !client.takes_tasks()
}

/// Whether a listen is put behind [`OwnNotifications`]: its client has no tasks, and its calls may run as such.
fn hides_tasks(call: &Call) -> bool {
    call.method == Method::Listen && !call.context.client.takes_tasks()
}
