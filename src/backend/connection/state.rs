//! One connection to one server: its parts, its owner, its end.

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
    /// Its owner and its dependencies.
    pub(crate) context: ConnectionContext,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) calls: Arc<Calls>,
    pub(super) requests: Arc<ServerRequests>,
    /// Those that wait for a call.
    pub(super) deferred: Arc<DeferredRequests<RequestId>>,
    /// The server's answers about the interests of its clients.
    interests: KnownInterests,
    pub(super) sender: BackgroundSender,
    /// Server information from the handshake.
    server: OnceLock<ServerInfo>,
    /// The server's form of tasks, from its latest server information.
    tasks: Mutex<ServerTasks>,
    /// True once it was logged that the server sends requests, which its version forbids.
    pub(super) sent_request: AtomicBool,
    /// True once the server has sent a notification or a request.
    pub(super) has_spoken: AtomicBool,
    /// What is received, once another connection is to continue with it.
    pub(super) incoming: Mutex<Option<oneshot::Receiver<Incoming>>>,
    /// True if another connection continues with the transport.
    pub(super) is_handed_over: AtomicBool,
    /// Since the last message of the server.
    pub(super) silence: Silence,
    pub(super) end: End,
}

/// Owner and dependencies of a connection.
pub(crate) struct ConnectionContext {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Its server, as the origin of payloads.
    pub(crate) origin: ServerOrigin,
    /// Its key.
    pub(crate) key: ConnectionKey,
    /// The protocol of the server's era.
    pub(crate) protocol: &'static dyn Protocol,
    /// Abilities of its transport.
    pub(crate) abilities: TransportAbilities,
    /// The client that the server was told of; of a server without sessions, the gateway.
    pub(crate) client: Arc<ClientInfo>,
    /// True if only one client session, or only the gateway, uses it: then any of its calls may carry a server request (design
    /// rule 4).
    pub(crate) is_of_one_client: bool,
    /// True if it replaces an earlier connection.
    pub(crate) is_another: bool,
    /// Listens, for notifications outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// Log levels and topics of its clients.
    pub(crate) interests: Arc<Interests>,
    /// Noted for all connections to the server.
    pub(crate) asks_on_stream: AsksOnStream,
    /// Seen of all connections to the server.
    pub(crate) oddities: SeenOddities,
    /// Maximum silence of the server in a call.
    pub(crate) call_timeout: Duration,
    /// Its task group.
    pub(crate) tasks: TaskGroup,
}

/// The end of a connection: happens once, with one reason.
pub(super) struct End {
    token: CancellationToken,
    reason: OnceLock<String>,
}

/// The protocol of one era, used by a connection.
pub(crate) trait Protocol: Send + Sync {
    /// The era.
    fn era(&self) -> Era;

    /// The newest version, which is used until one is negotiated.
    fn newest(&self) -> Revision;

    /// Brings the server to what its clients want, as long as the connection is open.
    fn follow_interests(&self, connection: Arc<ServerConnection>) -> BoxFuture<'static, ()>;

    /// The ambiguity of messages that name no call.
    fn sharing(&self, context: &ConnectionContext) -> Sharing;

    /// The kind of a call of this method.
    fn kind(&self, method: &Method) -> CallKind;

    /// The parameters of a call in the server's version.
    ///
    /// # Errors
    ///
    /// An error, counted, if the server's version has no form for them.
    fn params(&self, connection: &ServerConnection, params: Payload, facts: &Facts<'_>)
    -> Result<Payload, ErrorObject>;

    /// The log level that a call of a client with this one carries.
    fn level(&self, level: Option<Level>) -> Option<Level>;

    /// A payload that the server wrote.
    fn received(&self, connection: &ServerConnection, json: Bytes) -> Payload;

    /// The outcome of a call that the server answered with `result`.
    fn outcome(&self, connection: &ServerConnection, call: (u64, &Method), result: Payload) -> Outcome;

    /// The outcome of a call that the server answered with `error`, under this id.
    fn failure(&self, connection: &ServerConnection, id: Option<&RequestId>, error: ErrorObject) -> Outcome;

    /// True if an error says that the call was not acted on, since the server uses another version now.
    fn is_of_another_version(&self, error: &ErrorObject) -> bool;

    /// Handles a notification other than progress; `on` is the call on whose exchange it came. Returns the call that it
    /// belongs to, and its event.
    fn notified(
        &self,
        connection: &ServerConnection,
        notification: Notification,
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// Handles a request of the server, with the same parameters as [`Protocol::notified`].
    fn asked(
        &self,
        connection: &ServerConnection,
        request: (RequestId, Method, Bytes),
        on: Option<u64>,
    ) -> Option<(u64, Event)>;

    /// True if the server can be asked to notify about `topic`.
    fn offers(&self, connection: &ServerConnection, topic: &Topic) -> bool;

    /// Checks that a client may send a request.
    ///
    /// # Errors
    ///
    /// An error if the server's version does not have the method.
    fn check(&self, connection: &ServerConnection, request: (&Method, &Payload)) -> Result<(), ErrorObject>;
}

// === impl ConnectionContext ===

impl ConnectionContext {
    /// True if the client that the server was told of has capabilities, so that the server may send it requests.
    pub(super) fn can_be_asked(&self) -> bool {
        !self.client.capabilities.key().is_empty()
    }
}

// === impl ServerConnection ===

impl ServerConnection {
    /// Creates a connection over a transport, without receiving. Its requests have ids from `first_id`.
    pub(super) fn new(
        context: ConnectionContext,
        (transport, first_id): (Arc<dyn Transport>, u64),
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

    /// Server information; `None` before the handshake.
    pub(crate) fn server(&self) -> Option<&ServerInfo> {
        self.server.get()
    }

    /// True if it can become the session of this client: the server was told of the same client, and has sent nothing
    /// that the client would miss.
    pub(crate) fn suits(&self, client: &ClientInfo) -> bool {
        self.context.client.is_introduced_as(client) && !self.has_spoken.load(Ordering::Acquire)
    }

    /// Stores server information. Returns true if it is the first.
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

    /// The server's form of tasks.
    pub(crate) fn tasks(&self) -> ServerTasks {
        *self.tasks.lock()
    }

    /// A summary of the server for display; `None` before the handshake.
    pub(crate) fn summary(&self) -> Option<ServerSummary> {
        self.server().map(ServerInfo::summary)
    }

    /// The era of the server.
    pub(crate) fn era(&self) -> Era {
        self.context.protocol.era()
    }

    /// The negotiated version; before the handshake, the newest of its era.
    pub(crate) fn revision(&self) -> Revision {
        self.server().map_or_else(|| self.context.protocol.newest(), |server| server.revision)
    }

    /// Checks that a client may send a request.
    pub(crate) fn check(&self, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
        self.context.protocol.check(self, (method, params))
    }

    /// True if the server can be asked to notify about `topic`.
    pub(crate) fn offers(&self, topic: &Topic) -> bool {
        self.context.protocol.offers(self, topic)
    }

    /// True if the server accepts a log level for the connection.
    pub(crate) fn can_log(&self) -> bool {
        self.server().is_some_and(ServerInfo::takes_level)
    }

    /// The server's answers about the interests of its clients.
    pub(crate) const fn interests(&self) -> &KnownInterests {
        &self.interests
    }

    /// Brings the server to the log level of a call, as long as the result is kept; waits a moment until it knows it.
    pub(crate) async fn with_level(&self, of: &Context) -> Option<Interest> {
        of.level.get().filter(|_| self.can_log())?;
        let mut interest = self.context.interests.of(&self.context.key, of.requester.clone(), of.caller.user.clone());
        let change = interest.hold_level(&of.level);
        self.end.token().run_until_cancelled(self.interests.level_known(change)).await;
        Some(interest)
    }

    /// Begins to bring the server to what its clients want; waits a moment for what they want already.
    pub(crate) async fn follow_interests(self: &Arc<Self>) {
        let (following, end) = (self.context.protocol.follow_interests(Arc::clone(self)), self.end.token().clone());
        let following = Box::pin(async move {
            end.run_until_cancelled(following).await;
        });
        let owner = MessageOwner::Server(self.context.backend.clone());
        self.context.tasks.spawn(OffWorker::future(owner, following));
        self.end.token().run_until_cancelled(self.interests.begun()).await;
    }

    /// Requests of the server to its client.
    pub(crate) fn requests(&self) -> &ServerRequests {
        &self.requests
    }

    /// The last lines that the server printed beside its messages.
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

    /// The reason of its end.
    pub(crate) fn reason(&self) -> String {
        self.end.reason()
    }

    /// Ends the connection. Open calls fail: they may have run (`translation` 4c).
    pub(crate) fn end(&self, reason: &str) {
        self.end.set(reason);
        self.calls.fail_all(&self.lost_error());
        self.requests.clear();
    }

    /// The use that clients made of it, once it has ended.
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
    /// An end in the future, with `all` at the latest.
    pub(super) fn within(all: &CancellationToken) -> Self {
        Self { token: all.child_token(), reason: OnceLock::new() }
    }

    /// Cancelled at the end.
    pub(super) const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends now; the first reason stays.
    pub(super) fn set(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.token.cancel();
    }

    /// True after the end.
    pub(super) fn is_set(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the end and returns its reason.
    pub(super) async fn over(&self) -> String {
        self.token.cancelled().await;
        self.reason()
    }

    /// The reason.
    pub(super) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "the gateway is stopping".to_owned())
    }

    /// The error of a call to this backend that the end left unanswered.
    pub(super) fn error(&self, backend: &BackendId) -> ErrorObject {
        lost_call(backend, &self.reason())
    }
}
