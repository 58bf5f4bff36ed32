//! Tools of a server with the tasks extension in the lists of clients that have tasks of 2025-11-25 (`translation`
//! section 5). Knows nothing of calls.

use bytes::Bytes;

use crate::mcp::{
    ClientInfo, Feature, Payload,
    json::{self, At, At::Key},
};

/// The member with which a tool says that it can be called as a task, and need not (2025-11-25, tools).
const OPTIONAL: &str = r#"{"taskSupport":"optional"}"#;

/// Whether tools must say to this client that they can be called as tasks: without that word a client of 2025-11-25 must
/// not do so, and the extension of 2026-07-28, where the server decides, has no such word.
pub(crate) fn are_marked_for(client: &ClientInfo) -> bool {
    client.revision.has(Feature::CoreTasks)
}

/// A tool that says that it can be called as a task.
pub(crate) fn marked(tool: &Bytes) -> Bytes {
    json::with_member(tool, "execution", OPTIONAL)
}

/// A list of such tools.
pub(crate) fn all_marked(tools: &Payload) -> Payload {
    let marked = |tool: &str| String::from_utf8(marked(&Bytes::copy_from_slice(tool.as_bytes())).into()).ok();
    tools.rewrite(&[&[Key("tools"), At::Each]], marked)
}
