//! The authorization servers that servers have named within the last minute: the page that describes a login and the login
//! itself ask for the same. Knows nothing of requests.

use std::time::Duration;

use parking_lot::Mutex;
use url::Url;

use crate::{model::BackendId, oauth_client::Discovered, support::Timestamp};

/// Time for which a server is not asked again.
const LIFE: Duration = Duration::from_mins(1);

/// What was found, at most one entry for each server.
#[derive(Default)]
pub(super) struct RecentDiscoveries(Mutex<Vec<Discovery>>);

struct Discovery {
    backend: BackendId,
    server: Url,
    at: Timestamp,
    found: Discovered,
}

// === impl RecentDiscoveries ===

impl RecentDiscoveries {
    /// What the server at this address has named.
    pub(super) fn find(&self, (backend, server): (&BackendId, &Url), now: Timestamp) -> Option<Discovered> {
        let mut recent = self.0.lock();
        recent.retain(|one| now.since(one.at) < LIFE);
        recent.iter().find(|one| one.backend == *backend && one.server == *server).map(|one| one.found.clone())
    }

    /// Remembers what it names now.
    pub(super) fn remember(&self, (backend, server): (&BackendId, &Url), found: Discovered, at: Timestamp) {
        self.forget(backend);
        self.0.lock().push(Discovery { backend: backend.clone(), server: server.clone(), at, found });
    }

    /// Forgets what it has named: it names another one.
    pub(super) fn forget(&self, backend: &BackendId) {
        self.0.lock().retain(|one| one.backend != *backend);
    }
}
