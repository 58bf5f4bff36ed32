//! Opening what serves calls at a backend of a known era: the connection, the offers, the time it may take.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::broadcast,
    time::{Instant, timeout_at},
};

use super::{
    error::StartError,
    key::Key,
    legacy::{Offer, Session, handshake::HandshakeError, session},
    memory::Memory,
    modern::{Peer, discover::Told, peer},
    question_slots::SlotLimits,
    served::Backend,
    task_group::TaskGroup,
    transport::{self, Connector, Incoming, Transport},
};
use crate::{
    mcp::{ClientInfo, Era, Feature, Revision},
    model::SessionId,
    support::Clock,
};

/// What every backend needs of the world.
#[derive(Clone)]
pub(crate) struct Room {
    /// How many sessions each backend may have beside its base session.
    pub(super) sessions: usize,
    /// How long calls keep question slots that others wait for.
    pub(super) slot_limits: SlotLimits,
    /// The gateway's environment, of which children see a part.
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    /// The client for HTTP.
    pub(crate) client: reqwest::Client,
    /// Where tasks run.
    pub(crate) tasks: TaskGroup,
    /// The time of day.
    pub(crate) clock: Arc<dyn Clock>,
    /// What was found out about the servers' eras.
    pub(super) memory: Memory,
    /// Who is told which client sessions are over because a backend has lost its side of them (`OnLoss::End`).
    pub(crate) lost: broadcast::Sender<SessionId>,
}

/// A start that failed, and the last lines that the server wrote beside the protocol.
pub(crate) struct Failure {
    /// Why.
    pub(crate) error: StartError,
    /// Its last words.
    pub(crate) stderr_tail: Vec<String>,
}

impl Backend {
    /// Opens a session of `key` in the name of `client`, offering lower versions on fresh connections where the server
    /// wants them (`translation` 6.1). All of it takes no longer than `start_timeout`.
    pub(super) async fn greet(&self, key: &Key, client: &Arc<ClientInfo>) -> Result<Arc<Session>, Failure> {
        let deadline = Instant::now() + self.spec.start_timeout;
        // several clients could have tasks of the same id (2025-11-25)
        let client = if key.is_of_one_client() { Arc::clone(client) } else { Arc::new(client.of_many()) };
        let assumed = self.spec.assume_version.and_then(Revision::parse);
        let newest = self.spec.version.and_then(Revision::parse).filter(|revision| revision.era() == Era::Legacy);
        let revision = newest.unwrap_or(Revision::NEWEST_LEGACY);
        let mut offer = Offer { revision, assumed, client: Arc::clone(&client) };
        loop {
            let (transport, incoming) = self.connect()?;
            let about = session::About {
                backend: self.spec.id.clone(),
                key: key.clone(),
                capabilities: offer.client.capabilities.clone(),
                listens: Arc::clone(&self.listens),
                wants: Arc::clone(&self.wants),
                tasks: self.room.tasks.clone(),
            };
            let opening = Session::open(about, &offer, Arc::clone(&transport), incoming);
            let opened = tokio::select! {
                opened = timeout_at(deadline, opening) => opened,
                () = self.room.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
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

    /// Makes a connection of `key` to a server of 2026-07-28, which is asked what it says of itself: also where the
    /// operator says that it is one, since an older one may take a call for its own and say nothing (`translation` 2.7).
    pub(super) async fn meet(&self, key: &Key) -> Result<Arc<Peer>, Failure> {
        let peer = self.approach(key)?;
        let patience = self.spec.start_timeout;
        let told = tokio::select! {
            told = peer.discover(patience) => told,
            () = self.room.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
        };
        let error = match told {
            Told::Modern(introduction) => {
                peer.introduced(introduction);
                return Ok(peer);
            }
            Told::Legacy(reason) => StartError::OtherEra(format!("the server does not speak 2026-07-28 ({reason})")),
            Told::Ended(reason) => StartError::Unreachable(reason),
            Told::Unusable(error) | Told::Nothing(error) => error,
        };
        peer.end("it did not say who it is");
        Err(Failure { error, stderr_tail: peer.stderr_tail() })
    }

    /// A connection of `key` on which nothing was said yet.
    pub(super) fn approach(&self, key: &Key) -> Result<Arc<Peer>, Failure> {
        let (transport, incoming) = self.connect()?;
        let about = peer::About {
            backend: self.spec.id.clone(),
            key: key.clone(),
            abilities: self.spec.transport.abilities(),
            is_another: self.pool.has_lived(key),
            listens: Arc::clone(&self.listens),
            wants: Arc::clone(&self.wants),
            tasks: self.room.tasks.clone(),
        };
        Ok(Peer::begin(about, transport, incoming))
    }

    fn connect(&self) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
        let Room { environment, client, tasks, .. } = &self.room;
        transport::connect(&self.spec, &Connector { environment, client, tasks, late: &self.late_streams })
    }
}

/// Whether the version that was settled on reads what this client can be asked as more than it is.
fn is_misread(session: &Session, client: &ClientInfo) -> bool {
    let settled = session.greeting().map(|greeting| greeting.revision);
    settled.is_some_and(|revision| !revision.has(Feature::UrlElicitation))
        && client.capabilities.is_elicited_by_url_alone()
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self { error, stderr_tail: Vec::new() }
    }
}
