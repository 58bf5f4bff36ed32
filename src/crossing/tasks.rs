//! Tasks between sides that differ (`translation` 3.5): each side has tasks of 2025-11-25, the tasks extension of
//! 2026-07-28, or none. The steps of `translate` convert shapes; this module supplies what one side lacks.

mod awaited_tasks;
mod core_over_extension;
mod core_tasks;
mod extension_over_core;
mod extension_tasks;
mod following;
mod notifications;
mod pending_input;
mod polling;
mod progress;
mod session_tasks;
mod shared_tasks;
pub(crate) mod task_support;
mod tool_modes;
mod user_tasks;

pub(crate) use self::shared_tasks::Spawn;

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;

pub(crate) use self::awaited_tasks::AwaitedTasks;
use self::{core_over_extension::CoreOverExtension, extension_over_core::ExtensionOverCore, shared_tasks::SharedTasks};
use crate::{
    mcp::{Call, Era, Event, Feature, Method, Outcome, Reply, Revision, Server, ServerOrigin, json::Object, meta},
    model::Requester,
    support::Clock,
};

/// A server's form of tasks, from its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerTasks {
    pub(super) era: Era,
    /// True if it has tasks, in the form of its version.
    pub(super) has_tasks: bool,
    /// True if it runs tools as tasks on request (2025-11-25).
    runs_tools: bool,
}

/// The task decorators of one backend, and the server's form of tasks.
pub(crate) struct TaskBridges {
    /// The code of the server's mode, as in [`ServerTasks::code`].
    server: AtomicU8,
    shared: Arc<SharedTasks>,
}

/// The decorator is unknown before the gateway has met the server.
pub(super) struct NotMet;

/// A task decorator of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bridge {
    /// The client has sessions; the server is of 2026-07-28.
    CoreOverExtension {
        /// True if the server has the extension.
        has_extension: bool,
    },
    /// The client is of 2026-07-28; the server has sessions.
    ExtensionOverCore {
        /// True if the server runs tools as tasks.
        runs_tools: bool,
    },
    /// The server has sessions; its list of tools shows which run as tasks.
    NotedTools,
}

/// Listens of a client without tasks: notifications about tasks are left out.
#[derive(Clone)]
pub(super) struct OwnNotifications {
    server: Arc<dyn Server>,
}

/// The code of a server that the gateway has not met.
const NOT_MET: u8 = u8::MAX;

// === impl ServerTasks ===

impl ServerTasks {
    /// A server without declarations.
    pub(crate) const NONE: Self = Self { era: Era::Legacy, has_tasks: false, runs_tools: false };

    const ALL: [Self; 5] = [
        Self::NONE,
        Self { has_tasks: true, ..Self::NONE },
        Self { has_tasks: true, runs_tools: true, ..Self::NONE },
        Self { era: Era::Modern, ..Self::NONE },
        Self { era: Era::Modern, has_tasks: true, runs_tools: false },
    ];

    /// The form of tasks of a server with this version and these capabilities.
    pub(crate) fn of(revision: Revision, capabilities: &Object<'_>) -> Self {
        let has = |path: &[&str]| {
            let inner = |text: String, key: &&str| Object::parse(text.as_bytes())?.get(key).map(str::to_owned);
            let outer = capabilities.get(path[0]).map(str::to_owned);
            path[1..].iter().fold(outer, |text, key| inner(text?, key)).is_some()
        };
        let has_core = revision.has(Feature::CoreTasks);
        match revision.era() {
            Era::Legacy => Self {
                era: Era::Legacy,
                has_tasks: has_core && has(&["tasks"]),
                runs_tools: has_core && has(&["tasks", "requests", "tools", "call"]),
            },
            Era::Modern => {
                Self { era: Era::Modern, has_tasks: has(&["extensions", meta::TASKS_EXTENSION]), runs_tools: false }
            }
        }
    }

    /// True if it has tasks, in the form of its version.
    pub(crate) const fn has_tasks(self) -> bool {
        self.has_tasks
    }

    fn code(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).and_then(|at| u8::try_from(at).ok()).unwrap_or(NOT_MET)
    }
}

// === impl TaskBridges ===

impl TaskBridges {
    /// Creates the decorators of a backend with this `call_timeout`.
    pub(crate) fn new(origin: ServerOrigin, call_timeout: Duration, clock: Arc<dyn Clock>, spawn: Spawn) -> Arc<Self> {
        let shared = SharedTasks::new(origin, call_timeout, clock, spawn);
        Arc::new(Self { server: AtomicU8::new(NOT_MET), shared })
    }

    /// Stores the form of tasks of the current server.
    pub(crate) fn set_server_tasks(&self, server: ServerTasks) {
        self.server.store(server.code(), Ordering::Relaxed);
    }

    /// Serves a call through this decorator of a backend.
    pub(super) fn serve(&self, bridge: Bridge, backend: Arc<dyn Server>, call: Call) -> Reply {
        let shared = Arc::clone(&self.shared);
        match bridge {
            Bridge::CoreOverExtension { has_extension } => {
                CoreOverExtension::new(backend, shared, has_extension).call(call)
            }
            Bridge::ExtensionOverCore { runs_tools } => ExtensionOverCore::new(backend, shared, runs_tools).call(call),
            Bridge::NotedTools => backend.call(call).map(move |event| {
                if let Event::Done(Outcome::Complete(page)) = &event {
                    shared.tools.note(page);
                }
                event
            }),
        }
    }

    /// The decorator of a connection to such a server, for calls of clients without tasks.
    pub(super) fn awaited(&self, server: ServerTasks) -> impl FnOnce(Arc<dyn Server>) -> AwaitedTasks + use<> {
        let shared = Arc::clone(&self.shared);
        move |connection| AwaitedTasks::new(connection, shared, server.runs_tools)
    }

    /// Stops following the tasks of a client that is gone.
    pub(crate) fn ended(&self, requester: &Requester) {
        self.shared.of_sessions.left(requester);
    }

    /// The last server met, if it is of this era.
    pub(super) fn server(&self, era: Era) -> Option<ServerTasks> {
        let code = usize::from(self.server.load(Ordering::Relaxed));
        ServerTasks::ALL.get(code).copied().filter(|server| server.era == era)
    }
}

/// The decorator that `call` needs at a server of this era, if any.
///
/// # Errors
///
/// An error if that depends on the server, and the gateway has not `met` one of this era.
pub(super) fn bridge(call: &Call, era: Era, met: Option<ServerTasks>) -> Result<Option<Bridge>, NotMet> {
    let (client, method) = (&call.context.client, &call.method);
    let bridge = match (client.revision.era(), era) {
        (Era::Legacy, Era::Modern) if core_over_extension::concerns(method) => match met {
            Some(server) => Bridge::CoreOverExtension { has_extension: server.has_tasks },
            // a listen outlives connections, and does not wait for one
            None if *method == Method::Listen => Bridge::CoreOverExtension { has_extension: true },
            None => return Err(NotMet),
        },
        (_, Era::Legacy) if *method == Method::ToolsList => {
            return Ok(met.filter(|server| server.runs_tools).map(|_| Bridge::NotedTools));
        }
        (Era::Modern, Era::Legacy) if *method == Method::ToolsCall => match met {
            Some(server) if server.has_tasks && client.takes_tasks() => {
                Bridge::ExtensionOverCore { runs_tools: server.runs_tools }
            }
            None if client.takes_tasks() => return Err(NotMet),
            _ => return Ok(None),
        },
        (Era::Modern, Era::Legacy) if extension_over_core::concerns(method) => {
            Bridge::ExtensionOverCore { runs_tools: false }
        }
        _ => return Ok(None),
    };
    Ok(Some(bridge))
}

// === impl OwnNotifications ===

impl OwnNotifications {
    /// Puts this decorator around `server`.
    pub(super) fn new(server: Arc<dyn Server>) -> Self {
        Self { server }
    }
}

impl Server for OwnNotifications {
    fn call(&self, call: Call) -> Reply {
        // progress outside of calls belongs to tasks (2025-11-25, tasks, *Progress Tracking*)
        let is_of_task = |method: &Method| matches!(method, Method::Progress | Method::TaskStatus);
        let is_own = move |event: &Event| !matches!(event, Event::Notified(told) if is_of_task(&told.method));
        Reply::new(self.server.call(call).filter(move |event| ready(is_own(event))))
    }
}

#[cfg(test)]
mod tests;
