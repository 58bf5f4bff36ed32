//! Users who sent requests on open connections, and the number of connections of each.

use std::{
    hash::BuildHasher as _,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    model::UserId,
    support::{FastHash, FastMap},
};

/// The users of a table's slots.
#[derive(Debug)]
pub(super) struct ConnectionUsers {
    /// The mark of each slot's user; 0 before a user's first request.
    of_slots: Box<[AtomicU64]>,
    /// Number of slots of each user.
    counts: Mutex<FastMap<u64, usize>>,
    /// Maximum number of slots of one user.
    most: usize,
    /// The marks are hashes with a random seed: two users share one only by chance, once in 2^64.
    marks: FastHash,
}

/// The numbers of connections of all users, at one moment.
pub(super) struct UserCounts<'a> {
    users: &'a ConnectionUsers,
    counts: MutexGuard<'a, FastMap<u64, usize>>,
}

/// The mark of a connection whose user is not known.
const NOBODY: u64 = 0;

// === impl ConnectionUsers ===

impl ConnectionUsers {
    /// Creates it for this many slots. An eighth is reserved for users who have none.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            of_slots: (0..capacity).map(|_| AtomicU64::new(NOBODY)).collect(),
            counts: Mutex::default(),
            most: capacity - capacity / 8,
            marks: FastHash::default(),
        }
    }

    /// Counts the connection in a slot for this user; `false` if the user has reached the maximum.
    pub(super) fn hold(&self, index: usize, user: &UserId) -> bool {
        let user = self.marks.hash_one(user).max(NOBODY + 1);
        let of_slot = &self.of_slots[index];
        let before = of_slot.load(Ordering::Relaxed);
        if before == user {
            return true;
        }
        let mut counts = self.counts.lock();
        let count = counts.entry(user).or_default();
        if *count >= self.most {
            return false;
        }
        *count += 1;
        of_slot.store(user, Ordering::Relaxed);
        count_off(&mut counts, before);
        true
    }

    /// Forgets the user of a slot.
    pub(super) fn leave(&self, index: usize) {
        let before = self.of_slots[index].swap(NOBODY, Ordering::Relaxed);
        if before != NOBODY {
            count_off(&mut self.counts.lock(), before);
        }
    }

    pub(super) fn counts(&self) -> UserCounts<'_> {
        UserCounts { users: self, counts: self.counts.lock() }
    }
}

// === impl UserCounts ===

impl UserCounts<'_> {
    /// Number of connections of a slot's user. A slot without a user counts as having the most.
    pub(super) fn of(&self, index: usize) -> usize {
        match self.users.of_slots[index].load(Ordering::Relaxed) {
            NOBODY => usize::MAX,
            user => self.counts.get(&user).copied().unwrap_or_default(),
        }
    }
}

fn count_off(counts: &mut FastMap<u64, usize>, user: u64) {
    if let Some(count) = counts.get_mut(&user) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&user);
        }
    }
}
