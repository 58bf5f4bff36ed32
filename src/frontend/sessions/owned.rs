//! The sessions of one caller, so ordered that the longest idle one is found without looking at all of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{frontend::session::Session, model::SessionId, support::Timestamp};

/// The sessions of one caller.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// By when each was last seen, as far as is known here: calls do not say, so the true time may be later.
    order: BTreeMap<Place, Arc<Session>>,
    places: HashMap<SessionId, Place>,
    last: u64,
}

/// A time, and a number that tells apart what has the same one.
type Place = (Timestamp, u64);

impl Owned {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether this one is among them.
    pub(super) fn contains(&self, id: &SessionId) -> bool {
        self.places.contains_key(id)
    }

    /// Adds one.
    pub(super) fn insert(&mut self, session: &Arc<Session>) {
        self.put(Arc::clone(session), session.last_seen());
    }

    /// Removes one.
    pub(super) fn remove(&mut self, id: &SessionId) {
        if let Some(place) = self.places.remove(id) {
            self.order.remove(&place);
        }
    }

    /// The one that was idle longest at `now`; `None` where all are active. Each that turns out to have been used since
    /// its place was given gets a later one, so that the work is paid for by its use.
    pub(super) fn longest_idle(&mut self, now: Timestamp) -> Option<Arc<Session>> {
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
        let place = (seen, self.last);
        self.places.insert(session.id.clone(), place);
        self.order.insert(place, session);
    }
}
