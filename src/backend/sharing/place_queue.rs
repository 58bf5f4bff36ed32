//! Calls that wait for a place among the connections, or the servers of users, of one backend: users have their turns one after the
//! other, and the calls of one user in their order. Knows nothing of connections and servers.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::model::UserId;

/// Maximum number of calls of one user that wait for a place.
const MAX_WAITING: usize = 1_024;

/// The waiting calls of one backend, each for a place `P` with a key.
pub(crate) struct PlaceQueue<K, P> {
    users: HashMap<UserId, VecDeque<PlaceApplicant<K, P>>>,
    /// The users, the next first.
    turns: VecDeque<UserId>,
}

/// A call that waits.
struct PlaceApplicant<K, P> {
    key: K,
    give: oneshot::Sender<P>,
}

/// No place for a call at this moment.
pub(crate) enum NoPlace {
    /// For this user; there may be one for another.
    ForUser,
    /// For anybody.
    ForAnybody,
}

// === impl PlaceQueue ===

impl<K: Clone, P> PlaceQueue<K, P> {
    /// True if no call waits, as far as it is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds a call; `None` if too many of its user wait.
    pub(crate) fn enter(&mut self, user: &UserId, key: &K) -> Option<oneshot::Receiver<P>> {
        if !self.users.contains_key(user) {
            self.turns.push_back(user.clone());
        }
        let calls = self.users.entry(user.clone()).or_default();
        calls.retain(|call| !call.give.is_closed());
        if calls.len() >= MAX_WAITING {
            return None;
        }
        let (give, given) = oneshot::channel();
        calls.push_back(PlaceApplicant { key: key.clone(), give });
        Some(given)
    }

    /// Gives the places that `find` finds. Returns those whose calls have left, to be dropped without a lock.
    pub(crate) fn distribute(&mut self, mut find: impl FnMut(&UserId, &K) -> Result<P, NoPlace>) -> Vec<P> {
        let (mut at, mut returned) = (0, Vec::new());
        while let Some(user) = self.turns.get(at).cloned() {
            let calls = self.users.entry(user.clone()).or_default();
            // those that have left are passed over
            while calls.front().is_some_and(|call| call.give.is_closed()) {
                calls.pop_front();
            }
            let found = calls.front().map(|call| find(&user, &call.key));
            match found {
                Some(Err(NoPlace::ForAnybody)) => break,
                Some(Err(NoPlace::ForUser)) => {
                    at += 1;
                    continue;
                }
                Some(Ok(lease)) => {
                    returned.extend(calls.pop_front().and_then(|call| call.give.send(lease).err()));
                }
                None => {}
            }
            // it is the turn of the others
            let has_more = !calls.is_empty();
            self.turns.remove(at);
            if has_more {
                self.turns.push_back(user);
            } else {
                self.users.remove(&user);
            }
        }
        returned
    }
}

impl<K, P> Default for PlaceQueue<K, P> {
    fn default() -> Self {
        Self { users: HashMap::new(), turns: VecDeque::new() }
    }
}
