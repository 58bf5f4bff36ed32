//! Files in which other programs list their servers, in the forms of their documentation.

use std::fs;

use insta::assert_snapshot;
use lockkeeper::config::{CommandLineOptions, Config};
use tempfile::TempDir;

use super::{errors, formats::lines, load_in};

/// Variables that the files refer to.
const VARIABLES: [(&str, &str); 3] = [("GITHUB_TOKEN", "t0k"), ("HOME", "/home/ada"), ("API_KEY", "k")];

/// Loads a file of the folder of examples, with a `.env` beside it.
fn load(name: &str) -> (TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/config/client_files/").to_owned() + name;
    let text = fs::read_to_string(example).unwrap().replace("/srv/shop", folder.path().to_str().unwrap());
    fs::write(folder.path().join(".env"), "FROM_FILE=yes\n").unwrap();
    fs::write(folder.path().join(name), text).unwrap();
    let given = CommandLineOptions { config: Some(name.into()), ..CommandLineOptions::default() };
    let config = load_in(folder.path(), &given, &VARIABLES).unwrap_or_else(|problems| panic!("{name}: {problems}"));
    (folder, config)
}

/// The servers of a file, in a line each.
fn servers(name: &str) -> String {
    let (folder, config) = load(name);
    let base = folder.path().file_name().unwrap().to_str().unwrap();
    lines(&config).replace(folder.path().to_str().unwrap(), "FOLDER").replace(base, "BASE")
}

/// The rules for the tools of a server.
fn tools(name: &str, server: &str) -> (String, String) {
    let (_, config) = load(name);
    let rules = config.backends.iter().find(|spec| spec.id.as_str() == server).unwrap().tools.clone().unwrap();
    (format!("{:?}", rules.allow), format!("{:?}", rules.deny))
}

#[test]
fn claude_desktop() {
    assert_snapshot!(servers("claude_desktop_config.json"), @r#"
    filesystem: npx ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"] []
    brave-search: npx ["-y", "@modelcontextprotocol/server-brave-search"] [BRAVE_API_KEY=key]
    "#);
    let renamed: Vec<String> = load("claude_desktop_config.json").1.renamings().collect();
    assert_eq!(renamed, ["the server `Brave Search` is called `brave-search` here"]);
}

#[test]
fn claude_code_has_servers_for_a_folder_and_for_all() {
    assert_snapshot!(servers("claude.json"), @r#"
    github: https://api.example.com/mcp/ [Authorization: Bearer t0k]
    notes: notes-of-shop [] []
    "#);
}

#[test]
fn claude_code_in_a_folder_without_servers_says_where_they_are() {
    let text = r#"{"projects": {"/srv/a": {"mcpServers": {"x": {"command": "x"}}}, "/srv/b": {"mcpServers": {}}}}"#;
    assert_snapshot!(errors(".claude.json", text, &[]), @r#"
    .claude.json: the file has servers only for certain folders, and none for this one
        start in one of /srv/a
    "#);
}

#[test]
fn cursor() {
    assert_snapshot!(servers("cursor.json"), @r#"
    local: FOLDER/bin/server ["--root", "/home/ada/data", "--name", "BASE/x"] [FROM_FILE=yes TOKEN=t0k]
    remote: https://mcp.example.com/mcp [X-Key: k]
    login: https://login.example.com/mcp []
    "#);
}

#[test]
fn vs_code() {
    assert_snapshot!(servers("vscode_settings.json"), @r#"
    playwright: npx ["-y", "@playwright/mcp@latest"] []
    docs: https://docs.example.com/mcp [X-Key: k]
    "#);
}

#[test]
fn windsurf() {
    assert_snapshot!(servers("windsurf.json"), @r#"
    github: npx ["-y", "@modelcontextprotocol/server-github"] [GITHUB_PERSONAL_ACCESS_TOKEN=t0k]
    remote: https://mcp.example.com/mcp [API_KEY: Bearer k]
    "#);
    assert!(tools("windsurf.json", "github").1.contains("delete_repository"));
}

#[test]
fn gemini_cli() {
    assert_snapshot!(servers("gemini_settings.json"), @r#"
    python: python ["-m", "my_mcp_server", "--port", "8080"] [DATABASE_URL=k PLAIN=a$b] FOLDER/./mcp-servers/python
    http: https://mcp.example.com/mcp [Authorization: Bearer k]
    events: http+sse https://mcp.example.com/sse
    "#);
    let (allow, deny) = tools("gemini_settings.json", "python");
    assert!(allow.contains("safe_tool") && deny.contains("file_writer"), "{allow} {deny}");
}

#[test]
fn zed() {
    assert_snapshot!(servers("zed_settings.json"), @r#"
    local: some-command ["arg-1"] [KEY=value]
    older: older-command ["arg-2"] []
    remote: https://mcp.example.com/mcp [Authorization: Bearer key]
    "#);
}

#[test]
fn a_server_that_only_its_program_can_start_is_named_with_its_line() {
    let text = "{\n  \"context_servers\": {\n    \"postgres\": { \"source\": \"extension\", \"settings\": {} }\n  }\n}";
    assert_snapshot!(errors("settings.json", text, &[]), @r#"
    settings.json:3:5: context_servers.postgres: an extension of Zed, which only Zed can start
        write its `command` or `url`, or leave it out of a copy of the file
    "#);
}

#[test]
fn opencode() {
    assert_snapshot!(servers("opencode.json"), @r#"
    everything: npx ["-y", "@modelcontextprotocol/server-everything"] [TOKEN=t0k]
    remote: https://mcp.example.com/mcp [Authorization: Bearer k]
    other: other [] []
    "#);
    assert_eq!(servers("opencode_2.json"), servers("opencode.json"));
}

#[test]
fn codex() {
    assert_snapshot!(servers("codex.toml"), @r#"
    context7: npx ["-y", "@upstash/context7-mcp"] [API_KEY=k GITHUB_TOKEN=t0k MY_ENV_VAR=MY_ENV_VALUE]
    figma: https://mcp.example.com/mcp [Authorization: Bearer k, X-Region: us-east-1, X-Token: t0k]
    "#);
    let (_, config) = load("codex.toml");
    let seconds = [config.backends[0].start_timeout.as_secs(), config.backends[0].call_timeout.as_secs()];
    assert_eq!(seconds, [20, 45]);
    assert!(tools("codex.toml", "context7").0.contains("search"));
}

#[test]
fn goose() {
    assert_snapshot!(servers("goose.yaml"), @r#"
    github: npx ["-y", "@modelcontextprotocol/server-github"] [GITHUB_TOKEN=t0k LOG=debug]
    remote: https://mcp.example.com/mcp [Authorization: Bearer k]
    older: older [] []
    "#);
    let text = "extensions:\n  a:\n    type: stdio\n    cmd: npx -y a\n    cmd: b\n";
    assert_snapshot!(errors("config.yaml", text, &[]), @"config.yaml:5:5: this is not YAML: duplicated key in mapping");
}

#[test]
fn cline_and_roo() {
    assert_snapshot!(servers("cline_mcp_settings.json"), @r#"
    local: node ["/srv/server.js"] [API_KEY=k]
    remote: https://mcp.example.com/mcp [Authorization: Bearer k]
    roo: https://roo.example.com/mcp []
    "#);
}

#[test]
fn github_copilot() {
    assert_snapshot!(servers("copilot_mcp_config.json"), @r#"
    local: npx ["-y", "@playwright/mcp@latest"] [TOKEN=t0k]
    remote: https://mcp.example.com/mcp [X-Key: k]
    "#);
    assert!(load("copilot_mcp_config.json").1.backends[0].tools.is_none());
    assert!(tools("copilot_mcp_config.json", "remote").0.contains("search"));
}

#[test]
fn lm_studio() {
    assert_snapshot!(servers("lm_studio.json"), @r#"
    hf-mcp-server: https://mcp.example.com/mcp [Authorization: Bearer k]
    "#);
}

#[test]
fn a_server_that_is_off_needs_nothing() {
    let text =
        r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "env": {"K": "${UNSET}"}, "disabled": true}}}"#;
    assert_snapshot!(lines(&super::load("mcp.json", text, &[]).unwrap()), @"a: a [] []");
}

#[test]
fn options_that_are_null_are_absent() {
    let json = r#"{"mcpServers": {"a": {"command": "a", "args": null, "env": null, "cwd": null, "url": null, "disabled": null},
        "b": {"url": "https://example.com/mcp", "command": null, "headers": null, "includeTools": null}}}"#;
    assert_snapshot!(lines(&super::load("mcp.json", json, &[]).unwrap()), @r"
    a: a [] []
    b: https://example.com/mcp []
    ");
    let yaml = "extensions:\n  a:\n    type: stdio\n    cmd: a\n    args:\n    envs: ~\n";
    assert_snapshot!(lines(&super::load("goose.yaml", yaml, &[]).unwrap()), @"a: a [] []");
    // a value that is none stands for nothing
    let text = r#"{"mcpServers": {"a": {"command": "a", "args": [null]}}}"#;
    assert!(errors("mcp.json", text, &[]).contains("mcpServers.a.args[0]: this must be a string, not null"));
}

#[test]
fn what_has_an_effect_elsewhere_alone_is_named_with_its_line() {
    let (_, config) = load("vscode_mcp.json");
    assert_snapshot!(config.without_effect().collect::<Vec<_>>().join("\n"), @"
    vscode_mcp.json:8:7: servers.boxed.sandboxEnabled: it has no effect here: `contain` says what the program is kept from; for a tighter sandbox, name an image in `container`, or let `command` make one, as `bwrap` does
    vscode_mcp.json:14:71: servers.helped.headersHelper: no program is run for headers here; write them into `headers`, secrets as `${NAME}`
    ");
}

#[test]
fn references_and_sockets_that_the_editor_alone_knows_are_named_with_their_line() {
    let text = r#"{"servers": {
  "a": { "type": "http", "url": "unix:///tmp/server.sock#/mcp" },
  "b": { "command": "b", "args": ["${config:b.port}"] }
}}"#;
    assert_snapshot!(errors("mcp.json", text, &[]), @"
    mcp.json:2:3: servers.a: HTTP over a Unix socket is not supported: messages on a socket are framed as on standard input and output
        let the server listen on a port of 127.0.0.1, and write its URL
    mcp.json:3:35: servers.b.args[0]: `${config:b.port}` has a value only in the editor
        write the value itself
    ");
}

#[test]
fn the_form_is_known_by_the_content() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("servers"), r#"{"mcpServers": {"a": {"command": "a"}}}"#).unwrap();
    let given = CommandLineOptions { config: Some("servers".into()), ..CommandLineOptions::default() };
    assert_eq!(lines(&load_in(folder.path(), &given, &[]).unwrap()), "a: a [] []");
}

#[test]
fn advice_names_what_is_written_here() {
    let text = "[servers.a]\ncommand = \"npx -y a\"\n\n[servers.b]\nhttpUrl = \"https://b.example/mcp\"\n\n\
                [servers.c]\ncommand = \"c\"\nenvFile = \".env\"\n";
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:2:11: servers.a.command: this is a whole command line: write only `npx`, and put the rest into `args`
    lockkeeper.toml:4:10: servers.b: the transport is missing
        set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)
    lockkeeper.toml:5:1: servers.b.httpUrl: unknown option
        write `url`
    lockkeeper.toml:9:1: servers.c.envFile: unknown option
        write `env_file`
    "#);
    let misspelt = r#"{"mcpServers": {"a": {"comand": "a", "color": "red"}}}"#;
    assert_snapshot!(errors("mcp.json", misspelt, &[]), @r#"
    mcp.json:1:17: mcpServers.a: the transport is missing
        set either `command` (a program to start) or `url` (of a server over HTTP, WebSocket or a socket)
    mcp.json:1:23: mcpServers.a.comand: unknown option
        did you mean `command`?
    "#);
}
