//! Server information of a backend: its `server/discover` result.

use bytes::Bytes;

use serde_json::{Map, Value};

use crate::mcp::{ListKind, Payload, json::Object, meta};

/// A backend's own `server/discover` result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiscoverInfo {
    pub(crate) result: Payload,
    /// True if the server has the tasks extension of 2026-07-28.
    extension: bool,
    /// Capabilities with change notifications; precomputed because calls need them.
    changing: Vec<&'static str>,
}

impl DiscoverInfo {
    pub(crate) fn new(result: Payload) -> Self {
        let about = Self { result, extension: false, changing: Vec::new() };
        let extension = about.named_under("extensions").contains_key(meta::TASKS_EXTENSION);
        let capabilities = ListKind::ALL.map(ListKind::capability).into_iter();
        let changing = capabilities.filter(|capability| about.flag(capability, "listChanged")).collect();
        Self { extension, changing, ..about }
    }

    pub(crate) fn has(&self, capability: &str) -> bool {
        self.capability(capability, |_| true)
    }

    pub(crate) fn subscribes(&self) -> bool {
        self.flag("resources", "subscribe")
    }

    /// True if the server declares change notifications for the lists of this capability.
    pub(crate) fn tells_changes(&self, capability: &str) -> bool {
        self.changing.contains(&capability)
    }

    /// All capabilities with their settings; empty if they are not an object.
    pub(crate) fn capabilities(&self) -> Map<String, Value> {
        let capabilities = self.result.member("capabilities");
        capabilities.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Members of this capability with their settings; empty if it is not an object.
    pub(crate) fn named_under(&self, capability: &str) -> Map<String, Value> {
        let mut named = Map::new();
        self.capability(capability, |text| {
            named = serde_json::from_str(text).unwrap_or_default();
            true
        });
        named
    }

    /// The server's `Implementation`; `None` if it sent none.
    pub(crate) fn server(&self) -> Option<Bytes> {
        let object = self.result.object()?;
        let meta = Object::parse(object.get(meta::META)?.as_bytes())?;
        Some(Bytes::copy_from_slice(meta.get(meta::SERVER_INFO)?.as_bytes()))
    }

    /// The server's instructions; `None` if they are missing or blank.
    pub(crate) fn instructions(&self) -> Option<String> {
        self.result.string("instructions").filter(|text| !text.trim().is_empty())
    }

    /// True if the server declares tasks, in either form.
    pub(crate) fn has_tasks(&self) -> bool {
        self.extension || self.has(meta::CORE_TASKS)
    }

    /// True if the server has the tasks extension of 2026-07-28.
    pub(crate) const fn extends_tasks(&self) -> bool {
        self.extension
    }

    fn flag(&self, capability: &str, name: &str) -> bool {
        self.capability(capability, |text| {
            Object::parse(text.as_bytes()).is_some_and(|flags| flags.get(name) == Some("true"))
        })
    }

    fn capability(&self, name: &str, test: impl FnOnce(&str) -> bool) -> bool {
        let object = self.result.object();
        let capabilities = object.as_ref().and_then(|object| object.get("capabilities"));
        let capabilities = capabilities.and_then(|text| Object::parse(text.as_bytes()));
        capabilities.and_then(|capabilities| capabilities.get(name)).is_some_and(|text| text != "null" && test(text))
    }
}
