//! Other programs' files with lists of servers: the form of the file, detected from its content, and its servers in the
//! form of `mcpServers`.

use std::path::Path;

use super::{
    client_entry::in_common_form,
    tree::{ConfigEntry, ConfigNode, ConfigValue, Document},
};

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientForm {
    /// Claude Desktop, Cursor, Windsurf, Gemini CLI, Cline, Roo, LM Studio and others.
    McpServers,
    /// `~/.claude.json` of Claude Code, which also has servers per folder.
    ClaudeProjects,
    /// `mcp.json` of VS Code.
    Servers,
    /// `settings.json` of VS Code.
    Settings,
    ContextServers,
    Codex,
    OpenCode,
    Extensions,
}

/// A file of another program, with its servers in the common form.
pub(super) struct ClientFile {
    /// The servers, under the name of their table.
    pub(super) document: Document,
    /// The name of their table.
    pub(super) table: &'static str,
    /// The names of disabled servers.
    pub(super) switched_off: Vec<String>,
    /// Folders of other projects, whose servers are not included.
    pub(super) other_projects: Vec<String>,
}

// === impl ClientForm ===

impl ClientForm {
    /// The form of the file with these members; `None` if it lists no servers.
    fn of(root: &[ConfigEntry]) -> Option<Self> {
        let has = |key: &str| table(root, key).is_some();
        let inner = table(root, "mcp");
        let is_settings = has("mcp.servers") || inner.is_some_and(|inner| table(inner, "servers").is_some());
        let forms = [
            // it also has `projects`
            (has("mcp_servers"), Self::Codex),
            (has("projects"), Self::ClaudeProjects),
            (has("mcpServers"), Self::McpServers),
            (has("servers"), Self::Servers),
            (has("context_servers"), Self::ContextServers),
            (is_settings, Self::Settings),
            (inner.is_some(), Self::OpenCode),
            (has("extensions"), Self::Extensions),
        ];
        forms.into_iter().find(|(is_it, _)| *is_it).map(|(_, form)| form)
    }

    const fn table(self) -> &'static str {
        match self {
            Self::McpServers | Self::ClaudeProjects => "mcpServers",
            Self::Servers => "servers",
            Self::Settings => "mcp.servers",
            Self::ContextServers => "context_servers",
            Self::Codex => "mcp_servers",
            Self::OpenCode => "mcp",
            Self::Extensions => "extensions",
        }
    }
}

// === impl ClientFile ===

impl ClientFile {
    /// True if a TOML file belongs to another program.
    pub(super) fn is_one(document: &Document) -> bool {
        ClientForm::of(&document.root) == Some(ClientForm::Codex)
    }

    /// Finds the servers of a file. In a file with projects: first those of the project that contains `folder`, then
    /// those for all projects.
    pub(super) fn new(document: Document, folder: &Path) -> Self {
        let Some(form) = ClientForm::of(&document.root) else {
            return Self { document, table: "mcpServers", switched_off: Vec::new(), other_projects: Vec::new() };
        };
        let (key, root) = (form.table(), &document.root);
        let inner = table(root, "mcp").unwrap_or_default();
        let own = match form {
            ClientForm::Settings => table(root, key).or_else(|| table(table(root, "mcp")?, "servers")),
            _ => table(root, key),
        };
        let mut servers = own.unwrap_or_default().to_vec();
        if form == ClientForm::McpServers {
            servers.retain(|server| is_chosen(inner, &server.key));
        }
        let mut other_projects = Vec::new();
        if form == ClientForm::ClaudeProjects {
            let (here, others) = projects(root, folder);
            servers.retain(|server| here.iter().all(|other| other.key != server.key));
            servers.extend(here);
            other_projects = others;
        }
        // newer files of opencode look like settings of VS Code
        let has_braces = matches!(form, ClientForm::OpenCode | ClientForm::Settings);
        let named = servers.iter().map(|server| server.key.clone()).collect::<Vec<_>>();
        let servers: Vec<ConfigEntry> =
            servers.into_iter().filter_map(|server| in_common_form(server, has_braces)).collect();
        let is_off = |name: &String| servers.iter().all(|server| server.key != *name);
        let switched_off = named.into_iter().filter(is_off).collect();
        let at = root.first().map_or(0, |first| first.at);
        let value = ConfigNode { at, value: ConfigValue::Table(servers) };
        let inner = inner.iter().filter(|entry| form == ClientForm::Settings && entry.key == "inputs");
        let mut kept: Vec<ConfigEntry> = root.iter().filter(|entry| is_kept(entry)).chain(inner).cloned().collect();
        kept.retain(|entry| entry.key != key);
        kept.push(ConfigEntry { key: key.to_owned(), at, value });
        Self { document: document.with_root(kept), table: key, switched_off, other_projects }
    }
}

/// True if the lists next to the servers leave this one enabled (Gemini CLI).
fn is_chosen(beside: &[ConfigEntry], name: &str) -> bool {
    let lists = |key: &str| {
        let list = beside.iter().find(|entry| entry.key == key).map(|entry| &entry.value.value);
        let ConfigValue::List(names) = list? else { return None };
        Some(names.iter().any(|one| matches!(&one.value, ConfigValue::Text(text) if text == name)))
    };
    lists("allowed") != Some(false) && lists("excluded") != Some(true)
}

/// True for members next to the servers that are read too.
fn is_kept(entry: &ConfigEntry) -> bool {
    ["mcpServers", "servers", "inputs"].contains(&entry.key.as_str())
}

/// The servers of the project that contains `folder`, and the folders of other projects with servers.
fn projects(root: &[ConfigEntry], folder: &Path) -> (Vec<ConfigEntry>, Vec<String>) {
    let (mut here, mut nearest, mut others) = (Vec::new(), 0, Vec::new());
    for project in table(root, "projects").unwrap_or_default() {
        let ConfigValue::Table(members) = &project.value.value else { continue };
        let servers = table(members, "mcpServers").unwrap_or_default();
        if servers.is_empty() {
            continue;
        }
        if folder.starts_with(&project.key) && project.key.len() >= nearest {
            (here, nearest) = (servers.to_vec(), project.key.len());
        } else {
            others.push(project.key.clone());
        }
    }
    (here, others)
}

/// The table with this name.
fn table<'e>(entries: &'e [ConfigEntry], key: &str) -> Option<&'e [ConfigEntry]> {
    entries.iter().find(|entry| entry.key == key).and_then(|entry| match &entry.value.value {
        ConfigValue::Table(entries) => Some(entries.as_slice()),
        _ => None,
    })
}
