//! The member `_meta`, and its keys that the protocol defines.

use bytes::Bytes;

pub use super::indexed_json::META;
use super::{
    IndexedJson, Level, Payload,
    json::{self, At, draft::Draft, quote},
};

/// The server's `Implementation`, in a result of 2026-07-28.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The version of a request of 2026-07-28.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's `Implementation`, in a request of 2026-07-28.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The client's capabilities for this request of 2026-07-28.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The minimum level of log messages for a request of 2026-07-28; if absent, it wants none.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription that a notification of 2026-07-28 belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25, tasks).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The tasks extension, in the member `extensions` of capabilities.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The capability with the tasks of 2025-11-25.
pub const CORE_TASKS: &str = "tasks";

const SUBSCRIPTION: &[At] = &[At::Key(META), At::Key(SUBSCRIPTION_ID)];
const PROGRESS_TOKEN: &[At] = &[At::Key(META), At::Key("progressToken")];

/// The progress token of a request as JSON text, if it has one. A token is a string or an integer (all versions,
/// progress).
pub fn progress_token(params: &Payload) -> Option<Bytes> {
    let token = params.meta_member("progressToken")?;
    let first = token.as_bytes().first()?;
    (*first == b'"' || *first == b'-' || first.is_ascii_digit()).then(|| Bytes::copy_from_slice(token.as_bytes()))
}

/// The minimum level of log messages for a request of 2026-07-28; `None` if it has none.
pub fn log_level(params: &Payload) -> Option<Level> {
    Level::parse(&json::unquoted(params.meta_member(LOG_LEVEL)?)?)
}

/// True if `_meta` is the envelope of a request of 2026-07-28: a version is enough to mark a request without a session.
pub fn has_envelope(params: &IndexedJson) -> bool {
    params.meta_member(PROTOCOL_VERSION).is_some()
}

/// Replaces the progress token, if there is one, by the JSON text `token`.
#[must_use]
pub fn with_progress_token(params: &Payload, token: &str) -> Payload {
    params.rewrite(&[PROGRESS_TOKEN], |_| Some(token.to_owned()))
}

/// Adds the minimum level of log messages to a request (2026-07-28, logging).
#[must_use]
pub fn with_log_level(params: &Payload, level: Level) -> Payload {
    let text = String::from_utf8_lossy(params.json());
    let mut request = Draft::of(if text.is_empty() { "{}" } else { &text });
    if let Some(meta) = request.edit_object(META) {
        meta.set(LOG_LEVEL, quote(level.as_str()));
    }
    params.rewritten(request.text().into())
}

/// Adapts a message for the client whose listen has the id `id`, as JSON text: the server knows the subscription by
/// another id.
#[must_use]
pub fn of_subscriber(payload: Payload, id: &str) -> Payload {
    if payload.meta_member(SUBSCRIPTION_ID).is_none() {
        return payload;
    }
    payload.rewrite(&[SUBSCRIPTION], |_| Some(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::mcp::Revision;

    #[test]
    fn a_request_asks_for_a_level_whatever_it_says_beside() {
        let of = |text: &'static str| {
            let params = Payload::new(Revision::V2025_11_25, Bytes::from_static(text.as_bytes()));
            String::from_utf8_lossy(with_log_level(&params, Level::Error).json()).into_owned()
        };
        assert_snapshot!(of(""), @r#"{"_meta":{"io.modelcontextprotocol/logLevel":"error"}}"#);
        assert_snapshot!(of(r#"{ "cursor" : "x", "_meta":{"v/x":1.0}}"#), @r#"{ "cursor" : "x", "_meta":{"v/x":1.0,"io.modelcontextprotocol/logLevel":"error"}}"#);
    }
}
