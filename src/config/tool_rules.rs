//! The tables `[servers.<name>.tools]` and `[groups.<name>.tools]`: rules for the tools of a server or a group.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{keys, section::Section};
use crate::model::{
    NameGlobs, ToolRules,
    config_key::{ConfigKey, key_rows},
    tool_rules::Renaming,
};

key_rows! {
    /// The keys that change tools.
    pub(super) const CHANGES {
        /// Other names: `"browser_*" = "web_*"` keeps the text matched by the `*`. `read_only_tools` uses the new
        /// names.
        rename: TableOfTexts, None("{ \"read_*\" = \"get_*\" }");
        /// Other descriptions.
        descriptions: TableOfTexts, None("{ list_directory = \"Lists a folder of the notes.\" }");
        /// Arguments added to calls that lack these names: `arguments.search = { limit = 10 }`.
        ///
        /// Not for parameters that the tool mirrors in headers (`x-mcp-header`).
        arguments: TableOfTables, None("{ list_directory = { path = \"/srv/files\" } }");
    }
}

/// Reads the table; `None` if it sets nothing.
pub(super) fn read(mut section: Section<'_>) -> Option<Arc<ToolRules>> {
    let (rules, _) = keys::read(&mut section, ToolRules::KEYS, ToolRules::default());
    let mut rename = Vec::new();
    for (from, to) in texts(&mut section, "rename") {
        match Renaming::parse(&from, &to) {
            Ok(renaming) => rename.push(renaming),
            Err(what) => section.fault(format!("`rename` of `{from}` to `{to}`: {what}"), None),
        }
    }
    let descriptions = texts(&mut section, "descriptions").into_iter().collect();
    let mut arguments = BTreeMap::new();
    for (tool, values) in section.values("arguments") {
        match values {
            Value::Object(values) => drop(arguments.insert(tool, values)),
            _ => section.fault(format!("`arguments` of `{tool}` must be a table"), None),
        }
    }
    section.finish();
    let rules = ToolRules { rename, descriptions, arguments, ..rules };
    (!rules.is_empty()).then(|| Arc::new(rules))
}

/// The keys of the table `[groups.<name>.tools]`, whose patterns are names on the merged endpoint.
pub(super) fn keys_of_group() -> impl Iterator<Item = &'static ConfigKey<ToolRules>> {
    ToolRules::KEYS.iter().filter(|key| ["allow", "deny"].contains(&key.name))
}

/// Reads the table `[groups.<name>.tools]`; `None` if it sets nothing.
pub(super) fn read_names(mut section: Section<'_>) -> Option<ToolRules> {
    let (rules, _) = keys::read(&mut section, keys_of_group(), ToolRules::default());
    section.finish();
    (!rules.is_empty()).then_some(rules)
}

/// Reads other programs' lists of names in a server's entry; `None` if there are none.
pub(super) fn read_shared(section: &mut Section<'_>) -> Option<Arc<ToolRules>> {
    let [include, allowed, exclude, disabled] =
        ["includeTools", "allowedTools", "excludeTools", "disabledTools"].map(|key| section.texts(key));
    // those are names, not patterns
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
