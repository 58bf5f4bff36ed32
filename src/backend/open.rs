//! Opening of connections: the transport, the offers, the time it may take. Knows nothing of who shares them.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::{
    connection::{
        ServerConnection,
        discover::{Told, discover, introduced},
        handshake::{self, HandshakeError, Offer},
        receive,
        request_protocol::RequestProtocol,
        session_protocol::SessionProtocol,
        state::{About, Protocol},
    },
    connection_key::ConnectionKey,
    context::BackendContext,
    error::StartError,
    listens::Listens,
    subscriptions::Subscriptions,
    transport::{self, Connector, Incoming, Transport, http::LateStreams},
};
use crate::{
    mcp::{Capabilities, ClientInfo, Era, Feature, Revision},
    model::BackendSpec,
};

/// Opens the connections of one backend.
pub(crate) struct Opener {
    pub(super) spec: Arc<BackendSpec>,
    pub(super) context: BackendContext,
    listens: Arc<Listens>,
    subscriptions: Arc<Subscriptions>,
    late_streams: LateStreams,
}

/// A start that failed, and the last lines that the server wrote beside the protocol.
pub(crate) struct Failure {
    /// The reason.
    pub(crate) error: StartError,
    /// The end of its standard error.
    pub(crate) stderr_tail: Vec<String>,
}

/// Whether there has been a connection of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Succession {
    /// There has not.
    First,
    /// There has: it was lost, or ended as idle.
    Another,
}

// === impl Opener ===

impl Opener {
    /// Opens connections of this backend.
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
        }
    }

    /// Opens a connection of `key` to a server of this era; if that is not known, in a session.
    pub(super) async fn open(
        &self,
        era: Option<Era>,
        (key, succession): (&ConnectionKey, Succession),
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match era {
            Some(Era::Modern) => self.meet(key, succession).await,
            Some(Era::Legacy) | None => self.greet(key, client).await,
        }
    }

    /// Opens a session of `key` in the name of `client`, offering lower versions on fresh connections where the server wants
    /// them (`translation` 6.1). All of it takes no longer than `start_timeout`.
    pub(super) async fn greet(
        &self,
        key: &ConnectionKey,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let deadline = Instant::now() + self.spec.start_timeout;
        // several clients could have tasks of the same id (2025-11-25)
        let client = if key.is_of_one_client() { Arc::clone(client) } else { Arc::new(client.of_many()) };
        let assumed = self.spec.assume_version.and_then(Revision::parse);
        let newest = self.spec.version.and_then(Revision::parse).filter(|revision| revision.era() == Era::Legacy);
        let revision = newest.unwrap_or(Revision::NEWEST_LEGACY);
        let mut offer = Offer { revision, assumed, client: Arc::clone(&client) };
        loop {
            let (transport, incoming) = self.connect()?;
            let about = About {
                capabilities: offer.client.capabilities.clone(),
                ..self.about(&SessionProtocol, (key, Succession::First))
            };
            let opening = handshake::open(about, &offer, Arc::clone(&transport), incoming);
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
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(HandshakeError::Offer(lower))) => {
                    tracing::info!(backend = %self.spec.id, revision = %lower, "offering an older version on a new connection");
                    offer.revision = lower;
                    continue;
                }
                Ok(Err(HandshakeError::Start(error))) => error,
                Err(_) => StartError::TimedOut(self.spec.start_timeout),
            };
            return Err(Failure { error, stderr_tail: transport.stderr_tail() });
        }
    }

    /// Opens a connection of `key` to a server of 2026-07-28, which is asked for its account of itself: also where the
    /// operator says that it is one, since an older one may take a call for its own and say nothing (`translation` 2.7).
    async fn meet(&self, key: &ConnectionKey, succession: Succession) -> Result<Arc<ServerConnection>, Failure> {
        let connection = self.approach(key, succession)?;
        let told = tokio::select! {
            told = discover(&connection, self.spec.start_timeout) => told,
            () = self.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
        };
        let error = match told {
            Told::Modern(info) => {
                introduced(&connection, info);
                return Ok(connection);
            }
            Told::Legacy(reason) => StartError::OtherEra(format!("the server does not speak 2026-07-28 ({reason})")),
            Told::Ended(reason) => StartError::Unreachable(reason),
            Told::Unusable(error) | Told::Nothing(error) => error,
        };
        connection.end("it did not say who it is");
        Err(Failure { error, stderr_tail: connection.stderr_tail() })
    }

    /// A connection of `key` for requests that stand alone, on which nothing was said yet.
    pub(super) fn approach(
        &self,
        key: &ConnectionKey,
        succession: Succession,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let (transport, incoming) = self.connect()?;
        transport.negotiated(RequestProtocol.newest());
        Ok(receive::begin(self.about(&RequestProtocol, (key, succession)), transport, incoming))
    }

    fn connect(&self) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
        let BackendContext { environment, client, tasks, .. } = &self.context;
        transport::connect(&self.spec, &Connector { environment, client, tasks, late: &self.late_streams })
    }

    fn about(&self, protocol: &'static dyn Protocol, (key, succession): (&ConnectionKey, Succession)) -> About {
        About {
            backend: self.spec.id.clone(),
            key: key.clone(),
            protocol,
            abilities: self.spec.transport.abilities(),
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

/// Whether the version that was settled on reads what this client can be asked as more than it is.
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
