//! The sessions in memory, by id and by user. Calls share no lock, and opening a session reads other users' sessions
//! only when the table is full.
//!
//! A user has at most `sessions_per_user` sessions over all clients. Once all users together reach the gateway's
//! maximum, the user with the most sessions loses the one that has been idle longest. An eighth of the places is kept
//! for users without sessions.

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
    model::{LimitsConfig, Owner, SessionId, UserId},
    support::{FastHash, Timestamp},
};

/// The sessions in memory.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    pub(super) by_id: DashMap<SessionId, Arc<Session>, FastHash>,
    /// Both tables change only under the lock of the user.
    users: DashMap<UserId, Arc<Mutex<UserSessions>>>,
    /// The number of sessions, including sessions that are about to be added.
    count: AtomicUsize,
}

/// The sessions of one user, ordered so that the longest idle one is found without reading all of them.
#[derive(Debug, Default)]
struct UserSessions {
    /// The sessions by their last known activity. Calls do not report their activity, so the real one may be later.
    order: BTreeMap<Rank, Arc<Session>>,
    ranks: HashMap<SessionId, Rank>,
    last: u64,
    /// Number of sessions that are just replacing a session of another user.
    opening: usize,
}

/// The reserved place of a session that is about to be added. Dropping this frees the place.
struct FreePlace<'a>(&'a AtomicUsize);

/// The way a session gets a place.
enum Room<'a> {
    /// A place that was free, and is reserved now.
    Free(FreePlace<'a>),
    /// The place of another session of the same user.
    Own(Arc<Session>),
    /// None: the gateway is at its maximum, and this user has this many sessions.
    Full(usize),
}

/// A time, and a number that distinguishes equal times.
type Rank = (Timestamp, u64);

// === impl SessionTable ===

impl SessionTable {
    /// Adds a session within the limits. If the user is at the limit, removes and returns the user's longest idle
    /// session. If the gateway is at its limit, removes a session of the user with the most. `before` runs before a
    /// removal.
    pub(super) fn insert(
        &self,
        session: &Arc<Session>,
        limits: &LimitsConfig,
        before: impl Fn(&Session),
    ) -> Result<Option<Arc<Session>>, LimitReached> {
        let user = &session.owner.user;
        let theirs = Arc::clone(&self.users.entry(user.clone()).or_default());
        let inserted = self.insert_in(&theirs, session, limits, &before);
        drop(theirs);
        self.remove_empty(user);
        inserted
    }

    fn insert_in(
        &self,
        theirs: &Mutex<UserSessions>,
        session: &Arc<Session>,
        limits: &LimitsConfig,
        before: &impl Fn(&Session),
    ) -> Result<Option<Arc<Session>>, LimitReached> {
        let mut sessions = theirs.lock();
        let (mut evicted, mut place) = (None, None);
        match self.room(&mut sessions, session, limits)? {
            Room::Free(free) => place = Some(free),
            Room::Own(own) => {
                self.take_out(&mut sessions, &own, || before(&own));
                evicted = Some(own);
            }
            Room::Full(count) => {
                sessions.opening += 1;
                drop(sessions);
                let room = self.room_of_others(count, session.last_seen(), before);
                sessions = theirs.lock();
                sessions.opening -= 1;
                let (of_other, freed) = room.ok_or(LimitReached::Gateway)?;
                (evicted, place) = (Some(of_other), Some(freed));
            }
        }
        sessions.insert(session);
        self.by_id.insert(session.id.clone(), Arc::clone(session));
        place.into_iter().for_each(FreePlace::fill);
        Ok(evicted)
    }

    /// Finds a place for a session of the user with these sessions.
    fn room(
        &self,
        sessions: &mut UserSessions,
        session: &Session,
        limits: &LimitsConfig,
    ) -> Result<Room<'_>, LimitReached> {
        let is_one_more = sessions.len() + sessions.opening < limits.sessions_per_user;
        // so that users without sessions find a place
        let most = if sessions.len() == 0 { limits.sessions } else { limits.sessions - limits.sessions / 8 };
        if is_one_more && let Some(place) = self.reserve(most) {
            return Ok(Room::Free(place));
        }
        let is_of_most = !is_one_more || self.counts().iter().all(|(count, _)| *count <= sessions.len());
        if is_of_most && let Some(idle) = sessions.longest_idle(session.last_seen()) {
            return Ok(Room::Own(idle));
        }
        if is_one_more { Ok(Room::Full(sessions.len())) } else { Err(LimitReached::User) }
    }

    /// Removes the longest idle session of the user with the most, among users with more than `count` sessions; `None`
    /// if all of those are in use.
    fn room_of_others(
        &self,
        count: usize,
        now: Timestamp,
        before: &impl Fn(&Session),
    ) -> Option<(Arc<Session>, FreePlace<'_>)> {
        let mut counts = self.counts();
        counts.sort_by(|(one, _), (other, _)| other.cmp(one));
        counts.into_iter().take_while(|(theirs, _)| *theirs > count).find_map(|(_, other)| {
            let theirs = self.users.get(&other).map(|theirs| Arc::clone(&theirs))?;
            let idle = {
                let mut sessions = theirs.lock();
                let idle = sessions.longest_idle(now)?;
                self.take_out(&mut sessions, &idle, || before(&idle));
                idle
            };
            drop(theirs);
            self.remove_empty(&other);
            Some((idle, FreePlace(&self.count)))
        })
    }

    /// The users with their numbers of sessions, in no particular order.
    fn counts(&self) -> Vec<(usize, UserId)> {
        let users: Vec<_> = self.users.iter().map(|entry| (entry.key().clone(), Arc::clone(entry.value()))).collect();
        // a locked user is opening a session just now
        users.into_iter().filter_map(|(user, theirs)| Some((theirs.try_lock()?.len(), user))).collect()
    }

    /// Removes a session. Returns `false` if it is not in the table. `before` runs first.
    pub(super) fn remove(&self, session: &Session, before: impl FnOnce()) -> bool {
        let user = &session.owner.user;
        let Some(theirs) = self.users.get(user).map(|theirs| Arc::clone(&theirs)) else { return false };
        let removed = {
            let mut sessions = theirs.lock();
            let is_there = sessions.contains(&session.id);
            if is_there {
                self.take_out(&mut sessions, session, before);
                self.count.fetch_sub(1, Ordering::AcqRel);
            }
            is_there
        };
        drop(theirs);
        self.remove_empty(user);
        removed
    }

    /// Takes a session out of both tables, and keeps its place reserved. `before` runs first.
    fn take_out(&self, sessions: &mut UserSessions, session: &Session, before: impl FnOnce()) {
        before();
        sessions.remove(&session.id);
        self.by_id.remove(&session.id);
    }

    /// The sessions of one caller, in no particular order.
    pub(super) fn of(&self, owner: &Owner) -> Vec<Arc<Session>> {
        let mut sessions = self.of_user(owner.user());
        sessions.retain(|session| session.owner.owner() == *owner);
        sessions
    }

    /// The sessions of one user, in no particular order.
    pub(super) fn of_user(&self, user: &UserId) -> Vec<Arc<Session>> {
        let theirs = self.users.get(user).map(|theirs| Arc::clone(&theirs));
        theirs.map(|theirs| theirs.lock().order.values().cloned().collect()).unwrap_or_default()
    }

    /// All sessions, in no particular order.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.iter().map(|session| Arc::clone(&session)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Counts one more session, unless there are `max` already.
    fn reserve(&self, max: usize) -> Option<FreePlace<'_>> {
        let more = |count| (count < max).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(FreePlace(&self.count))
    }

    /// Forgets a user who has no sessions.
    fn remove_empty(&self, user: &UserId) {
        // no other task has the entry, because getting it takes the lock that is held here
        self.users.remove_if(user, |_, theirs| Arc::strong_count(theirs) == 1 && theirs.lock().len() == 0);
    }
}

// === impl FreePlace ===

impl FreePlace<'_> {
    /// Keeps the place for a session that is now in the table.
    const fn fill(self) {
        std::mem::forget(self);
    }
}

impl Drop for FreePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl UserSessions ===

impl UserSessions {
    fn len(&self) -> usize {
        self.ranks.len()
    }

    /// True if the table has this session.
    fn contains(&self, id: &SessionId) -> bool {
        self.ranks.contains_key(id)
    }

    fn insert(&mut self, session: &Arc<Session>) {
        self.put(Arc::clone(session), session.last_seen());
    }

    fn remove(&mut self, id: &SessionId) {
        if let Some(rank) = self.ranks.remove(id) {
            self.order.remove(&rank);
        }
    }

    /// The session that is idle longest at `now`; `None` if all are active. A session that was used since it was ranked
    /// gets a later rank. So each use pays for this work at most once.
    fn longest_idle(&mut self, now: Timestamp) -> Option<Arc<Session>> {
        // each session is passed over at most twice: once because it was used, and once because it came after a used
        // one
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
