//! The clients that `lockkeeper client` can set up: where each keeps its servers, and what an entry looks like there.

use std::path::PathBuf;

use crate::config::Environment;

/// A client, and its configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientProgram {
    /// Its name on the command line.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// The file with its servers.
    pub(super) file: ClientFilePlace,
    /// The keys that lead to the servers in the file.
    pub(super) table: &'static [&'static str],
    pub(super) entry: EntryForm,
    /// The next step for the person.
    pub(super) then: &'static str,
}

/// The folder and the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientFilePlace {
    /// In the home folder.
    Home(&'static str),
    /// In the platform's settings folder: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Settings(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryForm {
    /// JSON: these members, then the URL under this name.
    Url(&'static [(&'static str, &'static str)], &'static str),
    /// JSON: `lockkeeper connect` as a program, for clients whose file takes no URL, or that cannot log in themselves.
    Bridge,
    /// TOML with the URL (Codex).
    Toml,
    /// YAML (Goose).
    Yaml,
}

use ClientFilePlace::{Home, Settings};
use EntryForm::{Bridge, Toml, Url, Yaml};

const LOGS_IN: &str = "It opens the browser for the login when it connects.";

/// All clients, sorted by id.
pub(super) const PROGRAMS: [ClientProgram; 13] = [
    ClientProgram {
        id: "claude-code",
        title: "Claude Code",
        file: Home(".claude.json"),
        table: &["mcpServers"],
        entry: Url(&[("type", "http")], "url"),
        then: "In a session: /mcp, lockkeeper, Authenticate.",
    },
    ClientProgram {
        id: "claude-desktop",
        title: "Claude Desktop",
        file: Settings("Claude/claude_desktop_config.json"),
        table: &["mcpServers"],
        entry: Bridge,
        then: "Restart Claude Desktop. You can also add a public URL, under Settings, Connectors.",
    },
    ClientProgram {
        id: "cline",
        title: "Cline",
        file: Settings("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        table: &["mcpServers"],
        entry: Url(&[("type", "streamableHttp")], "url"),
        then: LOGS_IN,
    },
    ClientProgram {
        id: "codex",
        title: "Codex",
        file: Home(".codex/config.toml"),
        table: &["mcp_servers"],
        entry: Toml,
        then: "Log in: codex mcp login lockkeeper",
    },
    ClientProgram {
        id: "cursor",
        title: "Cursor",
        file: Home(".cursor/mcp.json"),
        table: &["mcpServers"],
        entry: Url(&[], "url"),
        then: LOGS_IN,
    },
    ClientProgram {
        id: "gemini",
        title: "Gemini CLI",
        file: Home(".gemini/settings.json"),
        table: &["mcpServers"],
        entry: Url(&[], "httpUrl"),
        then: "In a session: /mcp auth lockkeeper",
    },
    ClientProgram {
        id: "goose",
        title: "Goose",
        file: Home(".config/goose/config.yaml"),
        table: &["extensions"],
        entry: Yaml,
        then: "It opens the browser for the login at the first use.",
    },
    ClientProgram {
        id: "lm-studio",
        title: "LM Studio",
        file: Home(".lmstudio/mcp.json"),
        table: &["mcpServers"],
        entry: Bridge,
        then: "It takes URLs too, with an API key as a header; the bridge logs in by the browser.",
    },
    ClientProgram {
        id: "opencode",
        title: "opencode",
        file: Home(".config/opencode/opencode.json"),
        table: &["mcp", "servers"],
        entry: Url(&[("type", "remote")], "url"),
        then: "Log in: opencode mcp auth lockkeeper",
    },
    ClientProgram {
        id: "roo",
        title: "Roo Code",
        file: Settings("Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
        table: &["mcpServers"],
        entry: Bridge,
        then: "It takes URLs too, with an API key as a header; the bridge logs in by the browser.",
    },
    ClientProgram {
        id: "vscode",
        title: "VS Code",
        file: Settings("Code/User/mcp.json"),
        table: &["servers"],
        entry: Url(&[("type", "http")], "url"),
        then: LOGS_IN,
    },
    ClientProgram {
        id: "windsurf",
        title: "Windsurf",
        file: Home(".codeium/windsurf/mcp_config.json"),
        table: &["mcpServers"],
        entry: Url(&[], "serverUrl"),
        then: LOGS_IN,
    },
    ClientProgram {
        id: "zed",
        title: "Zed",
        file: Settings("zed/settings.json"),
        table: &["context_servers"],
        entry: Url(&[], "url"),
        then: LOGS_IN,
    },
];

// === impl ClientFilePlace ===

impl ClientFilePlace {
    /// The path for the person whose environment this is; `None` without a home folder.
    pub(super) fn path(self, environment: &Environment) -> Option<PathBuf> {
        let home = environment.get("HOME").or_else(|| environment.get("USERPROFILE")).map(PathBuf::from)?;
        Some(match self {
            Home(file) => home.join(file),
            Settings(file) if cfg!(target_os = "macos") => home.join("Library/Application Support").join(file),
            Settings(file) if cfg!(windows) => PathBuf::from(environment.get("APPDATA")?).join(file),
            Settings(file) => {
                environment.get("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from).join(file)
            }
        })
    }
}
