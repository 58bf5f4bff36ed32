//! Tickets: what stands in for an API key of the query at `/messages`. Knows nothing of sessions.
//!
//! A client that opens `/sse?api_key=…` posts to the address that the `endpoint` event names, and adds nothing to it; the
//! key itself never is in that address (`OA-122`). So the address carries a ticket: 256 random bits that are good as long
//! as the connection is open, for that credential alone, and no longer than the credential itself.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::{
    oauth::Verified,
    support::{Digest, Secret},
};

/// The query parameter that carries a ticket.
pub(super) const QUERY_PARAMETER: &str = "ticket";

/// The tickets of the connections that are open.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<Digest, Arc<Verified>>>);

/// A ticket; good until it is dropped.
pub struct Ticket {
    text: Secret,
    tickets: Weak<Tickets>,
}

// === impl Tickets ===

impl Tickets {
    /// Makes `text`, fresh random bits, a ticket for whom `verified` stands.
    pub(super) fn issue(self: &Arc<Self>, text: Secret, verified: Arc<Verified>) -> Ticket {
        self.0.lock().insert(text.digest(), verified);
        Ticket { text, tickets: Arc::downgrade(self) }
    }

    /// The credential that a ticket stands for; `None` if there is no such ticket. The caller checks whether the
    /// credential still holds.
    pub(super) fn find(&self, presented: &Secret) -> Option<Arc<Verified>> {
        self.0.lock().get(&presented.digest()).cloned()
    }
}

// === impl Ticket ===

impl Ticket {
    /// The query parameter to add to the address.
    pub fn parameter(&self) -> String {
        format!("{QUERY_PARAMETER}={}", self.text.expose())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(tickets) = self.tickets.upgrade() {
            tickets.0.lock().remove(&self.text.digest());
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}
