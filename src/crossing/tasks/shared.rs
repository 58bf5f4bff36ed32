//! What the bridges of tasks at one backend share: the registries of tasks, and what they need of the world. Knows nothing
//! of calls.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::{
    session_tasks::{CACHED, SessionTasks, TaskOwner},
    tool_modes::ToolModes,
    user_tasks::UserTasks,
};
use crate::{mcp::task::DetailedTask, model::BackendId, support::Clock};

/// Runs something in the background until it ends or the gateway does.
pub(crate) type Spawn = Box<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// What the bridges of one backend share.
pub(crate) struct SharedTasks {
    /// The backend, for error messages and as the origin of answers.
    pub(super) backend: BackendId,
    /// How long the backend may be silent in a call.
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) spawn: Spawn,
    /// The tasks of client sessions.
    pub(super) of_sessions: Arc<SessionTasks>,
    /// The tasks of users whose clients have no sessions.
    pub(super) of_users: UserTasks,
    /// How the tools run as tasks.
    pub(super) tools: ToolModes,
}

impl SharedTasks {
    /// What is shared at a backend that may be silent for `call_timeout` in a call.
    pub(super) fn new(backend: BackendId, call_timeout: Duration, clock: Arc<dyn Clock>, spawn: Spawn) -> Arc<Self> {
        let (of_sessions, of_users, tools) = (Arc::default(), UserTasks::default(), ToolModes::default());
        Arc::new(Self { backend, call_timeout, clock, spawn, of_sessions, of_users, tools })
    }

    /// Caches what a task came to, if it is over, for the client that is told no more than that; gives whether it is.
    pub(super) fn keep(&self, task: DetailedTask, owner: &TaskOwner) -> bool {
        let (is_final, now) = (task.status.is_final(), self.clock.now());
        if is_final
            && !self.of_sessions.is_of_another(&task.id, owner)
            && self.of_sessions.cached(&task.id, now).is_none()
        {
            let ttl = task.payload.object().and_then(|task| task.get("ttlMs")?.parse().ok());
            let ttl = CACHED.within(ttl.map(Duration::from_millis), CACHED.longest);
            self.of_sessions.cache(owner, task, now + ttl);
        }
        is_final
    }
}
