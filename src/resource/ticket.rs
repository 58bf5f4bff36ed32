//! Tickets: what stands in for an API key of the query once its stream is open (`OA-122`). Knows nothing of MCP.
//!
//! A client of HTTP+SSE resolves the `endpoint` event against the URL of its stream, and that drops the query with the
//! key; most clients can send no header of their own either. So the event holds a ticket: random, good for this one
//! connection, dead with it. It opens nothing by itself: the key that it stands for is checked again with each message.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::support::{Digest, Random, Secret};

/// The tickets of the streams that are open, by their digests. As many as there are such streams.
#[derive(Debug, Clone, Default)]
pub(super) struct Tickets(Arc<Mutex<HashMap<Digest, Weak<Held>>>>);

/// A request extension: the ticket of a connection that was opened with a key in the query. Whoever serves the stream
/// keeps it while the stream is open; the ticket counts until the last copy is dropped.
#[derive(Clone)]
pub struct Ticket(Arc<Held>);

struct Held {
    text: Secret,
    key: Secret,
    tickets: Tickets,
}

// === impl Tickets ===

impl Tickets {
    /// A new ticket that stands for `key`.
    pub(super) fn issue(&self, key: Secret, random: &dyn Random) -> Ticket {
        let held = Arc::new(Held { text: Secret::new(random.token()), key, tickets: self.clone() });
        self.0.lock().insert(held.text.digest(), Arc::downgrade(&held));
        Ticket(held)
    }

    /// The key that a ticket stands for, while its stream is open.
    pub(super) fn key(&self, ticket: &Secret) -> Option<Secret> {
        let held = self.0.lock().get(&ticket.digest())?.upgrade()?;
        Some(held.key.clone())
    }
}

// === impl Ticket ===

impl Ticket {
    /// What the URL of `/messages` carries, as its query parameter [`Ticket::PARAMETER`]; URL-safe.
    pub fn expose(&self) -> &str {
        self.0.text.expose()
    }

    /// The query parameter that holds a ticket.
    pub const PARAMETER: &'static str = "ticket";
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

// === impl Held ===

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held(…)")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tickets.0.lock().remove(&self.text.digest());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn a_ticket_stands_for_its_key_until_its_stream_ends() {
        let tickets = Tickets::default();
        let random = SeededRandom::new(1);
        let ticket = tickets.issue(Secret::new("lkk_one"), &random);
        let shown = Secret::new(ticket.expose());
        assert_eq!(tickets.key(&shown).unwrap().expose(), "lkk_one");
        assert!(tickets.key(&Secret::new("another")).is_none());

        drop(ticket);
        assert!(tickets.key(&shown).is_none());
        assert!(tickets.0.lock().is_empty(), "nothing is left behind");
    }
}
