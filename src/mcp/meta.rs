//! The `_meta` member and the keys of it that belong to the protocol.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::{
    Level, Payload,
    json::{self, At, draft::Draft, quote},
};

/// The server's name, in a result of 2026-07-28.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The version of a request of 2026-07-28.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's `Implementation`, in a request of 2026-07-28.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The client's capabilities for this request of 2026-07-28.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The minimum level of log messages for this request of 2026-07-28; none if it is absent.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription that a notification of 2026-07-28 belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25, tasks).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The tasks extension, in the member `extensions` of capabilities.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The name of the `_meta` member itself.
pub const META: &str = "_meta";

const PROGRESS_TOKEN: &[At] = &[At::Key(META), At::Key("progressToken")];

static TOKEN: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("progressToken"));
static VERSION: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("protocolVersion"));
static LEVEL: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("logLevel"));

/// The JSON text of a request's progress token, if there is one. A token is a string or an integer (all versions,
/// progress).
pub fn progress_token(params: &Payload) -> Option<Bytes> {
    let token = json::member(meta_with(params, &TOKEN)?.as_bytes(), "progressToken")?;
    let first = token.as_bytes().first()?;
    (*first == b'"' || *first == b'-' || first.is_ascii_digit()).then(|| Bytes::copy_from_slice(token.as_bytes()))
}

/// The minimum level of log messages for a request of 2026-07-28; `None` if it has none.
pub fn log_level(params: &Payload) -> Option<Level> {
    let level = json::member(meta_with(params, &LEVEL)?.as_bytes(), LOG_LEVEL)?;
    Level::parse(&json::unquote(level)?)
}

/// The value of `_meta` if it is the envelope of a request of 2026-07-28: it has a version, which by itself makes a
/// request one without a session.
pub fn envelope(params: &Payload) -> Option<Payload> {
    let text = meta_with(params, &VERSION)?;
    let envelope = Payload::new(params.revision, params.json().slice_ref(text.as_bytes()));
    envelope.member(PROTOCOL_VERSION)?;
    Some(envelope)
}

/// True if `_meta` is the [`envelope`] of a request of 2026-07-28.
pub fn has_envelope(params: &Payload) -> bool {
    meta_with(params, &VERSION).is_some_and(|text| json::first_member(text.as_bytes(), PROTOCOL_VERSION).is_some())
}

/// The text of `_meta` if it can have a member whose name ends with `letters`.
fn meta_with<'a>(params: &'a Payload, letters: &Finder<'_>) -> Option<&'a str> {
    json::may_hold(params.json(), letters).then(|| params.member(META)).flatten()
}

/// The same parameters with their progress token, if there is one, replaced by the JSON text `token`.
#[must_use]
pub fn with_progress_token(params: &Payload, token: &str) -> Payload {
    params.rewrite(&[PROGRESS_TOKEN], |_| Some(token.to_owned()))
}

/// The same request with this minimum level of log messages (2026-07-28, logging).
#[must_use]
pub fn with_log_level(params: &Payload, level: Level) -> Payload {
    let text = String::from_utf8_lossy(params.json());
    let mut request = Draft::of(if text.is_empty() { "{}" } else { &text });
    if request.get(META).is_none_or(|meta| !meta.is_object()) {
        request.set(META, "{}");
    }
    request.each(META).for_each(|meta| meta.set(LOG_LEVEL, quote(level.as_str())));
    params.rewritten(request.text().into())
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
