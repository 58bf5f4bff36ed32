//! 2026-07-28 introduced the envelope, structured content and output schemas of any form, boolean schemas, and
//! parameters mirrored in headers, and it moved tasks to an extension. Only the conversions are here; other modules
//! keep the state.

use super::{
    super::payload::OutputSchema,
    super::{LackingFeature, Method, Revision, json::draft::Draft, json::quote, meta, methods::ResultShape},
    content,
    envelope::{self, ResultType},
    facts::{Kind, MessageCarrier},
    header_params,
    refusal::Untranslatable,
    sampling, schema, tasks,
    translation::{Translation, consume_meta},
};
use crate::support::digest::Digest;

/// Converts for the legacy revisions.
pub(super) fn down(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    match translation.facts.kind {
        Kind::Request => envelope::open_request(draft, translation.facts.method),
        Kind::Notification | Kind::ClientNotification => {
            envelope::open_notification(draft);
            lower_task(draft, translation);
        }
        Kind::Result => {
            let kind = envelope::open_result(draft, translation)?;
            lower_result(draft, kind, translation)?;
        }
        Kind::ServerRequest => lower_question(draft, translation),
        Kind::Answer => {}
    }
    Ok(())
}

/// Converts from the legacy revisions.
pub(super) fn up(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    match translation.facts.kind {
        Kind::Request => envelope::seal_request(draft, translation),
        Kind::Notification | Kind::ClientNotification => {
            consume_meta(draft, &[meta::RELATED_TASK]);
            raise_task(draft, translation);
        }
        Kind::Result => {
            let _ = envelope::open_result(draft, translation)?;
            let kind = raise_result(draft, translation);
            envelope::seal_result(draft, kind, translation);
        }
        Kind::ServerRequest => {
            // a request inside a result has no token, task or id of its own
            consume_meta(draft, &["progressToken", meta::RELATED_TASK]);
            draft.remove("task");
            draft.remove("elicitationId");
            if translation.facts.method == &Method::CreateMessage {
                drop_execution(draft);
            }
            sampling::drop_undeclared_context(draft, translation);
        }
        Kind::Answer => consume_meta(draft, &[meta::RELATED_TASK]),
    }
    Ok(())
}

fn lower_result(result: &mut Draft<'_>, kind: ResultType, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    if kind == ResultType::Task {
        if translation.to < Revision::V2025_11_25 {
            return Err(translation.refuse(LackingFeature::Tasks, super::Cause::Result));
        }
        tasks::nest(result);
        return Ok(());
    }
    match translation.facts.method {
        method if method.result() == ResultShape::Tool => wrap_structured_content(result, translation.schema),
        Method::ToolsList => {
            let http = translation.from >= Revision::V2026_07_28 && translation.facts.transport == MessageCarrier::Http;
            if let Some(tools) = result.edit("tools") {
                if http {
                    tools.retain_elements(header_params::are_valid);
                }
                tools.each_element(schema::lower_tool);
            }
        }
        _ => lower_task(result, translation),
    }
    Ok(())
}

fn raise_result(result: &mut Draft<'_>, translation: &Translation<'_>) -> ResultType {
    if translation.facts.method == &Method::ToolsCall && tasks::is_created(result) {
        tasks::flatten(result);
        return ResultType::Task;
    }
    if translation.facts.method == &Method::ToolsList {
        drop_execution(result);
    }
    raise_task(result, translation);
    ResultType::Complete
}

/// Removes `execution`, because the gateway handles tasks of tools itself.
fn drop_execution(holder: &mut Draft<'_>) {
    if let Some(tools) = holder.edit("tools") {
        tools.each_element(|tool| _ = tool.remove("execution"));
    }
}

/// Wraps structured content that is not an object: it must be an object in the legacy revisions, and must fit the
/// schema in the client's list.
fn wrap_structured_content(result: &mut Draft<'_>, schema: OutputSchema) {
    let value = result.get("structuredContent").filter(|value| !value.is_object()).map(|value| value.text());
    if let Some(content) = result.edit("structuredContent")
        && (schema == OutputSchema::Wrapped || !content.is_object())
    {
        content.replace(format!("{{\"result\":{}}}", content.text()));
    }
    if let Some(value) = value
        && !content::has_text(result)
    {
        content::push_text(result, &value);
    }
}

fn lower_question(question: &mut Draft<'_>, translation: &Translation<'_>) {
    let opens_page = question.get("mode").is_some_and(|mode| mode.is("url"));
    match translation.facts.method {
        Method::Elicit if opens_page && translation.from >= Revision::V2026_07_28 => {
            let id = translation.facts.elicitation_id.map_or_else(|| derived_id(question), str::to_owned);
            question.set("elicitationId", quote(&id));
        }
        Method::CreateMessage => {
            if let Some(tools) = question.edit("tools") {
                tools.each_element(schema::lower_tool);
            }
            sampling::each_block(question, &mut |block| {
                if let Some(content) = block.edit("structuredContent").filter(|content| !content.is_object()) {
                    content.replace(format!("{{\"result\":{}}}", content.text()));
                }
            });
            sampling::drop_undeclared_context(question, translation);
        }
        _ => {}
    }
}

/// An id for a URL elicitation that has none. Equal requests get equal ids.
fn derived_id(question: &Draft<'_>) -> String {
    format!("lockkeeper-{}", Digest::sha256(question.text()).short_hex(16))
}

fn lower_task(payload: &mut Draft<'_>, translation: &Translation<'_>) {
    if translation.from >= Revision::V2026_07_28 && tasks::is_task(translation.facts.kind, translation.facts.method) {
        tasks::lower(payload);
    }
}

fn raise_task(payload: &mut Draft<'_>, translation: &Translation<'_>) {
    if tasks::is_task(translation.facts.kind, translation.facts.method) {
        tasks::raise(payload);
    }
}
