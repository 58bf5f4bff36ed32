//! The interface of an extension. Its default methods fit one that only passes through.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::{
    Revision,
    json::draft::Draft,
    methods::{places::Paths, row::MethodRow},
};

/// The interface of an extension.
pub(super) trait Extension: Sync {
    /// Its name in the member `extensions` of capabilities.
    fn id(&self) -> &'static str;

    /// Its requests and notifications.
    fn methods(&self) -> &'static [MethodRow] {
        &[]
    }

    /// Paths of URIs that it adds to a tool in a list.
    fn tool_uris(&self) -> Paths {
        &[]
    }

    /// Paths of URIs that it adds to the result of a tool.
    fn result_uris(&self) -> Paths {
        &[]
    }

    /// The settings shown to a client of several servers, computed from the settings that servers declare (at least
    /// one); `None` if the client does not see the extension.
    fn merged(&self, settings: &[Value]) -> Option<Value> {
        agreed(settings)
    }

    /// Adds members to the merged capabilities, so that clients without the extension recognize it. `declared` are the
    /// capabilities of the servers.
    fn add_to_merged(&self, declared: &[Map<String, Value>], merged: &mut Map<String, Value>) {
        let _ = (declared, merged);
    }

    /// Changes a server's capabilities for a client with a session.
    fn for_session(&self, capabilities: Bytes, revision: Revision) -> Bytes {
        let _ = revision;
        capabilities
    }

    /// Changes a server's capabilities for a client of 2026-07-28.
    fn for_request(&self, capabilities: &mut Draft<'_>) {
        let _ = capabilities;
    }

    /// True if the gateway implements it toward servers, for any client.
    fn is_of_gateway(&self) -> bool {
        false
    }
}

/// The settings, if all are equal.
pub(super) fn agreed(settings: &[Value]) -> Option<Value> {
    let first = settings.first()?;
    settings.iter().all(|one| one == first).then(|| first.clone())
}
