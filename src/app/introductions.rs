//! Keeps what the backends say of themselves in the store, from one start to the next, so that clients need not wait for
//! a slow one to be told (`translation` 6.7). Knows nothing of what they say.

use std::collections::HashMap;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    gateway::Introduction,
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
    told: mpsc::UnboundedReceiver<Introduction>,
}

/// What the store holds of the backends that are configured as they were. What it holds of others is deleted. Nothing
/// where it cannot be read: then clients wait.
pub(super) async fn load(storage: &Storage, specs: &[BackendSpec]) -> HashMap<BackendId, Payload> {
    let rows = storage.list_backend_introductions().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what the backends last said of themselves cannot be read; they are asked anew");
        Vec::new()
    });
    let servers = servers(specs);
    let mut known = HashMap::new();
    for IntroductionRow { backend, server, revision, result } in rows {
        match Revision::parse(&revision).filter(|_| servers.get(&backend) == Some(&server)) {
            Some(revision) => drop(known.insert(backend, Payload::new(revision, result.into()))),
            None => {
                if let Err(error) = storage.delete_backend_introduction(&backend).await {
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
    pub(super) fn new(storage: Storage, specs: &[BackendSpec], told: mpsc::UnboundedReceiver<Introduction>) -> Self {
        Self { storage, servers: servers(specs), told }
    }

    /// Keeps whatever is said until `end`, and what was said before it.
    pub(super) async fn keep(mut self, end: CancellationToken) {
        loop {
            let told = tokio::select! {
                biased;
                told = self.told.recv() => told,
                () = end.cancelled() => {
                    self.told.close();
                    continue;
                }
            };
            let Some(Introduction { backend, result }) = told else { return };
            let Some(server) = self.servers.get(&backend).filter(|_| result.json().len() <= MOST) else { continue };
            let revision = result.revision.as_str().to_owned();
            let row = IntroductionRow { server: *server, revision, result: result.json().to_vec(), backend };
            if let Err(error) = self.storage.set_backend_introduction(&row).await {
                tracing::warn!(backend = %row.backend, %error, "what a backend says of itself cannot be kept");
            }
        }
    }
}
