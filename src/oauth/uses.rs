//! Keys, grants and tokens that were used, on their way to the store (`OA-126`). Knows nothing of what they open.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::{core::Core, error::Error};
use crate::model::{GrantId, KeyId};

/// The most uses that wait to be written down; further ones are dropped.
const MAX_USES: usize = 10_000;

/// What was used since the last round of writing.
pub(super) struct Uses {
    core: Core,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    keys: HashSet<KeyId>,
    grants: HashSet<GrantId>,
    generations: HashSet<String>,
}

impl Uses {
    pub(super) fn new(core: Core) -> Self {
        Self { core, waiting: Mutex::default() }
    }

    /// Notes that a key was used.
    pub(super) fn note_key(&self, key: &KeyId) {
        let mut waiting = self.waiting.lock();
        if waiting.keys.len() < MAX_USES {
            waiting.keys.insert(key.clone());
        }
    }

    /// Notes that a grant was used.
    pub(super) fn note_grant(&self, grant: &GrantId) {
        let mut waiting = self.waiting.lock();
        if waiting.grants.len() < MAX_USES {
            waiting.grants.insert(grant.clone());
        }
    }

    /// Notes that an access token of this generation was used.
    pub(super) fn note_generation(&self, generation: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.generations.len() < MAX_USES {
            waiting.generations.insert(generation.to_owned());
        }
    }

    /// Writes down what was used since the last time. No call waits for it, but those whose answer depends on it.
    pub(super) async fn write(&self) -> Result<(), Error> {
        let now = self.core.now();
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for key in waiting.keys {
            self.core.storage.keys().touch(&key, now).await?;
        }
        for grant in waiting.grants {
            self.core.storage.grants().touch(&grant, now).await?;
        }
        for generation in waiting.generations {
            self.core.storage.refresh_tokens().touch_generation(&generation, now).await?;
        }
        Ok(())
    }
}
