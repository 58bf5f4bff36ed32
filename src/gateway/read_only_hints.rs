//! Where a server's word on its tools differs from `read_only_tools`. The operator sees it and decides; nothing follows
//! it.

use std::collections::HashSet;

use super::catalog::List;
use crate::{mcp::ToolHint, support::first_names};

/// Tools of a list that are looked at.
const LOOKED_AT: usize = 2_000;
/// Names in a sentence.
const SHOWN: usize = 5;

/// A sentence about listed tools that the server says change something, or that it says nothing of while it says of
/// others that they only read.
pub(super) fn contrary(tools: &List, listed: &HashSet<String>) -> Option<String> {
    let hints = hints(tools);
    let has_hints = hints.iter().any(|(_, hint)| *hint == ToolHint::Reads);
    let is_contrary = |hint| hint == ToolHint::Changes || (hint == ToolHint::Silent && has_hints);
    let names = hints.iter().filter(|(name, hint)| listed.contains(*name) && is_contrary(*hint));
    let names: Vec<&str> = names.map(|(name, _)| *name).collect();
    Some(format!(
        "the server does not say that these only read, but `read_only_tools` lists them: {}. Keys with `:read` may call them \
         until you take them out",
        first_names(&names, SHOWN)?
    ))
}

/// A sentence about further tools that the server says only read.
pub(super) fn further(tools: &List, listed: &HashSet<String>) -> Option<String> {
    let hints = hints(tools);
    let reads = hints.iter().filter(|(name, hint)| *hint == ToolHint::Reads && !listed.contains(*name));
    let names: Vec<&str> = reads.map(|(name, _)| *name).collect();
    let names = first_names(&names, SHOWN)?;
    Some(format!("the server says that these only read, but `read_only_tools` does not list them: {names}"))
}

fn hints(tools: &List) -> Vec<(&str, ToolHint)> {
    let hinted = tools.entries.iter().zip(tools.tool_hints()).take(LOOKED_AT);
    hinted.map(|(entry, hint)| (entry.key.as_str(), *hint)).collect()
}
