//! Sampling messages: arrays of blocks and tools (2025-11-25), and their conversion for older revisions.

use super::{
    super::{LackingFeature, Revision, json::draft::Draft},
    content,
    facts::Kind,
    refusal::{Cause, Untranslatable},
    translation::Translation,
};

/// Kinds of blocks that only sampling with tools has.
const TOOL_BLOCKS: &[&str] = &["tool_use", "tool_result"];

/// True if a request or an answer has a block of any of these kinds.
pub(super) fn holds(draft: &mut Draft<'_>, kinds: &[&str]) -> bool {
    let mut found = false;
    each_block(draft, &mut |block| found |= kinds.iter().any(|kind| content::is_kind(block, kind)));
    found
}

/// Calls `change` for every block of a request or an answer.
pub(super) fn each_block(draft: &mut Draft<'_>, change: &mut dyn FnMut(&mut Draft<'_>)) {
    let mut each_of = |content: &mut Draft<'_>| {
        if content.is_array() {
            content.each_element(&mut *change);
        } else {
            change(content);
        }
    };
    // a request has several messages; an answer is one message itself
    if let Some(messages) = draft.edit("messages") {
        messages.each_element(|message| message.edit("content").into_iter().for_each(&mut each_of));
    }
    draft.edit("content").into_iter().for_each(each_of);
}

/// Converts a request for 2025-06-18 and older: each block of an array becomes its own message with the same role.
/// Tools cannot be expressed there.
pub(super) fn split_messages(question: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    let tools = question.has("tools") || question.has("toolChoice");
    if tools || holds(question, TOOL_BLOCKS) {
        return Err(translation.refuse(LackingFeature::SamplingTools, Cause::ServerRequest));
    }
    if let Some(messages) = question.edit("messages") {
        messages.split_elements(|message| {
            let blocks: Vec<String> = match message.get("content") {
                Some(content) if content.is_array() => content.elements().map(|block| block.text()).collect(),
                _ => return None,
            };
            let mut blocks = blocks.into_iter();
            // an empty message is kept, because the next one may answer it
            message.set("content", blocks.next().unwrap_or_else(|| r#"{"type":"text","text":""}"#.to_owned()));
            // the only other role (all revisions, sampling); a longer text must not be repeated for each block
            let role = if message.get("role").is_some_and(|role| role.is("assistant")) { "assistant" } else { "user" };
            // other members of the message are kept once
            let rest = blocks.map(|block| format!("{{\"role\":\"{role}\",\"content\":{block}}}"));
            Some(std::iter::once(message.text()).chain(rest).collect())
        });
    }
    Ok(())
}

/// Converts an answer for 2025-06-18 and older, which allow only one block: a single block is unwrapped, texts are
/// joined, and a mixture cannot be expressed.
pub(super) fn join_answer(answer: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    if holds(answer, TOOL_BLOCKS) {
        return Err(translation.refuse(LackingFeature::SamplingTools, Cause::Answer));
    }
    if let Some(content) = answer.edit("content").filter(|content| content.is_array()) {
        let joined = match content.elements().count() {
            0 => r#"{"type":"text","text":""}"#.to_owned(),
            1 => content.elements().map(|block| block.text()).collect(),
            _ => {
                join_texts(content).ok_or_else(|| translation.refuse(LackingFeature::SamplingBlocks, Cause::Answer))?
            }
        };
        content.replace(joined);
    }
    Ok(())
}

/// The first block, with the texts of all blocks joined; `None` if some block is not a text. The texts are joined as
/// they are written, without reading escapes.
fn join_texts(blocks: &mut Draft<'_>) -> Option<String> {
    let mut text = String::from("\"");
    for block in blocks.elements() {
        let part = block.member("text")?;
        if !content::is_kind(&block, "text") {
            return None;
        }
        text.push_str(part.strip_prefix('"')?.strip_suffix('"')?);
    }
    text.push('"');
    let mut first = blocks.elements().next()?.into_draft();
    first.set("text", text);
    Some(first.text())
}

/// Removes an `includeContext` other than `none` if the client lacks `sampling.context`, which it needs from 2025-11-25
/// on. Without the member, the default applies.
pub(super) fn drop_undeclared_context(question: &mut Draft<'_>, translation: &Translation<'_>) {
    if translation.to < Revision::V2025_11_25 || translation.facts.kind != Kind::ServerRequest {
        return;
    }
    let asks = question.get("includeContext").is_some_and(|value| value.is("thisServer") || value.is("allServers"));
    if asks && !translation.facts.client_has("sampling", "context") {
        question.remove("includeContext");
    }
}
