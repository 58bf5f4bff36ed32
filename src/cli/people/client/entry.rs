//! The entry of this gateway in a client's file: its text, and the file with or without it. Everything else in the file
//! stays as it is.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use toml_edit::{DocumentMut, Item, Table, value};

use super::programs::{ClientProgram, EntryForm};

/// The gateway's name in every client.
const NAME: &str = "lockkeeper";

/// Policy on an existing entry of this name that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Kept,
    Replaced,
}

/// The gateway that a client connects to.
#[derive(Debug, Clone, Copy)]
pub(super) struct GatewayPlace<'a> {
    /// The URL of the endpoint.
    pub(super) url: &'a str,
    /// The full path of this program, since desktop applications may have another `PATH` than a shell.
    pub(super) program: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("it cannot be read as {0}: {1}")]
    Unreadable(&'static str, String),
    /// The file has something else where the servers belong.
    #[error("`{0}` is not a table there")]
    NoTable(String),
    #[error("it has another entry `{NAME}`")]
    Taken,
    #[error("{0} is not edited: comments would be lost")]
    PrintedOnly(&'static str),
}

/// The text to add to an empty file.
pub(super) fn text(program: &ClientProgram, gateway: GatewayPlace<'_>) -> String {
    match program.entry {
        EntryForm::Yaml => format!(
            "extensions:\n  {NAME}:\n    type: streamable_http\n    name: {NAME}\n    enabled: true\n    uri: \"{}\"\n    headers: {{}}\n    timeout: 300\n",
            gateway.url
        ),
        _ => with_entry(program, "", gateway, Existing::Kept).ok().flatten().unwrap_or_default(),
    }
}

/// The text of the file with the entry; `None` if it is there already.
///
/// # Errors
///
/// The reason why the file stays as it is.
pub(super) fn with_entry(
    program: &ClientProgram,
    file: &str,
    gateway: GatewayPlace<'_>,
    existing: Existing,
) -> Result<Option<String>, EntryError> {
    match program.entry {
        EntryForm::Url(..) | EntryForm::Bridge => in_json(program, file, gateway, existing),
        EntryForm::Toml => in_toml(program, file, gateway, existing),
        EntryForm::Yaml => Err(EntryError::PrintedOnly("YAML")),
    }
}

/// The text of the file without the entry, and the entry's URL; `None` if the file has no entry.
///
/// # Errors
///
/// The reason why the file stays as it is.
pub(super) fn without_entry(program: &ClientProgram, file: &str) -> Result<Option<(String, String)>, EntryError> {
    match program.entry {
        EntryForm::Url(..) | EntryForm::Bridge => out_of_json(program, file),
        EntryForm::Toml => out_of_toml(program, file),
        EntryForm::Yaml => Err(EntryError::PrintedOnly("YAML")),
    }
}

fn out_of_json(program: &ClientProgram, file: &str) -> Result<Option<(String, String)>, EntryError> {
    if file.trim().is_empty() {
        return Ok(None);
    }
    let root = CstRootNode::parse(file, &ParseOptions::default()).map_err(|error| unreadable(&error))?;
    let mut table = root.object_value();
    for name in program.table {
        table = table.and_then(|table| table.object_value(name));
    }
    let Some(found) = table.and_then(|table| table.get(NAME)) else { return Ok(None) };
    let url = found.value().map(|value| url_in(&value.to_string())).unwrap_or_default();
    found.remove();
    Ok(Some((root.to_string(), url)))
}

fn out_of_toml(program: &ClientProgram, file: &str) -> Result<Option<(String, String)>, EntryError> {
    let mut document = parsed_toml(file)?;
    let name = program.table.first().copied().unwrap_or_default();
    let servers = document.get_mut(name).and_then(Item::as_table_like_mut);
    let Some(found) = servers.and_then(|servers| servers.remove(NAME)) else { return Ok(None) };
    let url = url_in(&found.to_string());
    Ok(Some((document.to_string(), url)))
}

/// The first URL in the text of an entry; empty if there is none.
fn url_in(text: &str) -> String {
    let from = |scheme| text.split_once(scheme).map(|(_, rest)| (scheme, rest));
    let Some((scheme, rest)) = from("https://").or_else(|| from("http://")) else { return String::new() };
    let end = rest.find(|c: char| c == '"' || c == '\'' || c.is_whitespace()).unwrap_or(rest.len());
    format!("{scheme}{}", &rest[..end])
}

fn unreadable(error: &jsonc_parser::errors::ParseError) -> EntryError {
    EntryError::Unreadable("JSON", error.to_string())
}

fn parsed_toml(file: &str) -> Result<DocumentMut, EntryError> {
    file.parse().map_err(|error: toml_edit::TomlError| EntryError::Unreadable("TOML", error.to_string()))
}

/// The members of the entry in JSON.
fn members(form: EntryForm, GatewayPlace { url, program }: GatewayPlace<'_>) -> Vec<(String, serde_json::Value)> {
    match form {
        EntryForm::Bridge => {
            vec![("command".to_owned(), program.into()), ("args".to_owned(), serde_json::json!(["connect", url]))]
        }
        EntryForm::Url(before, name) => {
            let before = before.iter().map(|(name, text)| ((*name).to_owned(), (*text).into()));
            before.chain([(name.to_owned(), url.into())]).collect()
        }
        EntryForm::Toml | EntryForm::Yaml => Vec::new(),
    }
}

fn in_json(
    program: &ClientProgram,
    file: &str,
    gateway: GatewayPlace<'_>,
    existing: Existing,
) -> Result<Option<String>, EntryError> {
    let given = if file.trim().is_empty() { "{}\n" } else { file };
    let root = CstRootNode::parse(given, &ParseOptions::default()).map_err(|error| unreadable(&error))?;
    let mut table: CstObject =
        root.object_value_or_create().ok_or_else(|| EntryError::NoTable("the file".to_owned()))?;
    for name in program.table {
        table = table.object_value_or_create(name).ok_or_else(|| EntryError::NoTable((*name).to_owned()))?;
    }
    let members = members(program.entry, gateway);
    if let Some(found) = table.get(NAME) {
        let written = found.value().map(|value| value.to_string()).unwrap_or_default();
        let written: Option<serde_json::Value> =
            jsonc_parser::parse_to_serde_value(&written, &ParseOptions::default()).ok();
        let is_same = written == Some(members.iter().cloned().collect());
        match existing {
            _ if is_same => return Ok(None),
            Existing::Kept => return Err(EntryError::Taken),
            Existing::Replaced => found.remove(),
        }
    }
    let input = |value: &serde_json::Value| match value {
        serde_json::Value::Array(texts) => CstInputValue::Array(
            texts.iter().map(|text| CstInputValue::from(text.as_str().unwrap_or_default())).collect(),
        ),
        text => CstInputValue::from(text.as_str().unwrap_or_default()),
    };
    let entry = members.iter().map(|(name, value)| (name.clone(), input(value))).collect();
    table.append(NAME, CstInputValue::Object(entry));
    Ok(Some(root.to_string()))
}

fn in_toml(
    program: &ClientProgram,
    file: &str,
    gateway: GatewayPlace<'_>,
    existing: Existing,
) -> Result<Option<String>, EntryError> {
    let mut document = parsed_toml(file)?;
    let name = program.table.first().copied().unwrap_or_default();
    let servers = document.entry(name).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_mut().ok_or_else(|| EntryError::NoTable(name.to_owned()))?;
    if let Some(found) = servers.get(NAME) {
        let is_same = found.get("url").and_then(Item::as_str) == Some(gateway.url)
            && found.as_table_like().is_some_and(|entry| entry.len() == 1);
        match existing {
            _ if is_same => return Ok(None),
            Existing::Kept => return Err(EntryError::Taken),
            Existing::Replaced => {}
        }
    }
    let mut entry = Table::new();
    entry["url"] = value(gateway.url);
    servers.insert(NAME, Item::Table(entry));
    Ok(Some(document.to_string()))
}
