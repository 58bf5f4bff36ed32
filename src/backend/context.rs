//! What all backends share. Knows nothing of any of them.

use std::{collections::BTreeMap, sync::Arc};

use super::{era::KnownEras, slots::SlotLimits, task_group::TaskGroup, transport::http::Client};
use crate::{mcp::observer::Observer, support::Clock};

/// What all backends share.
#[derive(Clone)]
pub(crate) struct BackendContext {
    /// Sessions that each backend may have beside its base session.
    pub(super) sessions: usize,
    /// Limits on question slots.
    pub(super) slot_limits: SlotLimits,
    /// The gateway's environment, of which children see a part.
    pub(super) environment: Arc<BTreeMap<String, String>>,
    /// The client for HTTP.
    pub(super) client: Client,
    /// Where tasks run.
    pub(super) tasks: TaskGroup,
    /// The time of day.
    pub(super) clock: Arc<dyn Clock>,
    /// What was found out about the servers' eras.
    pub(super) memory: KnownEras,
    /// The observer of client sessions that end because a backend has lost its side of them (`OnLoss::End`).
    pub(super) observer: Observer,
}
