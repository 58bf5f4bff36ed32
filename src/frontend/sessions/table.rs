//! The sessions in memory, by id, in shards so that calls share no lock. Knows nothing of the store.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};

use super::{Full, Session, Settings};
use crate::model::SessionId;

const SHARDS: usize = 16;

/// The sessions in memory.
#[derive(Debug, Default)]
pub(super) struct Table {
    shards: [RwLock<HashMap<Arc<str>, Arc<Session>>>; SHARDS],
    hasher: RandomState,
    /// Held while a session is opened, so that the bounds hold.
    opening: Mutex<()>,
}

impl Table {
    /// The session of this id.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.shard(id).read().get(id).cloned()
    }

    /// Adds a session.
    pub(super) fn insert(&self, session: &Arc<Session>) {
        let id = session.id.as_str();
        self.shard(id).write().insert(id.into(), Arc::clone(session));
    }

    /// Adds a session where the bounds allow it: the session that has to end for it is given, where there is one.
    pub(super) fn insert_bounded(
        &self,
        session: &Arc<Session>,
        settings: &Settings,
    ) -> Result<Option<Arc<Session>>, Full> {
        let _opening = self.opening.lock();
        let all = self.all();
        let own: Vec<_> = all.iter().filter(|other| other.owner.owns_the_same_as(&session.owner)).collect();
        let full = match () {
            () if own.len() >= settings.sessions_per_caller => Some(Full::Caller),
            () if all.len() >= settings.sessions => Some(Full::Gateway),
            () => None,
        };
        let evicted = match full {
            None => None,
            Some(full) => {
                let idle = own.into_iter().filter(|other| !other.is_active());
                let evicted = idle.min_by_key(|other| other.last_seen()).ok_or(full)?;
                Some(Arc::clone(evicted))
            }
        };
        self.insert(session);
        Ok(evicted)
    }

    /// Removes a session; `false` where it is not there.
    pub(super) fn remove(&self, id: &SessionId) -> bool {
        self.shard(id.as_str()).write().remove(id.as_str()).is_some()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    fn shard(&self, id: &str) -> &RwLock<HashMap<Arc<str>, Arc<Session>>> {
        let hash = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or_default();
        &self.shards[hash]
    }
}
