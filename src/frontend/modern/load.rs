//! How many requests of each user run: what a session bounds for clients that have one.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::model::UserId;

/// The requests that run.
#[derive(Debug)]
pub(super) struct Load {
    running: Arc<Mutex<HashMap<UserId, usize>>>,
    most: usize,
}

/// One request that runs.
#[derive(Debug)]
pub(super) struct Busy {
    running: Arc<Mutex<HashMap<UserId, usize>>>,
    user: UserId,
}

impl Load {
    /// None, and at most `most` of each user.
    pub(super) fn new(most: usize) -> Self {
        Self { running: Arc::default(), most }
    }

    /// Begins one; `None` where the user has as many as allowed.
    pub(super) fn begin(&self, user: &UserId) -> Option<Busy> {
        let mut running = self.running.lock();
        let count = running.entry(user.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Busy { running: Arc::clone(&self.running), user: user.clone() })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        let Some(count) = running.get_mut(&self.user) else { return };
        *count -= 1;
        if *count == 0 {
            running.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_bound_of_their_own() {
        let load = Load::new(1);
        let (ann, bob) = (UserId::new("ann"), UserId::new("bob"));
        let first = load.begin(&ann).unwrap();
        assert!(load.begin(&ann).is_none());
        assert!(load.begin(&bob).is_some());
        drop(first);
        assert!(load.begin(&ann).is_some());
        assert!(load.running.lock().is_empty());
    }
}
