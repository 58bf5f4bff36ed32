//! Keys that had another name or are gone: still read, noticed, and refused beside the present name.

use std::{fs, path::Path};

use insta::assert_snapshot;
use lockkeeper::config::Config;

use super::{errors, load};

/// A file that has every former name.
const BEFORE: &str = r#"[limits]
backend_sessions = 7
question_timeout = "5m"
question_slot_time = "30s"
sessions_per_caller = 9
calls_per_session = 256
calls_per_user = 99

[auth]
conceal_backends = false

[backends.docs]
url = "https://docs.example/mcp"
[backends.docs.tools]
allow = ["read_*"]

[backends.git]
command = "git-server"

[groups.work]
servers = ["docs", "git"]

[login.corp]
issuer = "https://id.example"
client_id = "gateway"
domains = ["example.com"]
backends = ["docs"]
rights.operators = { groups = ["operations"], backends = ["work:read"] }
"#;

/// The same file with the present names.
const NOW: &str = r#"[limits]
server_sessions = 7
server_request_timeout = "5m"
server_request_slot_time = "30s"
sessions_per_user = 9
calls_per_user = 99

[auth]
conceal_servers = false

[servers.docs]
url = "https://docs.example/mcp"
[servers.docs.tools]
allow = ["read_*"]

[servers.git]
command = "git-server"

[groups.work]
servers = ["docs", "git"]

[login.corp]
issuer = "https://id.example"
client_id = "gateway"
domains = ["example.com"]
servers = ["docs"]
rights.operators = { groups = ["operations"], servers = ["work:read"] }
"#;

fn notices(config: &Config) -> String {
    config.former_names().collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_with_former_names_means_what_it_meant() {
    let [before, now] = [BEFORE, NOW].map(|text| load("lockkeeper.toml", text, &[]).unwrap());
    assert_snapshot!(notices(&before), @r"
    lockkeeper.toml:12:2: `[backends.…]` is now `[servers.…]`
    lockkeeper.toml:2:1: `backend_sessions` in `[limits]` is now `server_sessions`
    lockkeeper.toml:5:1: `sessions_per_caller` in `[limits]` is now `sessions_per_user`
    lockkeeper.toml:6:1: `calls_per_session` in `[limits]` does nothing any more: `calls_per_user` is the limit
    lockkeeper.toml:3:1: `question_timeout` in `[limits]` is now `server_request_timeout`
    lockkeeper.toml:4:1: `question_slot_time` in `[limits]` is now `server_request_slot_time`
    lockkeeper.toml:10:1: `conceal_backends` in `[auth]` is now `conceal_servers`
    lockkeeper.toml:27:1: `backends` in `[login.…]` is now `servers`
    lockkeeper.toml:28:47: `backends` in `[login.….rights.…]` is now `servers`
    ");
    assert_eq!(notices(&now), "");
    let without_notices = |config: Config| format!("{:?}", Config { former_names: Vec::new(), ..config });
    assert_eq!(without_notices(before), without_notices(now));
}

#[test]
fn servers_under_both_names_are_read_together_in_the_order_of_the_file() {
    let text = "[backends.a]\nbuiltin = \"demo\"\n[servers.b]\nbuiltin = \"demo\"\n[backends.c]\nbuiltin = \"demo\"\n";
    let config = load("lockkeeper.toml", text, &[]).unwrap();
    let ids: Vec<&str> = config.backends.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(notices(&config), "lockkeeper.toml:1:2: `[backends.…]` is now `[servers.…]`");
}

#[test]
fn what_is_there_under_both_names_is_an_error() {
    let text = "[backends.a]\nbuiltin = \"demo\"\n[servers.a]\nbuiltin = \"demo\"\n[backends.B]\nbuiltin = \"demo\"\n\
                [servers.b]\nbuiltin = \"demo\"\n[limits]\nbackend_sessions = 3\nserver_sessions = 4\n\
                question_timeout = 3\n[auth]\nconceal_backends = 1\n";
    assert_snapshot!(errors("lockkeeper.toml", text, &[]), @r#"
    lockkeeper.toml:1:11: backends.a: this is now `[servers.a]`, which is in the file too
        remove one of them
    lockkeeper.toml:7:10: servers.b: `b` and `B` (lockkeeper.toml:5:11: servers.B) both become `b`
        rename one of them
    lockkeeper.toml:10:1: limits.backend_sessions: this is now `server_sessions`, which is in the file too
        remove one of them
    lockkeeper.toml:12:20: limits.server_request_timeout: this needs its unit and quotes: `"500ms"`, `"60s"`, `"30m"`
    lockkeeper.toml:14:20: auth.conceal_servers: this must be true or false, without quotes, not a number
    "#);
}

#[test]
fn files_of_other_programs_have_no_former_names() {
    let json = r#"{"servers": {"a": {"command": "a"}}}"#;
    let yaml = "servers:\n  a:\n    command: a\n";
    for (name, text) in [("mcp.json", json), ("mcp.yaml", yaml)] {
        let config = load(name, text, &[]).unwrap();
        assert_eq!((config.backends.len(), notices(&config)), (1, String::new()), "{name}");
        // such a file never had servers under this name
        let before = errors(name, &text.replace("servers", "backends"), &[]);
        assert!(before.contains("the file has no servers"), "{name}: {before}");
    }
}

#[test]
fn the_page_lists_every_former_name() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md")).unwrap();
    let config = load("lockkeeper.toml", BEFORE, &[]).unwrap();
    let noticed: Vec<String> = config
        .former_names()
        .map(|notice| notice.split('`').nth(1).unwrap().replace(['[', ']', '.', '…'], ""))
        .collect();
    let mut noticed: Vec<&str> = noticed.iter().map(String::as_str).collect();
    let mut listed: Vec<&str> = super::documentation::former_names(&page).collect();
    noticed.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, noticed);
}
