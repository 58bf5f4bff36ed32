//! The servers of another program's file as entries of a `lockkeeper.toml`.

use std::path::Path;

use super::{
    client_file::ClientFile,
    file_format::FileFormat,
    inputs::{self, OpenInput},
    problem::ConfigProblems,
    tree::{ConfigEntry, ConfigNode, ConfigValue},
};

/// Keys with the same meaning here.
const SAME: [&str; 8] = ["command", "args", "env", "url", "headers", "cwd", "start_timeout", "call_timeout"];

/// Keys with another name or place here.
const ELSEWHERE: [(&str, &[&str]); 5] = [
    ("includeTools", &["tools", "allow"]),
    ("allowedTools", &["tools", "allow"]),
    ("excludeTools", &["tools", "deny"]),
    ("disabledTools", &["tools", "deny"]),
    ("envFile", &["env_file"]),
];

/// Keys whose information is derived here.
const DERIVED: [&str; 5] = ["type", "transport", "enabled", "disabled", "name"];

/// Words for HTTP+SSE, the only transport that cannot be derived from a URL.
const SSE: [&str; 2] = ["sse", "http+sse"];

/// Parts of names whose values are secrets.
const SECRET_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION", "CREDENTIAL"];

/// The file of another program.
#[derive(Debug)]
pub struct ImportedFile {
    /// Its servers, except disabled ones.
    pub servers: Vec<ImportedServer>,
    /// The names of the disabled ones.
    pub switched_off: Vec<String>,
    /// The folders of other projects with servers, which are not included.
    pub other_projects: Vec<String>,
    /// The values that the program asks a person for: each becomes a variable here.
    pub inputs: Vec<ImportedInput>,
}

/// A server.
#[derive(Debug)]
pub struct ImportedServer {
    pub name: String,
    /// The keys and their values; a key with several parts is in tables.
    pub keys: Vec<ImportedKey>,
    /// Keys that are not imported.
    pub left_out: Vec<String>,
    /// Values that look like secrets and are in the file in plain text.
    pub secrets: Vec<String>,
}

/// A key of a server, and its value.
#[derive(Debug)]
pub struct ImportedKey {
    /// The parts of the key.
    pub path: Vec<&'static str>,
    pub value: ConfigNode,
}

/// A value that a program asks a person for.
#[derive(Debug)]
pub struct ImportedInput {
    /// The variable for it here.
    pub variable: String,
    pub question: String,
}

// === impl ImportedFile ===

impl ImportedFile {
    /// Reads the text of a file. `folder` is the process's working directory: files with projects have servers for one.
    ///
    /// # Errors
    ///
    /// It is neither JSON nor YAML nor TOML.
    pub fn read(path: &Path, text: &str, folder: &Path) -> Result<Self, ConfigProblems> {
        let format = FileFormat::of(path, text);
        let document = format.parse(&path.display().to_string(), text)?;
        let file = ClientFile::new(document, folder);
        let inputs = inputs::referred(&file.document).into_iter().map(ImportedInput::from).collect();
        let table = file.document.root.into_iter().find(|entry| entry.key == file.table);
        let Some(ConfigEntry { value: ConfigNode { value: ConfigValue::Table(servers), .. }, .. }) = table else {
            return Ok(Self { servers: Vec::new(), switched_off: Vec::new(), other_projects: Vec::new(), inputs });
        };
        let servers = servers.into_iter().map(ImportedServer::of).collect();
        Ok(Self { servers, switched_off: file.switched_off, other_projects: file.other_projects, inputs })
    }
}

// === impl ImportedServer ===

impl ImportedServer {
    fn of(entry: ConfigEntry) -> Self {
        let mut server = Self { name: entry.key, keys: Vec::new(), left_out: Vec::new(), secrets: Vec::new() };
        let ConfigValue::Table(members) = entry.value.value else { return server };
        for member in members {
            server.take(member);
        }
        server
    }

    fn take(&mut self, ConfigEntry { key, mut value, .. }: ConfigEntry) {
        references(&mut value);
        if let Some(same) = SAME.into_iter().find(|same| **same == key) {
            if ["env", "headers"].contains(&same) {
                self.secrets.extend(secrets(same, &value));
            }
            if !is_empty(&value.value) {
                self.keys.push(ImportedKey { path: vec![same], value });
            }
        } else if let Some((_, path)) = ELSEWHERE.into_iter().find(|(there, _)| *there == key) {
            if !is_empty(&value.value) {
                self.keys.push(ImportedKey { path: path.to_vec(), value });
            }
        } else if let ("type" | "transport", ConfigValue::Text(kind)) = (key.as_str(), &mut value.value)
            && SSE.contains(&kind.as_str())
        {
            "sse".clone_into(kind);
            self.keys.insert(0, ImportedKey { path: vec!["type"], value });
        } else if !DERIVED.contains(&key.as_str()) {
            self.left_out.push(key);
        }
    }
}

impl From<OpenInput> for ImportedInput {
    fn from(input: OpenInput) -> Self {
        Self { variable: variable(&input.id), question: input.description }
    }
}

fn is_empty(value: &ConfigValue) -> bool {
    match value {
        ConfigValue::List(values) => values.is_empty(),
        ConfigValue::Table(entries) => entries.is_empty(),
        _ => false,
    }
}

/// `${env:NAME}` as `${NAME}`, and `${input:name}` as its variable.
fn references(node: &mut ConfigNode) {
    match &mut node.value {
        ConfigValue::Text(text) => *text = with_variables(text),
        ConfigValue::List(nodes) => nodes.iter_mut().for_each(references),
        ConfigValue::Table(entries) => entries.iter_mut().for_each(|entry| references(&mut entry.value)),
        ConfigValue::Integer(_) | ConfigValue::Flag(_) | ConfigValue::Other(_) => {}
    }
}

fn with_variables(text: &str) -> String {
    let text = text.replace("${env:", "${");
    let mut parts = text.split("${input:");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((id, rest)) => result.extend(["${", &variable(id), "}", rest]),
            None => result.extend(["${input:", part]),
        }
    }
    result
}

/// The name of a variable for an input.
fn variable(id: &str) -> String {
    let name: String =
        id.chars().map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_uppercase() } else { '_' }).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// The names of values that look like secrets.
fn secrets(table: &str, node: &ConfigNode) -> Vec<String> {
    let ConfigValue::Table(pairs) = &node.value else { return Vec::new() };
    let is_secret = |pair: &&ConfigEntry| {
        let name = pair.key.to_ascii_uppercase();
        let is_plain = matches!(&pair.value.value, ConfigValue::Text(text) if !text.is_empty() && !text.contains("${"));
        is_plain && SECRET_NAMES.iter().any(|part| name.contains(part))
    };
    pairs.iter().filter(is_secret).map(|pair| format!("{table}.{}", pair.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_program_are_read_with_what_a_person_has_to_know() {
        let text = r#"{
            // mine
            "inputs": [{ "id": "git-token", "type": "promptString", "description": "Token of git" }],
            "servers": {
                "git": { "type": "stdio", "command": "git-mcp", "args": [], "env": { "TOKEN": "${input:git-token}" } },
                "old": { "type": "sse", "url": "https://a.example/sse", "headers": { "Authorization": "Bearer x" } },
                "off": { "command": "x", "disabled": true },
                "env": { "command": "${env:HOME}/x", "gallery": "y" }
            }
        }"#;
        let file = ImportedFile::read(Path::new("mcp.json"), text, Path::new("/")).unwrap();
        let shown: Vec<String> = file
            .servers
            .iter()
            .map(|one| {
                let keys: Vec<String> = one.keys.iter().map(|key| key.path.join(".")).collect();
                format!("{}: {} | {} | {}", one.name, keys.join(" "), one.left_out.join(" "), one.secrets.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            ["git: command env |  | ", "old: type url headers |  | headers.Authorization", "env: command | gallery | "]
        );
        assert_eq!(file.switched_off, ["off"]);
        let inputs: Vec<_> = file.inputs.iter().map(|one| (one.variable.as_str(), one.question.as_str())).collect();
        assert_eq!(inputs, [("GIT_TOKEN", "Token of git")]);
        assert_eq!(with_variables("a ${input:git-token} ${env:HOME}"), "a ${GIT_TOKEN} ${HOME}");
    }
}
