//! State that the task decorators of one backend share: registries and dependencies.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::{
    session_tasks::{CACHED, OtherCopy, SessionTasks},
    tool_modes::ToolModes,
    user_tasks::UserTasks,
};
use crate::{
    mcp::{Context, ServerOrigin, task::DetailedTask},
    support::Clock,
};

/// Runs a future in the background until it or the gateway ends.
pub(crate) type Spawn = Box<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// State that the task decorators of one backend share.
pub(crate) struct SharedTasks {
    /// The server, for error messages and as the origin of answers.
    pub(super) origin: ServerOrigin,
    /// Maximum silence of the backend in a call.
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) spawn: Spawn,
    /// Tasks of client sessions.
    pub(super) of_sessions: Arc<SessionTasks>,
    /// Tasks of users whose clients have no sessions.
    pub(super) of_users: UserTasks,
    /// Task modes of the tools.
    pub(super) tools: ToolModes,
}

impl SharedTasks {
    /// Creates the state of a server with this `call_timeout`.
    pub(super) fn new(origin: ServerOrigin, call_timeout: Duration, clock: Arc<dyn Clock>, spawn: Spawn) -> Arc<Self> {
        let (of_sessions, of_users, tools) = (Arc::default(), UserTasks::default(), ToolModes::default());
        Arc::new(Self { origin, call_timeout, clock, spawn, of_sessions, of_users, tools })
    }

    /// Adds a task of a client with a session, or records its use.
    pub(super) fn note(&self, id: &str, context: &Context) {
        self.of_sessions.note(id, &context.caller.owner(), self.clock.now());
    }

    /// Caches a finished task, for a client whose version reports only its end. Returns true if the task has ended.
    pub(super) fn keep(&self, task: DetailedTask, context: &Context) -> bool {
        let (is_final, now) = (task.status.is_final(), self.clock.now());
        if is_final && self.of_sessions.cached(&context.caller.owner(), &task.id, now).is_none() {
            let ttl = task.payload.object().and_then(|task| task.get("ttlMs")?.parse().ok());
            let ttl = CACHED.within(ttl.map(Duration::from_millis), CACHED.longest);
            // without memory for it, the next query goes to the server again
            let _ = self.of_sessions.cache(context, task, now + ttl, OtherCopy::AtServer);
        }
        is_final
    }
}
