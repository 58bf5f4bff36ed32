//! Settings and dependencies of the gateway.

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::catalog::ListStore;
use crate::{
    mcp::observer::Observer,
    model::Naming,
    support::{MemoryBudget, Random},
};

/// Wait for backends that have not answered yet.
const COLD_BUDGET: Duration = Duration::from_secs(2);

/// The settings for presenting the backends to clients.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The names on the merged endpoint.
    pub naming: Naming,
    /// Maximum length of a tool or prompt name on the merged endpoint, 44 to 64 characters; longer ones are shortened.
    pub longest_name: usize,
    /// Maximum number of entries on one page.
    pub page_size: usize,
    /// Maximum time that a merged answer waits for missing backends, once others have answered.
    pub cold_budget: Duration,
    /// The same for lists.
    pub cold_list_budget: Duration,
    /// Age at which a list is refreshed in the background.
    pub refresh: Duration,
}

#[derive(Clone)]
pub struct GatewayDeps {
    /// Makes the key of cursors.
    pub random: Arc<dyn Random>,
    /// Notified of the backends' server information.
    pub observer: Observer,
    pub budget: MemoryBudget,
    /// Lists stored by earlier runs; `None` if none are stored.
    pub list_store: Option<Arc<dyn ListStore>>,
    /// Runs the tasks that maintain the catalog.
    pub tracker: TaskTracker,
    /// Cancelling it ends these tasks.
    pub cancel: CancellationToken,
}

// === impl GatewaySettings ===

impl GatewaySettings {
    /// Settings with the given names. The rest is not configurable: pages of 1,000 entries, a cold budget of 2 s, lists
    /// refreshed after a minute.
    pub fn new(naming: Naming, longest_name: usize) -> Self {
        Self {
            naming,
            longest_name,
            page_size: 1_000,
            cold_budget: COLD_BUDGET,
            cold_list_budget: COLD_BUDGET,
            refresh: Duration::from_mins(1),
        }
    }
}
