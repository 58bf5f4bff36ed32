//! 2025-06-18 introduced resource links, structured output, titles, elicitation, the completion context and `_meta` on
//! most objects. Elicitation is refused by its method; titles, context and `_meta` pass as data.

use super::{
    super::{Method, Revision, json::draft::Draft, methods::ResultShape},
    content,
    facts::Kind,
    refusal::Untranslatable,
    translation::Translation,
};

/// Converts for 2024-11-05 and 2025-03-26.
#[expect(clippy::unnecessary_wraps, reason = "the steps are of one type")]
pub(super) fn down(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    content::each_block(draft, translation, content::link_to_text);
    if translation.facts.kind == Kind::Result && translation.facts.method.result() == ResultShape::Tool {
        say_structured_content(draft);
    }
    if translation.is(Kind::Result, &Method::ToolsList)
        && translation.to == Revision::V2025_03_26
        && let Some(tools) = draft.edit("tools")
    {
        tools.each_element(copy_title);
    }
    Ok(())
}

/// This version has no new requirements.
#[expect(clippy::unnecessary_wraps, reason = "the steps are of one type")]
pub(super) fn up(_: &mut Draft<'_>, _: &Translation<'_>) -> Result<(), Untranslatable> {
    Ok(())
}

/// Adds `structuredContent` as a text block for a client that does not know the member, unless a text block already has
/// this content. The member stays.
fn say_structured_content(result: &mut Draft<'_>) {
    let Some(value) = result.member("structuredContent") else { return };
    if !content::says(result, &value) {
        content::push_text(result, &value);
    }
}

/// Copies a tool's title: 2025-03-26 displays `annotations.title`, newer versions display `title`.
fn copy_title(tool: &mut Draft<'_>) {
    let Some(title) = tool.member("title").filter(|title| title.starts_with('"')) else { return };
    if !tool.has("annotations") {
        tool.set("annotations", "{}");
    }
    if let Some(annotations) = tool.edit("annotations").filter(|annotations| !annotations.has("title")) {
        annotations.set("title", title);
    }
}
