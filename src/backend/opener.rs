//! Opens connections: transport, version offers, timeouts. Knows nothing of sharing.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::{
    connection::{
        ServerConnection,
        discover::{DiscoverOutcome, apply_server_info, discover},
        handshake::{self, HandshakeError, Offer},
        receive,
        request_protocol::RequestProtocol,
        session_protocol::SessionProtocol,
        state::{ConnectionContext, Protocol},
    },
    connection_key::ConnectionKey,
    context::BackendContext,
    error::StartError,
    listens::Listens,
    server_transport::ServerTransport,
    subscriptions::Subscriptions,
    transport::{self, Connector, Incoming, Transport, http::LateStreams},
    transport_choice::TransportChoice,
    upgrade::TransportOffer,
};
use crate::{
    mcp::{Capabilities, ClientInfo, Era, Feature, Revision},
    model::{BackendSpec, TransportSpec},
};

/// Opens the connections of one backend.
pub(crate) struct Opener {
    pub(super) spec: Arc<BackendSpec>,
    pub(super) context: BackendContext,
    listens: Arc<Listens>,
    subscriptions: Arc<Subscriptions>,
    late_streams: LateStreams,
    pub(super) transport: ServerTransport,
}

/// A failed start, and the last lines of the server's standard error.
pub(crate) struct Failure {
    /// The reason.
    pub(crate) error: StartError,
    /// The last lines of standard error.
    pub(crate) stderr_tail: Vec<String>,
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
        subscriptions: &Arc<Subscriptions>,
    ) -> Self {
        Self {
            spec: Arc::clone(spec),
            context: context.clone(),
            listens: Arc::clone(listens),
            subscriptions: Arc::clone(subscriptions),
            late_streams: LateStreams::default(),
            transport: ServerTransport::new(spec),
        }
    }

    /// Opens a connection of `key` to a server of this era; if it is unknown, with a handshake.
    pub(super) async fn open(
        &self,
        era: Option<Era>,
        (key, succession): (&ConnectionKey, Succession),
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match era {
            Some(Era::Modern) => self.open_modern(key, succession).await,
            Some(Era::Legacy) | None => self.open_session(key, client).await,
        }
    }

    /// Opens a session of `key` for `client`. If the server demands it, lower versions are offered on fresh connections
    /// (`translation` 6.1). The whole takes at most `start_timeout`.
    pub(super) async fn open_session(
        &self,
        key: &ConnectionKey,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let deadline = Instant::now() + self.spec.start_timeout;
        // several clients could have tasks with the same id (2025-11-25)
        let client = if key.is_of_one_client() { Arc::clone(client) } else { Arc::new(client.of_many()) };
        let assumed = self.spec.assume_version.and_then(Revision::parse);
        let newest = self.spec.version.and_then(Revision::parse).filter(|revision| revision.era() == Era::Legacy);
        let revision = newest.unwrap_or(Revision::NEWEST_LEGACY);
        let mut offer = Offer { revision, assumed, client: Arc::clone(&client) };
        let mut choice = TransportChoice::of(&self.transport);
        loop {
            let (transport, incoming) = self.connect(&choice.current)?;
            let context = ConnectionContext {
                capabilities: offer.client.capabilities.clone(),
                ..self.context(&SessionProtocol, (key, Succession::First))
            };
            let opening = handshake::open(context, &offer, Arc::clone(&transport), incoming);
            let opened = tokio::select! {
                opened = timeout_at(deadline, opening) => opened,
                () = self.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            };
            let error = match opened {
                Ok(Ok(session)) if is_misread(&session, &offer.client) => {
                    session.end("it takes elicitation by URL for elicitation by form");
                    offer.client = Arc::new(offer.client.without_elicitation());
                    continue;
                }
                Ok(Ok(session)) => {
                    choice.worked(&self.transport);
                    return Ok(session);
                }
                Ok(Err(HandshakeError::Offer(lower))) => {
                    tracing::info!(backend = %self.spec.id, revision = %lower, "offering an older version on a new connection");
                    offer.revision = lower;
                    continue;
                }
                Ok(Err(HandshakeError::Start(StartError::Refused(reason)))) if transport.may_be_http_sse() => {
                    match choice.next(reason) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Ok(Err(HandshakeError::Start(error))) => error,
                Err(_) => StartError::TimedOut(self.spec.start_timeout),
            };
            return Err(Failure { error: choice.failed(error), stderr_tail: transport.stderr_tail() });
        }
    }

    /// Opens a connection of `key` to a modern server and asks for its server information. A configured era is checked
    /// too, since an older server may mistake a call for its own and stay silent (`translation` 2.7).
    async fn open_modern(&self, key: &ConnectionKey, succession: Succession) -> Result<Arc<ServerConnection>, Failure> {
        let connection = self.open_transport(key, succession)?;
        let told = tokio::select! {
            told = discover(&connection, self.spec.start_timeout) => told,
            () = self.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
        };
        let error = match told {
            DiscoverOutcome::Modern(info) => {
                apply_server_info(&connection, info);
                return Ok(connection);
            }
            DiscoverOutcome::Legacy(reason) => {
                StartError::OtherEra(format!("the server does not speak 2026-07-28 ({reason})"))
            }
            DiscoverOutcome::Ended(reason) => StartError::Unreachable(reason),
            DiscoverOutcome::Unusable(error) | DiscoverOutcome::Nothing(error) => error,
        };
        connection.end("it did not say who it is");
        Err(Failure { error, stderr_tail: connection.stderr_tail() })
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
    pub(super) fn open_transport(
        &self,
        key: &ConnectionKey,
        succession: Succession,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let (transport, incoming) = self.connect(&self.transport.current())?;
        transport.negotiated(RequestProtocol.newest());
        Ok(receive::begin(self.context(&RequestProtocol, (key, succession)), transport, incoming))
    }

    fn connect(&self, to: &TransportSpec) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
        let BackendContext { environment, client, tasks, .. } = &self.context;
        let with = Connector { backend: &self.spec.id, environment, client, tasks, late: &self.late_streams };
        transport::connect(to, &with)
    }

    fn context(
        &self,
        protocol: &'static dyn Protocol,
        (key, succession): (&ConnectionKey, Succession),
    ) -> ConnectionContext {
        ConnectionContext {
            backend: self.spec.id.clone(),
            key: key.clone(),
            protocol,
            abilities: self.transport.abilities(),
            capabilities: Capabilities::none(),
            is_another: succession == Succession::Another,
            listens: Arc::clone(&self.listens),
            subscriptions: Arc::clone(&self.subscriptions),
            tasks: self.context.tasks.clone(),
        }
    }

    /// Logs and counts a start.
    pub(super) fn count(&self, opened: Option<&ServerConnection>) {
        let outcome = if opened.is_some() { "ok" } else { "error" };
        let backend = self.spec.id.to_string();
        metrics::counter!("lockkeeper_backend_starts_total", "backend" => backend, "outcome" => outcome).increment(1);
        if let Some(summary) = opened.and_then(ServerConnection::summary) {
            tracing::info!(backend = %self.spec.id, revision = %summary.revision, server = summary.server, "connected to the backend");
        }
    }
}

/// True if the negotiated version reads the client's capabilities as more than they are.
fn is_misread(session: &ServerConnection, client: &ClientInfo) -> bool {
    let settled = session.server().map(|server| server.revision);
    settled.is_some_and(|revision| !revision.has(Feature::UrlElicitation))
        && client.capabilities.is_elicited_by_url_alone()
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self { error, stderr_tail: Vec::new() }
    }
}
