//! Results of the demonstration backend, and their common parts.

use serde_json::{Value, json};

use crate::mcp::{Payload, Reply, Revision};

/// The backend's protocol version.
pub(super) const REVISION: Revision = Revision::NEWEST_LEGACY;
/// Maximum start of the countdown, in seconds.
pub(super) const LONGEST: u64 = 60;
/// `Implementation` of the demonstration backend, as JSON.
pub(super) const IMPLEMENTATION: &str = concat!(
    r#"{"name":"lockkeeper-demo","title":"Lockkeeper demonstration","version":""#,
    env!("CARGO_PKG_VERSION"),
    "\"}"
);
/// Annotations of a tool that changes nothing.
pub(super) fn read_only(title: &str) -> Value {
    json!({ "title": title, "readOnlyHint": true, "openWorldHint": false })
}

pub(super) fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A result with one text, given as a quoted JSON string.
pub(super) fn quoted_text(text: &str) -> Reply {
    let result = [r#"{"content":[{"type":"text","text":"#, text, "}]}"].concat();
    Reply::complete(Payload::new(REVISION, result.into()).of_server(IMPLEMENTATION.into()))
}

pub(super) fn complete(result: &Value) -> Reply {
    Reply::complete(said(result))
}

/// A payload written by the demonstration backend.
pub(super) fn said(value: &Value) -> Payload {
    Payload::of(REVISION, value).of_server(IMPLEMENTATION.into())
}
