//! 2025-11-25 introduced tasks, URL elicitation, richer choice fields, tools and arrays in sampling, and icons. Icons
//! pass as data.

use super::{
    super::{LackingFeature, Method, Revision, json::draft::Draft, meta},
    elicitation,
    facts::Kind,
    refusal::{Cause, Untranslatable},
    sampling, tasks,
    translation::{Translation, consume_meta},
};

/// Converts for 2024-11-05 to 2025-06-18.
pub(super) fn down(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    consume_meta(draft, &[meta::RELATED_TASK]);
    match (translation.facts.kind, translation.facts.method) {
        (Kind::Request, Method::ToolsCall) => {
            draft.remove("task");
        }
        (Kind::Result, Method::ToolsCall) if tasks::is_created(draft) => {
            return Err(translation.refuse(LackingFeature::Tasks, Cause::Result));
        }
        (Kind::Result, Method::ToolsList) => {
            if let Some(tools) = draft.edit("tools") {
                tools.each_element(|tool| _ = tool.remove("execution"));
            }
        }
        (Kind::Result, Method::Initialize) => {
            if let Some(capabilities) = draft.edit("capabilities") {
                capabilities.remove("tasks");
            }
        }
        (Kind::ServerRequest, method) => {
            draft.remove("task");
            match method {
                Method::CreateMessage => sampling::split_messages(draft, translation)?,
                Method::Elicit => lower_elicitation(draft, translation)?,
                _ => {}
            }
        }
        (Kind::Answer, Method::CreateMessage) => sampling::join_answer(draft, translation)?,
        // the form was lowered for its client, even if its server's version predates elicitation
        (Kind::Answer, Method::Elicit) if translation.from < Revision::V2025_11_25 => raise_answer(draft, translation)?,
        _ => {}
    }
    Ok(())
}

/// Combines the answers to a converted form, and respects what the client declared.
pub(super) fn up(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    if translation.is(Kind::ServerRequest, &Method::CreateMessage) {
        sampling::drop_undeclared_context(draft, translation);
    }
    if translation.is(Kind::Answer, &Method::Elicit) {
        raise_answer(draft, translation)?;
    }
    Ok(())
}

fn raise_answer(answer: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    match translation.facts.question.map(|question| std::str::from_utf8(question.json())) {
        Some(Ok(question)) => elicitation::raise_answer(answer, question, translation),
        _ => Ok(()),
    }
}

fn lower_elicitation(question: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    if question.get("mode").is_some_and(|mode| mode.is("url")) {
        return Err(translation.refuse(LackingFeature::ElicitationByUrl, Cause::ServerRequest));
    }
    elicitation::lower_form(question, translation)
}
