//! Usage times of keys, grants and tokens, before they are stored (`OA-126`). Knows nothing of what they open.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::{dependencies::OAuthDeps, error::OAuthError};
use crate::model::{GrantId, KeyId};

/// Maximum number of unwritten uses; further ones are dropped.
const MAX_USES: usize = 10_000;

/// Records uses, and writes them to the store at intervals.
pub(super) struct UsageRecorder {
    deps: OAuthDeps,
    waiting: Mutex<PendingUses>,
}

#[derive(Debug, Default)]
struct PendingUses {
    keys: HashSet<KeyId>,
    grants: HashSet<GrantId>,
    generations: HashSet<String>,
}

impl UsageRecorder {
    pub(super) fn new(deps: OAuthDeps) -> Self {
        Self { deps, waiting: Mutex::default() }
    }

    /// Records the use of a key.
    pub(super) fn note_key(&self, key: &KeyId) {
        let mut waiting = self.waiting.lock();
        if waiting.keys.len() < MAX_USES {
            waiting.keys.insert(key.clone());
        }
    }

    /// Records the use of a grant.
    pub(super) fn note_grant(&self, grant: &GrantId) {
        let mut waiting = self.waiting.lock();
        if waiting.grants.len() < MAX_USES {
            waiting.grants.insert(grant.clone());
        }
    }

    /// Records the use of an access token of this generation.
    pub(super) fn note_generation(&self, generation: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.generations.len() < MAX_USES {
            waiting.generations.insert(generation.to_owned());
        }
    }

    /// Writes the uses recorded since the last call. Only calls whose result depends on it wait for it.
    pub(super) async fn write(&self) -> Result<(), OAuthError> {
        let now = self.deps.now();
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for key in waiting.keys {
            self.deps.storage.keys().touch(&key, now).await?;
        }
        for grant in waiting.grants {
            self.deps.storage.grants().touch(&grant, now).await?;
        }
        for generation in waiting.generations {
            self.deps.storage.refresh_tokens().touch_generation(&generation, now).await?;
        }
        Ok(())
    }
}
