//! Edits a `lockkeeper.toml`, and keeps its comments and its order.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

use super::unset_variables;
use crate::{
    cli::{
        replaced_file,
        terminal::{failure::CommandFailure, process::ProcessContext},
    },
    config::{
        self, CommandLineOptions, Config, ConfigProblems, ConfigSource, ImportedKey, ImportedServer, tree::ConfigValue,
    },
    model::BackendId,
};

/// The name of the file that is created if there is none.
const NEW: &str = "lockkeeper.toml";

/// The table of servers, and its former name.
const TABLES: [&str; 2] = ["servers", "backends"];

/// A configuration file to edit.
pub(super) struct ServersFile {
    /// Its name, as the person gave it.
    pub(super) name: PathBuf,
    /// Its absolute path; for a link, the path of the target.
    path: PathBuf,
    document: DocumentMut,
}

/// A server to write into the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerEntry {
    /// A program to start.
    Program {
        /// The command and its arguments; not empty.
        words: Vec<String>,
        env: Vec<(String, String)>,
    },
    /// A server at a URL.
    Remote {
        url: String,
        /// The `type`, if it does not follow from the URL.
        kind: Option<&'static str>,
        /// Headers of each request.
        headers: Vec<(String, String)>,
        /// The login that it asks each user for.
        login: EntryLogin,
    },
}

/// The way to write a list of tools that only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOnlyRule {
    /// In force: keys with `:read` may call them.
    InForce,
    /// As a comment, so that a person decides.
    Suggested,
}

/// The login that a server needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum EntryLogin {
    #[default]
    None,
    /// `auth = "oauth"`: each user connects an account.
    OAuth,
}

// === impl ServersFile ===

impl ServersFile {
    /// Reads the configuration file of this process; starts with an empty one if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is a folder, belongs to another program, or is not TOML.
    pub(super) fn open(process: &ProcessContext) -> Result<Self, CommandFailure> {
        let given = process.options.given();
        let name = match config::source(&given, &process.environment, &process.folder) {
            ConfigSource::Named(path) | ConfigSource::Adjacent(path) | ConfigSource::Usual(path) => path,
            ConfigSource::CommandLine | ConfigSource::Demo => PathBuf::from(NEW),
        };
        let whole = process.folder.join(&name);
        let path = fs::canonicalize(&whole).unwrap_or(whole);
        if path.is_dir() {
            return Err(CommandFailure::usage(format!("{} is a folder", name.display()))
                .why("Docker makes one where a file that is to be mounted is missing")
                .advise("remove the folder, and put the configuration file there"));
        }
        let text = match config::text_of(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(CommandFailure::failed(format!("{} cannot be read", name.display())).why(error));
            }
        };
        if config::is_of_another_program(&name, &text) {
            return Err(CommandFailure::usage(format!("{} belongs to another program", name.display()))
                .why("only a lockkeeper.toml is edited")
                .advise("edit it by hand, or add servers to a lockkeeper.toml: `--config lockkeeper.toml`"));
        }
        let document = text.parse().map_err(|error| {
            CommandFailure::usage(format!("{} is not TOML", name.display())).why(error).advise("correct it first")
        })?;
        Ok(Self { name, path, document })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name under which this server is in the file.
    pub(super) fn named(&self, id: &BackendId) -> Option<String> {
        let is_it = |name: &&str| BackendId::normalise(name).is_ok_and(|other| other == *id);
        let servers = TABLES.iter().filter_map(|table| self.document.get(table)?.as_table_like());
        servers.flat_map(|servers| servers.iter().map(|(name, _)| name)).find(is_it).map(str::to_owned)
    }

    /// Adds a server to the table `servers`.
    ///
    /// # Errors
    ///
    /// Wrong usage if `servers` is not a table of its own.
    pub(super) fn add(&mut self, id: &BackendId, entry: &ServerEntry) -> Result<(), CommandFailure> {
        self.insert(id, entry.table())
    }

    /// Adds a server from another program's file.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub(super) fn import(&mut self, id: &BackendId, server: &ImportedServer) -> Result<(), CommandFailure> {
        let mut table = Table::new();
        for ImportedKey { path, value: node } in &server.keys {
            let Some(written) = imported(&node.value) else { continue };
            match path[..] {
                [key] => table[key] = Item::Value(written),
                [outer, inner] => table[outer][inner] = Item::Value(written),
                _ => {}
            }
        }
        self.insert(id, table)
    }

    fn insert(&mut self, id: &BackendId, entry: Table) -> Result<(), CommandFailure> {
        let servers = self.document.entry(TABLES[0]).or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        let Some(servers) = servers.as_table_mut() else {
            return Err(CommandFailure::usage(format!("{} has its servers in one line", self.name.display()))
                .advise("write each as a table `[servers.<name>]` first"));
        };
        // an empty `[servers]` loses its heading, unless a comment stands above it
        if servers.is_empty() && servers.decor().prefix().and_then(|above| above.as_str()).is_none_or(str::is_empty) {
            servers.set_implicit(true);
        }
        servers.insert(id.as_str(), Item::Table(entry));
        self.keep_last_comment_above(id);
        Ok(())
    }

    /// Writes which tools of a server keys with `:read` may call: in force, or as a comment.
    pub(super) fn read_only(&mut self, id: &BackendId, tools: &[String], rule: ReadOnlyRule) {
        let Some(table) = self.document[TABLES[0]][id.as_str()].as_table_mut() else { return };
        let list = tools.iter().collect::<Array>();
        match rule {
            ReadOnlyRule::InForce => table["read_only_tools"] = value(list),
            ReadOnlyRule::Suggested => {
                let comment = format!(
                    "\n# the server says that these only read; remove the # to let `:read` keys call them\n# read_only_tools = {list}"
                );
                let key = table.iter().last().map(|(key, _)| key.to_owned());
                if let Some(end) = key.and_then(|key| table.get_mut(&key)).and_then(Item::as_value_mut) {
                    end.decor_mut().set_suffix(comment);
                }
            }
        }
    }

    /// If the new table is the last one, keeps a comment that ended the file above it.
    fn keep_last_comment_above(&mut self, id: &BackendId) {
        let comment = self.document.trailing().as_str().unwrap_or_default().to_owned();
        let text = self.document.to_string();
        let is_last = text.lines().rfind(|line| line.starts_with('[')) == Some(&format!("[{}.{id}]", TABLES[0]));
        if comment.trim().is_empty() || !is_last {
            return;
        }
        if let Some(table) = self.document[TABLES[0]][id.as_str()].as_table_mut() {
            table.decor_mut().set_prefix(format!("{comment}\n"));
            self.document.set_trailing("");
        }
    }

    /// Removes a server, with the comment right above it. Comments that an empty line separates from it stay.
    pub(super) fn remove(&mut self, name: &str) {
        let has = |table: &&str| {
            self.document.get(table).and_then(Item::as_table_like).is_some_and(|servers| servers.contains_key(name))
        };
        let Some(table) = TABLES.into_iter().find(has) else { return };
        let Some(servers) = self.document.get_mut(table) else { return };
        let mut kept = String::new();
        if let Some(servers) = servers.as_table_like_mut() {
            let next = servers.iter().map(|(key, _)| key.to_owned()).skip_while(|key| key != name).nth(1);
            let removed = servers.remove(name);
            kept = removed.as_ref().and_then(Item::as_table).map(comment_apart).unwrap_or_default();
            if let Some(next) = next.and_then(|next| servers.get_mut(&next)).and_then(Item::as_table_mut) {
                let own = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
                let prefix = format!("{kept}{own}");
                next.decor_mut().set_prefix(prefix);
                kept.clear();
            }
        }
        if !kept.is_empty() {
            let trailing = format!("{kept}{}", self.document.trailing().as_str().unwrap_or_default());
            self.document.set_trailing(trailing);
        }
    }

    /// True if the file lists neither servers nor groups.
    pub(super) fn is_bare(&self) -> bool {
        let is_empty =
            |table: &str| self.document.get(table).and_then(Item::as_table_like).is_none_or(TableLike::is_empty);
        TABLES.into_iter().chain(["groups"]).all(is_empty)
    }

    /// Reads the configuration as it would be with the edited file.
    ///
    /// # Errors
    ///
    /// The problems of that configuration.
    pub(super) fn load(&self, process: &ProcessContext) -> Result<Config, ConfigProblems> {
        let draft = CommandLineOptions {
            config: Some(self.name.clone()),
            draft: Some(self.document.to_string()),
            ..process.options.given()
        };
        // the gateway may have variables that this process lacks
        let environment = unset_variables::filled(&process.environment, &self.document.to_string());
        config::load(&draft, &environment, &process.folder)
    }

    /// Replaces the file atomically. Only this user can read a new one, since it may hold secrets.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; it is then as before.
    pub(super) fn write(&self) -> Result<(), CommandFailure> {
        replaced_file::write(&self.path, &self.document.to_string())
            .map_err(|error| CommandFailure::failed(format!("{} cannot be written", self.name.display())).why(error))
    }
}

// === impl ServerEntry ===

impl ServerEntry {
    /// The text of the entry in the file.
    pub(super) fn text(&self) -> String {
        self.table().to_string()
    }

    /// The same entry with a login for each user, if the server is at a URL.
    pub(super) fn with_login(&self) -> Self {
        match self.clone() {
            Self::Remote { url, kind, headers, .. } => Self::Remote { url, kind, headers, login: EntryLogin::OAuth },
            program @ Self::Program { .. } => program,
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let pairs = |pairs: &[(String, String)]| -> InlineTable {
            pairs.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
        };
        match self {
            Self::Program { words, env } => {
                let (command, args) =
                    words.split_first().map(|(first, rest)| (first.as_str(), rest)).unwrap_or_default();
                table["command"] = value(command);
                if !args.is_empty() {
                    table["args"] = value(args.iter().collect::<Array>());
                }
                if !env.is_empty() {
                    table["env"] = value(pairs(env));
                }
            }
            Self::Remote { url, kind, headers, login } => {
                if let Some(kind) = kind {
                    table["type"] = value(*kind);
                }
                table["url"] = value(url);
                if *login == EntryLogin::OAuth {
                    table["auth"] = value("oauth");
                }
                if !headers.is_empty() {
                    table["headers"] = value(pairs(headers));
                }
            }
        }
        table
    }
}

/// A value from another program's file as TOML, on one line; `None` if TOML has no such value.
fn imported(value: &ConfigValue) -> Option<Value> {
    Some(match value {
        ConfigValue::Text(text) => Value::from(text.as_str()),
        ConfigValue::Integer(number) => Value::from(*number),
        ConfigValue::Flag(flag) => Value::from(*flag),
        ConfigValue::List(nodes) => {
            Value::Array(nodes.iter().filter_map(|node| imported(&node.value)).collect::<Array>())
        }
        ConfigValue::Table(entries) => {
            let pairs = entries.iter().filter_map(|entry| Some((entry.key.as_str(), imported(&entry.value.value)?)));
            Value::InlineTable(pairs.collect::<InlineTable>())
        }
        ConfigValue::Other(_) => return None,
    })
}

/// The comments above a table, as far as an empty line separates them from it.
fn comment_apart(table: &Table) -> String {
    let above = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    let apart = above.rfind("\n\n").map_or("", |at| &above[..=at]);
    if apart.contains('#') { apart.to_owned() } else { String::new() }
}
