//! The `cli` module, tested through the built program.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use insta::assert_snapshot;
use lockkeeper::{app::ControlFile, config::PublicUrl, support::Secret};

/// The program in `folder`, with a minimal environment.
fn command(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(arguments).current_dir(folder).env_clear().env("HOME", folder);
    // not that of the person who runs the tests
    command.env("XDG_RUNTIME_DIR", folder.join(".run")).envs(variables.iter().copied());
    command.stdin(Stdio::null());
    command
}

/// Runs the program in `folder`, with a minimal environment.
fn lockkeeper(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    command(folder, arguments, variables).output().unwrap()
}

/// Exit code, standard output and standard error, without the folder's name.
fn shown(folder: &Path, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(folder.to_str().unwrap(), "FOLDER");
    let code = output.status.code().unwrap_or(-1);
    format!("{code}\n--- out\n{}--- err\n{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_a_command_the_help_is_shown_as_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(lockkeeper(folder.path(), &[], &[]).status.code(), Some(2));
}

#[test]
fn the_first_page_of_the_help_has_what_a_person_needs_first() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout.clone()).unwrap();
    let commands = page.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let first_page = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let first_page: Vec<&str> = first_page.filter(|name| !name.is_empty()).collect();
    let first = "serve add remove list check status tools connect client invite keys doctor";
    assert_eq!(first_page.join(" "), first, "{page}");
    assert!(page.contains("Others: lockkeeper help --all") && page.contains("--data-dir"), "{page}");
    assert_eq!(String::from_utf8(lockkeeper(folder.path(), &["help"], &[]).stdout).unwrap(), page);
    let all = String::from_utf8(lockkeeper(folder.path(), &["help", "--all"], &[]).stdout).unwrap();
    for line in ["Running:\n", "Clients and people:\n", "\n  signing-keys  ", "\n  migrate  "] {
        assert!(all.contains(line), "{all}");
    }
    let one = lockkeeper(folder.path(), &["help", "keys", "create"], &[]);
    assert!(String::from_utf8(one.stdout).unwrap().contains("Usage: lockkeeper keys create"));
    let keys = lockkeeper(folder.path(), &["help", "configuration"], &[]).stdout;
    let keys = String::from_utf8(keys).unwrap();
    assert!(keys.contains("\nlisten = ") && keys.contains("[limits]") && all.contains("lockkeeper help configuration"));
    let unknown = shown(folder.path(), &lockkeeper(folder.path(), &["help", "kyes"], &[]));
    assert!(unknown.starts_with("2\n") && unknown.contains("lockkeeper help --all"), "{unknown}");
}

#[test]
fn every_command_has_help() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "serve",
        "stdio",
        "add",
        "import",
        "remove",
        "list",
        "tools list",
        "tools call",
        "client",
        "check",
        "translate",
        "status",
        "restart",
        "logs",
        "log",
        "sessions list",
        "sessions end",
        "keys create",
        "keys list",
        "keys set",
        "keys revoke",
        "invite",
        "invitations list",
        "invitations revoke",
        "users list",
        "users disable",
        "users enable",
        "users delete",
        "clients list",
        "clients show",
        "clients revoke",
        "clients restore",
        "clients initial-access-tokens create",
        "clients initial-access-tokens list",
        "clients initial-access-tokens revoke",
        "grants list",
        "grants revoke",
        "signing-keys list",
        "signing-keys rotate",
        "signing-keys retire",
        "audit",
        "upstream list",
        "upstream disconnect",
        "master-key rotate",
        "backup",
        "healthcheck",
        "version",
        "completions",
        "man",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let output = lockkeeper(folder.path(), &words, &[]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(output.stderr.is_empty() && output.stdout.len() > 80, "{command}");
    }
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let create = |words: &[&str]| lockkeeper(folder.path(), words, &[]).status.code();
    assert_eq!(create(&["--data-dir", "data", "keys", "create", "one"]), Some(0));
    assert_eq!(create(&["keys", "create", "two", "--data-dir", "data"]), Some(0));
    let listed = lockkeeper(folder.path(), &["keys", "--data-dir", "data", "list"], &[]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("one") && text.contains("two"), "{text}");
}

#[test]
fn a_key_for_a_server_that_does_not_exist_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[servers.docs]\nurl = \"https://docs.example/mcp\"\n";
    std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
    let refused = lockkeeper(folder.path(), &["keys", "create", "guest", "--server", "dosc:read"], &[]);
    assert_snapshot!(shown(folder.path(), &refused), @r#"
    1
    --- out
    --- err
    error: there is no server `dosc`
    help: the servers are docs
    "#);
    let create = ["keys", "create", "guest", "--server", "docs:read", "--data-dir", "data"];
    let created = lockkeeper(folder.path(), &create, &[]);
    assert_eq!(created.status.code(), Some(0));
    let said = String::from_utf8(created.stderr).unwrap();
    assert!(said.contains("warning: `docs:read` opens no tool"), "{said}");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for (begun, whole) in [("heal", "healthcheck"), ("--data", "--data-dir")] {
        let asked = lockkeeper(folder.path(), &["--", "lockkeeper", begun], &[("LOCKKEEPER_COMPLETE", "fish")]);
        assert!(String::from_utf8(asked.stdout).unwrap().starts_with(whole), "{begun}");
    }
    let page = String::from_utf8(lockkeeper(folder.path(), &["man"], &[]).stdout).unwrap();
    assert!(page.contains(".TH lockkeeper") && page.contains("healthcheck"), "{page}");
    assert_eq!(lockkeeper(folder.path(), &["man", "pages"], &[]).status.code(), Some(0));
    let page = std::fs::read_to_string(folder.path().join("pages/lockkeeper-keys-create.1")).unwrap();
    let examples = page.split_once("\n.SH EXAMPLES\n.nf\n").unwrap().1.split_once("\n.fi\n").unwrap().0;
    assert!(examples.lines().count() > 5 && !page.contains("EXTRA"), "the examples keep their lines: {page}");
}

#[test]
fn a_port_alone_is_an_address_and_a_word_is_no_filter() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lockkeeper.toml"), "listen = 8081\n[servers.demo]\nbuiltin = \"demo\"\n")
        .unwrap();
    let listed = lockkeeper(folder.path(), &["list"], &[]);
    assert_eq!(listed.status.code(), Some(0), "{}", shown(folder.path(), &listed));
    for command in ["list", "status", "version", "restart"] {
        let refused = shown(folder.path(), &lockkeeper(folder.path(), &[command, "--log", "banana"], &[]));
        assert!(refused.starts_with("2\n") && refused.contains("a filter is a level"), "{command} {refused}");
    }
}

#[test]
fn a_backup_is_a_copy_without_the_master_key_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| lockkeeper(folder.path(), &[arguments, &["--data-dir", "data"]].concat(), &[]);
    let said = shown(folder.path(), &run(&["backup", "copy.sqlite3"]));
    assert!(said.starts_with("1\n") && said.contains("there is no gateway data in"), "{said}");
    assert_eq!(run(&["keys", "create", "laptop"]).status.code(), Some(0));
    let said = shown(folder.path(), &run(&["backup", "copy.sqlite3"]));
    assert!(said.starts_with("0\n") && said.contains("The master key is not in it: FOLDER/data/master.key"), "{said}");
    let copy = folder.path().join("copy.sqlite3");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let said = shown(folder.path(), &run(&["backup", "copy.sqlite3"]));
    assert!(said.starts_with("1\n") && said.contains("already exists"), "{said}");
    // it is the database, with the key beside it
    std::fs::create_dir(folder.path().join("other")).unwrap();
    std::fs::rename(&copy, folder.path().join("other/lockkeeper.sqlite3")).unwrap();
    std::fs::copy(folder.path().join("data/master.key"), folder.path().join("other/master.key")).unwrap();
    let listed = lockkeeper(folder.path(), &["keys", "list", "--data-dir", "other"], &[]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains("laptop"));
    let server = [("LOCKKEEPER_DATABASE", "postgres://lk:s3cret@db.example/gateway")];
    let said = shown(folder.path(), &lockkeeper(folder.path(), &["backup", "x", "--data-dir", "data2"], &server));
    assert!(said.starts_with("2\n") && said.contains("pg_dump") && !said.contains("s3cret"), "{said}");
}

#[test]
fn every_configuration_error_is_reported_and_nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let text = "lissten = 1\n[servers.git]\ncommand = \"git-server\"\nenv = { TOKEN = \"${GIT_TOKEN}\" }\n";
    std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
    let output = lockkeeper(folder.path(), &["serve"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    2
    --- out
    --- err
    error: the configuration has 2 errors
      lockkeeper.toml:1:1: lissten: unknown option
          did you mean `listen`?
      lockkeeper.toml:4:17: servers.git.env.TOKEN: the environment variable `GIT_TOKEN` is not set
          set it, or give a default: `${GIT_TOKEN:-…}`
    help: `lockkeeper help configuration` explains every key; test with `lockkeeper check`
    "#);
    assert!(!folder.path().join(".local").exists());
}

// N-131
#[test]
fn a_public_url_that_clients_cannot_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["http://gw.example", "https://gw.example/", "https://gw.example/#x"] {
        let output = lockkeeper(folder.path(), &["serve", "--public-url", url], &[]);
        assert_eq!(output.status.code(), Some(2), "{url}");
    }
    let output = lockkeeper(folder.path(), &["serve", "--listen", "0.0.0.0:0"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    2
    --- out
    --- err
    error: the configuration has an error
      public_url: this is required, because 0.0.0.0:0 is reachable from other machines
          set the URL that clients use, such as `https://mcp.example.com`, as `public_url` in the file, `--public-url` or LOCKKEEPER_PUBLIC_URL; or listen on 127.0.0.1
    help: `lockkeeper help configuration` explains every key; test with `lockkeeper check`
    "#);
}

#[test]
fn a_command_and_a_url_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["serve", "--url", "https://x.example/mcp", "--", "server"], &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn status_reports_that_no_gateway_runs() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["status", "--data-dir", "."], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    1
    --- out
    --- err
    error: no running gateway found
      none is running with the data in FOLDER
    help: start it with `lockkeeper serve --data-dir .`, or set its data folder: `--data-dir DIR`
    "#);

    // A killed gateway left its control file behind; nothing listens on port 1.
    let url = PublicUrl::parse("http://localhost:1").unwrap();
    ControlFile::new("127.0.0.1:1".parse().unwrap(), &url, Secret::new("t")).write(folder.path()).unwrap();
    for command in [["status"].as_slice(), &["healthcheck"], &["sessions", "list", "--json"]] {
        let output = lockkeeper(folder.path(), command, &[("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())]);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("does not answer"), "{command:?}");
    }
}

#[test]
fn a_remote_gateway_is_asked_with_an_api_key() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["status", "--url", "https://mcp.example.com"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    2
    --- out
    --- err
    error: a gateway at a URL needs an API key
    help: set LOCKKEEPER_API_KEY, or use --api-key-file FILE
    "#);
}

#[test]
fn administration_without_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["keys", "list", "--data-dir", "nowhere"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    1
    --- out
    --- err
    error: there is no gateway data in FOLDER/nowhere
    help: set the folder: `--data-dir DIR` or `--config FILE`
    "#);
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn the_version_names_the_protocol_versions() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["version"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r#"
    0
    --- out
    lockkeeper 0.1.0
    protocol versions: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28
    --- err
    "#);
    let output = lockkeeper(folder.path(), &["version", "--json"], &[]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_taken_port_is_reported_with_the_way_to_choose_another() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = lockkeeper(folder.path(), &["serve", "--listen", &address, "--log", "error"], &[]);
    assert_snapshot!(shown(folder.path(), &output).replace(&address, "ADDRESS"), @r"
    1
    --- out
    --- err
    error: the gateway cannot run
      cannot listen on ADDRESS: Address already in use (os error 98)
    help: stop the program that uses the port, or choose another one: `--listen 8081`
    ");
}

#[test]
fn a_file_without_servers_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("servers.json"), r#"{"mcpServers": {}}"#).unwrap();
    let output = lockkeeper(folder.path(), &["check", "--config", "servers.json"], &[]);
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r#"
    error: the configuration has an error
      servers.json: the file has no servers, or none that is enabled
          add one there, or name another file with `--config FILE`
    "#);
}

#[test]
fn a_url_that_is_none_is_reported_under_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["connect", "localhost:8080/mcp"], &[]);
    assert_snapshot!(shown(folder.path(), &output), @r"
    2
    --- out
    --- err
    error: invalid value 'localhost:8080/mcp' for '<URL>': it must be a URL such as https://mcp.example.com/mcp

    For more information, try '--help'.
    ");
}

#[test]
fn a_check_tests_every_server_and_fails_if_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let output = lockkeeper(folder.path(), &["check"], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("built-in"), "{}", shown(folder.path(), &output));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("trusted_proxies"));
    // OA-138
    let output = lockkeeper(folder.path(), &["check"], &[("LOCKKEEPER_PUBLIC_URL", "https://mcp.example.com")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("without `trusted_proxies` every client"));

    let text = r#"{ "mcpServers": { "show": { "builtin": "demo" }, "gone": { "command": "no-such-server" } } }"#;
    std::fs::write(folder.path().join("mcp.json"), text).unwrap();
    let output = lockkeeper(folder.path(), &["check", "--config", "mcp.json", "--json"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["servers"][0]["state"], "ready");
    assert_eq!(document["servers"][1]["state"], "failed");
    assert!(document["servers"][0]["counts"]["tools"].as_u64().unwrap() > 0);
}

#[test]
fn a_key_is_shown_once_listed_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let data = [("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())];
    let run = |arguments: &[&str]| lockkeeper(folder.path(), arguments, &data);

    let output = run(&["keys", "create", "laptop", "--server", "docs", "--server", "git:read", "--expires", "90d"]);
    let key = String::from_utf8(output.stdout).unwrap();
    assert!(key.starts_with("lkk_") && key.trim_end().len() == 3 + 1 + 10 + 1 + 43 + 1 + 6, "{key}");
    let id = key.split('_').nth(1).unwrap();

    let document =
        |arguments: &[&str]| -> serde_json::Value { serde_json::from_slice(&run(arguments).stdout).unwrap() };
    let listed = document(&["keys", "list", "--json"])["keys"].take();
    assert_eq!(listed[0]["id"], id);
    assert_eq!(listed[0]["name"], "laptop");
    assert_eq!(listed[0]["user"], format!("key:{id}"));
    assert_eq!(listed[0]["direct"], false);
    assert_eq!(
        listed[0]["rights"].to_string(),
        r#"{"admin":false,"servers":{"only":{"docs":"full","git":"read-only"}}}"#
    );
    let table = String::from_utf8(run(&["keys", "list"]).stdout).unwrap();
    assert!(table.contains("docs, git:read") && table.contains("(own)"), "{table}");
    let secret = key.trim_end().rsplit('_').nth(1).unwrap();
    assert!(!table.contains(secret) && !listed.to_string().contains(secret));

    // a name that one key has means that key
    let [two, three] = ["phone", "phone"].map(|name| run(&["keys", "create", name]).stdout);
    let said = String::from_utf8(run(&["keys", "revoke", "phone"]).stderr).unwrap();
    for key in [two, three] {
        let id = String::from_utf8(key).unwrap().split('_').nth(1).unwrap().to_owned();
        assert!(said.contains("2 keys have the name phone") && said.contains(&id), "{said}");
        assert_eq!(run(&["keys", "revoke", &id]).status.code(), Some(0));
    }
    assert_eq!(run(&["keys", "set", "laptop", "--expires", "30d"]).status.code(), Some(0));
    assert_eq!(run(&["keys", "revoke", "laptop"]).status.code(), Some(0));
    assert_eq!(run(&["keys", "revoke", id]).status.code(), Some(1));
    assert_eq!(document(&["keys", "list", "--json"]), serde_json::json!({ "keys": [] }));
    assert!(!document(&["keys", "list", "--json", "--all"])["keys"][0]["revoked"].is_null());
}

#[test]
fn oa_126_a_key_is_created_for_its_networks_and_keeps_them_when_it_is_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let document = |arguments: &[&str]| -> serde_json::Value {
        let variables = [("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())];
        let output = lockkeeper(folder.path(), &[arguments, &["--json"]].concat(), &variables);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(folder.path(), &output)))
    };
    let networks = ["--network", "192.0.2.7/24", "--network", "2001:db8::1"];
    let made = document(&[&["keys", "create", "office"], &networks[..]].concat());
    let expected = serde_json::json!(["192.0.2.0/24", "2001:db8::1/128"]);
    assert_eq!(made["networks"], expected);
    let rotated = document(&["keys", "rotate", made["id"].as_str().unwrap()]);
    assert_eq!(rotated["networks"], expected);
    assert_eq!(document(&["keys", "create", "anywhere"])["networks"], serde_json::Value::Null);
    let client = document(&[&["clients", "create", "nightly"], &networks[..]].concat());
    let keys = document(&["keys", "list"]);
    let account = keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == client["service_account"]).unwrap();
    assert_eq!(account["networks"], expected);
}

#[test]
fn oa_044_the_command_line_creates_lists_and_revokes_initial_access_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        lockkeeper(folder.path(), arguments, &[("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())])
    };
    let document = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&run(&[arguments, &["--json"]].concat()).stdout).unwrap()
    };
    assert_eq!(run(&["keys", "create", "laptop"]).status.code(), Some(0));
    let made = run(&["clients", "initial-access-tokens", "create", "team", "--uses", "20", "--expires", "7d"]);
    let token = String::from_utf8(made.stdout).unwrap();
    assert!(token.starts_with("lki_") && token.trim_end().lines().count() == 1, "{token}");
    assert!(String::from_utf8(made.stderr).unwrap().contains("20 clients may register with it until"));
    let listed = document(&["clients", "initial-access-tokens", "list"])["initial_access_tokens"].take();
    assert_eq!((&listed[0]["name"], &listed[0]["uses"], &listed[0]["used"]), (&"team".into(), &20.into(), &0.into()));
    assert!(!listed.to_string().contains(token.split('_').nth(1).unwrap()));
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(run(&["clients", "initial-access-tokens", "revoke", id]).status.code(), Some(0));
    assert_eq!(run(&["clients", "initial-access-tokens", "revoke", id]).status.code(), Some(1));
    let none = serde_json::json!({ "initial_access_tokens": [] });
    assert_eq!(document(&["clients", "initial-access-tokens", "list"]), none);
    let all = document(&["clients", "initial-access-tokens", "list", "--all"]);
    assert!(!all["initial_access_tokens"][0]["revoked"].is_null());
}

#[test]
fn a_new_gateway_has_no_clients_and_no_grants() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        lockkeeper(folder.path(), arguments, &[("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())])
    };
    run(&["keys", "create", "laptop"]);
    for (arguments, code) in [
        (["clients", "list"].as_slice(), 0),
        (&["clients", "show", "nobody"], 1),
        (&["clients", "list", "--revoked"], 0),
        (&["clients", "revoke", "nobody"], 1),
        (&["clients", "restore", "nobody"], 1),
        (&["clients", "create", "portal", "--redirect-uri", "http://127.0.0.1/cb", "--skip-consent"], 2),
        (&["clients", "create", "nightly", "--skip-consent"], 2),
        (&["keys", "create", "x", "--network", "office"], 2),
        (&["clients", "initial-access-tokens", "create", "build", "--uses", "0"], 2),
        (&["clients", "initial-access-tokens", "list"], 0),
        (&["clients", "initial-access-tokens", "revoke", "none"], 1),
        (&["grants", "list"], 0),
        (&["grants", "list", "--user", "owner", "--json"], 0),
        (&["grants", "revoke", "none"], 1),
        (&["grants", "revoke", "--user", "owner"], 0),
        (&["grants", "revoke", "--client", "nobody"], 0),
        (&["grants", "revoke", "--client", "nobody", "--user", "owner"], 0),
        (&["grants", "revoke", "some", "--client", "nobody"], 2),
        (&["grants", "revoke"], 2),
        (&["signing-keys", "retire", "none"], 1),
        (&["users", "list", "--json"], 0),
        (&["users", "disable", "nobody"], 1),
        (&["users", "enable", "nobody"], 1),
        (&["users", "delete", "nobody"], 1),
        (&["audit", "--since", "2h", "--event", "login"], 0),
        (&["audit", "--since", "yesterday"], 2),
        (&["keys", "create", "x", "--server", "Not A Name"], 2),
        (&["keys", "create", "x", "--expires", "90"], 2),
        (&["keys", "create", "x", "--user", "key:abc"], 2),
        (&["keys", "create", "x", "--user", "ann smith"], 2),
        (&["keys", "create", "x", "--user", ""], 2),
        (&["keys", "rotate", "nobody"], 1),
        (&["keys", "rotate", "x", "--overlap", "91d"], 2),
        (&["keys", "rotate", "x", "--own-user", "--user", "ann"], 2),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {}", shown(folder.path(), &output));
    }
}

mod audit;
mod behind;
mod check;
mod client;
mod completions;
mod data_folder;
mod doctor;
mod endings;
mod exit_codes;
mod former_names;
mod grants;
mod inputs;
mod invitations;
mod master_key;
mod passed_sockets;
mod running_gateway;
mod servers;
mod signing_keys;
mod stdio;
mod users;

mod asked {
    //! Output of `status` for the gateway's answers.

    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use super::*;

    /// A gateway that answers once; returns the request that it got.
    fn answer(folder: &Path, status: &'static str, body: &'static str) -> std::thread::JoinHandle<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = PublicUrl::parse("https://mcp.example.com").unwrap();
        ControlFile::new(listener.local_addr().unwrap(), &url, Secret::new("t0ken")).write(folder).unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = vec![0; 8192];
            let length = connection.read(&mut request).unwrap();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            connection.write_all((head + body).as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..length]).to_ascii_lowercase()
        })
    }

    const STATUS: &str = r#"{"version":"0.1.0","started":"2026-01-01T00:00:00Z","url":"https://mcp.example.com/mcp",
        "future":1,"servers":[{"id":"git","transport":"stdio","protocol_version":"2025-06-18","state":"ready",
        "counts":{"tools":12,"prompts":0,"resources":0},"sessions":1,"restarts":0}],"sessions":[]}"#;

    #[test]
    fn the_running_gateway_gets_requests_with_its_public_name_and_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let gateway = answer(folder.path(), "200 OK", STATUS);
        let output = lockkeeper(folder.path(), &["status", "--data-dir", "."], &[]);
        assert_snapshot!(shown(folder.path(), &output), @r#"
        0
        --- out
        Lockkeeper 0.1.0  https://mcp.example.com/mcp  since 2026-01-01T00:00:00Z
        1 ready

        SERVER  STATE  VERSION     TOOLS  SESSIONS  RESTARTS  PROCESSES  MEMORY
        git     ready  2025-06-18  12     1         0         -          -

        No clients are connected.
        --- err
        "#);
        let asked = gateway.join().unwrap();
        assert!(asked.starts_with("get /api/status http/1.1\r\n"), "{asked}");
        assert!(asked.contains("host: mcp.example.com\r\n"), "{asked}");
        assert!(asked.contains("authorization: bearer t0ken\r\n"), "{asked}");
    }

    #[test]
    fn json_output_is_the_document_of_the_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let gateway = answer(folder.path(), "200 OK", STATUS);
        let output = lockkeeper(folder.path(), &["status", "--data-dir", ".", "--json"], &[]);
        gateway.join().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document, serde_json::from_str::<serde_json::Value>(STATUS).unwrap());
    }

    #[test]
    fn an_error_and_an_invalid_answer_of_the_gateway_are_failures() {
        let folder = tempfile::tempdir().unwrap();
        for (status, body) in [("401 Unauthorized", ""), ("500 Oops", ""), ("200 OK", "hello"), ("200 OK", "{}")] {
            let gateway = answer(folder.path(), status, body);
            let output = lockkeeper(folder.path(), &["status", "--data-dir", "."], &[]);
            gateway.join().unwrap();
            assert_eq!(output.status.code(), Some(1), "{status} {body}");
        }
    }

    #[test]
    fn a_healthcheck_prints_nothing_on_success() {
        let folder = tempfile::tempdir().unwrap();
        let gateway = answer(folder.path(), "200 OK", "ok");
        let output = lockkeeper(folder.path(), &["healthcheck", "--data-dir", "."], &[]);
        assert!(gateway.join().unwrap().starts_with("get /healthz "));
        assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
    }
}

/// Runs `translate` with these arguments and input lines.
fn translate(arguments: &[&str], lines: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .arg("translate")
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    shown(folder.path(), &child.wait_with_output().unwrap())
}

#[test]
fn translate_prints_delivered_messages_and_names_refused_ones() {
    let lines = concat!(
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n"}],"structuredContent":{"x":1.0}}"#,
        "\n\n",
        r#"{"jsonrpc":"2.0","id":"7","result":{"content":[],"resultType":"complete"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32042,"message":"m","data":{"elicitations":[]}}}"#,
        "\n",
    );
    let as_result = ["--from", "2025-11-25", "--to", "2024-11-05", "--as", "result", "--method", "tools/call"];
    assert_snapshot!(translate(&as_result, lines), @r#"
    0
    --- out
    {"content":[{"type":"text","text":"[resource_link] {\"uri\":\"a:b\",\"name\":\"n\"}"},{"type":"text","text":"{\"x\":1.0}"}],"structuredContent":{"x":1.0}}
    {"jsonrpc":"2.0","id":"7","result":{"content":[]}}
    {"jsonrpc":"2.0","id":8,"result":{"content":[{"text":"m","type":"text"}],"isError":true}}
    --- err
    "#);
    let questions = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":{"v/x":1}}}"#,
    );
    let as_request = ["--from", "2025-06-18", "--to", "2025-03-26", "--as", "request"];
    assert_snapshot!(translate(&as_request, questions), @r#"
    0
    --- out
    {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":{"v/x":1}}}
    --- err
    line 1: it is not delivered; the sender gets {"code":-32602,"message":"the client speaks MCP 2025-03-26 and cannot be asked for elicitation (asked in 2025-06-18)"}
    "#);
    let told =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\"params\":{\"elicitationId\":\"1\"}}";
    let as_notification = ["--from", "2025-11-25", "--to", "2025-06-18", "--as", "notification"];
    assert_snapshot!(translate(&as_notification, told), @r#"
    0
    --- out
    --- err
    line 1: it is dropped: MCP 2025-06-18 has no notification notifications/elicitation/complete
    "#);
}

#[test]
fn translate_names_the_lines_that_it_cannot_read() {
    let lines = "{\"a\":1}\n[]\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\nnonsense\n";
    let output = translate(&["--from", "2025-11-25", "--to", "2024-11-05", "--as", "request"], lines);
    assert_snapshot!(output, @r#"
    1
    --- out
    --- err
    line 1: a line without `jsonrpc` needs --method
    line 2: it is not a JSON object
    line 3: it is a notification, which does not match --as
    line 4: it is not JSON: expected ident at line 1 column 2
    error: 4 lines are invalid; see above
    "#);
}
