//! One connection to one server: its parts, its owner, its end.

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use parking_lot::Mutex;

use super::{
    background::BackgroundSender,
    calls::{Calls, Sharing},
    end::End,
    listening::Listening,
    server_info::{ServerInfo, ServerSummary},
    server_requests::{RequestContext, ServerRequests},
};
use crate::{
    backend::{key::Key, listens::Listens, task_group::TaskGroup, transport::Transport, wants::Wants},
    crossing::tasks::ServerTasks,
    mcp::{Capabilities, Era, ErrorObject, Level, Revision},
    model::{BackendId, Delivery, TransportAbilities},
};

/// One connection to one server: a session at a legacy one.
pub(crate) struct ServerConnection {
    /// Its owner, and what it belongs to.
    pub(crate) about: About,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) calls: Arc<Calls>,
    pub(super) requests: Arc<ServerRequests>,
    pub(super) listening: Listening,
    pub(super) sender: BackgroundSender,
    /// What the handshake found.
    server: OnceLock<ServerInfo>,
    level: Mutex<Option<Level>>,
    /// Whether the log says that the server sends requests, which its version does not have.
    pub(super) sent_request: AtomicBool,
    pub(super) end: End,
}

/// The owner of a connection, and what it belongs to.
pub(crate) struct About {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Who shares it.
    pub(crate) key: Key,
    /// The manner in which the server is spoken to.
    pub(crate) era: Era,
    /// What its transport can do.
    pub(crate) abilities: TransportAbilities,
    /// What its client can be asked.
    pub(crate) capabilities: Capabilities,
    /// Whether it takes the place of one that was lost.
    pub(crate) is_another: bool,
    /// Who is told what comes outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// Log levels and subscriptions of its clients.
    pub(crate) wants: Arc<Wants>,
    /// Where its tasks run.
    pub(crate) tasks: TaskGroup,
}

impl ServerConnection {
    /// A connection over a transport that has just been opened. Nothing is received yet.
    pub(super) fn new(about: About, transport: Arc<dyn Transport>) -> Arc<Self> {
        let end = End::within(about.tasks.end());
        let sender = BackgroundSender::new(&about.backend, &transport, &about.tasks, end.token());
        let calls = Arc::new(Calls::new(about.sharing()));
        let requests = ServerRequests::new(RequestContext {
            backend: about.backend.clone(),
            calls: Arc::clone(&calls),
            key: about.key.clone(),
            listens: Arc::clone(&about.listens),
            sender: sender.clone(),
            tasks: about.tasks.clone(),
            end: end.token().clone(),
        });
        Arc::new(Self {
            about,
            transport,
            calls,
            requests,
            listening: Listening::default(),
            sender,
            server: OnceLock::new(),
            level: Mutex::default(),
            sent_request: AtomicBool::new(false),
            end,
        })
    }

    /// The server's account of itself; `None` before the handshake.
    pub(crate) fn server(&self) -> Option<&ServerInfo> {
        self.server.get()
    }

    /// Takes the server's account of itself. Whether it is the first.
    pub(super) fn set_server(&self, info: ServerInfo) -> bool {
        match self.server.set(info) {
            Ok(()) => true,
            Err(later) => {
                if let Some(server) = self.server.get() {
                    server.renew(later);
                }
                false
            }
        }
    }

    /// How the server has tasks.
    pub(crate) fn tasks(&self) -> ServerTasks {
        self.server().map_or(ServerTasks::NONE, ServerInfo::tasks)
    }

    /// A summary of the server for people; `None` before the handshake.
    pub(crate) fn summary(&self) -> Option<ServerSummary> {
        self.server().map(ServerInfo::summary)
    }

    /// The era of the server.
    pub(crate) const fn era(&self) -> Era {
        self.about.era
    }

    /// The version that is spoken; before the handshake the newest of its era.
    pub(crate) fn revision(&self) -> Revision {
        let newest = match self.about.era {
            Era::Legacy => Revision::NEWEST_LEGACY,
            Era::Modern => Revision::V2026_07_28,
        };
        self.server().map_or(newest, |server| server.revision)
    }

    /// Whether the server takes a log level for the whole connection.
    pub(crate) fn can_log(&self) -> bool {
        self.about.era == Era::Legacy && self.server().is_some_and(|server| server.declares("logging"))
    }

    /// The level that it was set to.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the level that it was set to.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// The shared subscription stream to the server (2026-07-28).
    pub(crate) const fn listening(&self) -> &Listening {
        &self.listening
    }

    /// Requests of the server to its client.
    pub(crate) fn requests(&self) -> &ServerRequests {
        &self.requests
    }

    /// The last lines that the server wrote beside the protocol.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.transport.stderr_tail()
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.end.has_come()
    }

    /// Waits for the end of the connection and tells its reason.
    pub(crate) async fn over(&self) -> String {
        self.end.over().await
    }

    /// The reason of its end.
    pub(crate) fn reason(&self) -> String {
        self.end.reason()
    }

    /// Ends the connection. Open calls fail, and may be tried again by the client (`translation` 4c).
    pub(crate) fn end(&self, reason: &str) {
        self.end.comes(reason);
        self.calls.fail_all(&self.lost_error());
        self.requests.clear();
    }

    /// The error of a call that the end of this connection left without an answer.
    pub(crate) fn lost_error(&self) -> ErrorObject {
        self.end.error(&self.about.backend)
    }
}

// === impl About ===

impl About {
    fn sharing(&self) -> Sharing {
        let own_exchanges = self.abilities.delivery == Delivery::Exchange;
        match self.era {
            _ if self.key.is_of_one_client() => Sharing::Unambiguous,
            // nothing comes outside of exchanges (2026-07-28, transports)
            Era::Modern if own_exchanges => Sharing::Unambiguous,
            Era::Legacy | Era::Modern => Sharing::Ambiguous,
        }
    }
}
