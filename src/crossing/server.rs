//! What a backend has between its server and its clients: the decorators of a call, put on when the server is known. Knows
//! nothing of connections.

use std::{sync::Arc, time::Duration};

use super::{
    listens::{Ended, Listens, RequestsOverSession, SessionOverRequests},
    pairs::{self, Decorators, ListenDecorator, Pair},
    tasks::{AwaitedTasks, Bridge, OwnNotifications, ServerTasks, Spawn, TaskBridges},
};
use crate::{
    mcp::{Call, ClientInfo, Era, Reply, Server},
    model::{BackendId, Requester},
    support::Clock,
};

/// The decorators of one backend, and what they keep.
pub(crate) struct ServerCrossing {
    tasks: Arc<TaskBridges>,
    listens: Arc<Listens>,
}

impl ServerCrossing {
    /// The decorators of a backend that may be silent for `call_timeout` in a call.
    pub(crate) fn new(
        (backend, call_timeout): (BackendId, Duration),
        clock: Arc<dyn Clock>,
        spawn: Spawn,
        ended: Ended,
    ) -> Arc<Self> {
        let tasks = TaskBridges::new(backend, call_timeout, clock, spawn);
        Arc::new(Self { tasks, listens: Listens::new(ended) })
    }

    /// Notes how the server has tasks that is behind the backend now.
    pub(crate) fn met(&self, server: ServerTasks) {
        self.tasks.met(server);
    }

    /// What `call` needs at a server of this era.
    pub(crate) fn pair(&self, call: &Call, era: Era) -> Pair {
        pairs::at_server(call, era, self.tasks.server(era))
    }

    /// Serves a call at `server` through these decorators.
    pub(crate) fn serve<S: Server + Clone + 'static>(&self, decorators: Decorators, server: S, call: Call) -> Reply {
        let Decorators { tasks, listens } = decorators;
        if pairs::hides_tasks(&call) {
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
        pairs::awaits_tasks(client, server).then(|| self.tasks.awaited(server))
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
