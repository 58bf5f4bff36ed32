//! The interface of an extension, and what holds for one that only passes.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::{
    Revision,
    json::draft::Draft,
    methods::{places::Paths, row::MethodRow},
};

/// All that the gateway knows of an extension. What a method says by default holds for one that only passes.
pub(super) trait Extension: Sync {
    /// Its name among `extensions` of capabilities.
    fn id(&self) -> &'static str;

    /// Its requests and notifications, each with its access class and with what it names.
    fn methods(&self) -> &'static [MethodRow] {
        &[]
    }

    /// The places of URIs that it adds to a tool in a list.
    fn tool_uris(&self) -> Paths {
        &[]
    }

    /// The places of URIs that it adds to the result of a tool.
    fn result_uris(&self) -> Paths {
        &[]
    }

    /// The settings that a client of several servers is shown, of those that servers declare, which are at least one; `None`
    /// if it is shown none.
    fn merged(&self, settings: &[Value]) -> Option<Value> {
        agreed(settings)
    }

    /// Adds to the capabilities of several servers, of which each has `declared` its own, what clients without the extension
    /// know it by.
    fn add_to_merged(&self, declared: &[Map<String, Value>], merged: &mut Map<String, Value>) {
        let _ = (declared, merged);
    }

    /// A server's capabilities for a client with a session.
    fn for_session(&self, capabilities: Bytes, revision: Revision) -> Bytes {
        let _ = revision;
        capabilities
    }

    /// Changes a server's capabilities for a client of 2026-07-28.
    fn for_request(&self, capabilities: &mut Draft<'_>) {
        let _ = capabilities;
    }

    /// True if the gateway itself has it toward servers, whatever the client declared.
    fn is_of_gateway(&self) -> bool {
        false
    }
}

/// The settings, if all are alike.
pub(super) fn agreed(settings: &[Value]) -> Option<Value> {
    let first = settings.first()?;
    settings.iter().all(|one| one == first).then(|| first.clone())
}
