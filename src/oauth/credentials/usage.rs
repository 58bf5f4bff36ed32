//! Times of use of keys, grants and tokens, before they are stored (`OA-126`).

use std::{collections::HashSet, hash::Hash};

use parking_lot::Mutex;

use crate::{
    model::{GrantId, KeyId},
    oauth::{dependencies::OAuthDeps, error::OAuthError},
};

/// Maximum number of uses that are not written yet. Any more are dropped.
const MAX_USES: usize = 10_000;

/// Records uses, and writes them to the store at intervals.
pub(in crate::oauth) struct UsageRecorder {
    deps: OAuthDeps,
    keys: PendingUses<KeyId>,
    grants: PendingUses<GrantId>,
    generations: PendingUses<String>,
}

/// Uses that are not written yet. They stay until they are written. Code that needs them in the store writes them too,
/// and a failed or interrupted write loses none.
struct PendingUses<T>(Mutex<HashSet<T>>);

impl UsageRecorder {
    pub(in crate::oauth) fn new(deps: OAuthDeps) -> Self {
        let (keys, grants, generations) = (PendingUses::none(), PendingUses::none(), PendingUses::none());
        Self { deps, keys, grants, generations }
    }

    /// Records the use of a key.
    pub(in crate::oauth) fn note_key(&self, key: &KeyId) {
        self.keys.note(key);
    }

    /// Records the use of a grant.
    pub(super) fn note_grant(&self, grant: &GrantId) {
        self.grants.note(grant);
    }

    /// Records the use of an access token of this generation.
    pub(super) fn note_generation(&self, generation: &str) {
        self.generations.note(&generation.to_owned());
    }

    /// Writes the recorded uses. Uses that decide about refresh tokens come first. Only a call whose result depends on
    /// it waits for it.
    pub(in crate::oauth) async fn write(&self) -> Result<(), OAuthError> {
        let (storage, now) = (&self.deps.storage, self.deps.now());
        let generations = self.generations.all();
        storage.refresh_tokens().touch_generations(&generations, now).await?;
        self.generations.remove(&generations);
        let grants = self.grants.all();
        storage.grants().touch(&grants, now).await?;
        self.grants.remove(&grants);
        let keys = self.keys.all();
        storage.keys().touch(&keys, now).await?;
        self.keys.remove(&keys);
        Ok(())
    }
}

// === impl PendingUses ===

impl<T: Clone + Eq + Hash> PendingUses<T> {
    fn none() -> Self {
        Self(Mutex::default())
    }

    fn note(&self, used: &T) {
        let mut pending = self.0.lock();
        if pending.len() < MAX_USES && !pending.contains(used) {
            pending.insert(used.clone());
        }
    }

    fn all(&self) -> Vec<T> {
        self.0.lock().iter().cloned().collect()
    }

    fn remove(&self, written: &[T]) {
        let mut pending = self.0.lock();
        for used in written {
            pending.remove(used);
        }
    }
}
