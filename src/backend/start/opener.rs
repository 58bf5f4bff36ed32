//! Opens connections: transport, version offers, timeouts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    connection_start::{ConnectionStart, Succession},
    era::AssumedEra,
    server_transport::{NewTransport, ServerTransport, TransportSource},
    start_turns::StartTurn,
    transport_choice::TransportChoice,
    upgrade::TransportOffer,
};
use crate::{
    backend::{
        connection::{
            ServerConnection,
            discover::{DiscoverOutcome, apply_server_info, discover},
            handshake::{self, HandshakeError, Offer},
            receive,
            request_protocol::RequestProtocol,
            session_protocol::SessionProtocol,
            state::{ConnectionContext, Protocol},
        },
        context::BackendContext,
        error::StartError,
        interests::{Interests, listens::Listens},
        sharing::connection_key::ConnectionKey,
    },
    mcp::{ClientInfo, Context, Era, Feature, Revision, ServerOrigin, SoleClient},
    model::{BackendSpec, UserId, status::OutputLine},
};

/// A start that takes longer counts as slow: then a process is made ready for the next client, if possible.
const SLOW_START: Duration = Duration::from_secs(2);

/// Opens the connections of one backend.
pub(crate) struct Opener {
    pub(crate) spec: Arc<BackendSpec>,
    /// The server as the origin of what it writes on any connection.
    pub(crate) origin: ServerOrigin,
    pub(crate) context: BackendContext,
    listens: Arc<Listens>,
    interests: Arc<Interests>,
    pub(crate) transport: ServerTransport,
    /// True once a process took longer than [`SLOW_START`] from start to handshake.
    is_slow: AtomicBool,
}

/// A start that failed.
pub(crate) struct Failure {
    pub(crate) error: StartError,
    /// The last lines that the server printed outside of its messages.
    pub(crate) output: Vec<OutputLine>,
}

/// A handshake that failed.
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    /// The connection, if the server answered on it: the era can still be probed there.
    pub(crate) answered: Option<UnsettledConnection>,
}

/// A connection that may not be needed. Unless it is kept, dropping it ends it.
pub(crate) struct UnsettledConnection {
    connection: Arc<ServerConnection>,
    is_kept: bool,
    /// The turn of its process; `None` if it started none.
    _turn: Option<StartTurn>,
}

/// Parameters of a client's connection.
#[derive(Clone)]
pub(crate) struct ClientOpening {
    /// The era to assume.
    pub(crate) assumed: AssumedEra,
    /// The client that the connection introduces to the server.
    pub(crate) client: Arc<ClientInfo>,
    /// The user whose call needs it.
    pub(crate) user: UserId,
}

// === impl Opener ===

impl Opener {
    pub(crate) fn new(
        spec: &Arc<BackendSpec>,
        context: &BackendContext,
        listens: &Arc<Listens>,
        interests: &Arc<Interests>,
    ) -> Self {
        Self {
            spec: Arc::clone(spec),
            origin: ServerOrigin::new(spec.id.clone(), context.budget.server(spec.id.as_str())),
            context: context.clone(),
            listens: Arc::clone(listens),
            interests: Arc::clone(interests),
            transport: ServerTransport::new(spec, context),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Opens a connection to a server of the era `era`.
    pub(crate) async fn open(
        &self,
        era: Era,
        start: ConnectionStart<'_>,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match era {
            Era::Modern => self.open_modern(start).await,
            Era::Legacy => self.open_session(start, client).await,
        }
    }

    /// Opens a session for `client`, like [`Opener::greet`].
    async fn open_session(
        &self,
        start: ConnectionStart<'_>,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        self.greet(start, client).await.map_err(|refusal| refusal.failure)
    }

    /// Opens a session for `client`. If the server requires it, offers lower versions on fresh connections
    /// (`translation` 6.1). All of this takes at most `start_timeout`, not counting the wait for a turn to start.
    pub(crate) async fn greet(
        &self,
        start: ConnectionStart<'_>,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Refusal> {
        let start = ConnectionStart { succession: Succession::First, ..start };
        let mut deadline = None;
        // two clients could have tasks with the same id (2025-11-25)
        let client = if self.serves_one_client(start.key) { Arc::clone(client) } else { Arc::new(client.of_many()) };
        let assumed = self.spec.assume_version.and_then(Revision::parse);
        let newest = self.spec.version.and_then(Revision::parse).filter(|revision| revision.era() == Era::Legacy);
        let revision = newest.unwrap_or(Revision::NEWEST_LEGACY);
        let mut offer = Offer { revision, assumed, client: Arc::clone(&client) };
        let mut choice = TransportChoice::of(&self.transport);
        loop {
            let NewTransport { open, turn, source } = self.transport.new_transport(&choice.current, start).await?;
            let began = Instant::now();
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.spec.start_timeout);
            let may_be_http_sse = Arc::clone(&open.transport);
            let context =
                ConnectionContext { client: Arc::clone(&offer.client), ..self.context(&SessionProtocol, start) };
            let session = UnsettledConnection::new(receive::begin(context, open), turn);
            let opened = tokio::select! {
                opened = timeout_at(deadline, handshake::open(session.connection(), &offer)) => opened,
                () = self.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            };
            let error = match opened {
                Ok(Ok(())) if is_misread(session.connection(), &offer.client) => {
                    session.connection().end("it takes elicitation by URL for elicitation by form");
                    offer.client = Arc::new(offer.client.without_elicitation());
                    continue;
                }
                Ok(Ok(())) => {
                    choice.worked(&self.transport);
                    if source == TransportSource::Made {
                        self.is_slow.store(began.elapsed() > SLOW_START, Ordering::Relaxed);
                    }
                    return Ok(session.keep());
                }
                Ok(Err(HandshakeError::Offer(lower))) => {
                    tracing::info!(server = %self.spec.id, revision = %lower, "offering an older version on a new connection");
                    offer.revision = lower;
                    continue;
                }
                Ok(Err(HandshakeError::Start(StartError::Refused(reason)))) if may_be_http_sse.may_be_http_sse() => {
                    match choice.next(reason) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                // the spare process may have ended while unused
                Ok(Err(HandshakeError::Start(StartError::Unreachable(_)))) if source == TransportSource::Spare => {
                    continue;
                }
                Ok(Err(HandshakeError::Start(error))) => error,
                Err(_) => StartError::TimedOut(self.spec.start_timeout),
            };
            let failure = Failure { error: choice.failed(error), output: session.connection().output() };
            let is_answered =
                matches!(failure.error, StartError::OtherEra(_) | StartError::Refused(_) | StartError::Malformed(_));
            return Err(Refusal { failure, answered: is_answered.then_some(session) });
        }
    }

    /// Continues a channel on which the server answered the handshake with an error, as a connection to a modern
    /// server; `None` if it has ended.
    pub(crate) async fn hand_over(
        &self,
        answered: UnsettledConnection,
        start: ConnectionStart<'_>,
    ) -> Option<UnsettledConnection> {
        let open = answered.connection().hand_over().await?;
        open.transport.negotiated(RequestProtocol.newest());
        Some(UnsettledConnection::new(receive::begin(self.context(&RequestProtocol, start), open), None))
    }

    /// Continues a session that was opened ahead, as the session of `key`; `None` if it has ended.
    pub(crate) async fn take_over(
        &self,
        introduced: &ServerConnection,
        key: &ConnectionKey,
    ) -> Option<Arc<ServerConnection>> {
        let client = Arc::clone(&introduced.context.client);
        let start = ConnectionStart { key, succession: Succession::First, user: None };
        let context = ConnectionContext { client, ..self.context(&SessionProtocol, start) };
        receive::continued(introduced, context).await
    }

    /// Opens a connection to a modern server and asks for its server information. This checks a configured era too:
    /// without it, calls to an older server might just get no answer (`translation` 2.7).
    async fn open_modern(&self, start: ConnectionStart<'_>) -> Result<Arc<ServerConnection>, Failure> {
        let connection = self.open_transport(start).await?;
        let told = tokio::select! {
            told = discover(connection.connection(), self.spec.start_timeout) => told,
            () = self.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
        };
        let error = match told {
            DiscoverOutcome::Modern(info) => {
                apply_server_info(connection.connection(), info);
                return Ok(connection.keep());
            }
            DiscoverOutcome::Legacy(reason) => {
                StartError::OtherEra(format!("the server does not speak 2026-07-28 ({reason})"))
            }
            DiscoverOutcome::Ended(reason) => StartError::Unreachable(reason),
            DiscoverOutcome::Unusable(error) | DiscoverOutcome::Nothing(error) => error,
        };
        Err(Failure { error, output: connection.connection().output() })
    }

    /// Follows the server to another transport, for all later connections.
    ///
    /// # Errors
    ///
    /// The refusal, if that is not permitted.
    pub(crate) fn follow(&self, offer: &TransportOffer) -> Result<(), StartError> {
        let accepted = offer.accept(&self.transport.current(), &self.spec.upgrade_to);
        let transport = accepted.map_err(|why| StartError::UpgradeRefused { offer: offer.clone(), why })?;
        self.transport.found(transport);
        Ok(())
    }

    /// Opens a connection without sending anything.
    pub(crate) async fn open_transport(&self, start: ConnectionStart<'_>) -> Result<UnsettledConnection, Failure> {
        let current = self.transport.current();
        let NewTransport { open, turn, .. } = self.transport.new_transport(&current, start).await?;
        open.transport.negotiated(RequestProtocol.newest());
        Ok(UnsettledConnection::new(receive::begin(self.context(&RequestProtocol, start), open), turn))
    }

    /// True if the handshake should be done before a client needs the process: starts are slow, and spare processes are
    /// configured.
    pub(crate) fn is_introduced_ahead(&self) -> bool {
        self.transport.spares.are_wanted() && self.is_slow.load(Ordering::Relaxed)
    }

    fn serves_one_client(&self, key: &ConnectionKey) -> bool {
        let has_session = || self.context.sole_client.as_ref().is_some_and(SoleClient::has_session);
        key.is_of_one_client() || key.is_sole() && has_session()
    }

    fn context(
        &self,
        protocol: &'static dyn Protocol,
        ConnectionStart { key, succession, .. }: ConnectionStart<'_>,
    ) -> ConnectionContext {
        ConnectionContext {
            backend: self.spec.id.clone(),
            origin: self.origin.clone(),
            key: key.clone(),
            protocol,
            abilities: self.transport.abilities(),
            client: Arc::new(ClientInfo::gateway()),
            is_of_one_client: self.serves_one_client(key),
            is_another: succession == Succession::Another,
            listens: Arc::clone(&self.listens),
            interests: Arc::clone(&self.interests),
            asks_on_stream: self.transport.asks_on_stream.clone(),
            oddities: self.transport.oddities.clone(),
            call_timeout: self.spec.call_timeout,
            tasks: self.context.tasks.clone(),
        }
    }

    /// Logs and counts a start.
    pub(crate) fn count(&self, opened: Option<&ServerConnection>) {
        let outcome = if opened.is_some() { "ok" } else { "error" };
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_server_starts_total", "server" => backend, "outcome" => outcome).increment(1);
        if let Some(summary) = opened.and_then(ServerConnection::summary) {
            tracing::info!(server = %self.spec.id, revision = %summary.revision, implementation = summary.server, "connected to the server");
        }
    }
}

// === impl ClientOpening ===

impl ClientOpening {
    /// Parameters for a call of this client.
    pub(crate) fn of(assumed: AssumedEra, context: &Context) -> Self {
        Self { assumed, client: Arc::clone(&context.client), user: context.caller.user.clone() }
    }
}

// === impl UnsettledConnection ===

impl UnsettledConnection {
    const fn new(connection: Arc<ServerConnection>, turn: Option<StartTurn>) -> Self {
        Self { connection, is_kept: false, _turn: turn }
    }

    pub(crate) const fn connection(&self) -> &Arc<ServerConnection> {
        &self.connection
    }

    /// Keeps the connection open and returns it.
    pub(crate) fn keep(mut self) -> Arc<ServerConnection> {
        self.is_kept = true;
        Arc::clone(&self.connection)
    }

    /// Ends the connection, and waits for the end of its process.
    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}

impl Drop for UnsettledConnection {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.end("its start failed, or it was opened to ask of which era the server is");
        }
    }
}

/// True if the negotiated version would read the client's capabilities as more than it declared.
fn is_misread(session: &ServerConnection, client: &ClientInfo) -> bool {
    let settled = session.server().map(|server| server.revision);
    settled.is_some_and(|revision| !revision.has(Feature::UrlElicitation))
        && client.capabilities.is_elicited_by_url_alone()
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self { error, output: Vec::new() }
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        Failure::from(error).into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, answered: None }
    }
}
