//! File formats of the configuration.

use std::{path::Path, time::Duration};

use insta::assert_snapshot;
use lockkeeper::{
    config::{CommandLineOptions, Config, HttpConfig, LogConfig},
    model::{AuthPolicy, BackendSpec, LimitsConfig, Naming, OnLoss, ProxyChoice, Share, TransportSpec},
};

use super::{load, load_beside, load_in};

const CERTIFICATE: &str = include_str!("../../../src/backend/transport/http/client/certificate.pem");
const KEY: &str = include_str!("../../../src/backend/transport/http/client/key.pem");
/// Of no certificate.
const OTHER_KEY: &str = include_str!("other_key.pem");

/// A backend in one line, with its secrets.
fn line(spec: &BackendSpec) -> String {
    match &spec.transport {
        TransportSpec::Stdio(stdio) => {
            let env: Vec<_> = stdio.env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
            let cwd = stdio.cwd.as_deref().map(Path::to_string_lossy).unwrap_or_default();
            format!("{}: {} {:?} [{}] {cwd}", spec.id, stdio.command, stdio.args, env.join(" ")).trim_end().to_owned()
        }
        TransportSpec::Http(http) => {
            let headers: Vec<_> =
                http.headers.iter().map(|(name, value)| format!("{name}: {}", value.expose())).collect();
            format!("{}: {} [{}]", spec.id, http.url, headers.join(", "))
        }
        TransportSpec::Sse(http) | TransportSpec::WebSocket(http) => {
            format!("{}: {} {}", spec.id, spec.transport.name(), http.url)
        }
        TransportSpec::Socket(address) => format!("{}: {address:?}", spec.id),
        TransportSpec::Demo => format!("{}: demo", spec.id),
    }
}

pub(super) fn lines(config: &Config) -> String {
    config.backends.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn toml_sets_every_option() {
    let text = r#"
listen = "localhost:9000"
public_url = "https://mcp.example.com"

[limits]
session_idle = "1h30m"
request_body = "1MiB"

[http]
allowed_origins = ["https://app.example.com"]
trusted_proxies = ["10.0.0.0/8", "::1"]
query_api_key = false

[servers.zeta]
command = "npx"
args = ["-y", "server", "${ROOT}"]
env = { KEY = "${KEY:-none}", PORT = 80 }
share = "user"
on_loss = "end"
start_timeout = "2m"
read_only_tools = ["look"]

[servers.Alpha]
url = "https://docs.example.com/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }

[servers.off]
command = "never"
disabled = true

[servers.show]
builtin = "demo"
"#;
    let config = load("lockkeeper.toml", text, &[("ROOT", "/srv"), ("TOKEN", "t0k")]).unwrap();
    assert_snapshot!(lines(&config), @r#"
    zeta: npx ["-y", "server", "/srv"] [KEY=none PORT=80]
    alpha: https://docs.example.com/mcp [Authorization: Bearer t0k]
    show: demo
    "#);
    assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(config.public_url(config.listen).as_str(), "https://mcp.example.com");
    assert_eq!(config.limits.session_idle, Duration::from_mins(90));
    assert_eq!(config.limits.request_body, 1 << 20);
    assert_eq!(config.http.trusted_proxies.networks().len(), 2);
    let zeta = &config.backends[0];
    assert_eq!((zeta.share, zeta.on_loss, zeta.start_timeout), (Share::User, OnLoss::End, Duration::from_mins(2)));
    assert_eq!(zeta.read_only_tools, ["look"]);
    assert_eq!(config.naming, Naming::Prefixed);
}

#[test]
fn the_file_of_claude_desktop_is_accepted_unchanged() {
    let text = r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada"] },
    "GitHub": { "command": "docker", "args": ["run", "-i"], "env": { "TOKEN": "${GH}" }, "autoApprove": [], "timeout": 60 }
  }
}"#;
    assert_snapshot!(lines(&load("claude_desktop_config.json", text, &[("GH", "s3cret")]).unwrap()), @r#"
    filesystem: npx ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada"] []
    github: docker ["run", "-i"] [TOKEN=s3cret]
    "#);
}

#[test]
fn the_file_of_claude_code_is_accepted_unchanged() {
    let text = r#"{ "mcpServers": {
      "remote": { "type": "http", "url": "${BASE:-https://api.example.com}/mcp", "headers": { "X-Key": "k" } },
      "local": { "type": "stdio", "command": "/opt/server", "args": [], "env": {} } } }"#;
    assert_snapshot!(lines(&load(".mcp.json", text, &[]).unwrap()), @r#"
    remote: https://api.example.com/mcp [X-Key: k]
    local: /opt/server [] []
    "#);
}

#[test]
fn entries_of_other_programs_name_http_sse_in_three_ways() {
    let text = r#"{ "mcpServers": {
  "a": { "type": "sse", "url": "https://a.example.com/events" },
  "b": { "transport": "sse", "url": "https://b.example.com/" },
  "c": { "url": "https://c.example.com/v1/sse" },
  "d": { "type": "http", "url": "https://d.example.com/sse" }
} }"#;
    assert_snapshot!(lines(&load(".mcp.json", text, &[]).unwrap()), @r#"
    a: http+sse https://a.example.com/events
    b: http+sse https://b.example.com/
    c: http+sse https://c.example.com/v1/sse
    d: https://d.example.com/sse []
    "#);
}

#[test]
fn the_file_of_vs_code_is_accepted_with_its_comments() {
    let text = r#"{
  // servers of this gateway
  "servers": {
    "play wright": { "command": "npx", "args": ["-y", "@playwright/mcp"], "env": { "HOME": "${env:HOME}" }, },
    "memory": { "type": "http", "url": "http://localhost:3000/mcp" }, /* the last */
  },
}"#;
    assert_snapshot!(lines(&load("mcp.json", text, &[("HOME", "/home/ada")]).unwrap()), @r#"
    play-wright: npx ["-y", "@playwright/mcp"] [HOME=/home/ada]
    memory: http://localhost:3000/mcp []
    "#);
}

#[test]
fn the_default_limits_on_open_questions_follow_each_other() {
    let limits = |text: &str| {
        let limits = load("lockkeeper.toml", &format!("[limits]\n{text}\n"), &[]).unwrap().limits;
        (limits.server_request_slot_time, limits.slot_wait)
    };
    let (seconds, minutes) = (Duration::from_secs, Duration::from_mins);
    assert_eq!(limits("server_request_timeout = \"5s\""), (seconds(5), minutes(2)));
    assert_eq!(limits("server_request_slot_time = \"5m\""), (minutes(5), minutes(10)));
    assert_eq!(limits("server_request_slot_time = \"5s\"\nslot_wait = \"6s\""), (seconds(5), seconds(6)));
}

#[test]
fn the_example_file_shows_the_defaults_and_every_option() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("lockkeeper.example.toml")).unwrap();
    let config = load("lockkeeper.toml", &text, &[]).unwrap();
    assert_eq!(config.limits, LimitsConfig::default());
    assert_eq!(config.auth, AuthPolicy::default());
    assert_eq!(config.http, HttpConfig::default());
    assert_eq!(config.log, LogConfig::default());
    assert_eq!(config.listen, lockkeeper::config::DEFAULT_LISTEN);

    // Every commented option exists: without the marks `#:` the file still loads.
    let whole: String =
        text.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let variables = [("GITHUB_SECRET", "t"), ("DOCS_TOKEN", "t"), ("CORP_SECRET", "t"), ("HOME", "/home/ada")];
    let config = load_beside(
        &[
            ("lockkeeper.toml", &whole),
            ("files.env", ""),
            ("company-ca.pem", CERTIFICATE),
            ("gateway.pem", CERTIFICATE),
            ("gateway.key", KEY),
            ("authority.key", "c2VjcmV0"),
        ],
        &variables,
    );
    assert_snapshot!(lines(&config), @r#"
    files: npx ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada"] [LOG_LEVEL=info] /srv
    docs: https://docs.example.com/mcp [Authorization: Bearer t]
    github: https://api.githubcopilot.com/mcp/ []
    demo: demo
    "#);
}

#[test]
fn certificates_and_their_keys_are_checked_when_they_are_read() {
    let load = |lines: &str| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.pem", CERTIFICATE), ("a.key", KEY), ("other.key", OTHER_KEY), ("text", "text")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let text = format!("[servers.a]\nurl = \"https://a.test/\"\n{lines}");
        std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        load_in(folder.path(), &CommandLineOptions::default(), &[]).map_err(|problems| problems.to_string())
    };
    let good = "ca_file = \"a.pem\"\nclient_cert_file = \"a.pem\"\nclient_key_file = \"a.key\"\nproxy = \"none\"";
    let network = load(good).unwrap().backends[0].transport.network().cloned().unwrap();
    assert!(network.authorities.is_some() && network.identity.is_some() && network.proxy == Some(ProxyChoice::Direct));
    for (lines, problem) in [
        ("ca_file = \"text\"", "the file `text` has no certificate in PEM"),
        ("ca_file = \"none\"", "the file `none` cannot be read"),
        ("client_cert_file = \"a.pem\"", "a client certificate needs its key"),
        ("client_cert_file = \"a.pem\"\nclient_key_file = \"text\"", "no private key in PEM"),
        ("client_cert_file = \"a.pem\"\nclient_key_file = \"other.key\"", "is not the key of the first certificate"),
        ("proxy = \"socks5://u:hunter2@a\"", "this must be the URL of an HTTP proxy"),
        ("proxy = \"http://u:hunter2|^@a:1\"", "this must be the URL of an HTTP proxy"),
        ("proxy = \" http://a:1\"", "this must be the URL of an HTTP proxy"),
    ] {
        let told = load(lines).unwrap_err();
        assert!(told.contains(problem) && !told.contains("hunter2"), "{lines}: {told}");
    }
    let program = super::errors("lockkeeper.toml", "[servers.a]\ncommand = \"a\"\nca_file = \"a\"\n", &[]);
    assert!(program.contains("servers.a.ca_file: this needs a `url`"), "{program}");
}

#[test]
fn secrets_and_variables_come_from_files_beside_the_configuration() {
    let text = r#"
[servers.files]
command = "x"
args = ["--token-file", "${file:token}"]
env = { OWN = "1", BOTH = "own" }
env_file = ".env"

[servers.docs]
url = "https://docs.example.com/mcp"
headers = { Authorization = "Bearer ${file:token}" }
"#;
    let variables = "BOTH=file\nexport ONLY='$x' # c\n";
    let config = load_beside(&[("lockkeeper.toml", text), ("token", "t0k\n"), (".env", variables)], &[]);
    assert_snapshot!(lines(&config), @r#"
    files: x ["--token-file", "t0k"] [BOTH=own ONLY=$x OWN=1]
    docs: https://docs.example.com/mcp [Authorization: Bearer t0k]
    "#);
    let text = r#"{ "mcpServers": { "files": { "command": "x", "envFile": ".env" } } }"#;
    let config = load_beside(&[("mcp.json", text), (".env", variables)], &[]);
    assert_snapshot!(lines(&config), @"files: x [] [BOTH=file ONLY=$x]");
}

#[test]
fn client_tables_set_the_profile_of_single_clients() {
    let text = "[clients.\"An old client\"]\nprofile = \"strict\"\n[clients.other]\nprofile = \"faithful\"\n";
    let config = load("lockkeeper.toml", text, &[]).unwrap();
    assert_eq!(config.clients.strict.into_iter().collect::<Vec<_>>(), ["An old client"]);
    let text = "[clients.old]\nprofile = \"stric\"\n";
    let problem = super::errors("lockkeeper.toml", text, &[]);
    assert!(problem.contains("clients.old.profile") && problem.contains("strict"), "{problem}");
}

#[test]
fn the_lists_of_tools_of_other_programs_are_followed() {
    let text = r#"{ "mcpServers": {
        "gemini": { "url": "https://a.test/mcp", "includeTools": ["read", "a*"], "excludeTools": ["read_all"] },
        "windsurf": { "command": "x", "disabledTools": ["write"] },
        "plain": { "command": "y" }
    } }"#;
    let config = load("servers.json", text, &[]).unwrap();
    let offers =
        |index: usize, name: &str| config.backends[index].tools.as_ref().is_none_or(|rules| rules.offers(name));
    assert_eq!(
        ["read", "read_all", "a*", "ab", "write"].map(|name| offers(0, name)),
        [true, false, true, false, false]
    );
    assert_eq!(["read", "write"].map(|name| offers(1, name)), [true, false]);
    assert!(config.backends[2].tools.is_none());
}
