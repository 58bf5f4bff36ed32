//! Tickets: replace an API key of the query at `/messages`.
//!
//! A client that opens `/sse?api_key=…` posts to the URL of the `endpoint` event, and adds nothing to it; the key
//! itself is never in that URL (`OA-122`). So the URL carries a ticket: 256 random bits, valid while the connection is
//! open, for its credential only.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::{
    oauth::VerifiedCredential,
    support::{Digest, Secret},
};

/// The query parameter that carries a ticket.
pub(super) const QUERY_PARAMETER: &str = "ticket";

/// Tickets of open connections.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<Digest, Arc<VerifiedCredential>>>);

/// A ticket; valid until it is dropped.
pub struct MessageTicket {
    text: Secret,
    tickets: Weak<Tickets>,
}

// === impl Tickets ===

impl Tickets {
    /// Issues `text`, new random bits, as a ticket for `verified`.
    pub(super) fn issue(self: &Arc<Self>, text: Secret, verified: Arc<VerifiedCredential>) -> MessageTicket {
        self.0.lock().insert(text.digest(), verified);
        MessageTicket { text, tickets: Arc::downgrade(self) }
    }

    /// The credential of a ticket; `None` if there is no such ticket. The caller checks that the credential is still
    /// valid.
    pub(super) fn find(&self, presented: &Secret) -> Option<Arc<VerifiedCredential>> {
        self.0.lock().get(&presented.digest()).cloned()
    }
}

// === impl MessageTicket ===

impl MessageTicket {
    /// The query parameter for the URL.
    pub fn parameter(&self) -> String {
        format!("{QUERY_PARAMETER}={}", self.text.expose())
    }
}

impl Drop for MessageTicket {
    fn drop(&mut self) {
        if let Some(tickets) = self.tickets.upgrade() {
            tickets.0.lock().remove(&self.text.digest());
        }
    }
}

impl fmt::Debug for MessageTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageTicket(…)")
    }
}
