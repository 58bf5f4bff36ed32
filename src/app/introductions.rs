//! Keeps what the backends say of themselves in the store, from one start to the next, so that clients need not wait for
//! a slow one to be told (`translation` 6.7). Knows nothing of what they say.

use std::collections::HashMap;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{Payload, Revision},
    model::{BackendId, BackendSpec},
    storage::{IntroductionRow, Storage},
    support::Digest,
};

/// The longest introduction that is kept, in bytes.
const MOST: usize = 1 << 20;

/// What is to be kept.
pub(super) struct Introductions {
    storage: Storage,
    servers: HashMap<BackendId, Digest>,
    /// What each backend said last: what came between is not kept.
    told: watch::Receiver<HashMap<BackendId, Payload>>,
    /// What the store holds of it.
    kept: HashMap<BackendId, Payload>,
}

/// What the store holds of the backends that are configured as they were. What it holds of others is deleted. Nothing
/// where it cannot be read: then clients wait.
pub(super) async fn load(storage: &Storage, specs: &[BackendSpec]) -> HashMap<BackendId, Payload> {
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

impl Introductions {
    /// Keeps what these backends say.
    pub(super) fn new(
        storage: Storage,
        specs: &[BackendSpec],
        told: watch::Receiver<HashMap<BackendId, Payload>>,
    ) -> Self {
        Self { storage, servers: servers(specs), told, kept: HashMap::new() }
    }

    /// Keeps what each backend says last until `end`, and what was said before it. What cannot be written is tried again
    /// when one of them says something else.
    pub(super) async fn keep(mut self, end: CancellationToken) {
        let mut is_over = false;
        loop {
            self.write().await;
            if is_over {
                return;
            }
            is_over = tokio::select! {
                changed = self.told.changed() => changed.is_err(),
                () = end.cancelled() => true,
            };
        }
    }

    async fn write(&mut self) {
        let mut told = self.told.borrow_and_update().clone();
        told.retain(|backend, result| self.kept.get(backend) != Some(result));
        for (backend, result) in told {
            let Some(server) = self.servers.get(&backend).filter(|_| result.json().len() <= MOST) else { continue };
            let revision = result.revision.as_str().to_owned();
            let row = IntroductionRow { server: *server, revision, result: result.json().to_vec(), backend };
            match self.storage.backend_introductions().set(&row).await {
                Ok(()) => drop(self.kept.insert(row.backend, result)),
                Err(error) => {
                    tracing::warn!(backend = %row.backend, %error, "what a backend says of itself cannot be kept");
                }
            }
        }
    }
}
