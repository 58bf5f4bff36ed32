//! Requests to a peer that wait for their answers.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// The first id: some servers treat a request with the id 0 as one without an id.
const FIRST_ID: u64 = 1;

/// Open requests to one peer, by ids that are never reused (design rule 1).
#[derive(Debug)]
pub struct SentRequests<T> {
    next: u64,
    open: HashMap<u64, T, BuildHasherDefault<IdHasher>>,
}

/// Distributes ids. Peers do not choose them, so no secret hash is needed.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl<T> SentRequests<T> {
    /// No requests yet, with ids from `next`; lower ids were used.
    pub fn starting_at(next: u64) -> Self {
        Self { next: next.max(FIRST_ID), open: HashMap::default() }
    }

    /// The id of the next request.
    pub const fn next_id(&self) -> u64 {
        self.next
    }

    /// Adds a request and returns its id.
    pub fn open(&mut self, request: T) -> u64 {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, request);
        id
    }

    /// The open request `id`.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.open.get(&id)
    }

    /// The open request `id`, mutable.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.open.get_mut(&id)
    }

    /// Removes the request `id`; `None` if it was never sent or is answered.
    pub fn close(&mut self, id: u64) -> Option<T> {
        self.open.remove(&id)
    }

    /// Removes all open requests.
    pub fn close_all(&mut self) -> Vec<T> {
        self.open.drain().map(|(_, request)| request).collect()
    }

    /// Ids of the open requests, unordered.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    /// The open requests, unordered.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.open.values()
    }

    /// Number of open requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// True if no request is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl<T> Default for SentRequests<T> {
    fn default() -> Self {
        Self::starting_at(FIRST_ID)
    }
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        // an odd number near 2^64 divided by the golden ratio
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_answered_once_and_never_used_again() {
        let mut requests = SentRequests::default();
        let one = requests.open("one");
        assert_eq!(requests.close(one), Some("one"));
        assert_eq!(requests.close(one), None);
        assert_ne!(requests.open("two"), one);
    }
}
