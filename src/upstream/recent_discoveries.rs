//! Authorization servers that were discovered within the last minute: the page that describes a login and the login
//! itself need the same discovery.

use std::time::Duration;

use parking_lot::Mutex;
use url::Url;

use crate::{
    model::{AuthorizationSettings, BackendId},
    oauth_client::Discovered,
    support::Timestamp,
};

/// Time that a discovery is reused.
const LIFE: Duration = Duration::from_mins(1);

/// A server and its settings.
type DiscoveryTarget<'a> = (&'a Url, &'a AuthorizationSettings);

/// The discoveries, at most one per server.
#[derive(Default)]
pub(super) struct RecentDiscoveries(Mutex<Vec<Discovery>>);

struct Discovery {
    backend: BackendId,
    server: Url,
    settings: AuthorizationSettings,
    at: Timestamp,
    found: Discovered,
}

// === impl RecentDiscoveries ===

impl RecentDiscoveries {
    /// A server's discovery, if the server is still configured the same way.
    pub(super) fn find(
        &self,
        (backend, target): (&BackendId, DiscoveryTarget<'_>),
        now: Timestamp,
    ) -> Option<Discovered> {
        let mut recent = self.0.lock();
        recent.retain(|one| now.since(one.at) < LIFE);
        let is_it = |one: &&Discovery| one.backend == *backend && (&one.server, &one.settings) == target;
        recent.iter().find(is_it).map(|one| one.found.clone())
    }

    pub(super) fn remember(
        &self,
        (backend, target): (&BackendId, DiscoveryTarget<'_>),
        found: Discovered,
        at: Timestamp,
    ) {
        self.forget(backend);
        let (server, settings) = (target.0.clone(), target.1.clone());
        self.0.lock().push(Discovery { backend: backend.clone(), server, settings, at, found });
    }

    pub(super) fn forget(&self, backend: &BackendId) {
        self.0.lock().retain(|one| one.backend != *backend);
    }
}
