//! The tables `[servers.<name>.tools]` and `[groups.<name>.tools]`: rules for the tools of a server or a group. Knows nothing of their meaning.

use std::sync::Arc;

use serde_json::Value;

use super::section::Section;
use crate::model::{NameGlobs, ToolRules, WritingTools, tool_rules::Renaming};

/// Reads the table; `None` if it sets nothing.
pub(super) fn read(mut section: Section<'_>) -> Option<Arc<ToolRules>> {
    let allow = names(&mut section, "allow");
    let deny = names(&mut section, "deny").unwrap_or_default();
    let writing = match section.flag("read_only") {
        Some(true) => WritingTools::LeftOut,
        Some(false) | None => WritingTools::Offered,
    };
    let mut rename = Vec::new();
    for (from, to) in texts(&mut section, "rename") {
        match Renaming::parse(&from, &to) {
            Ok(renaming) => rename.push(renaming),
            Err(what) => section.fault(format!("`rename` of `{from}` to `{to}`: {what}"), None),
        }
    }
    let descriptions = texts(&mut section, "descriptions").into_iter().collect();
    let mut arguments = std::collections::BTreeMap::new();
    for (tool, values) in section.values("arguments") {
        match values {
            Value::Object(values) => drop(arguments.insert(tool, values)),
            _ => section.fault(format!("`arguments` of `{tool}` must be a table"), None),
        }
    }
    section.finish();
    let rules = ToolRules { allow, deny, writing, rename, descriptions, arguments };
    (!rules.is_empty()).then(|| Arc::new(rules))
}

/// Reads the table `[groups.<name>.tools]`, whose patterns are names on the merged endpoint; `None` if it sets nothing.
pub(super) fn read_names(mut section: Section<'_>) -> Option<ToolRules> {
    let allow = names(&mut section, "allow");
    let deny = names(&mut section, "deny").unwrap_or_default();
    section.finish();
    let rules = ToolRules { allow, deny, ..ToolRules::default() };
    (!rules.is_empty()).then_some(rules)
}

/// Reads the lists of names that other programs have in the entry of a server; `None` if there are none.
pub(super) fn read_shared(section: &mut Section<'_>) -> Option<Arc<ToolRules>> {
    let [include, allowed, exclude, disabled] =
        ["includeTools", "allowedTools", "excludeTools", "disabledTools"].map(|key| section.texts(key));
    // those are names, and no patterns
    let literal = |lists: [Option<Vec<String>>; 2]| -> Option<NameGlobs> {
        let given: Vec<Vec<String>> = lists.into_iter().flatten().collect();
        let names = given.concat().iter().map(|name| globset::escape(name)).collect();
        NameGlobs::parse(names).ok().filter(|_| !given.is_empty())
    };
    let rules = ToolRules {
        allow: literal([include, allowed]),
        deny: literal([exclude, disabled]).unwrap_or_default(),
        ..ToolRules::default()
    };
    (!rules.is_empty()).then(|| Arc::new(rules))
}

/// Patterns of names; `None` if there are none.
pub(super) fn names(section: &mut Section<'_>, key: &'static str) -> Option<NameGlobs> {
    match NameGlobs::parse(section.texts(key)?) {
        Ok(names) => Some(names),
        Err(what) => {
            section.fault(format!("`{key}`: {what}"), Some("patterns have `*`, `?`, `[ab]` and `{a,b}`"));
            None
        }
    }
}

/// A table of strings.
fn texts(section: &mut Section<'_>, key: &'static str) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (name, value) in section.values(key) {
        match value {
            Value::String(text) => texts.push((name, text)),
            _ => section.fault(format!("`{key}` of `{name}` must be a string"), None),
        }
    }
    texts
}
