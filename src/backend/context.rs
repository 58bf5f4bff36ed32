//! Dependencies that all backends share. Knows no backend.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    start::{era::KnownEras, start_turns::StartTurns},
    task_group::TaskGroup,
    transport::{Spawner, http::Client, kept_output::KeptOutput},
};
use crate::{
    mcp::{SoleClient, hearers::Hearers, observer::Observer},
    model::{IdentitySigner, LimitsConfig, ServerAccess, UserId},
    support::{Clock, Fence, Latch, Live, MemoryBudget},
};

/// Dependencies that all backends share, and the tasks of one.
#[derive(Clone)]
pub(crate) struct BackendContext {
    /// The memory budget of the process.
    pub(super) budget: MemoryBudget,
    /// The configured limits.
    pub(super) limits: Live<LimitsConfig>,
    /// Turns of process starts.
    pub(super) starts: Arc<StartTurns>,
    /// The gateway's environment; child processes get an allow list of it.
    pub(super) environment: Arc<BTreeMap<String, String>>,
    /// Starts their processes.
    pub(super) spawner: Spawner,
    /// Output of the backend's programs, for its operator.
    pub(super) kept: KeptOutput,
    /// The client for HTTP of servers without settings of their own.
    pub(super) client: Client,
    /// The group of the backend's own tasks.
    pub(super) tasks: TaskGroup,
    /// Wall-clock time.
    pub(super) clock: Arc<dyn Clock>,
    /// Signer of who calls; `None` in a process without signing keys.
    pub(super) signer: Option<IdentitySigner>,
    /// Detected eras of servers.
    pub(super) memory: KnownEras,
    /// Access to servers that ask for something first.
    pub(super) access: ServerAccess,
    /// Observer of lost client sessions (`OnLoss::End`) and of detected eras.
    pub(super) observer: Observer,
    /// Passed by everything that is sent to servers.
    pub(super) fence: Fence,
    /// The only client, of a gateway that has no other.
    pub(super) sole_client: Option<SoleClient>,
    /// Open when this replica is the home of the servers that have one.
    pub(super) home: Latch,
    /// The user whose server it is; `None` for one that all share.
    pub(super) user: Option<UserId>,
    /// The clients that hear what servers say outside of calls.
    pub(super) hearers: Arc<Hearers>,
}
