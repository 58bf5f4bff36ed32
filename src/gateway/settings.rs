//! Settings of the gateway, and what it is given. Knows nothing of how they are used.

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    mcp::{Payload, Server, observer::Observer},
    model::{BackendId, Naming, Share},
    support::Random,
};

/// One backend and the operator's settings for it.
#[derive(Clone)]
pub struct Mount {
    /// Its name on this gateway.
    pub id: BackendId,
    /// Its name in front of people.
    pub title: String,
    /// The backend itself.
    pub server: Arc<dyn Server>,
    /// Who shares a session of it, and with it what it offers.
    pub share: Share,
    /// The tools that a read-only right reaches.
    pub read_only_tools: Vec<String>,
    /// What it said of itself when it was last asked, perhaps in an earlier process of the gateway: given to clients at
    /// once until it answers (`translation` 6.7).
    pub introduction: Option<Payload>,
}

/// The presentation of the backends.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The names on the merged endpoint.
    pub naming: Naming,
    /// The most entries of one page of a list.
    pub page_size: usize,
    /// The time that a list waits for backends that have not been listed yet, where others have.
    pub cold_budget: Duration,
    /// The age at which a list is refreshed in the background.
    pub refresh: Duration,
}

/// Dependencies of the gateway.
#[derive(Clone)]
pub struct Deps {
    /// For the key of the cursors.
    pub random: Arc<dyn Random>,
    /// The observer of the backends' descriptions of themselves.
    pub observer: Observer,
    /// Owns the tasks that keep the catalog.
    pub tracker: TaskTracker,
    /// Ends them.
    pub cancel: CancellationToken,
}

// === impl Settings ===

impl Default for Settings {
    /// Prefixed names, pages of 1,000 entries, 2 s for a cold start, refreshed after a minute.
    fn default() -> Self {
        Self {
            naming: Naming::Prefixed,
            page_size: 1_000,
            cold_budget: Duration::from_secs(2),
            refresh: Duration::from_mins(1),
        }
    }
}
