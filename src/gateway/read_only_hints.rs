//! What a server says of its tools beside `read_only_tools`: shown to the operator, who alone decides, and followed by
//! nobody.

use std::collections::HashSet;

use super::catalog::List;
use crate::mcp::json;

/// Tools of a list that are looked at.
const LOOKED_AT: usize = 2_000;
/// Names in a sentence.
const SHOWN: usize = 5;

/// What a server says of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolHint {
    Reads,
    Changes,
    Silent,
}

/// A sentence if the server says of a listed tool that it changes something, or says of others that they only read, and
/// of this one no more.
pub(super) fn contrary(tools: &List, listed: &HashSet<String>) -> Option<String> {
    let hints = hints(tools);
    let has_hints = hints.iter().any(|(_, hint)| *hint == ToolHint::Reads);
    let is_contrary = |hint| hint == ToolHint::Changes || (hint == ToolHint::Silent && has_hints);
    let names = hints.iter().filter(|(name, hint)| listed.contains(*name) && is_contrary(*hint));
    let names = shown(names.map(|(name, _)| *name))?;
    Some(format!(
        "by the server's word these do not only read, and `read_only_tools` lists them: {names}. Keys with `:read` may call them \
         until they are taken out there"
    ))
}

/// A sentence about further tools that the server says only read.
pub(super) fn further(tools: &List, listed: &HashSet<String>) -> Option<String> {
    let hints = hints(tools);
    let reads = hints.iter().filter(|(name, hint)| *hint == ToolHint::Reads && !listed.contains(*name));
    let names = shown(reads.map(|(name, _)| *name))?;
    Some(format!("by the server's word these only read, and `read_only_tools` does not list them: {names}"))
}

fn hints(tools: &List) -> Vec<(&str, ToolHint)> {
    let looked_at = tools.entries.iter().take(LOOKED_AT);
    looked_at.map(|entry| (entry.key.as_str(), ToolHint::of(&entry.raw))).collect()
}

/// The first names; `None` if there are none.
fn shown<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let (first, rest) = names.split_at(names.len().min(SHOWN));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!first.is_empty()).then(|| first.join(", ") + &more)
}

// === impl ToolHint ===

impl ToolHint {
    fn of(tool: &[u8]) -> Self {
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
