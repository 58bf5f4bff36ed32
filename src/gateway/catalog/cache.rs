//! The lists of one backend as one kind of client sees them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::broadcast, time::Instant};

use super::{cached::Cached, list::List, list_store::StoredTimes, server_info::DiscoverInfo};
use crate::{
    mcp::{Context, ListKind, Method},
    model::{BackendId, SessionId, UserId},
};

/// Time to report a change to new listens.
pub(super) const JUST_CHANGED: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CacheOwner {
    /// The gateway itself: shown to everyone who may use the backend.
    Base,
    User(UserId),
    Session(SessionId),
}

/// Key of cached lists: servers show different tools to clients with different capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ListCacheKey {
    pub(super) owner: CacheOwner,
    pub(super) capabilities: String,
}

pub(crate) struct ListCache {
    pub(super) key: ListCacheKey,
    /// Context for fetching the lists.
    pub(super) context: Context,
    pub(super) server_info: Arc<Cached<DiscoverInfo>>,
    lists: [Arc<Cached<List>>; 4],
    /// True if a client has read the list since its last reported change.
    wanted: [AtomicBool; 4],
    pub(super) used: AtomicU64,
    /// The times at which the lists were last stored for a later process.
    pub(super) stored: StoredTimes,
}

/// A list that differs from the one that clients have.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) backend: BackendId,
    pub(crate) cache: ListCacheKey,
    pub(crate) kind: ListKind,
}

/// Announces changed lists, and remembers for a while which backends changed theirs.
#[derive(Clone)]
pub(crate) struct ListChanges {
    sender: broadcast::Sender<Change>,
    recent: Arc<Mutex<Vec<(BackendId, Instant)>>>,
}

// === impl ListChanges ===

impl ListChanges {
    /// Creates the channel. A receiver that lags behind by more than `behind` changes gets an error.
    pub(crate) fn new(behind: usize) -> Self {
        Self { sender: broadcast::Sender::new(behind), recent: Arc::default() }
    }

    pub(super) fn tell(&self, change: Change) {
        let (now, mut recent) = (Instant::now(), self.recent.lock());
        recent.retain(|(backend, at)| *backend != change.backend && now - *at < JUST_CHANGED);
        recent.push((change.backend.clone(), now));
        drop(recent);
        // fails only if there is no receiver
        let _ = self.sender.send(change);
    }

    /// Receives the changes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }

    /// Backends whose lists changed within [`JUST_CHANGED`].
    pub(crate) fn recent(&self) -> Vec<BackendId> {
        let recent = self.recent.lock();
        recent.iter().filter(|(_, at)| at.elapsed() < JUST_CHANGED).map(|(backend, _)| backend.clone()).collect()
    }
}

// === impl ListCacheKey ===

impl ListCacheKey {
    /// The key of the lists that the gateway itself sees.
    pub(super) const OWN: Self = Self { owner: CacheOwner::Base, capabilities: String::new() };

    /// The user who owns the lists; `None` if others see them too, or only one session does.
    pub(super) const fn user(&self) -> Option<&UserId> {
        match &self.owner {
            CacheOwner::User(user) => Some(user),
            CacheOwner::Base | CacheOwner::Session(_) => None,
        }
    }
}

// === impl ListCache ===

impl ListCache {
    pub(super) fn new(key: ListCacheKey, context: Context, used: u64) -> Self {
        Self {
            key,
            context,
            server_info: Arc::new(Cached::new()),
            lists: std::array::from_fn(|_| Arc::new(Cached::new())),
            wanted: std::array::from_fn(|_| AtomicBool::new(false)),
            used: AtomicU64::new(used),
            stored: StoredTimes::default(),
        }
    }

    pub(super) fn list(&self, kind: ListKind) -> &Arc<Cached<List>> {
        &self.lists[kind as usize]
    }

    /// Records that a client reads the list.
    pub(super) fn want(&self, kind: ListKind) {
        self.wanted[kind as usize].store(true, Ordering::Relaxed);
    }

    /// Forgets that clients read the list; true if one did.
    pub(super) fn take_wanted(&self, kind: ListKind) -> bool {
        self.wanted[kind as usize].swap(false, Ordering::Relaxed)
    }

    /// True if it holds the lists that the gateway itself sees.
    pub(super) fn is_own(&self) -> bool {
        self.key == ListCacheKey::OWN
    }

    /// True if a changed list is fetched again without a request for it.
    pub(super) fn is_followed(&self, kind: ListKind) -> bool {
        self.is_own() || self.key.owner == CacheOwner::Base && self.wanted[kind as usize].load(Ordering::Relaxed)
    }

    pub(super) fn forget_failures(&self) {
        self.server_info.forget_failure();
        for list in &self.lists {
            list.forget_failure();
        }
    }

    /// Records that these lists, and the server information, changed at the backend. Returns true if the server
    /// information was current before; it is fetched again only on request.
    pub(super) fn invalidate(&self, kinds: &[ListKind]) -> bool {
        let was_fresh = self.server_info.invalidate();
        for kind in kinds {
            self.list(*kind).invalidate();
        }
        was_fresh && !kinds.iter().any(|kind| self.is_followed(*kind))
    }
}

// === impl Change ===

impl Change {
    /// The notification for the change.
    pub(crate) const fn method(&self) -> Method {
        self.kind.change()
    }
}
