//! Authorization servers that were discovered within the last minute: the page that describes a login and the login
//! itself need the same discovery.

use std::time::Duration;

use parking_lot::Mutex;
use url::Url;

use crate::{
    model::{AuthorizationSettings, BackendId},
    oauth_client::{Discovered, ResourceServer},
    support::Timestamp,
};

/// Time that a discovery is reused.
const LIFE: Duration = Duration::from_mins(1);

/// The discoveries, at most one per server.
#[derive(Default)]
pub(super) struct RecentDiscoveries(Mutex<Vec<Discovery>>);

struct Discovery {
    backend: BackendId,
    url: Url,
    settings: AuthorizationSettings,
    at: Timestamp,
    found: Discovered,
}

// === impl Discovery ===

impl Discovery {
    const fn server(&self) -> ResourceServer<'_> {
        ResourceServer { url: &self.url, settings: &self.settings }
    }
}

// === impl RecentDiscoveries ===

impl RecentDiscoveries {
    /// A server's discovery, if the server is still configured the same way.
    pub(super) fn find(&self, backend: &BackendId, server: ResourceServer<'_>, now: Timestamp) -> Option<Discovered> {
        let mut recent = self.0.lock();
        recent.retain(|one| now.since(one.at) < LIFE);
        let is_it = |one: &&Discovery| one.backend == *backend && one.server() == server;
        recent.iter().find(is_it).map(|one| one.found.clone())
    }

    pub(super) fn remember(&self, backend: &BackendId, server: ResourceServer<'_>, found: Discovered, at: Timestamp) {
        self.forget(backend);
        let (url, settings) = (server.url.clone(), server.settings.clone());
        self.0.lock().push(Discovery { backend: backend.clone(), url, settings, at, found });
    }

    pub(super) fn forget(&self, backend: &BackendId) {
        self.0.lock().retain(|one| one.backend != *backend);
    }
}
