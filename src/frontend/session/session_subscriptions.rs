//! The resources that a session's client is subscribed to, and their bound. Knows nothing of servers.

use std::collections::{BTreeSet, HashSet};

use crate::support::Digest;

/// The bound of one client's subscriptions.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI that is stored, in bytes; subscriptions to longer ones count, and last until the gateway restarts.
const MAX_URI: usize = 8 * 1024;

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct SessionSubscriptions {
    /// Those that its row has.
    stored: BTreeSet<String>,
    /// The digests of URIs that are too long to be stored.
    long: HashSet<Digest>,
}

// === impl SessionSubscriptions ===

impl SessionSubscriptions {
    /// Those of the process before this one.
    pub(super) fn restored(uris: Vec<String>) -> Self {
        Self { stored: uris.into_iter().take(MAX_SUBSCRIPTIONS).collect(), long: HashSet::new() }
    }

    /// Those that the session's row has.
    pub(super) fn stored(&self) -> Vec<String> {
        self.stored.iter().cloned().collect()
    }

    /// True if `uri` is among them, or may be added.
    pub(super) fn has_room(&self, uri: &str) -> bool {
        self.stored.len() + self.long.len() < MAX_SUBSCRIPTIONS || self.contains(uri)
    }

    fn contains(&self, uri: &str) -> bool {
        if uri.len() > MAX_URI { self.long.contains(&Digest::sha256(uri)) } else { self.stored.contains(uri) }
    }

    /// Adds a URI, if there is room. Returns true if its row has to be written.
    pub(super) fn add(&mut self, uri: String) -> bool {
        if !self.has_room(&uri) {
            return false;
        }
        if uri.len() > MAX_URI {
            self.long.insert(Digest::sha256(&uri));
            return false;
        }
        self.stored.insert(uri)
    }

    /// Removes a URI. Returns true if its row has to be written.
    pub(super) fn remove(&mut self, uri: &str) -> bool {
        if uri.len() > MAX_URI {
            self.long.remove(&Digest::sha256(uri));
            return false;
        }
        self.stored.remove(uri)
    }
}
