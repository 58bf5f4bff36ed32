//! Keeps what was found out about the backends' eras in the store, from one start to the next. Knows nothing of its meaning.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{model::KnownEra, storage::Storage};

/// What is to be kept, and what the store holds of it.
pub(super) struct Eras {
    storage: Storage,
    known: watch::Receiver<Vec<KnownEra>>,
    kept: Vec<KnownEra>,
}

impl Eras {
    /// What the store holds. Nothing where it cannot be read: then it is found out anew.
    pub(super) async fn load(storage: &Storage) -> Vec<KnownEra> {
        storage.backend_eras().list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is known of the backends' eras cannot be read; it is found out anew");
            Vec::new()
        })
    }

    /// Keeps `known`; the store holds `kept`.
    pub(super) const fn new(storage: Storage, known: watch::Receiver<Vec<KnownEra>>, kept: Vec<KnownEra>) -> Self {
        Self { storage, known, kept }
    }

    /// Keeps every change until `end`, those before it included. What cannot be written is tried again with the next one.
    pub(super) async fn keep(mut self, end: CancellationToken) {
        let mut is_over = false;
        loop {
            self.write().await;
            if is_over {
                return;
            }
            is_over = tokio::select! {
                changed = self.known.changed() => changed.is_err(),
                () = end.cancelled() => true,
            };
        }
    }

    async fn write(&mut self) {
        let known = self.known.borrow_and_update().clone();
        if known == self.kept {
            return;
        }
        match self.storage.backend_eras().set(&known).await {
            Ok(()) => self.kept = known,
            Err(error) => tracing::warn!(%error, "what is known of the backends' eras cannot be kept"),
        }
    }
}
