//! `lockkeeper client`.

use std::{fs, path::Path, process::Output};

use insta::assert_snapshot;

use super::{lockkeeper, shown};

fn run(home: &Path, arguments: &[&str]) -> Output {
    let words: Vec<&str> = ["client"].into_iter().chain(arguments.iter().copied()).collect();
    lockkeeper(home, &words, &[])
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn each_client_gets_a_file_that_this_gateway_would_read_as_that_of_the_client() {
    let home = tempfile::tempdir().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&run(home.path(), &["--json"]).stdout).unwrap();
    let mut servers = Vec::new();
    for client in all["clients"].as_array().unwrap() {
        let name = client["id"].as_str().unwrap();
        let text = run(home.path(), &[name, "--url", "https://mcp.example.com"]).stdout;
        let file = Path::new(client["file"].as_str().unwrap()).file_name().unwrap().to_owned();
        fs::write(home.path().join(&file), text).unwrap();
        let listed = lockkeeper(home.path(), &["list", "--json", "--config", file.to_str().unwrap()], &[]);
        let listed = String::from_utf8(listed.stdout).unwrap().replace(env!("CARGO_BIN_EXE_lockkeeper"), "PROGRAM");
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_else(|_| panic!("{name}"));
        let [server] = &listed["servers"].as_array().unwrap()[..] else { panic!("{name}: {listed}") };
        servers.push(format!("{name}: {} {}", server["id"], server["place"]));
    }
    assert_snapshot!(servers.join("\n"), @r#"
    claude-code: "lockkeeper" "https://mcp.example.com/mcp"
    claude-desktop: "lockkeeper" "PROGRAM connect https://mcp.example.com/mcp"
    cline: "lockkeeper" "https://mcp.example.com/mcp"
    codex: "lockkeeper" "https://mcp.example.com/mcp"
    cursor: "lockkeeper" "https://mcp.example.com/mcp"
    gemini: "lockkeeper" "https://mcp.example.com/mcp"
    goose: "lockkeeper" "https://mcp.example.com/mcp"
    lm-studio: "lockkeeper" "PROGRAM connect https://mcp.example.com/mcp"
    opencode: "lockkeeper" "https://mcp.example.com/mcp"
    roo: "lockkeeper" "PROGRAM connect https://mcp.example.com/mcp"
    vscode: "lockkeeper" "https://mcp.example.com/mcp"
    windsurf: "lockkeeper" "https://mcp.example.com/mcp"
    zed: "lockkeeper" "https://mcp.example.com/mcp"
    "#);
}

#[test]
fn the_url_is_that_of_the_configuration_and_of_one_server() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("lockkeeper.toml"), "listen = \"127.0.0.1:7777\"\n").unwrap();
    let printed = run(home.path(), &["cursor", "--server", "git"]);
    assert_snapshot!(shown(home.path(), &printed), @r#"
    0
    --- out
    {
      "mcpServers": {
        "lockkeeper": {
          "url": "http://127.0.0.1:7777/mcp/git"
        }
      }
    }
    --- err
    Cursor: add this to FOLDER/.cursor/mcp.json, or use `--write`
    It opens the browser for the login when it connects.
    "#);
}

#[test]
fn a_gateway_that_runs_at_another_port_is_named_and_the_public_url_goes_before() {
    let home = tempfile::tempdir().unwrap();
    let url = |host: &str, arguments: &[&str]| {
        let control = format!(r#"{{"url": "http://127.0.0.1:8099", "host": "{host}", "token": "t"}}"#);
        fs::write(home.path().join("control.json"), control).unwrap();
        let words = [&["cursor", "--json", "--data-dir", "."], arguments].concat();
        let printed: serde_json::Value = serde_json::from_slice(&run(home.path(), &words).stdout).unwrap();
        printed["url"].as_str().unwrap().to_owned()
    };
    assert_eq!(url("127.0.0.1:8099", &[]), "http://127.0.0.1:8099/mcp");
    assert_eq!(url("mcp.example.com", &[]), "http://127.0.0.1:8080/mcp");
    fs::write(home.path().join("lockkeeper.toml"), "public_url = \"https://mcp.example.com\"\n").unwrap();
    assert_eq!(url("127.0.0.1:8099", &[]), "https://mcp.example.com/mcp");
}

#[test]
fn an_entry_is_written_once_and_the_rest_of_the_file_stays() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".config/zed/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before =
        "// Zed\n{\n  \"theme\": \"x\", // mine\n  \"context_servers\": {\n    \"a\": {\"command\": \"a\"},\n  },\n}\n";
    fs::write(&file, before).unwrap();
    assert_eq!(run(home.path(), &["zed", "--write"]).status.code(), Some(0));
    let entry = "    \"lockkeeper\": {\n      \"url\": \"http://127.0.0.1:8080/mcp\",\n    },\n";
    let place = before.find("  },\n}").unwrap();
    let after = [&before[..place], entry, &before[place..]].concat();
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    let again = run(home.path(), &["zed", "--write"]);
    assert!(String::from_utf8(again.stdout).unwrap().contains("already has the entry"));
    let other = run(home.path(), &["zed", "--write", "--url", "https://b.example"]);
    assert!(other.status.code() == Some(1) && said(&other).contains("add `--replace`"), "{}", said(&other));
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    assert_eq!(run(home.path(), &["zed", "--write", "--url", "https://b.example", "--replace"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), after.replace("http://127.0.0.1:8080", "https://b.example"));
}

#[test]
fn an_entry_is_written_into_toml() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let before = "# mine\nmodel = \"x\"\n\n[mcp_servers.a]\ncommand = \"a\" # first\n";
    fs::write(&file, before).unwrap();
    assert_eq!(run(home.path(), &["codex", "--write", "--file", "config.toml"]).status.code(), Some(0));
    let entry = "\n[mcp_servers.lockkeeper]\nurl = \"http://127.0.0.1:8080/mcp\"\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{before}{entry}"));
}

#[test]
fn a_file_that_cannot_be_edited_stays_and_the_reason_is_given() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("broken.json"), "{\"mcpServers\": [}").unwrap();
    let broken = run(home.path(), &["cursor", "--write", "--file", "broken.json"]);
    assert_snapshot!(shown(home.path(), &broken), @r"
    1
    --- out
    --- err
    error: FOLDER/broken.json stays as it is
      it cannot be read as JSON: Unexpected close brace on line 1 column 17
    help: `lockkeeper client cursor` prints what to add by hand
    ");
    fs::write(home.path().join("list.json"), "{\"mcpServers\": []}").unwrap();
    let list = run(home.path(), &["cursor", "--write", "--file", "list.json"]);
    assert!(said(&list).contains("`mcpServers` is not a table there"), "{}", said(&list));
    let goose = run(home.path(), &["goose", "--write"]);
    assert!(goose.status.code() == Some(1) && said(&goose).contains("YAML is not edited"), "{}", said(&goose));
    let printed = run(home.path(), &["goose"]);
    assert!(!said(&printed).contains("--write"), "{}", said(&printed));
    let unknown = run(home.path(), &["notepad"]);
    assert!(unknown.status.code() == Some(2) && said(&unknown).contains("possible values: claude-code,"));
}

#[test]
fn an_entry_is_taken_out_again_and_the_rest_of_the_file_stays() {
    let home = tempfile::tempdir().unwrap();
    let files = [
        (
            "zed",
            "settings.json",
            "// Zed\n{\n  \"context_servers\": {\n    \"a\": {\"command\": \"a\"} // first\n  }\n}\n",
        ),
        ("claude-desktop", "desktop.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  }\n}\n"),
        ("codex", "config.toml", "# mine\nmodel = \"x\"\n\n[mcp_servers.a]\ncommand = \"a\" # first\n"),
    ];
    for (client, file, before) in files {
        let path = home.path().join(file);
        fs::write(&path, before).unwrap();
        assert_eq!(run(home.path(), &[client, "--write", "--file", file]).status.code(), Some(0));
        let removed = run(home.path(), &[client, "--remove", "--file", file]);
        let told = String::from_utf8(removed.stdout).unwrap();
        assert!(told.starts_with("removed `lockkeeper` (http://127.0.0.1:8080/mcp) from "), "{client}: {told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), before, "{client}");
        let again = run(home.path(), &[client, "--remove", "--file", file]);
        assert_eq!(again.status.code(), Some(0));
        assert!(String::from_utf8(again.stdout).unwrap().contains("has no entry `lockkeeper`"), "{client}");
        let json = run(home.path(), &[client, "--remove", "--file", file, "--json"]).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["id"], &json["state"]), (&client.into(), &"unchanged".into()));
    }
    let none = run(home.path(), &["cursor", "--remove"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(!home.path().join(".cursor").exists(), "nothing is made");
    assert_eq!(run(home.path(), &["cursor", "--remove", "--write"]).status.code(), Some(2));
    assert_eq!(run(home.path(), &["--remove"]).status.code(), Some(2));
    let goose = run(home.path(), &["goose", "--remove"]);
    assert!(goose.status.code() == Some(1) && said(&goose).contains("by hand"), "{}", said(&goose));
}
