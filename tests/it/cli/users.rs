//! Users of keys, as the operator sees them.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::Child,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::{Command, Output, Path, Stdio, assert_snapshot, lockkeeper, shown};

/// A data folder for the program.
struct Data(tempfile::TempDir);

impl Data {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        lockkeeper(self.path(), arguments, &[("LOCKKEEPER_DATA_DIR", self.path().to_str().unwrap())])
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(self.path(), &output)))
    }

    /// The id of a new key.
    fn create(&self, arguments: &[&str]) -> String {
        self.json(&[&["keys", "create"], arguments].concat())["id"].as_str().unwrap().to_owned()
    }

    fn database(&self) -> PathBuf {
        std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "sqlite3"))
            .unwrap()
    }
}

#[test]
fn a_wrong_user_name_is_refused_with_the_allowed_form() {
    let data = Data::new();
    let output = data.run(&["keys", "create", "laptop", "--user", "key:abc"]);
    assert_snapshot!(shown(data.path(), &output), @r#"
    2
    --- out
    --- err
    error: invalid value 'key:abc' for '--user <NAME>': `key:abc` is not a user name: use 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`, `@` and `+`, and begin with a letter or digit

    For more information, try '--help'.
    "#);
}

#[test]
fn a_rotated_key_keeps_its_name_rights_and_user() {
    let data = Data::new();
    let old = data.create(&["laptop", "--server", "git:read", "--direct"]);
    let made = data.json(&["keys", "rotate", &old, "--overlap", "24h"]);
    let new = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with(&format!("lkk_{new}_")));
    assert_eq!(made["user"], format!("key:{old}"));
    let listed = data.json(&["keys", "list"])["keys"].take();
    let (before, after) = (&listed[0], &listed[1]);
    for same in ["name", "user", "rights", "direct"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!((&before["successor"], &after["successor"]), (&Value::from(new), &Value::Null));
    assert!(before["ends"].is_string() && after["ends"].is_null());
    let table = String::from_utf8(data.run(&["keys", "list"]).stdout).unwrap();
    assert!(table.contains(&format!("then {new}")), "{table}");
    // only the newest key can be rotated again
    let output = data.run(&["keys", "rotate", &old]);
    let told = shown(data.path(), &output).replace(&old, "OLD").replace(new, "NEW");
    assert_snapshot!(told, @r#"
    1
    --- out
    --- err
    data: FOLDER
    error: key OLD is already rotated
    help: rotate its newest successor NEW
    "#);

    let last = data.json(&["keys", "rotate", new, "--user", "ann"]);
    assert_eq!(last["user"], "ann");
    let own = data.json(&["keys", "rotate", last["id"].as_str().unwrap(), "--own-user"]);
    assert_eq!(own["user"], format!("key:{}", own["id"].as_str().unwrap()));
}

#[test]
fn the_user_option_takes_a_user_or_a_key_without_a_user_name() {
    let data = Data::new();
    let own = data.create(&["laptop"]);
    let joined = data.create(&["desktop", "--user", "ann"]);
    // a key with the name of a user does not stand for that user, nor the user for the key
    data.create(&["ann"]);
    for user in ["ann", "laptop", &own, &format!("key:{own}"), "nobody"] {
        assert_eq!(data.json(&["grants", "list", "--user", user]), serde_json::json!({ "grants": [] }), "{user}");
    }
    let told = |arguments: &[&str]| shown(data.path(), &data.run(arguments)).replace(&joined, "JOINED");
    assert_snapshot!(told(&["grants", "revoke", "--user", &joined]), @r#"
    2
    --- out
    --- err
    data: FOLDER
    error: the key JOINED belongs to the user ann
    help: for the user with all keys: `lockkeeper grants revoke --user ann`
    "#);
    for command in [
        ["users", "disable"].as_slice(),
        &["users", "delete"],
        &["grants", "list", "--user"],
        &["upstream", "disconnect"],
    ] {
        let server: &[&str] = if command[0] == "upstream" { &["git"] } else { &[] };
        let said = told(&[command, &[&joined], server].concat());
        assert!(said.contains(&format!("`lockkeeper {} ann`", command.join(" "))), "{said}");
    }
    data.create(&["laptop"]);
    assert_snapshot!(told(&["grants", "revoke", "--user", "laptop"]), @r#"
    2
    --- out
    --- err
    data: FOLDER
    error: 2 keys have the name laptop, and they belong to several users
    help: use the key's id: `lockkeeper keys list --all` shows it
    "#);
}

/// The gateway's log output, from its start to its end, which begins as soon as it listens.
fn start(data: &Data) -> String {
    let mut gateway: Child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data.path())
        .current_dir(data.path())
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("is listening")).unwrap().unwrap();
    // not killed: lines may still be on their way to the log
    kill(Pid::from_raw(gateway.id().cast_signed()), Signal::SIGTERM).unwrap();
    let mut log = String::new();
    gateway.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    gateway.wait().unwrap();
    log
}

#[tokio::test]
async fn the_first_start_on_older_data_reports_keys_that_share_a_user() {
    let data = Data::new();
    for name in ["laptop", "desktop"] {
        data.create(&[name, "--user", "owner"]);
    }
    // as the migration leaves it
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(data.database());
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("INSERT INTO gateway VALUES ('notice: shared users', x'01')").execute(&pool).await.unwrap();
    pool.close().await;
    let log = start(&data);
    assert!(log.contains("2 API keys share the user `owner`") && log.contains("keys rotate ID --own-user"), "{log}");
    assert!(!start(&data).contains("share the user"), "it is told once");
}

#[test]
fn a_key_is_made_for_a_group_that_there_is() {
    let data = Data::new();
    let file = "[servers.git]\nbuiltin = \"demo\"\n[groups.work]\nservers = [\"git\"]\n";
    std::fs::write(data.path().join("lockkeeper.toml"), file).unwrap();
    let rights =
        |arguments: &[&str]| data.json(&[&["keys", "create", "team"], arguments].concat())["rights"].to_string();
    assert_eq!(rights(&["--group", "work"]), r#"{"admin":false,"servers":{"only":{"work":"full"}}}"#);
    let both = rights(&["--group", "work:read", "--server", "git"]);
    assert_eq!(both, r#"{"admin":false,"servers":{"only":{"git":"full","work":"read-only"}}}"#);
    let told = |arguments: &[&str]| shown(data.path(), &data.run(&[&["keys", "create", "x"], arguments].concat()));
    assert_snapshot!(told(&["--server", "work"]), @r"
    1
    --- out
    --- err
    error: there is no server `work`
    help: give it as `--group work`
    ");
    assert_snapshot!(told(&["--group", "git"]), @r"
    1
    --- out
    --- err
    error: there is no group `git`
    help: give it as `--server git`
    ");
    assert_snapshot!(told(&["--group", "wrok"]), @r"
    1
    --- out
    --- err
    error: there is no group `wrok`
    help: the groups are work
    ");
}
