//! Opens connections: transport, version offers, timeouts. Knows nothing of sharing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    caller_transport,
    connection::{
        ServerConnection,
        discover::{DiscoverOutcome, apply_server_info, discover},
        handshake::{self, HandshakeError, Offer},
        receive::{self, OpenTransport},
        request_protocol::RequestProtocol,
        session_protocol::SessionProtocol,
        state::{ConnectionContext, Protocol},
    },
    connection_key::ConnectionKey,
    context::BackendContext,
    error::StartError,
    interests::Interests,
    listens::Listens,
    output_tail::OutputTail,
    server_transport::ServerTransport,
    spares::{SpareProcess, Spares},
    start_turns::{Demand, StartTurn},
    transport::{
        self, Connector, Incoming, Transport,
        http::{self, LateStreams},
    },
    transport_choice::TransportChoice,
    upgrade::TransportOffer,
};
use crate::{
    mcp::{ClientInfo, Era, Feature, Revision, ServerOrigin, SoleClient},
    model::{BackendSpec, TransportSpec, status::OutputLine},
};

/// A start that takes longer is slow: a client does not wait for it if a process can be introduced to it beforehand.
const SLOW_START: Duration = Duration::from_secs(2);

/// Opens the connections of one backend.
pub(crate) struct Opener {
    pub(super) spec: Arc<BackendSpec>,
    /// The server, as the origin of what it writes on any connection.
    pub(super) origin: ServerOrigin,
    pub(super) context: BackendContext,
    listens: Arc<Listens>,
    interests: Arc<Interests>,
    late_streams: LateStreams,
    pub(super) transport: ServerTransport,
    /// Demand for the base connection.
    pub(super) demand: Demand,
    /// The last lines of the base connection's process.
    pub(super) output: OutputTail,
    /// Processes for clients to come.
    pub(super) spares: Spares,
    /// True once a process took longer than [`SLOW_START`] from its start to the end of the handshake.
    is_slow: AtomicBool,
    /// The client for HTTP; the failure if the settings of this server allow none.
    client: Result<http::Client, StartError>,
}

/// A transport for a new connection.
struct NewTransport {
    open: OpenTransport,
    /// The turn of its process; `None` if none is started.
    turn: Option<StartTurn>,
    source: TransportSource,
}

/// Where a transport comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportSource {
    /// It was made for this connection.
    Made,
    /// It has a process that was started before.
    Spare,
}

/// A failed start, and the last lines that the server printed.
pub(crate) struct Failure {
    /// The reason.
    pub(crate) error: StartError,
    /// The last lines beside its messages.
    pub(crate) output: Vec<OutputLine>,
}

/// A failed handshake.
pub(super) struct Refusal {
    /// The failure.
    pub(super) failure: Failure,
    /// The connection, if the server answered on it.
    pub(super) answered: Option<UnsettledConnection>,
}

/// A connection that is not known to be of use. Dropping it ends it, unless it is kept.
pub(super) struct UnsettledConnection {
    connection: Arc<ServerConnection>,
    is_kept: bool,
    /// The turn of its process; `None` if it has none.
    _turn: Option<StartTurn>,
}

/// Tells a first connection of a key from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Succession {
    /// The key has had no connection.
    First,
    /// The key had a connection that was lost or closed as idle.
    Another,
}

// === impl Opener ===

impl Opener {
    /// Creates the opener of one backend.
    pub(super) fn new(
        spec: &Arc<BackendSpec>,
        context: &BackendContext,
        listens: &Arc<Listens>,
        interests: &Arc<Interests>,
    ) -> Self {
        Self {
            spec: Arc::clone(spec),
            origin: ServerOrigin::new(spec.id.clone()),
            context: context.clone(),
            listens: Arc::clone(listens),
            interests: Arc::clone(interests),
            late_streams: LateStreams::default(),
            transport: ServerTransport::new(spec),
            demand: Demand::default(),
            output: OutputTail::hiding(spec.disclosure.as_ref().map_or(&[], |disclosure| &disclosure.hidden)),
            client: http_client(spec, context),
            spares: Spares::new(wanted_spares(spec)),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Opens a connection of `key` to a server of this era.
    pub(super) async fn open(
        &self,
        era: Era,
        (key, succession): (&ConnectionKey, Succession),
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match era {
            Era::Modern => self.open_modern(key, succession).await,
            Era::Legacy => self.open_session(key, client).await,
        }
    }

    /// Opens a session of `key` for `client`, as [`Opener::greet`].
    async fn open_session(
        &self,
        key: &ConnectionKey,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        self.greet(key, client).await.map_err(|refusal| refusal.failure)
    }

    /// Opens a session of `key` for `client`. If the server demands it, lower versions are offered on fresh connections
    /// (`translation` 6.1). The whole takes at most `start_timeout`, after the first one's turn to start.
    pub(super) async fn greet(
        &self,
        key: &ConnectionKey,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Refusal> {
        let mut deadline = None;
        // several clients could have tasks with the same id (2025-11-25)
        let client = if self.serves_one_client(key) { Arc::clone(client) } else { Arc::new(client.of_many()) };
        let assumed = self.spec.assume_version.and_then(Revision::parse);
        let newest = self.spec.version.and_then(Revision::parse).filter(|revision| revision.era() == Era::Legacy);
        let revision = newest.unwrap_or(Revision::NEWEST_LEGACY);
        let mut offer = Offer { revision, assumed, client: Arc::clone(&client) };
        let mut choice = TransportChoice::of(&self.transport);
        loop {
            let NewTransport { open, turn, source } = self.new_transport(&choice.current, key).await?;
            let began = Instant::now();
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.spec.start_timeout);
            let may_be_http_sse = Arc::clone(&open.transport);
            let context = ConnectionContext {
                client: Arc::clone(&offer.client),
                ..self.context(&SessionProtocol, (key, Succession::First))
            };
            let session = UnsettledConnection::new(receive::begin(context, open), turn);
            let opened = tokio::select! {
                opened = timeout_at(deadline, handshake::open(session.connection(), &offer)) => opened,
                () = self.context.tasks.end().cancelled() => return Err(Failure::from(StartError::Stopping).into()),
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
                // it may have ended while it waited
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

    /// Continues a channel on which the server answered the handshake, as one to a modern server; `None` if it has ended.
    pub(super) async fn hand_over(
        &self,
        answered: UnsettledConnection,
        key: (&ConnectionKey, Succession),
    ) -> Option<UnsettledConnection> {
        let open = answered.connection().hand_over().await?;
        open.transport.negotiated(RequestProtocol.newest());
        Some(UnsettledConnection::new(receive::begin(self.context(&RequestProtocol, key), open), None))
    }

    /// Continues a session that was opened to introduce the server, as that of `key`; `None` if it has ended.
    pub(super) async fn take_over(
        &self,
        introduced: &ServerConnection,
        key: &ConnectionKey,
    ) -> Option<Arc<ServerConnection>> {
        let client = Arc::clone(&introduced.context.client);
        let context = ConnectionContext { client, ..self.context(&SessionProtocol, (key, Succession::First)) };
        receive::continued(introduced, context).await
    }

    /// Opens a connection of `key` to a modern server and asks for its server information. A configured era is checked
    /// too, since an older server may mistake a call for its own and stay silent (`translation` 2.7).
    async fn open_modern(&self, key: &ConnectionKey, succession: Succession) -> Result<Arc<ServerConnection>, Failure> {
        let connection = self.open_transport(key, succession).await?;
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

    /// Follows the server to another transport, for all connections from now on.
    ///
    /// # Errors
    ///
    /// The refusal if that is not permitted.
    pub(super) fn follow(&self, offer: &TransportOffer) -> Result<(), StartError> {
        let accepted = offer.accept(&self.transport.current(), &self.spec.upgrade_to);
        let transport = accepted.map_err(|why| StartError::UpgradeRefused { offer: offer.clone(), why })?;
        self.transport.found(transport);
        Ok(())
    }

    /// Opens a connection of `key` without sending anything.
    pub(super) async fn open_transport(
        &self,
        key: &ConnectionKey,
        succession: Succession,
    ) -> Result<UnsettledConnection, Failure> {
        let current = self.transport.current();
        let NewTransport { open, turn, .. } = self.new_transport(&current, key).await?;
        open.transport.negotiated(RequestProtocol.newest());
        Ok(UnsettledConnection::new(receive::begin(self.context(&RequestProtocol, (key, succession)), open), turn))
    }

    /// A transport for a connection of `key`: a spare process, or a new one in its turn.
    async fn new_transport(&self, to: &TransportSpec, key: &ConnectionKey) -> Result<NewTransport, Failure> {
        if !key.is_base()
            && let Some((transport, incoming)) = self.spares.take(to)
        {
            let open = OpenTransport::fresh(transport, incoming);
            return Ok(NewTransport { open, turn: None, source: TransportSource::Spare });
        }
        let turn = self.turn(to, key).await?;
        let (transport, incoming) = self.connect(to, key)?;
        Ok(NewTransport { open: OpenTransport::fresh(transport, incoming), turn, source: TransportSource::Made })
    }

    /// True if clients are spared a whole start, with its handshake: starts are slow, and processes may be kept ready.
    pub(super) fn is_introduced_ahead(&self) -> bool {
        self.spares.are_wanted() && self.is_slow.load(Ordering::Relaxed)
    }

    /// Starts the spare processes that are missing, one after the other, after all starts that somebody waits for. If one
    /// cannot be started, the next client tries.
    pub(super) async fn start_spares(&self) {
        while let Some(start) = self.spares.claim() {
            let to = self.transport.current();
            let _turn = self.context.starts.take(Demand::default()).await;
            let output = self.output.another();
            let connected = self.connector(&output).and_then(|with| transport::connect(&to, &with));
            let Ok(connected) = connected else { return };
            start.keep(SpareProcess::fresh(to, connected));
        }
    }

    /// Waits for the turn to start a process, if the transport needs one. Connections for clients are waited for.
    async fn turn(&self, to: &TransportSpec, key: &ConnectionKey) -> Result<Option<StartTurn>, Failure> {
        if !to.starts_process() {
            return Ok(None);
        }
        let demand = if key.is_base() { self.demand.clone() } else { Demand::present() };
        tokio::select! {
            turn = self.context.starts.take(demand) => Ok(Some(turn)),
            () = self.context.tasks.end().cancelled() => Err(StartError::Stopping.into()),
        }
    }

    fn connect(&self, to: &TransportSpec, key: &ConnectionKey) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
        // the status shows the base connection alone
        let output = if key.is_base() { self.output.clone() } else { self.output.another() };
        output.clear();
        let to = caller_transport::of_caller(to, (&self.spec, &self.context), key.identity.as_ref())?;
        transport::connect(&to, &self.connector(&output)?)
    }

    fn connector<'a>(&'a self, output: &'a OutputTail) -> Result<Connector<'a>, StartError> {
        let BackendContext { environment, tasks, fence, .. } = &self.context;
        let client = self.client.as_ref().map_err(Clone::clone)?;
        Ok(Connector { backend: &self.spec.id, environment, client, tasks, late: &self.late_streams, output, fence })
    }

    fn serves_one_client(&self, key: &ConnectionKey) -> bool {
        let has_session = || self.context.sole_client.as_ref().is_some_and(SoleClient::has_session);
        key.is_of_one_client() || key.is_sole() && has_session()
    }

    fn context(
        &self,
        protocol: &'static dyn Protocol,
        (key, succession): (&ConnectionKey, Succession),
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
            call_timeout: self.spec.call_timeout,
            tasks: self.context.tasks.clone(),
        }
    }

    /// Logs and counts a start.
    pub(super) fn count(&self, opened: Option<&ServerConnection>) {
        let outcome = if opened.is_some() { "ok" } else { "error" };
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_server_starts_total", "server" => backend, "outcome" => outcome).increment(1);
        if let Some(summary) = opened.and_then(ServerConnection::summary) {
            tracing::info!(server = %self.spec.id, revision = %summary.revision, implementation = summary.server, "connected to the server");
        }
    }
}

// === impl UnsettledConnection ===

impl UnsettledConnection {
    const fn new(connection: Arc<ServerConnection>, turn: Option<StartTurn>) -> Self {
        Self { connection, is_kept: false, _turn: turn }
    }

    /// The connection.
    pub(super) const fn connection(&self) -> &Arc<ServerConnection> {
        &self.connection
    }

    /// The connection, which is of use.
    pub(super) fn keep(mut self) -> Arc<ServerConnection> {
        self.is_kept = true;
        Arc::clone(&self.connection)
    }

    /// Ends it, and waits for the end of its process.
    pub(super) async fn close(self) {
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

/// The number of processes to keep ready: none if each is told for whom it runs.
fn wanted_spares(spec: &BackendSpec) -> usize {
    if spec.transport.starts_process() && spec.disclosure.is_none() { spec.spares } else { 0 }
}

/// The client for HTTP: that of all servers, unless this one has settings of its own; none if its configuration is not
/// complete.
fn http_client(spec: &BackendSpec, context: &BackendContext) -> Result<http::Client, StartError> {
    if let Some(fault) = spec.auth.fault() {
        return Err(StartError::Misconfigured(fault));
    }
    let Some(network) = spec.transport.network() else { return Ok(context.client.clone()) };
    http::Client::of_server(network, &context.environment).map_err(|error| StartError::Refused(error.to_string()))
}

/// True if the negotiated version reads the client's capabilities as more than they are.
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

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, answered: None }
    }
}
