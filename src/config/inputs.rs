//! Values that a program asks a person for when it starts its servers (`inputs` of VS Code). The terminal is elsewhere.

use super::tree::{ConfigEntry, ConfigNode, ConfigValue, Document};

/// A value that the servers of a file need and that was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenInput {
    /// Its name in `${input:…}`.
    pub id: String,
    pub description: String,
    /// The form of an answer.
    pub kind: InputKind,
    /// The value for an empty answer.
    pub default: Option<String>,
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    Line,
    /// A line that is not echoed.
    Hidden,
    Choice(Vec<String>),
}

/// The inputs that values of the file refer to, each once.
pub(super) fn referred(document: &Document) -> Vec<OpenInput> {
    let mut ids = Vec::new();
    for entry in document.root.iter().filter(|entry| entry.key != "inputs") {
        collect(&entry.value, &mut ids);
    }
    let described = document.root.iter().find(|entry| entry.key == "inputs").map(|entry| &entry.value.value);
    let described = if let Some(ConfigValue::List(described)) = described { described.as_slice() } else { &[] };
    ids.into_iter().map(|id| of_description(described, id)).collect()
}

/// The names in `${input:…}` of all texts.
fn collect(node: &ConfigNode, ids: &mut Vec<String>) {
    match &node.value {
        ConfigValue::Text(text) => {
            for rest in text.split("${input:").skip(1) {
                if let Some((id, _)) = rest.split_once('}')
                    && !ids.iter().any(|known| known == id)
                {
                    ids.push(id.to_owned());
                }
            }
        }
        ConfigValue::List(nodes) => nodes.iter().for_each(|node| collect(node, ids)),
        ConfigValue::Table(entries) => entries.iter().for_each(|entry| collect(&entry.value, ids)),
        ConfigValue::Integer(_) | ConfigValue::Flag(_) | ConfigValue::Other(_) => {}
    }
}

fn of_description(described: &[ConfigNode], id: String) -> OpenInput {
    let members = described.iter().find_map(|node| match &node.value {
        ConfigValue::Table(members) if text(members, "id") == Some(&id) => Some(members.as_slice()),
        _ => None,
    });
    let Some(members) = members else {
        return OpenInput { description: id.clone(), id, kind: InputKind::Line, default: None };
    };
    let options = members.iter().find(|entry| entry.key == "options").map(|entry| &entry.value.value);
    let options: Vec<String> = if let Some(ConfigValue::List(options)) = options {
        options
            .iter()
            .filter_map(|node| if let ConfigValue::Text(text) = &node.value { Some(text.clone()) } else { None })
            .collect()
    } else {
        Vec::new()
    };
    let is_hidden =
        members.iter().any(|entry| entry.key == "password" && matches!(entry.value.value, ConfigValue::Flag(true)));
    let kind = match is_hidden {
        true => InputKind::Hidden,
        false if options.is_empty() => InputKind::Line,
        false => InputKind::Choice(options),
    };
    let description = text(members, "description").unwrap_or(&id).to_owned();
    OpenInput { description, kind, default: text(members, "default").map(str::to_owned), id }
}

fn text<'e>(members: &'e [ConfigEntry], key: &str) -> Option<&'e str> {
    members.iter().find(|entry| entry.key == key).and_then(|entry| match &entry.value.value {
        ConfigValue::Text(text) => Some(text.as_str()),
        _ => None,
    })
}
