//! Numbers of the tools of a server, for people who decide about apps. Nothing is asked for them: they are those of the
//! lists at hand.

use super::Gateway;
use crate::{
    mcp::{ListKind, ToolHint},
    model::{BackendId, Caller, Rights, Target, UserId, status::ToolCounts},
};

// === impl Gateway ===

impl Gateway {
    /// The tools that an app of this user with full rights would be shown at an endpoint, from one server; `None` as
    /// long as no list of it is known, in this process or from an earlier one.
    pub fn tool_counts(&self, target: &Target, server: &BackendId, user: &UserId) -> Option<ToolCounts> {
        let caller = Caller { user: user.clone(), rights: Rights::all_backends(), ..Caller::gateway() };
        let seen = self.shared.backends.load().visible_one(target, &caller, server)?;
        let list = seen.entry.catalog.known(user, ListKind::Tools)?;
        let mut counts = ToolCounts::default();
        for (entry, hint) in list.entries.iter().zip(list.tool_hints()) {
            if seen.entry.configured.connect_tool == Some(&*entry.key) {
                // the page that unlocks the server comes before its tools
                return None;
            }
            if seen.shows_tool(&entry.key) {
                let is_read_only = seen.entry.read_only_tools.contains(&entry.key);
                counts.tools += 1;
                counts.changing += usize::from(*hint != ToolHint::Reads && !is_read_only);
                counts.read_only += usize::from(is_read_only);
            }
        }
        // what a server shows to nobody in particular says nothing of what it shows to this user
        let is_locked = counts.tools == 0 && seen.entry.configured.connect_tool.is_some();
        (!is_locked).then_some(counts)
    }
}
