//! The sessions in memory, by id and by owner: calls share no lock, and opening one looks at no other caller's. Knows nothing
//! of the store.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use parking_lot::Mutex;

use super::error::LimitReached;
use crate::{
    frontend::session::Session,
    model::{LimitsConfig, Owner, SessionId},
    support::FastHash,
    support::Timestamp,
};

/// The sessions in memory.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    pub(super) by_id: DashMap<SessionId, Arc<Session>, FastHash>,
    /// Both tables change under the lock of the owner.
    owners: DashMap<Owner, Arc<Mutex<OwnerSessions>>>,
    /// The number of sessions.
    count: AtomicUsize,
}

/// The sessions of one caller, so ordered that the longest idle one is found without looking at all of them.
#[derive(Debug, Default)]
struct OwnerSessions {
    /// By the time of the last activity, as far as it is known here: calls do not report, so it may be later.
    order: BTreeMap<Rank, Arc<Session>>,
    ranks: HashMap<SessionId, Rank>,
    last: u64,
}

/// A time, and a number that tells apart what has the same one.
type Rank = (Timestamp, u64);

// === impl SessionTable ===

impl SessionTable {
    /// Adds a session if the bounds allow it. If the caller, or the gateway, has as many as allowed, the caller's
    /// longest idle session is removed and given; `before` runs first.
    pub(super) fn insert(
        &self,
        session: &Arc<Session>,
        limits: &LimitsConfig,
        before: impl FnOnce(&Session),
    ) -> Result<Option<Arc<Session>>, LimitReached> {
        let owner = session.owner.owner();
        let theirs = Arc::clone(&self.owners.entry(owner.clone()).or_default());
        let inserted = {
            let mut sessions = theirs.lock();
            let room = if sessions.len() >= limits.sessions_per_caller {
                Err(LimitReached::Caller)
            } else if self.reserve(limits.sessions) {
                Ok(None)
            } else {
                Err(LimitReached::Gateway)
            };
            let room = room.or_else(|full| sessions.longest_idle(session.last_seen()).map(Some).ok_or(full));
            room.inspect(|evicted| {
                if let Some(evicted) = evicted {
                    before(evicted);
                    sessions.remove(&evicted.id);
                    self.by_id.remove(&evicted.id);
                }
                sessions.insert(session);
                self.by_id.insert(session.id.clone(), Arc::clone(session));
            })
        };
        drop(theirs);
        self.remove_empty(&owner);
        inserted
    }

    /// Removes a session; `false` if it is not there. `before` runs first.
    pub(super) fn remove(&self, session: &Session, before: impl FnOnce()) -> bool {
        let owner = session.owner.owner();
        let Some(theirs) = self.owners.get(&owner).map(|theirs| Arc::clone(&theirs)) else { return false };
        let removed = {
            let mut sessions = theirs.lock();
            let is_there = sessions.contains(&session.id);
            if is_there {
                before();
                sessions.remove(&session.id);
                self.by_id.remove(&session.id);
                self.count.fetch_sub(1, Ordering::AcqRel);
            }
            is_there
        };
        drop(theirs);
        self.remove_empty(&owner);
        removed
    }

    /// Those of one caller, in no order.
    pub(super) fn of(&self, owner: &Owner) -> Vec<Arc<Session>> {
        let theirs = self.owners.get(owner).map(|theirs| Arc::clone(&theirs));
        theirs.map(|theirs| theirs.lock().order.values().cloned().collect()).unwrap_or_default()
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.iter().map(|session| Arc::clone(&session)).collect()
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Counts one more session, if `max` allows it.
    fn reserve(&self, max: usize) -> bool {
        let more = |count| (count < max).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Forgets an owner that has nothing.
    fn remove_empty(&self, owner: &Owner) {
        // no other task has the entry: getting it takes the lock that is held here
        self.owners.remove_if(owner, |_, theirs| Arc::strong_count(theirs) == 1 && theirs.lock().len() == 0);
    }
}

// === impl OwnerSessions ===

impl OwnerSessions {
    /// Their number.
    fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns `true` if this one is among them.
    fn contains(&self, id: &SessionId) -> bool {
        self.ranks.contains_key(id)
    }

    /// Adds one.
    fn insert(&mut self, session: &Arc<Session>) {
        self.put(Arc::clone(session), session.last_seen());
    }

    /// Removes one.
    fn remove(&mut self, id: &SessionId) {
        if let Some(rank) = self.ranks.remove(id) {
            self.order.remove(&rank);
        }
    }

    /// The one that was idle longest at `now`; `None` if all are active. Each that turns out to have been used since
    /// its rank was given gets a later one, so that the work is paid for by its use.
    fn longest_idle(&mut self, now: Timestamp) -> Option<Arc<Session>> {
        // each is passed over at most twice: once because it was used, once because it came behind one that was
        for _ in 0..self.order.len() * 2 {
            let entry = self.order.first_entry()?;
            let known = entry.key().0;
            let seen = if entry.get().is_active() { None } else { Some(entry.get().last_seen()) };
            if seen.is_some_and(|seen| seen <= known) {
                return Some(Arc::clone(entry.get()));
            }
            let session = entry.remove();
            self.put(session, seen.unwrap_or(now).max(known));
        }
        None
    }

    fn put(&mut self, session: Arc<Session>, seen: Timestamp) {
        self.last += 1;
        let rank = (seen, self.last);
        self.ranks.insert(session.id.clone(), rank);
        self.order.insert(rank, session);
    }
}
