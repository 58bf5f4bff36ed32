//! Members of clients' parameters that the gateway acts on, by kind of parameters.

use super::{
    super::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, META, PROTOCOL_VERSION, RELATED_TASK, TASKS_EXTENSION},
    lists::ListKind,
};

/// Member of a listen's filter with the URIs of resources.
pub(crate) const RESOURCE_SUBSCRIPTIONS: &str = "resourceSubscriptions";
/// Member of a listen's filter with the ids of tasks.
pub(crate) const TASK_IDS: &str = "taskIds";

/// A member that the gateway acts on, and such members inside its value. At most 32 in one object.
#[derive(Debug, Clone, Copy)]
pub(in crate::mcp) struct ControlMember {
    pub(in crate::mcp) name: &'static str,
    pub(in crate::mcp) inside: &'static [Self],
}

/// A member with no such members inside.
pub(in crate::mcp) const fn one(name: &'static str) -> ControlMember {
    ControlMember { name, inside: &[] }
}

const CLIENT: &[ControlMember] = &[one("name"), one("version")];

const CAPABILITIES: &[ControlMember] = &[
    one("roots"),
    ControlMember { name: "sampling", inside: &[one("context"), one("tools")] },
    ControlMember { name: "elicitation", inside: &[one("form"), one("url")] },
    ControlMember { name: "extensions", inside: &[one(TASKS_EXTENSION)] },
    one("tasks"),
];

pub(in crate::mcp) const META_MEMBERS: &[ControlMember] = &[
    one("progressToken"),
    one(PROTOCOL_VERSION),
    ControlMember { name: CLIENT_INFO, inside: CLIENT },
    ControlMember { name: CLIENT_CAPABILITIES, inside: CAPABILITIES },
    one(LOG_LEVEL),
    ControlMember { name: RELATED_TASK, inside: &[one("taskId")] },
];

const FILTER: &[ControlMember] = &[
    one(ListKind::Tools.filter_member()),
    one(ListKind::Prompts.filter_member()),
    one(ListKind::Resources.filter_member()),
    one(RESOURCE_SUBSCRIPTIONS),
    one(TASK_IDS),
];

pub(super) const NONE: &[ControlMember] = &[one(META)];
pub(super) const HANDSHAKE: &[ControlMember] = &[
    one(META),
    one("protocolVersion"),
    ControlMember { name: "clientInfo", inside: CLIENT },
    ControlMember { name: "capabilities", inside: CAPABILITIES },
];
/// `arguments` is included, because headers mirror its members.
pub(super) const TOOL_CALL: &[ControlMember] =
    &[one(META), one("name"), one("arguments"), one("task"), one("inputResponses"), one("requestState")];
pub(super) const PROMPT: &[ControlMember] = &[one(META), one("name"), one("inputResponses"), one("requestState")];
pub(super) const READ: &[ControlMember] = &[one(META), one("uri"), one("inputResponses"), one("requestState")];
pub(super) const SUBSCRIPTION: &[ControlMember] = &[one(META), one("uri")];
pub(super) const COMPLETION: &[ControlMember] =
    &[one(META), ControlMember { name: "ref", inside: &[one("type"), one("name"), one("uri")] }];
pub(super) const LEVEL: &[ControlMember] = &[one(META), one("level")];
pub(super) const TASK: &[ControlMember] = &[one(META), one("taskId")];
pub(super) const LIST: &[ControlMember] = &[one(META), one("cursor")];
pub(super) const LISTEN: &[ControlMember] = &[one(META), ControlMember { name: "notifications", inside: FILTER }];
pub(super) const CANCELLED: &[ControlMember] = &[one(META), one("requestId")];
pub(super) const PROGRESS: &[ControlMember] = &[one(META), one("progressToken")];
