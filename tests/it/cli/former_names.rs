//! Former names in files, flags and stored data.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::{Path, Stdio, assert_snapshot, command, lockkeeper, shown};

const FILE: &str =
    "[limits]\nbackend_sessions = 8\n\n[backends.one]\nbuiltin = \"demo\"\n\n[backends.two]\nbuiltin = \"demo\"\n";
const NOTICES: [&str; 2] = [
    "notice: lockkeeper.toml:4:2: `[backends.…]` is now `[servers.…]`\n",
    "notice: lockkeeper.toml:2:1: `backend_sessions` in `[limits]` is now `server_sessions`\n",
];

fn written(folder: &Path) -> String {
    fs::read_to_string(folder.join("lockkeeper.toml")).unwrap()
}

#[test]
fn check_notices_each_former_name_once_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lockkeeper.toml"), FILE).unwrap();
    let checked = lockkeeper(folder.path(), &["check"], &[]);
    let said = shown(folder.path(), &checked);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert_eq!(NOTICES.map(|notice| said.matches(notice).count()), [1, 1], "{said}");

    let listed = shown(folder.path(), &lockkeeper(folder.path(), &["list"], &[]));
    assert!(listed.contains("one ") && !listed.contains("notice"), "{listed}");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    let mut serving = command(folder.path(), &arguments, &[]);
    let mut gateway = serving.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = String::new();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(gateway.stdout.take().unwrap()));
    while !output.contains("is listening") {
        output += &lines.next().unwrap().unwrap();
    }
    kill(Pid::from_raw(gateway.id().cast_signed()), Signal::SIGTERM).unwrap();
    let ended = gateway.wait_with_output().unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert!(log.contains("servers=2") && !log.contains("is now"), "{log}");
}

#[test]
fn servers_under_the_former_name_are_replaced_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("lockkeeper.toml"), FILE).unwrap();
    let done = |arguments: &[&str]| {
        let output = lockkeeper(path, arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", shown(path, &output));
    };
    assert_eq!(lockkeeper(path, &["add", "one", "--no-check", "--", "one"], &[]).status.code(), Some(1));
    done(&["add", "one", "--replace", "--no-check", "--", "one"]);
    done(&["remove", "two"]);
    assert_snapshot!(written(path), @r#"
    [limits]
    backend_sessions = 8

    [servers.one]
    command = "one"
    "#);
    done(&["remove", "one"]);
    // no servers, and not the demonstration
    let listed = shown(path, &lockkeeper(path, &["list"], &[]));
    assert!(listed.starts_with("0\n") && !listed.contains("demo"), "{listed} {}", written(path));
}

#[test]
fn the_former_flag_is_taken_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let data = [("LOCKKEEPER_DATA_DIR", path.to_str().unwrap())];
    let created = |flag: &str| -> Value {
        let arguments = ["keys", "create", "guest", flag, "docs:read", "--json"];
        serde_json::from_slice(&lockkeeper(path, &arguments, &data).stdout).unwrap()
    };
    for flag in ["--server", "--backend"] {
        assert_eq!(created(flag)["rights"], json!({ "servers": { "only": { "docs": "read-only" } }, "admin": false }));
    }
    for command in [["keys", "create", "--help"], ["clients", "create", "--help"]] {
        let help = shown(path, &lockkeeper(path, &command, &[]));
        assert!(help.contains("--server") && !help.contains("--backend"), "{help}");
    }
}

#[tokio::test]
async fn rights_grants_and_events_of_earlier_versions_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = |arguments: &[&str]| -> String {
        let output = lockkeeper(path, arguments, &[("LOCKKEEPER_DATA_DIR", path.to_str().unwrap())]);
        assert_eq!(output.status.code(), Some(0), "{}", shown(path, &output));
        String::from_utf8(output.stdout).unwrap()
    };
    let created = run(&["keys", "create", "guest", "--user", "ann", "--server", "docs:read", "--json"]);
    let created: Value = serde_json::from_str(&created).unwrap();
    let client = run(&["clients", "create", "app", "--redirect-uri", "https://app.example/", "--json"]);
    let client: Value = serde_json::from_str(&client).unwrap();
    let file = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "sqlite3"));
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file.unwrap())).await.unwrap();
    let statements = [
        r#"UPDATE api_keys SET rights = '{"backends":{"only":{"docs":"read-only"}},"admin":false}'"#.to_owned(),
        format!(
            "INSERT INTO grants VALUES ('g', 'ann', '{}', '{}', '/mcp/docs', 'mcp:docs:read', 'https://app.example/', \
             (SELECT created FROM api_keys LIMIT 1), 9999999999999, 2, NULL)",
            created["id"].as_str().unwrap(),
            client["id"].as_str().unwrap()
        ),
        r#"INSERT INTO audit_events (at, event, user_id, fields, count)
           VALUES (1, 'upstream_connected', 'ann', '{"user":"ann","backend":"docs"}', 1)"#
            .to_owned(),
    ];
    for statement in &statements {
        sqlx::query(sqlx::AssertSqlSafe(statement.as_str())).execute(&pool).await.unwrap();
    }
    pool.close().await;

    let listed: Value = serde_json::from_str(&run(&["keys", "list", "--json"])).unwrap();
    assert_eq!(listed["keys"][0]["rights"], created["rights"]);
    let grants: Value = serde_json::from_str(&run(&["grants", "list", "--json"])).unwrap();
    assert_eq!(
        (&grants["grants"][0]["id"], &grants["grants"][0]["scopes"]),
        (&json!("g"), &json!("mcp:docs:read")),
        "{grants}"
    );
    let event = run(&["audit", "--event", "upstream_connected"]);
    assert!(event.ends_with("  upstream_connected  server=docs  user=ann\n"), "{event}");
    let event: Value = serde_json::from_str(&run(&["audit", "--event", "upstream_connected", "--json"])).unwrap();
    assert_eq!((&event["server"], &event["backend"]), (&json!("docs"), &Value::Null));
}
