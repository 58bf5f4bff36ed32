//! The tables of all keys, from which the rows of the page, the schema and the example are generated.

use super::{
    HttpConfig, LogConfig, backend, clients, disclosure, file_options, groups, login, network,
    programs::ProgramsConfig, replica, server_auth, stdio::StdioConfig, tls, tool_rules, transport,
};
use crate::model::{
    AuthPolicy, BackendSpec, LimitsConfig, LoginProvider, ToolRules,
    config_key::{ConfigKey, KeyRow},
};

/// The keys of one table of the file, as documented.
#[derive(Debug)]
pub struct DocumentedKeys {
    /// Path of the table with names in angle brackets, such as `servers.<name>`; empty for the top level.
    pub path: &'static str,
    /// Name of its definition in the schema; empty for the top level.
    pub definition: &'static str,
    /// Its keys, in order.
    pub parts: Vec<DocumentedPart>,
    /// A table must have exactly one of these keys; may be empty.
    pub one_of: &'static [&'static str],
}

/// Keys grouped together in the example.
#[derive(Debug)]
pub struct DocumentedPart {
    /// The example's line above them; `None` if the example shows them by hand.
    pub example: Option<&'static str>,
    pub rows: Vec<KeyRow>,
}

/// The example of a program.
const PROGRAM: &str = "#: [servers.files]";
/// The example of a server at a URL.
const REMOTE: &str = "#: [servers.docs]";
/// The example of a server that asks for a login, which begins with its URL.
const PROTECTED: &str = "#: url = \"https://api.githubcopilot.com/mcp/\"";
/// The example of a provider.
const PROVIDER: &str = "#: [login.corp]";

/// All tables, in the order of the page.
pub fn tables() -> Vec<DocumentedKeys> {
    vec![
        DocumentedKeys::new("", "", vec![shown("# The top level.", file_options::KEYS), unshown(file_options::TABLES)]),
        DocumentedKeys::new("tls", "tls", vec![shown("#: [tls]", tls::KEYS)]),
        DocumentedKeys::new("replica", "replica", vec![shown("#: [replica]", replica::KEYS)]),
        DocumentedKeys::new("limits", "limits", vec![declared("[limits]", LimitsConfig::KEYS)]),
        DocumentedKeys::new("auth", "auth", vec![declared("[auth]", AuthPolicy::KEYS)]),
        DocumentedKeys::new("http", "http", vec![declared("[http]", HttpConfig::KEYS)]),
        DocumentedKeys::new("stdio", "stdio", vec![declared("[stdio]", StdioConfig::KEYS)]),
        DocumentedKeys::new("log", "log", vec![declared("[log]", LogConfig::KEYS)]),
        DocumentedKeys::new("programs", "programs", vec![declared("[programs]", ProgramsConfig::KEYS)]),
        DocumentedKeys::new("clients.<name>", "client", vec![shown("#: [clients.some-old-client]", clients::KEYS)]),
        DocumentedKeys {
            one_of: &["command", "url", "builtin"],
            ..DocumentedKeys::new("servers.<name>", "server", server())
        },
        DocumentedKeys::new(
            "servers.<name>.tools",
            "tools",
            vec![
                declared("#: [servers.files.tools]", ToolRules::KEYS),
                shown("#: [servers.files.tools]", tool_rules::CHANGES),
            ],
        ),
        DocumentedKeys::new("groups.<name>", "group", vec![shown("#: [groups.work]", groups::KEYS)]),
        DocumentedKeys::new(
            "groups.<name>.tools",
            "group_tools",
            vec![DocumentedPart {
                example: None,
                rows: tool_rules::keys_of_group().flat_map(ConfigKey::rows).collect(),
            }],
        ),
        DocumentedKeys::new(
            "login.<name>",
            "login",
            vec![
                shown(PROVIDER, login::IDENTITY),
                shown(PROVIDER, login::PARAMETERS),
                declared(PROVIDER, LoginProvider::KEYS),
                shown(PROVIDER, login::RULE),
                unshown(login::RIGHTS),
            ],
        ),
        DocumentedKeys::new("login.<name>.rights.<rule>", "login_rights", vec![unshown(login::RULE)]),
    ]
}

/// The keys of a server.
fn server() -> Vec<DocumentedPart> {
    vec![
        shown(PROGRAM, transport::COMMAND),
        shown(REMOTE, transport::REMOTE),
        shown(REMOTE, disclosure::KEYS),
        shown(PROTECTED, server_auth::MODE),
        shown(PROTECTED, server_auth::KEYS),
        shown(REMOTE, network::KEYS),
        shown("#: [servers.demo]", transport::BUILT_IN),
        shown(REMOTE, transport::KIND),
        declared(PROGRAM, BackendSpec::KEYS),
        unshown(backend::TOOLS),
        shown(PROGRAM, backend::SWITCHES),
    ]
}

fn declared<S>(example: &'static str, keys: &[ConfigKey<S>]) -> DocumentedPart {
    DocumentedPart { example: Some(example), rows: keys.iter().flat_map(ConfigKey::rows).collect() }
}

fn shown(example: &'static str, rows: &[KeyRow]) -> DocumentedPart {
    DocumentedPart { example: Some(example), rows: rows.to_vec() }
}

fn unshown(rows: &[KeyRow]) -> DocumentedPart {
    DocumentedPart { example: None, rows: rows.to_vec() }
}

// === impl DocumentedKeys ===

impl DocumentedKeys {
    fn new(path: &'static str, definition: &'static str, parts: Vec<DocumentedPart>) -> Self {
        Self { path, definition, parts, one_of: &[] }
    }

    /// Its keys, in order.
    pub fn rows(&self) -> impl Iterator<Item = &KeyRow> {
        self.parts.iter().flat_map(|part| &part.rows)
    }
}
