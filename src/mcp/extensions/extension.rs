//! The interface of an extension, with defaults for one that only passes through.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::{
    Revision,
    json::draft::Draft,
    methods::{places::Paths, row::MethodRow},
};

/// All the gateway needs to know of an extension. The default methods fit an extension that only passes through.
pub(super) trait Extension: Sync {
    /// Its name among `extensions` of capabilities.
    fn id(&self) -> &'static str;

    /// Its requests and notifications, with the access class and the subject of each.
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

    /// The settings shown to a client of several servers, computed from those the servers declare (at least one);
    /// `None` if the client sees none.
    fn merged(&self, settings: &[Value]) -> Option<Value> {
        agreed(settings)
    }

    /// Adds to the merged capabilities of several servers, given as `declared`, the entries by which clients without
    /// the extension recognize it.
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

    /// True if the gateway itself has it toward servers, for any client.
    fn is_of_gateway(&self) -> bool {
        false
    }
}

/// The settings, if all are alike.
pub(super) fn agreed(settings: &[Value]) -> Option<Value> {
    let first = settings.first()?;
    settings.iter().all(|one| one == first).then(|| first.clone())
}
