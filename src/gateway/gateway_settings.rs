//! Settings and dependencies of the gateway. Knows nothing of their use.

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::catalog::ListStore;
use crate::{
    mcp::observer::Observer,
    model::Naming,
    support::{MemoryBudget, Random},
};

/// The wait for backends that have not answered yet.
const COLD_BUDGET: Duration = Duration::from_secs(2);

/// The presentation of the backends.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The names on the merged endpoint.
    pub naming: Naming,
    /// Maximum length of a tool's or prompt's name on the merged endpoint, 44 to 64 characters; longer ones are shortened.
    pub longest_name: usize,
    /// Maximum number of entries on one page.
    pub page_size: usize,
    /// Maximum wait of a merged answer for backends that have not answered yet, if others have.
    pub cold_budget: Duration,
    /// The same for a list.
    pub cold_list_budget: Duration,
    /// The age at which a list is refreshed in the background.
    pub refresh: Duration,
}

/// Dependencies of the gateway.
#[derive(Clone)]
pub struct GatewayDeps {
    /// For the key of the cursors.
    pub random: Arc<dyn Random>,
    /// The observer of the backends' descriptions of themselves.
    pub observer: Observer,
    /// The memory budget of the process.
    pub budget: MemoryBudget,
    /// Lists of earlier processes; `None` if none are kept.
    pub list_store: Option<Arc<dyn ListStore>>,
    /// Owns the tasks that keep the catalog.
    pub tracker: TaskTracker,
    /// Ends them.
    pub cancel: CancellationToken,
}

// === impl GatewaySettings ===

impl GatewaySettings {
    /// Settings with these names. The others cannot be configured: pages of 1,000 entries, 2 s for a cold start, lists
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
