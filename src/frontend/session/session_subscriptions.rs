//! The resources that a session's client is subscribed to, and their bound. The reply to each request holds the
//! subscription at its server: dropping it unsubscribes.

use std::collections::{BTreeMap, HashMap};

use crate::{mcp::Reply, support::Digest};

/// The bound of one client's subscriptions.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI that is stored, in bytes; subscriptions to longer ones count, and last until the gateway restarts.
const MAX_URI: usize = 8 * 1024;

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct SessionSubscriptions {
    /// Subscriptions in its row, by URI.
    stored: BTreeMap<String, HeldSubscription>,
    /// Subscriptions whose URIs are too long to be stored, by their digests.
    long: HashMap<Digest, HeldSubscription>,
}

/// The reply that holds a subscription at its server; `None` while it is being restored, if the server refused, and
/// after the end of the session.
type HeldSubscription = Option<Reply>;

// === impl SessionSubscriptions ===

impl SessionSubscriptions {
    /// Subscriptions taken over from an earlier process.
    pub(super) fn restored(uris: Vec<String>) -> Self {
        let stored = uris.into_iter().take(MAX_SUBSCRIPTIONS).map(|uri| (uri, None)).collect();
        Self { stored, long: HashMap::new() }
    }

    /// The URIs stored in the session's row.
    pub(super) fn stored(&self) -> Vec<String> {
        self.stored.keys().cloned().collect()
    }

    /// True if `uri` is among them, or fits within the limit.
    pub(super) fn has_room(&self, uri: &str) -> bool {
        self.stored.len() + self.long.len() < MAX_SUBSCRIPTIONS || self.contains(uri)
    }

    fn contains(&self, uri: &str) -> bool {
        if uri.len() > MAX_URI { self.long.contains_key(&Digest::sha256(uri)) } else { self.stored.contains_key(uri) }
    }

    /// Adds a subscription that `held` holds, if it fits. Returns true if the row has to be written, and a reply to
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

    /// Holds a restored subscription, if it is still wanted. Returns a reply to drop.
    pub(super) fn hold(&mut self, uri: &str, held: Reply) -> Option<Reply> {
        match self.stored.get_mut(uri) {
            Some(before) => before.replace(held),
            None => Some(held),
        }
    }

    /// Takes the reply that holds a subscription, since the client unsubscribes.
    pub(super) fn leave(&mut self, uri: &str) -> Option<Reply> {
        let held = if uri.len() > MAX_URI { self.long.get_mut(&Digest::sha256(uri)) } else { self.stored.get_mut(uri) };
        held.and_then(Option::take)
    }

    /// Takes the replies that hold subscriptions; the URIs stay.
    pub(super) fn leave_all(&mut self) -> Vec<Reply> {
        self.stored.values_mut().chain(self.long.values_mut()).filter_map(Option::take).collect()
    }

    /// Removes a URI. Returns true if the row has to be written, and a reply to drop.
    pub(super) fn remove(&mut self, uri: &str) -> (bool, Option<Reply>) {
        if uri.len() > MAX_URI {
            return (false, self.long.remove(&Digest::sha256(uri)).flatten());
        }
        let before = self.stored.remove(uri);
        (before.is_some(), before.flatten())
    }
}
