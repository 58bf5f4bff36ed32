//! Dependencies that all backends share.

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

/// Dependencies shared by all backends, and the task group of this one.
#[derive(Clone)]
pub(crate) struct BackendContext {
    /// Memory budget of the process.
    pub(super) budget: MemoryBudget,
    pub(super) limits: Live<LimitsConfig>,
    /// Limits how many processes start at once.
    pub(super) starts: Arc<StartTurns>,
    /// The gateway's environment; child processes get an allow list of it.
    pub(super) environment: Arc<BTreeMap<String, String>>,
    pub(super) spawner: Spawner,
    /// Output of the backend's programs, kept for the operator.
    pub(super) kept: KeptOutput,
    /// HTTP client for servers without TLS or proxy settings of their own.
    pub(super) client: Client,
    pub(super) tasks: TaskGroup,
    pub(super) clock: Arc<dyn Clock>,
    /// Signs assertions about the calling user; `None` in a process without signing keys.
    pub(super) signer: Option<IdentitySigner>,
    /// Eras detected so far.
    pub(super) memory: KnownEras,
    /// Access to servers that require a login or secrets first.
    pub(super) access: ServerAccess,
    /// Notified of lost client sessions (`OnLoss::End`) and of detected eras.
    pub(super) observer: Observer,
    /// Everything sent to servers waits here until this replica may send.
    pub(super) fence: Fence,
    /// The only client of a gateway over stdio; `None` if there may be several.
    pub(super) sole_client: Option<SoleClient>,
    /// Open while this replica is the home of servers that run on one replica only.
    pub(super) home: Latch,
    /// The user whose server it is; `None` for a server shared by all users.
    pub(super) user: Option<UserId>,
    /// The clients that receive notifications outside of calls.
    pub(super) hearers: Arc<Hearers>,
}
