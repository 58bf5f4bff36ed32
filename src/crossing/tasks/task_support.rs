//! Tools of a server with the tasks extension, in lists for clients with tasks of 2025-11-25 (`translation` section 5).

use bytes::Bytes;

use crate::mcp::{
    ClientInfo, Feature, Payload,
    json::{self, At, At::Key},
};

/// Declares that a tool can, but need not, be called as a task (2025-11-25, tools).
const OPTIONAL: &str = r#"{"taskSupport":"optional"}"#;

/// True if the tools need that declaration for this client: a client of 2025-11-25 must not call a tool as a task
/// without it. The extension has none, since there the server decides.
pub(crate) fn are_marked_for(client: &ClientInfo) -> bool {
    client.revision.has(Feature::CoreTasks)
}

/// Adds the declaration to a tool.
pub(crate) fn marked(tool: &Bytes) -> Bytes {
    json::with_member(tool, "execution", OPTIONAL)
}

/// Adds the declaration to all tools of a list.
pub(crate) fn all_marked(tools: &Payload) -> Payload {
    let marked = |tool: &str| String::from_utf8(marked(&Bytes::copy_from_slice(tool.as_bytes())).into()).ok();
    tools.rewrite(&[&[Key("tools"), At::Each]], marked)
}
