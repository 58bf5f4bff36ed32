//! Finds content blocks, and converts kinds that the target does not know.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    super::{
        json::{draft::Draft, quote, scan, unquoted},
        methods::ResultShape,
    },
    facts::Kind,
    translation::Translation,
};
use crate::support::digest::Digest;

/// Calls `change` for every content block of a server's result.
pub(super) fn each_block(draft: &mut Draft<'_>, translation: &Translation<'_>, change: fn(&mut Draft<'_>)) {
    if translation.facts.kind != Kind::Result {
        return;
    }
    match translation.facts.method.result() {
        ResultShape::Tool => {
            if let Some(content) = draft.edit("content") {
                content.each_element(change);
            }
        }
        ResultShape::Prompt => {
            if let Some(messages) = draft.edit("messages") {
                messages.each_element(|message| message.edit("content").into_iter().for_each(change));
            }
        }
        ResultShape::Empty | ResultShape::Other => {}
    }
}

/// Converts audio (2025-03-26) to an embedded resource with the same bytes. The URI contains their digest, so equal
/// audio gets an equal URI.
pub(super) fn audio_to_resource(block: &mut Draft<'_>) {
    if !is_kind(block, "audio") {
        return;
    }
    let data = block.member("data").unwrap_or_else(|| "\"\"".to_owned());
    // some servers escape slashes
    let encoded = unquoted(&data).unwrap_or(Cow::Borrowed(&data));
    let digest = match STANDARD.decode(&*encoded) {
        Ok(bytes) => Digest::sha256(bytes),
        Err(_) => Digest::sha256(&*encoded),
    };
    let uri = format!("urn:gw:inline:sha256:{}", digest.short_hex(8));
    let kind = block.member("mimeType").map(|kind| format!("\"mimeType\":{kind},")).unwrap_or_default();
    block.remove("data");
    block.remove("mimeType");
    block.set("type", "\"resource\"");
    block.set("resource", format!("{{\"uri\":{},{kind}\"blob\":{data}}}", quote(&uri)));
}

/// Converts a resource link (2025-06-18) to a text block with the complete link as JSON, so that a program can read it.
pub(super) fn link_to_text(block: &mut Draft<'_>) {
    if !is_kind(block, "resource_link") {
        return;
    }
    let mut link = block.clone();
    link.retain_members(|name, _| !matches!(name, "type" | "annotations" | "_meta"));
    let text = format!("[resource_link] {}", scan::compact(&link.text()));
    block.retain_members(|name, _| matches!(name, "type" | "annotations" | "_meta"));
    block.set("type", "\"text\"");
    block.set("text", quote(&text));
}

/// True if a block is of this kind.
pub(super) fn is_kind(block: &Draft<'_>, kind: &str) -> bool {
    block.get("type").is_some_and(|name| name.is(kind))
}

/// Adds the JSON text of `value` to a tool's result as a text block.
pub(super) fn push_text(result: &mut Draft<'_>, value: &str) {
    let block = format!("{{\"type\":\"text\",\"text\":{}}}", quote(&scan::compact(value)));
    if result.get("content").is_none_or(|content| !content.is_array()) {
        result.set("content", "[]");
    }
    if let Some(content) = result.edit("content") {
        content.push(&block);
    }
}

/// True if a tool's result has a text block with the JSON text of `value`.
pub(super) fn says(result: &mut Draft<'_>, value: &str) -> bool {
    let measure = scan::Measure::of(value);
    result.get("content").is_some_and(|content| {
        content.elements().any(|block| block.member_string("text").is_some_and(|text| measure.is(&text)))
    })
}

/// True if a tool's result has a text block.
pub(super) fn has_text(result: &mut Draft<'_>) -> bool {
    result.get("content").is_some_and(|content| content.elements().any(|block| is_kind(&block, "text")))
}
