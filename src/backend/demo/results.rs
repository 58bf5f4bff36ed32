//! Results of the demonstration backend, and what all of them have in common.

use serde_json::{Value, json};

use crate::mcp::{Payload, Reply, Revision};

/// The version that it speaks.
pub(super) const REVISION: Revision = Revision::NEWEST_LEGACY;
/// The longest countdown.
pub(super) const LONGEST: u64 = 60;
/// Its `Implementation`.
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

pub(super) fn complete(result: &Value) -> Reply {
    Reply::complete(said(result))
}

/// A message of its own.
pub(super) fn said(value: &Value) -> Payload {
    Payload::of(REVISION, value).of_server(IMPLEMENTATION.into())
}
