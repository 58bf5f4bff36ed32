//! A backend as the operator configured it, given to the gateway. Knows nothing of lists and calls.

use std::{sync::Arc, time::Duration};

use url::Origin;

use crate::{
    mcp::{Payload, Server},
    model::{BackendId, NameGlobs, Share, TaskScope, ToolRules},
};

/// What a backend may do at most, and for how long it may be silent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackendBounds {
    /// Calls of clients that run at once; `None`: any number.
    pub calls: Option<usize>,
    /// Text in a result of a tool, in bytes; `None`: any.
    pub result_size: Option<usize>,
    /// Time without progress in a call before the gateway reports progress for it; `None`: it never does.
    pub heartbeat: Option<Duration>,
}

/// One backend and the operator's settings for it.
#[derive(Clone)]
pub struct ConfiguredBackend {
    /// Its name on this gateway.
    pub id: BackendId,
    /// Its name in front of people.
    pub title: String,
    /// The backend itself.
    pub server: Arc<dyn Server>,
    /// Sharing of its sessions, and with it of its lists.
    pub share: Share,
    /// The tools that a read-only right reaches.
    pub read_only_tools: Vec<String>,
    /// The methods that MCP does not define and that every caller may send it.
    pub allow_methods: NameGlobs,
    /// The origin of its own URL, whose web addresses belong to it; `None` if it has no URL.
    pub origin: Option<Origin>,
    /// The gateway's own tool that leads a user to a page, listed in place of the server's while that is not reached
    /// without the page; `None` if the server is the same for all users.
    pub connect_tool: Option<&'static str>,
    /// The rules for its tools; `None`: it offers them as they are.
    pub tools: Option<Arc<ToolRules>>,
    /// The bounds that the operator sets.
    pub bounds: BackendBounds,
    /// The ids of its tasks.
    pub tasks: TaskScope,
    /// Last server information, perhaps from an earlier process of the gateway: given to clients until the backend
    /// answers (`translation` 6.7).
    pub last_server_info: Option<Payload>,
}
