//! Keeps what is known of the servers in the store, from one start to the next: their eras, so that they are not detected
//! again, and what they say of themselves, so that clients need not wait for a slow one to be told (`translation` 6.7).
//! Knows nothing of its meaning.

use std::collections::HashMap;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{Payload, Revision},
    model::{BackendId, BackendSpec, KnownEra},
    storage::{IntroductionRow, Storage},
    support::Digest,
};

/// The longest introduction that is kept, in bytes.
const MAX_INTRODUCTION: usize = 1 << 20;

/// The knowledge of the servers.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Their eras.
    pub(super) eras: Vec<KnownEra>,
    /// The last description of each by itself.
    pub(super) introductions: HashMap<BackendId, Payload>,
}

/// The keeper of what is known.
pub(super) struct KnownServers {
    storage: Storage,
    servers: HashMap<BackendId, Digest>,
    news: watch::Receiver<Known>,
    /// The rows in the store.
    stored: Known,
}

// === impl Known ===

impl Known {
    /// Notes the era of a server.
    pub(super) fn set_era(&mut self, era: KnownEra) {
        self.eras.retain(|known| known.server != era.server);
        self.eras.push(era);
    }

    /// Loads the rows of the backends that are configured as they were; those of others are deleted. Nothing if they cannot
    /// be read: then the servers are asked anew.
    pub(super) async fn load(storage: &Storage, specs: &[BackendSpec]) -> Self {
        let eras = storage.backend_eras().list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is known of the backends' eras cannot be read; it is found out anew");
            Vec::new()
        });
        Self { eras, introductions: introductions(storage, specs).await }
    }
}

async fn introductions(storage: &Storage, specs: &[BackendSpec]) -> HashMap<BackendId, Payload> {
    let rows = storage.backend_introductions().list().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what the backends last said of themselves cannot be read; they are asked anew");
        Vec::new()
    });
    let servers = servers(specs);
    let mut known = HashMap::new();
    for IntroductionRow { backend, server, revision, result } in rows {
        match Revision::parse(&revision).filter(|_| servers.get(&backend) == Some(&server)) {
            Some(revision) => drop(known.insert(backend, Payload::new(revision, result.into()))),
            None => {
                if let Err(error) = storage.backend_introductions().delete(&backend).await {
                    tracing::warn!(%backend, %error, "what a backend said of itself cannot be forgotten");
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
    /// Keeps the news of these backends; the store holds these eras.
    pub(super) fn new(
        storage: Storage,
        specs: &[BackendSpec],
        news: watch::Receiver<Known>,
        eras: Vec<KnownEra>,
    ) -> Self {
        let stored = Known { eras, introductions: HashMap::new() };
        Self { storage, servers: servers(specs), news, stored }
    }

    /// Keeps every change until `end`, those before it included. What cannot be written is tried again with the next one.
    pub(super) async fn keep(mut self, end: CancellationToken) {
        let mut is_over = false;
        loop {
            let Known { eras, introductions } = self.news.borrow_and_update().clone();
            self.write_eras(eras).await;
            self.write_introductions(introductions).await;
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
            Err(error) => tracing::warn!(%error, "what is known of the backends' eras cannot be kept"),
        }
    }

    async fn write_introductions(&mut self, mut told: HashMap<BackendId, Payload>) {
        told.retain(|backend, result| self.stored.introductions.get(backend) != Some(result));
        for (backend, result) in told {
            let server = self.servers.get(&backend).filter(|_| result.json().len() <= MAX_INTRODUCTION);
            let Some(server) = server else { continue };
            let revision = result.revision.as_str().to_owned();
            let row = IntroductionRow { server: *server, revision, result: result.json().to_vec(), backend };
            match self.storage.backend_introductions().set(&row).await {
                Ok(()) => drop(self.stored.introductions.insert(row.backend, result)),
                Err(error) => {
                    tracing::warn!(backend = %row.backend, %error, "what a backend says of itself cannot be kept");
                }
            }
        }
    }
}
