//! One connection to one server: its parts, its context, its end.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    background::BackgroundSender,
    calls::{AsksOnStream, CallKind, Calls, ClientUse, Sharing},
    known_interests::KnownInterests,
    oddities::SeenOddities,
    server_info::{ServerInfo, ServerSummary},
    server_requests::{RequestContext, ServerRequests},
    silence::Silence,
};
use crate::{
    backend::{
        interests::{Interest, Interests, Topic, listens::Listens},
        sharing::connection_key::ConnectionKey,
        task_group::TaskGroup,
        transport::{Incoming, Transport, lost_call},
    },
    crossing::tasks::ServerTasks,
    mcp::{
        ClientInfo, Context, Era, ErrorObject, Event, Facts, Level, Method, Notification, Outcome, Payload, RequestId,
        Revision, ServerOrigin,
        deferred_requests::DeferredRequests,
        large_messages::{MessageOwner, OffWorker},
    },
    model::{BackendId, TransportAbilities, status::OutputLine},
};

/// One connection to one server; with a legacy server, a session.
pub(crate) struct ServerConnection {
    pub(crate) context: ConnectionContext,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) calls: Arc<Calls>,
    pub(super) requests: Arc<ServerRequests>,
    /// Server requests that wait for a call.
    pub(super) deferred: Arc<DeferredRequests<RequestId>>,
    /// The server's answers to subscriptions and log levels.
    interests: KnownInterests,
    pub(super) sender: BackgroundSender,
    /// Server information; unset before the handshake or `server/discover`.
    server: OnceLock<ServerInfo>,
    /// How the server handles tasks, from its latest information.
    tasks: Mutex<ServerTasks>,
    /// True once the log has a warning about requests that the server's version forbids.
    pub(super) sent_request: AtomicBool,
    /// True once the server has sent a notification or a request.
    pub(super) has_spoken: AtomicBool,
    /// Resolves with the incoming messages when another connection takes over. `None` once it was taken.
    pub(super) incoming: Mutex<Option<oneshot::Receiver<Incoming>>>,
    /// True once another connection takes over the transport.
    pub(super) is_handed_over: AtomicBool,
    /// Calls that timed out since the last message.
    pub(super) silence: Silence,
    pub(super) end: End,
}

pub(crate) struct ConnectionContext {
    pub(crate) backend: BackendId,
    /// The server as the origin of payloads.
    pub(crate) origin: ServerOrigin,
    pub(crate) key: ConnectionKey,
    pub(crate) protocol: &'static dyn Protocol,
    pub(crate) abilities: TransportAbilities,
    /// The client that the server was introduced to: for a server without sessions, the gateway.
    pub(crate) client: Arc<ClientInfo>,
    /// True if only one client session, or only the gateway, uses the connection. Then any call may carry a server
    /// request (design rule 4).
    pub(crate) is_of_one_client: bool,
    /// True if the connection replaces one that was lost.
    pub(crate) is_another: bool,
    /// The clients' listens, for notifications outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// Log levels and topics that clients want.
    pub(crate) interests: Arc<Interests>,
    /// Shared by all connections to the server.
    pub(crate) asks_on_stream: AsksOnStream,
    /// Shared by all connections to the server.
    pub(crate) oddities: SeenOddities,
    /// Maximum silence of the server in a call.
    pub(crate) call_timeout: Duration,
    /// Runs the connection's tasks.
    pub(crate) tasks: TaskGroup,
}

/// The end of a connection. The first reason stays.
pub(super) struct End {
    token: CancellationToken,
    reason: OnceLock<String>,
}

/// The protocol of one era.
pub(crate) trait Protocol: Send + Sync {
    fn era(&self) -> Era;

    /// The version to assume before one is negotiated.
    fn newest(&self) -> Revision;

    /// Keeps the server's log level and subscriptions up to date with what clients want.
    fn follow_interests(&self, connection: Arc<ServerConnection>) -> BoxFuture<'static, ()>;

    /// Says if messages that name no call can be attributed.
    fn sharing(&self, context: &ConnectionContext) -> Sharing;

    fn kind(&self, method: &Method) -> CallKind;

    /// Translates the parameters of a call into the server's version.
    ///
    /// # Errors
    ///
    /// An error, counted, if the server's version has no form for them.
    fn params(&self, connection: &ServerConnection, params: Payload, facts: &Facts<'_>)
    -> Result<Payload, ErrorObject>;

    /// The log level to send in a call whose client wants `level`; `None` if calls carry none.
    fn level(&self, level: Option<Level>) -> Option<Level>;

    /// Labels JSON from the server with its version and origin.
    fn received(&self, connection: &ServerConnection, json: Bytes) -> Payload;

    /// The outcome of a call answered with `result`.
    fn outcome(&self, connection: &ServerConnection, call: u64, method: &Method, result: Payload) -> Outcome;

    /// The outcome of a call answered with `error`, in a message with this id.
    fn failure(&self, connection: &ServerConnection, id: Option<&RequestId>, error: ErrorObject) -> Outcome;

    /// True if the server rejected a call, without acting on it, because it uses another version now.
    fn is_of_another_version(&self, error: &ErrorObject) -> bool;

    /// Handles a notification other than progress; `on` is the call on whose exchange it arrived. Returns the call that
    /// it belongs to, and the event for it.
    fn notified(
        &self,
        connection: &ServerConnection,
        notification: Notification,
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// Handles a request of the server; `on` and the result are those of [`Protocol::notified`].
    fn asked(
        &self,
        connection: &ServerConnection,
        id: RequestId,
        method: Method,
        params: Bytes,
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// True if the server may accept a subscription to `topic`.
    fn offers(&self, connection: &ServerConnection, topic: &Topic) -> bool;

    /// Checks that the server's version has the method of a client's request.
    ///
    /// # Errors
    ///
    /// The error for the client if it does not.
    fn check(&self, connection: &ServerConnection, method: &Method, params: &Payload) -> Result<(), ErrorObject>;
}

// === impl ConnectionContext ===

impl ConnectionContext {
    /// True if the server may send requests: the client that it was introduced to has capabilities.
    pub(super) fn can_be_asked(&self) -> bool {
        !self.client.capabilities.key().is_empty()
    }
}

// === impl ServerConnection ===

impl ServerConnection {
    /// Creates a connection over a transport; [`begin`](super::receive::begin) receives for it. Ids of its requests
    /// start at `first_id`.
    pub(super) fn new(
        context: ConnectionContext,
        transport: Arc<dyn Transport>,
        first_id: u64,
        incoming: oneshot::Receiver<Incoming>,
    ) -> Arc<Self> {
        let end = End::within(context.tasks.end());
        let sender = BackgroundSender::new(&context.backend, &transport, &context.tasks, end.token());
        let calls = Arc::new(Calls::new(context.protocol.sharing(&context), first_id, transport.unanswered()));
        let requests = ServerRequests::new(RequestContext {
            backend: context.backend.clone(),
            account: context.origin.account(),
            calls: Arc::clone(&calls),
            key: context.key.clone(),
            listens: Arc::clone(&context.listens),
            sender: sender.clone(),
            tasks: context.tasks.clone(),
            end: end.token().clone(),
        });
        Arc::new(Self {
            context,
            transport,
            calls,
            deferred: Arc::clone(&requests.deferred),
            requests,
            interests: KnownInterests::default(),
            sender,
            server: OnceLock::new(),
            tasks: Mutex::new(ServerTasks::NONE),
            sent_request: AtomicBool::new(false),
            has_spoken: AtomicBool::new(false),
            incoming: Mutex::new(Some(incoming)),
            is_handed_over: AtomicBool::new(false),
            silence: Silence::default(),
            end,
        })
    }

    /// Server information; `None` before the handshake or `server/discover`.
    pub(crate) fn server(&self) -> Option<&ServerInfo> {
        self.server.get()
    }

    /// True if the connection can become the session of `client`: it was opened for an equal client, and the server has
    /// sent nothing that the client would miss.
    pub(crate) fn suits(&self, client: &ClientInfo) -> bool {
        self.context.client.is_introduced_as(client) && !self.has_spoken.load(Ordering::Acquire)
    }

    /// Stores server information. Returns true the first time.
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

    /// How the server handles tasks, from its latest information.
    pub(crate) fn tasks(&self) -> ServerTasks {
        *self.tasks.lock()
    }

    /// Server information for status displays; `None` before the handshake.
    pub(crate) fn summary(&self) -> Option<ServerSummary> {
        self.server().map(ServerInfo::summary)
    }

    pub(crate) fn era(&self) -> Era {
        self.context.protocol.era()
    }

    /// The negotiated version; before the handshake, the newest of its era.
    pub(crate) fn revision(&self) -> Revision {
        self.server().map_or_else(|| self.context.protocol.newest(), |server| server.revision)
    }

    /// Checks parameters by the rules of the era, as [`Protocol::check`] does.
    pub(crate) fn check(&self, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
        self.context.protocol.check(self, method, params)
    }

    /// True if the server may accept a subscription to `topic`.
    pub(crate) fn offers(&self, topic: &Topic) -> bool {
        self.context.protocol.offers(self, topic)
    }

    /// True if the server accepts a log level for the whole session.
    pub(crate) fn can_log(&self) -> bool {
        self.server().is_some_and(ServerInfo::takes_level)
    }

    /// The server's answers to subscriptions and log levels.
    pub(crate) const fn interests(&self) -> &KnownInterests {
        &self.interests
    }

    /// Requests the log level that a call wants, for as long as the result is kept. Waits a moment for the server to
    /// set it. `None` if the call wants none, or the server has none.
    pub(crate) async fn with_level(&self, of: &Context) -> Option<Interest> {
        of.level.get().filter(|_| self.can_log())?;
        let mut interest = self.context.interests.of(&self.context.key, of.requester.clone(), of.caller.user.clone());
        let change = interest.hold_level(&of.level);
        self.end.token().run_until_cancelled(self.interests.level_known(change)).await;
        Some(interest)
    }

    /// Starts the task that keeps log level and subscriptions up to date. Waits a moment for those that clients want
    /// already.
    pub(crate) async fn follow_interests(self: &Arc<Self>) {
        let (following, end) = (self.context.protocol.follow_interests(Arc::clone(self)), self.end.token().clone());
        let following = Box::pin(async move {
            end.run_until_cancelled(following).await;
        });
        let owner = MessageOwner::Server(self.context.backend.clone());
        self.context.tasks.spawn(OffWorker::future(owner, following));
        self.end.token().run_until_cancelled(self.interests.begun()).await;
    }

    /// Open requests of the server.
    pub(crate) fn requests(&self) -> &ServerRequests {
        &self.requests
    }

    /// The last lines that the server printed outside of its messages.
    pub(crate) fn output(&self) -> Vec<OutputLine> {
        self.transport.output()
    }

    /// True if the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_set()
    }

    /// Waits for the end of the connection and returns its reason.
    pub(crate) async fn over(&self) -> String {
        self.end.over().await
    }

    /// Why the connection ended.
    pub(crate) fn reason(&self) -> String {
        self.end.reason()
    }

    /// Ends the connection. Open calls fail with an error which says that they may have run (`translation` 4c).
    pub(crate) fn end(&self, reason: &str) {
        self.end.set(reason);
        self.calls.fail_all(&self.lost_error());
        self.requests.clear();
    }

    /// How clients used the connection, once it has ended.
    pub(crate) fn client_use(&self) -> ClientUse {
        self.calls.client_use()
    }

    /// The error of a call that the end of this connection left unanswered.
    pub(crate) fn lost_error(&self) -> ErrorObject {
        self.end.error(&self.context.backend)
    }
}

// === impl End ===

impl End {
    /// A token that also ends with `all`.
    pub(super) fn within(all: &CancellationToken) -> Self {
        Self { token: all.child_token(), reason: OnceLock::new() }
    }

    /// The token that is cancelled when the connection ends.
    pub(super) const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends the connection; only the first reason is kept.
    pub(super) fn set(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.token.cancel();
    }

    pub(super) fn is_set(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the end and returns its reason.
    pub(super) async fn over(&self) -> String {
        self.token.cancelled().await;
        self.reason()
    }

    /// Why it ended; a default if the gateway is stopping.
    pub(super) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "the gateway is stopping".to_owned())
    }

    /// The error of a call to `backend` that was cut off by the end.
    pub(super) fn error(&self, backend: &BackendId) -> ErrorObject {
        lost_call(backend, &self.reason())
    }
}
