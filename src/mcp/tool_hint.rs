//! A server's word on whether a tool only reads. Rights never follow it.

use super::json;

/// The annotations `readOnlyHint` and `destructiveHint` of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolHint {
    Reads,
    Changes,
    Silent,
}

// === impl ToolHint ===

impl ToolHint {
    /// The hint of this entry of `tools/list`.
    pub(crate) fn of(tool: &[u8]) -> Self {
        let annotations = json::member(tool, "annotations").unwrap_or("{}");
        let hint = |name: &str| json::member(annotations.as_bytes(), name);
        match (hint("readOnlyHint"), hint("destructiveHint")) {
            // the specification gives the other hint a meaning only without this one
            (Some("true"), _) => Self::Reads,
            (Some("false"), _) | (_, Some("true")) => Self::Changes,
            _ => Self::Silent,
        }
    }
}
