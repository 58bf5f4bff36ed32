//! Task modes of the tools of a server of 2025-11-25 (2025-11-25, tools, *Execution*), from its lists of tools. Knows
//! nothing of callers.
//!
//! Lists are read as they pass. The server's list is requested only if a tool is called that no list has named. The
//! gateway does not rely on an error instead: servers reject a call without the required task in several ways, and a
//! call that was made is not repeated.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::mcp::{
    Call, CancelReason, Context, Method, Outcome, Payload, Revision, Server, json::Object, translate::Profile,
};

/// Maximum number of tools; beyond it all are removed.
const MAX_TOOLS: usize = 10_000;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;

/// Task modes of one server's tools.
#[derive(Debug, Default)]
pub(super) struct ToolModes(RwLock<HashMap<String, ToolMode>>);

/// Task mode of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolMode {
    /// It must not be called as a task.
    Forbidden,
    /// It may be.
    Optional,
    /// It must be.
    Required,
}

// === impl ToolModes ===

impl ToolModes {
    /// The mode of the tool `name` at `server`. An unlisted tool cannot run as a task.
    pub(super) async fn mode(&self, name: &str, server: &dyn Server, context: &Context) -> ToolMode {
        if let Some(mode) = self.known(name) {
            return mode;
        }
        self.read(server, context).await;
        self.known(name).unwrap_or_else(|| {
            self.insert([(name.to_owned(), ToolMode::Forbidden)]);
            ToolMode::Forbidden
        })
    }

    /// Stores the modes from a page of the list of tools.
    pub(super) fn note(&self, page: &Payload) {
        let Some(tools) = page.member("tools").map(str::to_owned) else { return };
        let tools: Vec<&serde_json::value::RawValue> = serde_json::from_str(&tools).unwrap_or_default();
        self.insert(tools.iter().filter_map(|tool| {
            let tool = Object::parse(tool.get().as_bytes())?;
            Some((tool.string("name")?, ToolMode::of(&tool)))
        }));
    }

    /// The mode of the tool `name`, if a list has named it.
    pub(super) fn known(&self, name: &str) -> Option<ToolMode> {
        self.0.read().get(name).copied()
    }

    fn insert(&self, modes: impl IntoIterator<Item = (String, ToolMode)>) {
        let mut known = self.0.write();
        if known.len() > MAX_TOOLS {
            known.clear();
        }
        known.extend(modes);
    }

    /// Reads the whole list.
    async fn read(&self, server: &dyn Server, context: &Context) {
        let (profile, cancel_reason) = (Profile::default(), CancelReason::default());
        let context = Context { mirror: None, profile, cancel_reason, ..context.clone() };
        let mut params = Payload::absent(Revision::NEWEST_LEGACY);
        for _ in 0..MAX_PAGES {
            let call = Call { method: Method::ToolsList, params, context: context.clone() };
            let Outcome::Complete(page) = server.call(call).outcome().await else { return };
            self.note(&page);
            let Some(cursor) = page.string("nextCursor") else { return };
            params = Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "cursor": cursor }));
        }
    }
}

impl ToolMode {
    fn of(tool: &Object<'_>) -> Self {
        let execution = tool.get("execution").and_then(|text| Object::parse(text.as_bytes()));
        match execution.and_then(|execution| execution.string("taskSupport")).as_deref() {
            Some("required") => Self::Required,
            Some("optional") => Self::Optional,
            _ => Self::Forbidden,
        }
    }
}
