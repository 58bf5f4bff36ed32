//! Calls that wait for a place among the connections, or the users' servers, of one backend. Users take turns; the
//! calls of one user are served in order.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::model::UserId;

/// Maximum number of waiting calls of one user.
const MAX_WAITING: usize = 1_024;

/// Waiting calls of one backend. Each wants a place `P` for a key `K`.
pub(crate) struct PlaceQueue<K, P> {
    users: HashMap<UserId, VecDeque<PlaceApplicant<K, P>>>,
    /// Users with waiting calls; the first is next.
    turns: VecDeque<UserId>,
}

struct PlaceApplicant<K, P> {
    key: K,
    give: oneshot::Sender<P>,
}

/// Why a call gets no place now.
pub(crate) enum NoPlace {
    /// This user may have no more; another user may.
    ForUser,
    /// All places are taken.
    ForAnybody,
}

// === impl PlaceQueue ===

impl<K: Clone, P> PlaceQueue<K, P> {
    /// True if no call waits. Calls that have given up may still count.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds a call; `None` if [`MAX_WAITING`] calls of its user wait.
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

    /// Hands out the places that `find` returns. Returns places whose calls have given up: drop them after releasing
    /// locks.
    pub(crate) fn distribute(&mut self, mut find: impl FnMut(&UserId, &K) -> Result<P, NoPlace>) -> Vec<P> {
        let (mut at, mut returned) = (0, Vec::new());
        while let Some(user) = self.turns.get(at).cloned() {
            let calls = self.users.entry(user.clone()).or_default();
            // skip calls that have given up
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
            // the next turn is another user's
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
