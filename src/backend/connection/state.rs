//! One connection to one server: its parts, its owner, its end.

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    background::BackgroundSender,
    calls::{CallKind, Calls, Sharing},
    listen_state::ListenState,
    server_info::{ServerInfo, ServerSummary},
    server_requests::{RequestContext, ServerRequests},
};
use crate::{
    backend::{
        connection_key::ConnectionKey, listens::Listens, subscriptions::Subscriptions, task_group::TaskGroup,
        transport::Transport,
    },
    crossing::tasks::ServerTasks,
    mcp::{
        Capabilities, Context, Era, ErrorObject, Event, Facts, Level, Method, Notification, Outcome, Payload,
        RequestId, Revision,
        deferred_requests::DeferredRequests,
        error::{Retry, Unavailable},
    },
    model::{BackendId, Requester, TransportAbilities},
};

/// One connection to one server: a session at a legacy one.
pub(crate) struct ServerConnection {
    /// Its owner, and what it belongs to.
    pub(crate) about: About,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) calls: Arc<Calls>,
    pub(super) requests: Arc<ServerRequests>,
    /// Those of them that wait for a call.
    pub(super) deferred: Arc<DeferredRequests<RequestId>>,
    /// The shared `subscriptions/listen`; `None` if the server is told of each subscription.
    listening: Option<Arc<ListenState>>,
    pub(super) sender: BackgroundSender,
    /// What the handshake found.
    server: OnceLock<ServerInfo>,
    /// How the server has tasks, as its latest account says.
    tasks: Mutex<ServerTasks>,
    level: Mutex<Option<Level>>,
    /// True once it is logged that the server sends requests, which its version does not have.
    pub(super) sent_request: AtomicBool,
    pub(super) end: End,
}

/// The owner of a connection, and what it belongs to.
pub(crate) struct About {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Who shares it.
    pub(crate) key: ConnectionKey,
    /// How messages are exchanged with the server.
    pub(crate) protocol: &'static dyn Protocol,
    /// What its transport can do.
    pub(crate) abilities: TransportAbilities,
    /// What its client can be asked.
    pub(crate) capabilities: Capabilities,
    /// Whether it takes the place of one that was lost.
    pub(crate) is_another: bool,
    /// Who is told what comes outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// Log levels and subscriptions of its clients.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Where its tasks run.
    pub(crate) tasks: TaskGroup,
}

/// The end of a connection: it comes once, for one reason.
pub(super) struct End {
    token: CancellationToken,
    reason: OnceLock<String>,
}

/// The exchange of messages with a server, which differs by its era.
pub(crate) trait Protocol: Send + Sync {
    /// The era.
    fn era(&self) -> Era;

    /// The newest version, which is spoken until the server has said otherwise.
    fn newest(&self) -> Revision;

    /// The listen that all who listen to the server share; `None` if the server is told of each subscription.
    fn listening(&self) -> Option<ListenState>;

    /// Whether a message that names no call may be of several client sessions.
    fn sharing(&self, about: &About) -> Sharing;

    /// The kind of a call of this method.
    fn kind(&self, method: &Method) -> CallKind;

    /// The parameters of a call as the server reads them.
    ///
    /// # Errors
    ///
    /// If the server's version has no form for them; that is reported.
    fn params(&self, connection: &ServerConnection, params: Payload, facts: &Facts<'_>)
    -> Result<Payload, ErrorObject>;

    /// The log messages that a call of these parameters is to give, beside those that the session is told.
    fn level(&self, params: &Payload) -> Option<Level>;

    /// A payload that the server wrote.
    fn received(&self, connection: &ServerConnection, json: Bytes) -> Payload;

    /// The outcome of a call that the server answered with `result`.
    fn outcome(&self, connection: &ServerConnection, call: (u64, &Method), result: Payload) -> Outcome;

    /// The outcome of a call that the server answered with `error`, which carried this id.
    fn failure(&self, connection: &ServerConnection, id: Option<&RequestId>, error: ErrorObject) -> Outcome;

    /// Whether an error says that the call was not acted on, since the server speaks another version now.
    fn is_of_another_version(&self, error: &ErrorObject) -> bool;

    /// Takes in a notification other than progress, which came on the exchange of the call `on` if it came on one. Returns
    /// the call that it is for, and what to tell it.
    fn notified(
        &self,
        connection: &ServerConnection,
        notification: Notification,
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// Takes in a request of the server, as [`Protocol::notified`] a notification.
    fn asked(
        &self,
        connection: &ServerConnection,
        request: (RequestId, Method, Bytes),
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// Checks that a request is to be sent for this client.
    ///
    /// # Errors
    ///
    /// If the server's version does not have it, or it is about what is another client's.
    fn check(
        &self,
        connection: &ServerConnection,
        request: (&Method, &Payload),
        context: &Context,
    ) -> Result<(), ErrorObject>;

    /// The part of an event that is for this client session.
    fn own_part(&self, connection: &ServerConnection, method: &Method, event: Event, holder: &Requester) -> Event;
}

impl ServerConnection {
    /// A connection over a transport that has just been opened. Nothing is received yet.
    pub(super) fn new(about: About, transport: Arc<dyn Transport>) -> Arc<Self> {
        let end = End::within(about.tasks.end());
        let sender = BackgroundSender::new(&about.backend, &transport, &about.tasks, end.token());
        let calls = Arc::new(Calls::new(about.protocol.sharing(&about)));
        let listening = about.protocol.listening().map(Arc::new);
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
            deferred: Arc::clone(&requests.deferred),
            requests,
            listening,
            sender,
            server: OnceLock::new(),
            tasks: Mutex::new(ServerTasks::NONE),
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
        *self.tasks.lock() = info.tasks();
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
        *self.tasks.lock()
    }

    /// A summary of the server for people; `None` before the handshake.
    pub(crate) fn summary(&self) -> Option<ServerSummary> {
        self.server().map(ServerInfo::summary)
    }

    /// The era of the server.
    pub(crate) fn era(&self) -> Era {
        self.about.protocol.era()
    }

    /// The version that is spoken; before the handshake the newest of its era.
    pub(crate) fn revision(&self) -> Revision {
        self.server().map_or_else(|| self.about.protocol.newest(), |server| server.revision)
    }

    /// Checks that a request is to be sent for this client.
    pub(crate) fn check(&self, method: &Method, params: &Payload, context: &Context) -> Result<(), ErrorObject> {
        self.about.protocol.check(self, (method, params), context)
    }

    /// The part of an event that is for this client session.
    pub(crate) fn own_part(&self, method: &Method, event: Event, holder: &Requester) -> Event {
        self.about.protocol.own_part(self, method, event, holder)
    }

    /// Whether the server takes a log level for the whole connection.
    pub(crate) fn can_log(&self) -> bool {
        self.server().is_some_and(ServerInfo::takes_level)
    }

    /// The level that it was set to.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the level that it was set to.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// The shared `subscriptions/listen` (2026-07-28); `None` if the server is told of each subscription.
    pub(crate) const fn listening(&self) -> Option<&Arc<ListenState>> {
        self.listening.as_ref()
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

// === impl End ===

impl End {
    /// It has not come. It comes with `all` at the latest.
    pub(super) fn within(all: &CancellationToken) -> Self {
        Self { token: all.child_token(), reason: OnceLock::new() }
    }

    /// Cancelled when it comes.
    pub(super) const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// It comes now; the first reason stays.
    pub(super) fn comes(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.token.cancel();
    }

    /// Whether it has come.
    pub(super) fn has_come(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for it and tells the reason.
    pub(super) async fn over(&self) -> String {
        self.token.cancelled().await;
        self.reason()
    }

    /// Why it came.
    pub(super) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "the gateway is stopping".to_owned())
    }

    /// The error of a call to this backend that it left without an answer.
    pub(super) fn error(&self, backend: &BackendId) -> ErrorObject {
        let reason = self.reason();
        let message = format!("The connection to backend `{backend}` was lost: {reason}");
        let lost = Unavailable { backend, reason: &reason, retry: Retry::Possible, supported: &[] };
        ErrorObject::unavailable(&message, &lost)
    }
}
