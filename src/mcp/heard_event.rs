//! A server event from outside of calls, on its way through the server's layers to a client.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::Event;
use crate::model::BackendId;

/// An event of a server for one client, which passes through the server's layers in a listen of its own. Clones share
/// it.
#[derive(Clone)]
pub struct HeardEvent {
    /// The server that sent it, even if another has replaced it since.
    server: Arc<BackendId>,
    event: Arc<Mutex<Option<Event>>>,
}

// === impl HeardEvent ===

impl HeardEvent {
    /// Wraps an event of this server.
    pub(crate) fn new(server: Arc<BackendId>, event: Event) -> Self {
        Self { server, event: Arc::new(Mutex::new(Some(event))) }
    }

    pub(crate) fn backend(&self) -> &BackendId {
        &self.server
    }

    /// Takes the event. Returns it only once, and only if this very server sent it, not an earlier one of the same
    /// name.
    pub(crate) fn take(&self, server: &Arc<BackendId>) -> Option<Event> {
        if !Arc::ptr_eq(&self.server, server) {
            return None;
        }
        self.event.lock().take()
    }
}

impl fmt::Debug for HeardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeardEvent").field("server", &self.server).finish_non_exhaustive()
    }
}
