//! The resources that a session's client is subscribed to, and their maximum. The reply to each request keeps the
//! subscription alive at its server: dropping the reply unsubscribes.

use std::collections::{BTreeMap, HashMap};

use crate::{mcp::Reply, support::Digest};

/// Maximum number of subscriptions of one client.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// Maximum length of a stored URI, in bytes. Subscriptions to longer ones count, but last only until the gateway
/// restarts.
const MAX_URI: usize = 8 * 1024;

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct SessionSubscriptions {
    /// The subscriptions in the session's row, by URI.
    stored: BTreeMap<String, HeldSubscription>,
    /// Subscriptions whose URIs are too long to be stored, by the digest of the URI.
    long: HashMap<Digest, HeldSubscription>,
}

/// The reply that keeps a subscription alive at its server. `None` while it is being restored, if the server refused
/// it, and after the session has ended.
type HeldSubscription = Option<Reply>;

// === impl SessionSubscriptions ===

impl SessionSubscriptions {
    /// Subscriptions from an earlier process.
    pub(super) fn restored(uris: Vec<String>) -> Self {
        let stored = uris.into_iter().take(MAX_SUBSCRIPTIONS).map(|uri| (uri, None)).collect();
        Self { stored, long: HashMap::new() }
    }

    /// The URIs stored in the session's row.
    pub(super) fn stored(&self) -> Vec<String> {
        self.stored.keys().cloned().collect()
    }

    /// True if `uri` is subscribed already, or another subscription fits.
    pub(super) fn has_room(&self, uri: &str) -> bool {
        self.stored.len() + self.long.len() < MAX_SUBSCRIPTIONS || self.contains(uri)
    }

    fn contains(&self, uri: &str) -> bool {
        if uri.len() > MAX_URI { self.long.contains_key(&Digest::sha256(uri)) } else { self.stored.contains_key(uri) }
    }

    /// Adds a subscription that `held` keeps alive, if it fits. Returns true if the row must be written, and a reply to
    /// drop.
    pub(super) fn add(&mut self, uri: String, held: Reply) -> (bool, Option<Reply>) {
        if !self.has_room(&uri) {
            return (false, Some(held));
        }
        if uri.len() > MAX_URI {
            return (false, self.long.insert(Digest::sha256(&uri), Some(held)).flatten());
        }
        let before = self.stored.insert(uri, Some(held));
        (before.is_none(), before.flatten())
    }

    /// Keeps a restored subscription alive, if the client still wants it. Returns a reply to drop.
    pub(super) fn hold(&mut self, uri: &str, held: Reply) -> Option<Reply> {
        match self.stored.get_mut(uri) {
            Some(before) => before.replace(held),
            None => Some(held),
        }
    }

    /// Takes out the reply that keeps a subscription alive, because the client unsubscribes.
    pub(super) fn leave(&mut self, uri: &str) -> Option<Reply> {
        let held = if uri.len() > MAX_URI { self.long.get_mut(&Digest::sha256(uri)) } else { self.stored.get_mut(uri) };
        held.and_then(Option::take)
    }

    /// Takes out all replies that keep subscriptions alive. The URIs stay.
    pub(super) fn leave_all(&mut self) -> Vec<Reply> {
        self.stored.values_mut().chain(self.long.values_mut()).filter_map(Option::take).collect()
    }

    /// Removes a URI. Returns true if the row must be written, and a reply to drop.
    pub(super) fn remove(&mut self, uri: &str) -> (bool, Option<Reply>) {
        if uri.len() > MAX_URI {
            return (false, self.long.remove(&Digest::sha256(uri)).flatten());
        }
        let before = self.stored.remove(uri);
        (before.is_some(), before.flatten())
    }
}
