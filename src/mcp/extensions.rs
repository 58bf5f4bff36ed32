//! Extensions of MCP (2026-07-28, *Extensions*): one file each, and a line in [`EXTENSIONS`]. Everything that the
//! gateway does for an extension starts here.
//!
//! An extension without a file here passes through at its server's own endpoint, as do its settings and methods.
//! Endpoints of several servers cannot route its methods, so they do not declare it. As with any other difference
//! between two sides of a call, a decorator in `crossing` supplies what one side lacks.

mod apps;
mod extension;
pub(super) mod tasks;

use std::{collections::BTreeMap, sync::LazyLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use self::extension::{Extension, agreed};
use super::{
    Revision,
    json::{
        At::{self, Key},
        draft::Draft,
    },
    methods::{
        places::{self, Paths},
        row::MethodRow,
    },
};

/// The extensions, in no particular order.
const EXTENSIONS: &[&dyn Extension] = &[&tasks::TasksExtension, &apps::AppsExtension];

/// Paths of URIs in MCP and its extensions.
struct ExtendedPlaces {
    tool: Paths,
    tool_result: Paths,
    task: Paths,
}

static PLACES: LazyLock<ExtendedPlaces> = LazyLock::new(|| ExtendedPlaces::of(EXTENSIONS));

// === impl ExtendedPlaces ===

impl ExtendedPlaces {
    /// Built once; the paths live as long as the process.
    fn of(extensions: &[&dyn Extension]) -> Self {
        let results = || extensions.iter().flat_map(|extension| extension.result_uris()).copied();
        let tool: Vec<_> = extensions.iter().flat_map(|extension| extension.tool_uris()).copied().collect();
        let tool_result: Vec<_> = places::TOOL_CONTENT.iter().copied().chain(results()).collect();
        let in_task = |path: &&[At]| -> &'static [At] { [&[Key("result")], *path].concat().leak() };
        let task: Vec<_> = tool_result.iter().map(in_task).collect();
        Self { tool: tool.leak(), tool_result: tool_result.leak(), task: task.leak() }
    }
}

/// Paths of URIs in a tool, as it is listed.
pub(super) fn tool_uris() -> Paths {
    PLACES.tool
}

/// Paths of URIs in the result of a tool.
pub(super) fn tool_result_uris() -> Paths {
    PLACES.tool_result
}

/// Paths of URIs in a completed task (2026-07-28), which contains the tool's result.
pub(super) fn task_uris() -> Paths {
    PLACES.task
}

/// Names of the members that contain URIs of extensions.
pub(crate) fn uri_members() -> impl Iterator<Item = &'static str> {
    let of_methods = methods().flat_map(MethodRow::own_uris);
    PLACES.tool.iter().chain(PLACES.tool_result).chain(of_methods).filter_map(|path| match path.last() {
        Some(Key(name)) => Some(*name),
        _ => None,
    })
}

/// The methods of all extensions.
pub(super) fn methods() -> impl Iterator<Item = &'static MethodRow> {
    EXTENSIONS.iter().flat_map(|extension| extension.methods())
}

/// True if the gateway supports this extension at every endpoint.
pub(crate) fn is_known(id: &str) -> bool {
    known(id).is_some()
}

fn known(id: &str) -> Option<&'static dyn Extension> {
    EXTENSIONS.iter().find(|extension| extension.id() == id).copied()
}

/// The merged `extensions` capability of several servers: by name, the settings that a client sees.
pub(crate) fn merged(declared: &[Map<String, Value>]) -> Map<String, Value> {
    by_name(declared, |id, settings| known(id)?.merged(settings))
}

/// The members that have the same value in every object that has them.
pub(crate) fn agreed_members(declared: &[Map<String, Value>]) -> Map<String, Value> {
    by_name(declared, |_, settings| agreed(settings))
}

fn by_name(declared: &[Map<String, Value>], merge: impl Fn(&str, &[Value]) -> Option<Value>) -> Map<String, Value> {
    let mut settings: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (name, value) in declared.iter().flatten() {
        settings.entry(name).or_default().push(value.clone());
    }
    settings.iter().filter_map(|(name, values)| Some(((*name).to_owned(), merge(name, values)?))).collect()
}

/// Adds members to the `merged` capabilities of several servers by which clients recognize extensions under other
/// names.
pub(crate) fn add_to_merged(declared: &[Map<String, Value>], merged: &mut Map<String, Value>) {
    for extension in EXTENSIONS {
        extension.add_to_merged(declared, merged);
    }
}

/// A server's capabilities for a client with a session of `revision`.
pub(crate) fn for_session(capabilities: Bytes, revision: Revision) -> Bytes {
    EXTENSIONS.iter().fold(capabilities, |capabilities, extension| extension.for_session(capabilities, revision))
}

/// Changes a server's capabilities for a client of 2026-07-28.
pub(crate) fn for_request(capabilities: &mut Draft<'_>) {
    for extension in EXTENSIONS {
        extension.for_request(capabilities);
    }
}

/// Removes the extensions that the gateway implements itself from a client's capabilities.
pub(super) fn remove_own(capabilities: &mut Draft<'_>) {
    let own = EXTENSIONS.iter().filter(|extension| extension.is_of_gateway()).map(|extension| extension.id());
    let own: Vec<&str> = own.collect();
    if capabilities.edit("extensions").is_some_and(|all| all.remove_all(&own) && all.is_empty()) {
        capabilities.remove("extensions");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::mcp::{Method, spelling};

    #[test]
    fn no_two_extensions_have_the_same_name_or_method() {
        let ids: BTreeSet<_> = EXTENSIONS.iter().map(|extension| extension.id()).collect();
        assert_eq!(ids.len(), EXTENSIONS.len());
        for id in ids {
            let (vendor, name) = id.split_once('/').unwrap();
            assert!(vendor.contains('.') && !name.is_empty(), "{id}");
        }
        let names: Vec<_> = Method::defined().map(|(name, _)| name).collect();
        let folded: BTreeSet<_> = names.iter().map(|name| spelling::folded(name).to_lowercase()).collect();
        assert_eq!(folded.len(), names.len(), "a method is declared twice: {names:?}");
        for row in methods() {
            assert_eq!(Method::parse(row.name).access(), row.access);
            assert!(row.versions.1 > Revision::NEWEST_LEGACY, "{} has no version with extensions", row.name);
        }
    }

    #[test]
    fn each_place_of_an_extension_leads_to_a_member() {
        let paths = EXTENSIONS.iter().flat_map(|extension| [extension.tool_uris(), extension.result_uris()]);
        for path in paths.flatten() {
            let Some((Key(last), before)) = path.split_last() else { panic!("{path:?} ends in no member") };
            assert!(!last.is_empty() && before.first().is_some_and(|first| matches!(first, Key(_))), "{path:?}");
        }
    }

    #[test]
    fn settings_are_shown_if_all_agree_unless_the_extension_merges_them() {
        const PAGES: &str = "io.modelcontextprotocol/ui";
        const TASKS: &str = "io.modelcontextprotocol/tasks";
        let shown = |one: Value, other: Value| {
            Value::Object(merged(&[one, other].map(|declared| declared.as_object().unwrap().clone())))
        };
        assert_eq!(shown(json!({ TASKS: {} }), json!({ TASKS: { "v": 2 } })), json!({ TASKS: {} }));
        assert_eq!(shown(json!({ PAGES: { "a": 1 } }), json!({ PAGES: { "a": 1 } })), json!({ PAGES: { "a": 1 } }));
        assert_eq!(shown(json!({ PAGES: 1 }), json!({})), json!({ PAGES: 1 }));
        assert_eq!(shown(json!({ PAGES: 1 }), json!({ PAGES: 2 })), json!({}));
        let unknown = json!({ "io.modelcontextprotocol/skills": {}, "io.modelcontextprotocol/events": {}, "x/y": 1 });
        assert_eq!(shown(unknown.clone(), unknown), json!({}), "their methods reach no server there");
    }
}
