//! Opening a session at a backend: the connection, the offers, the time it may take.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::broadcast,
    time::{Instant, timeout_at},
};

use super::{
    error::StartError,
    http,
    key::Key,
    legacy::{
        Offer, Session,
        handshake::HandshakeError,
        session::{About, Tasks},
    },
    link::{Incoming, Link},
    listens::Listens,
    stdio,
    wants::Wants,
};
use crate::{
    mcp::{ClientInfo, Revision},
    model::{BackendSpec, SessionId, TransportSpec},
};

/// What every backend needs of the world.
#[derive(Clone)]
pub(crate) struct Room {
    /// How many sessions each backend may have beside its base session.
    pub(super) sessions: usize,
    /// The gateway's environment, of which children see a part.
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    /// The client for HTTP.
    pub(crate) client: reqwest::Client,
    /// Where tasks run.
    pub(crate) tasks: Tasks,
    /// Who is told which client sessions are over because a backend has lost its side of them (`OnLoss::End`).
    pub(crate) lost: broadcast::Sender<SessionId>,
}

/// A start that failed, and the last lines that the server wrote beside the protocol.
pub(crate) struct Failure {
    /// Why.
    pub(crate) error: StartError,
    /// Its last words.
    pub(crate) last_words: Vec<String>,
}

impl Room {
    /// Opens a session of `key` in the name of `client`, offering lower versions on fresh connections where the server
    /// wants them (`translation` 6.1). All of it takes no longer than the backend's `start_timeout`.
    pub(crate) async fn open(
        &self,
        spec: &BackendSpec,
        key: &Key,
        client: &Arc<ClientInfo>,
        (listens, wants): (&Arc<Listens>, &Arc<Wants>),
    ) -> Result<Arc<Session>, Failure> {
        let deadline = Instant::now() + spec.start_timeout;
        // several clients could have tasks of the same id (2025-11-25)
        let client = if key.is_of_one_client() { Arc::clone(client) } else { Arc::new(client.without_tasks()) };
        let assumed = spec.assume_version.and_then(Revision::parse);
        let mut offer = Offer { revision: Revision::NEWEST_LEGACY, assumed, client: Arc::clone(&client) };
        loop {
            let (link, incoming) = self.connect(spec).map_err(Failure::from)?;
            let about = About {
                backend: spec.id.clone(),
                key: key.clone(),
                capabilities: client.capabilities.clone(),
                listens: Arc::clone(listens),
                wants: Arc::clone(wants),
                tasks: self.tasks.clone(),
            };
            let opening = Session::open(about, &offer, Arc::clone(&link), incoming);
            let opened = tokio::select! {
                opened = timeout_at(deadline, opening) => opened,
                () = self.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            };
            let error = match opened {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(HandshakeError::Offer(lower))) => {
                    tracing::info!(backend = %spec.id, revision = %lower, "offering an older version on a new connection");
                    offer.revision = lower;
                    continue;
                }
                Ok(Err(HandshakeError::Start(error))) => error,
                Err(_) => StartError::TimedOut(spec.start_timeout),
            };
            return Err(Failure { error, last_words: link.last_words() });
        }
    }

    fn connect(&self, spec: &BackendSpec) -> Result<(Arc<dyn Link>, Incoming), StartError> {
        match &spec.transport {
            TransportSpec::Stdio(stdio) => stdio::connect(&spec.id, stdio, &self.environment, &self.tasks),
            TransportSpec::Http(http) => http::connect(&self.client, http),
            TransportSpec::Demo => Err(StartError::NoCommand("the built-in backend needs no connection".to_owned())),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self { error, last_words: Vec::new() }
    }
}
