//! A row in the table of methods, with everything the gateway needs to know about a method.

use super::{
    super::Revision, controls, controls::ControlMember, lists::ListKind, places, places::Paths, shapes::Shape,
};

/// The callers that may send a method to a server. `docs/authorization.md` lists the methods of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAccess {
    /// Every caller with a right to the server.
    Any,
    /// Every caller with a right to the server, for the tools that this right covers.
    Tool,
    /// Every caller with a right to the server, for the tasks of its own calls.
    OwnTask,
    /// Only callers with full rights: this message comes from servers, and clients do not need to send it.
    OfServers,
    /// Callers with full rights at a server without tool rules, and all callers if the operator opens the method. For
    /// methods that MCP does not define.
    Undefined,
}

/// The kind of object that a request names in its parameters. It decides which server gets the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodSubject {
    Tool,
    Prompt,
    Resource,
    Task,
    /// A prompt or a resource template, in `ref`.
    Reference,
}

/// The server requests that a server may send to the client while it serves a request of this method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Asks {
    Never,
    /// Only in a session, as separate messages.
    InSessions,
    /// In 2026-07-28 too, as part of a result (multi round-trip requests).
    Always,
}

/// The form of a result, if the gateway does more than forward its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultShape {
    /// The content that a tool returns.
    Tool,
    Prompt,
    /// An empty object. Deployed clients and servers of the legacy versions refuse any member in it.
    Empty,
    Other,
}

/// The paths to URIs in a message.
#[derive(Clone, Copy)]
pub(in crate::mcp) enum UriPlaces {
    In(Paths),
    /// The paths of a tool's result, including extensions' own.
    ToolResult,
    /// The paths of a tool's result inside a task of the 2026-07-28 extension.
    Task,
}

/// All properties of a method.
#[derive(Clone, Copy)]
pub(in crate::mcp) struct MethodRow {
    /// The method's name in a message.
    pub(in crate::mcp) name: &'static str,
    pub(in crate::mcp) access: MethodAccess,
    /// The oldest and the newest version with this method. The tasks extension counts as part of 2026-07-28.
    pub(in crate::mcp) versions: (Revision, Revision),
    /// The lists that a request returns, or whose change a notification reports.
    pub(in crate::mcp) lists: &'static [ListKind],
    pub(in crate::mcp) subject: Option<MethodSubject>,
    pub(in crate::mcp) asks: Asks,
    /// True if the request counts toward the limit `calls`.
    pub(in crate::mcp) is_bounded: bool,
    /// True if the result has cache hints (2026-07-28, caching).
    pub(in crate::mcp) is_cacheable: bool,
    pub(in crate::mcp) result: ResultShape,
    /// The defined members of the parameters; `None` if no version restricts them.
    pub(in crate::mcp) params_shape: Option<Shape>,
    /// The defined members of the result; `None` if no version restricts them.
    pub(in crate::mcp) result_shape: Option<Shape>,
    /// The members of the parameters that the gateway acts on.
    pub(in crate::mcp) controls: &'static [ControlMember],
    /// The paths to URIs in the result of a client's request, or in the parameters of a server's message.
    pub(in crate::mcp) uris: UriPlaces,
    /// True if that result or those parameters may hold server requests, as a task that waits for input does.
    pub(in crate::mcp) holds_input_requests: bool,
    /// The paths to task ids in that result or those parameters.
    pub(in crate::mcp) task_ids: Paths,
}

// === impl MethodSubject ===

impl MethodSubject {
    /// The member of the parameters with the name.
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
    /// The paths to URIs that the row itself lists.
    pub(in crate::mcp) const fn own_uris(&self) -> Paths {
        match self.uris {
            UriPlaces::In(paths) => paths,
            UriPlaces::ToolResult | UriPlaces::Task => &[],
        }
    }

    /// A row with the defaults: a method of all versions that names no object, allows no server requests and has no
    /// special result.
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
