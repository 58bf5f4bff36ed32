//! Dependencies that all backends share. Knows no backend.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    era::KnownEras, slots::SlotLimits, start_turns::StartTurns, task_group::TaskGroup, transport::http::Client,
};
use crate::{
    mcp::observer::Observer,
    model::{IdentitySigner, ServerAccess},
    support::{Clock, Fence, Latch},
};

/// Dependencies that all backends share, and the tasks of one.
#[derive(Clone)]
pub(crate) struct BackendContext {
    /// Maximum number of connections of each backend, without the base connection.
    pub(super) sessions: usize,
    /// Turns of process starts.
    pub(super) starts: Arc<StartTurns>,
    /// Limits on question slots.
    pub(super) slot_limits: SlotLimits,
    /// The gateway's environment; child processes get an allow list of it.
    pub(super) environment: Arc<BTreeMap<String, String>>,
    /// The client for HTTP of servers without settings of their own.
    pub(super) client: Client,
    /// Task group of the backend.
    pub(super) tasks: TaskGroup,
    /// Wall-clock time.
    pub(super) clock: Arc<dyn Clock>,
    /// Signer of who calls; `None` in a process without signing keys.
    pub(super) signer: Option<IdentitySigner>,
    /// Detected eras of servers.
    pub(super) memory: KnownEras,
    /// Time for running calls at a server that is ended.
    pub(super) grace: Duration,
    /// Access to servers that ask for something first.
    pub(super) access: ServerAccess,
    /// Observer of lost client sessions (`OnLoss::End`) and of detected eras.
    pub(super) observer: Observer,
    /// Passed by everything that is sent to servers.
    pub(super) fence: Fence,
    /// Open when this replica is the home of the servers that have one.
    pub(super) home: Latch,
}
