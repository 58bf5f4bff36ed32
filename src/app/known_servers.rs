//! What is stored about servers for the next start: their eras, so that these need not be detected again, and their
//! information, so that clients need not wait for slow servers (`translation` 6.7).

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::Supervisor,
    mcp::{Payload, Revision},
    model::{BackendId, BackendSpec, KnownEra},
    storage::{ServerInfoRow, Storage},
    support::Digest,
};

/// Maximum size of one server's stored information, in bytes.
const MAX_DESCRIPTION: usize = 1 << 20;

/// What is known about all servers.
#[derive(Clone, Default)]
pub(super) struct ServerRecords {
    /// The eras of servers, as detected earlier.
    pub(super) eras: Vec<KnownEra>,
    /// Last server information of each backend, in the form of a `DiscoverResult`.
    pub(super) descriptions: HashMap<BackendId, Payload>,
}

/// Writes changes to the store.
pub(super) struct KnownServers {
    storage: Storage,
    supervisor: Arc<Supervisor>,
    news: watch::Receiver<ServerRecords>,
    /// What the store already contains.
    stored: ServerRecords,
}

// === impl ServerRecords ===

impl ServerRecords {
    /// Replaces the era of one server.
    pub(super) fn set_era(&mut self, era: KnownEra) {
        self.eras.retain(|known| known.server != era.server);
        self.eras.push(era);
    }

    /// Loads the rows of configured backends, and deletes rows of others. If the store cannot be read, the result is
    /// empty, and servers are asked again.
    pub(super) async fn load(storage: &Storage, specs: &[BackendSpec]) -> Self {
        let eras = storage.backend_eras().list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the eras of servers cannot be read; they are detected again");
            Vec::new()
        });
        Self { eras, descriptions: descriptions(storage, specs).await }
    }
}

async fn descriptions(storage: &Storage, specs: &[BackendSpec]) -> HashMap<BackendId, Payload> {
    let rows = storage.server_info().list().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the descriptions of servers cannot be read; the servers are asked again");
        Vec::new()
    });
    let servers = servers(specs);
    let mut known = HashMap::new();
    for ServerInfoRow { backend, server, revision, result } in rows {
        match Revision::parse(&revision).filter(|_| servers.get(&backend) == Some(&server)) {
            Some(revision) => drop(known.insert(backend, Payload::new(revision, result.into()))),
            None => {
                if let Err(error) = storage.server_info().delete(&backend).await {
                    tracing::warn!(server = %backend, %error, "the stale description of a server cannot be deleted");
                }
            }
        }
    }
    known
}

fn servers(specs: &[BackendSpec]) -> HashMap<BackendId, Digest> {
    specs.iter().filter_map(|spec| Some((spec.id.clone(), spec.transport.server()?))).collect()
}

// === impl KnownServers ===

impl KnownServers {
    /// Creates the writer; the store already contains `eras`.
    pub(super) fn new(
        storage: Storage,
        supervisor: Arc<Supervisor>,
        news: watch::Receiver<ServerRecords>,
        eras: Vec<KnownEra>,
    ) -> Self {
        let stored = ServerRecords { eras, descriptions: HashMap::new() };
        Self { storage, supervisor, news, stored }
    }

    /// Stores every change until `end`, including earlier ones. A failed write is repeated with the next change.
    pub(super) async fn run(mut self, end: CancellationToken) {
        let mut is_over = false;
        loop {
            let ServerRecords { eras, descriptions } = self.news.borrow_and_update().clone();
            self.write_eras(eras).await;
            self.write_descriptions(descriptions).await;
            if is_over {
                return;
            }
            is_over = tokio::select! {
                changed = self.news.changed() => changed.is_err(),
                () = end.cancelled() => true,
            };
        }
    }

    async fn write_eras(&mut self, known: Vec<KnownEra>) {
        if known == self.stored.eras {
            return;
        }
        match self.storage.backend_eras().set(&known).await {
            Ok(()) => self.stored.eras = known,
            Err(error) => tracing::warn!(%error, "the eras of servers cannot be stored"),
        }
    }

    async fn write_descriptions(&mut self, mut news: HashMap<BackendId, Payload>) {
        news.retain(|backend, result| self.stored.descriptions.get(backend) != Some(result));
        for (backend, result) in news {
            let server = self.supervisor.server_of(&backend).filter(|_| result.json().len() <= MAX_DESCRIPTION);
            let Some(server) = server else { continue };
            let revision = result.revision.as_str().to_owned();
            let row = ServerInfoRow { server, revision, result: result.json().to_vec(), backend };
            match self.storage.server_info().set(&row).await {
                Ok(()) => drop(self.stored.descriptions.insert(row.backend, result)),
                Err(error) => {
                    tracing::warn!(server = %row.backend, %error, "the description of a server cannot be stored");
                }
            }
        }
    }
}
