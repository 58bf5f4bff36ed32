//! Lists of an earlier run, shown until the server has answered (`translation` 6.7).

use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    mcp::{ListKind, Method, Payload},
    model::{BackendId, UserId},
    support::Digest,
};

/// The age at which an unchanged list is stored again: the store forgets it after a week.
const STORE_AGAIN: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlace {
    pub backend: BackendId,
    /// Digest of the server and of the rules for its tools, as configured. If it differs, the stored list belongs to
    /// another server.
    pub section: Digest,
    /// The only user who may see it; `None` if all users may.
    pub user: Option<UserId>,
    /// Capabilities sent to the server, as canonical text; empty if none.
    pub capabilities: String,
    /// Method that lists it.
    pub method: Method,
}

/// Stores lists across restarts, best effort.
pub trait ListStore: Send + Sync {
    /// The last list stored here, unless it is too old.
    fn load<'a>(&'a self, place: &'a ListPlace) -> BoxFuture<'a, Option<Payload>>;

    /// Changes what is stored here. Returns at once.
    fn keep(&self, place: ListPlace, change: KeptList);
}

/// A change of a stored list.
#[derive(Debug, Clone)]
pub enum KeptList {
    /// This result of a list request takes its place.
    New(Payload),
    /// It has not changed, so it stays for another week.
    Same,
    /// There is none that may be shown.
    Gone,
}

/// The times at which this process last stored each of the lists.
#[derive(Debug, Default)]
pub(super) struct StoredTimes(Mutex<[Option<Instant>; 4]>);

// === impl StoredTimes ===

impl StoredTimes {
    /// True if a list was stored by this process.
    pub(super) fn has(&self, kind: ListKind) -> bool {
        self.0.lock()[kind as usize].is_some()
    }

    /// True if a list was stored, so long ago that it must be stored again now.
    pub(super) fn renews(&self, kind: ListKind) -> bool {
        let stored = &mut self.0.lock()[kind as usize];
        let is_due = stored.is_some_and(|at| at.elapsed() >= STORE_AGAIN);
        if is_due {
            *stored = Some(Instant::now());
        }
        is_due
    }

    /// A list was stored.
    pub(super) fn note(&self, kind: ListKind) {
        self.0.lock()[kind as usize] = Some(Instant::now());
    }
}
