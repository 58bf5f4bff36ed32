//! A row of the table of methods: all the gateway needs to know of a method.

use super::{
    super::Revision, controls, controls::ControlMember, lists::ListKind, places, places::Paths, shapes::Shape,
};

/// The callers whose messages of a method reach a server. `docs/authorization.md` lists the methods of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAccess {
    /// Every caller with a right to the server.
    Any,
    /// Every caller with a right to the server, for the tools that this right covers.
    Tool,
    /// Every caller with a right to the server, for the tasks of its own calls.
    OwnTask,
    /// Only callers with full rights: servers send this message, and clients have no need to.
    OfServers,
    /// Callers with full rights at a server without tool rules, and every caller if the operator opens the method: MCP
    /// does not define it.
    Undefined,
}

/// The thing that a request's parameters name, which determines where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodSubject {
    Tool,
    Prompt,
    Resource,
    Task,
    /// A prompt or a resource template, in `ref`.
    Reference,
}

/// Requests of a server to its client, while it serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Asks {
    Never,
    /// Only in a session, where server requests are separate messages.
    InSessions,
    /// In 2026-07-28 too, where they are a result (multi round-trip requests).
    Always,
}

/// The result of a request, where it is more than members to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultShape {
    /// Content of a tool.
    Tool,
    Prompt,
    /// Nothing: deployed peers of sessions refuse any member there.
    Empty,
    Other,
}

/// The places of URIs in a message.
#[derive(Clone, Copy)]
pub(in crate::mcp) enum UriPlaces {
    In(Paths),
    /// The places of a tool's result, with those of extensions.
    ToolResult,
    /// The same in a task of the extension of 2026-07-28.
    Task,
}

/// Everything about a method.
#[derive(Clone, Copy)]
pub(in crate::mcp) struct MethodRow {
    /// The name on the wire.
    pub(in crate::mcp) name: &'static str,
    pub(in crate::mcp) access: MethodAccess,
    /// The oldest version that has it, and the newest. For 2026-07-28, the tasks extension counts.
    pub(in crate::mcp) versions: (Revision, Revision),
    /// The lists that a request returns, or whose change a notification reports.
    pub(in crate::mcp) lists: &'static [ListKind],
    pub(in crate::mcp) subject: Option<MethodSubject>,
    pub(in crate::mcp) asks: Asks,
    /// True if it counts toward the limit `calls`.
    pub(in crate::mcp) is_bounded: bool,
    /// The result has cache hints (2026-07-28, caching).
    pub(in crate::mcp) is_cacheable: bool,
    pub(in crate::mcp) result: ResultShape,
    /// The members of its parameters; `None` if no version restricts them.
    pub(in crate::mcp) params_shape: Option<Shape>,
    /// The members of the answer to it, likewise.
    pub(in crate::mcp) result_shape: Option<Shape>,
    /// The members of the parameters that the gateway decides on.
    pub(in crate::mcp) controls: &'static [ControlMember],
    /// The places of URIs in what a server sends: the result of a request of clients, else the parameters.
    pub(in crate::mcp) uris: UriPlaces,
    /// True if the same may hold server requests, like a task waiting for input.
    pub(in crate::mcp) holds_input_requests: bool,
    /// The places of task ids in the same.
    pub(in crate::mcp) task_ids: Paths,
}

// === impl MethodSubject ===

impl MethodSubject {
    /// The member of the parameters that names it.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Task => "taskId",
            Self::Reference => "ref",
        }
    }
}

// === impl MethodRow ===

impl MethodRow {
    /// The places of URIs that it has of its own.
    pub(in crate::mcp) const fn own_uris(&self) -> Paths {
        match self.uris {
            UriPlaces::In(paths) => paths,
            UriPlaces::ToolResult | UriPlaces::Task => &[],
        }
    }

    /// A method of all versions that names nothing, asks nothing and returns nothing in particular.
    pub(in crate::mcp) const fn new(name: &'static str, access: MethodAccess) -> Self {
        Self {
            name,
            access,
            versions: (Revision::V2024_11_05, Revision::NEWEST),
            lists: &[],
            subject: None,
            asks: Asks::Never,
            is_bounded: false,
            is_cacheable: false,
            result: ResultShape::Other,
            params_shape: None,
            result_shape: None,
            controls: controls::NONE,
            uris: UriPlaces::In(&[]),
            holds_input_requests: false,
            task_ids: places::RELATED_TASK,
        }
    }
}
