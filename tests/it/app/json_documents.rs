//! What every command prints with `--json`: the commands are those of the command line itself, so that a new one is asked too.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use clap::CommandFactory as _;
use lockkeeper::cli::Cli;
use serde_json::{Value, json};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

use super::{direct_key, operator};
use crate::{kit::person::Person, support::data_folder::DataFolder};

/// Commands whose output is a protocol's, a text for another program, or nothing.
const WITHOUT: [&str; 8] = ["serve", "stdio", "connect", "translate", "healthcheck", "completions", "man", "help"];

/// The form of a document.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A list under the name of its kind.
    List(&'static str),
    /// What was changed, with its new state.
    Change(&'static str),
    /// One thing with its id.
    One,
    /// A line for each thing.
    Lines,
    /// A document of another protocol, or about this program.
    Foreign,
}

use Form::{Change, Foreign, Lines, List, One};

/// The command line in a folder, and the commands that were asked.
struct Commands {
    folder: PathBuf,
    asked: BTreeSet<String>,
}

impl Commands {
    /// What a command prints.
    async fn run(&mut self, command: &str, rest: &[&str]) -> String {
        self.asked.insert(command.to_owned());
        let mut program = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        program.args(command.split(' ')).args(rest).arg("--json").current_dir(&self.folder);
        program.arg("--data-dir").arg(&self.folder).arg("--config").arg(self.folder.join("lockkeeper.toml"));
        let output = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
        // `doctor` fails where a client cannot connect
        assert!(output.status.success() || command == "doctor", "{command} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The document of a command, which has this form.
    async fn of(&mut self, command: &str, rest: &[&str], form: Form) -> Value {
        let text = self.run(command, rest).await;
        if let Lines = form {
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(!lines.is_empty() && lines.iter().all(Value::is_object), "{command} {text}");
            return lines.into();
        }
        let document: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{command} {text}"));
        let members = document.as_object().unwrap_or_else(|| panic!("{command} {text}"));
        match form {
            List(kind) => {
                let entries = members[kind].as_array().unwrap();
                assert!(!entries.is_empty() && entries.iter().all(Value::is_object), "{command} {text}");
                let is_known = |entry: &Value| ["id", "name", "user"].iter().any(|member| entry[member].is_string());
                assert!(entries.iter().all(is_known), "{command} {text}");
                assert!(!members.contains_key("state"), "it changes nothing: {command} {text}");
            }
            Change(state) => assert_eq!(members["state"], state, "{command} {text}"),
            One => assert!(members["id"].is_string(), "{command} {text}"),
            Lines | Foreign => {}
        }
        document
    }

    /// The id of what a command creates.
    async fn made(&mut self, command: &str, rest: &[&str]) -> String {
        let document = self.of(command, rest, Change("created")).await;
        document["id"].as_str().unwrap_or_else(|| panic!("{command} {document}")).to_owned()
    }

    async fn keys(&mut self) {
        let key = self.made("keys create", &["laptop"]).await;
        self.of("keys list", &[], List("keys")).await;
        self.of("keys set", &[&key, "--expires", "90d"], Change("changed")).await;
        let rotated = self.of("keys rotate", &[&key], Change("rotated")).await;
        assert!(rotated["secret"].as_str().unwrap().starts_with("lkk_"));
        self.of("keys revoke", &["laptop"], Change("revoked")).await;
        let invitation = self.made("invite", &["bob"]).await;
        self.of("invitations list", &[], List("invitations")).await;
        self.of("invitations revoke", &[&invitation], Change("revoked")).await;
        self.made("keys create", &["desk", "--user", "ann"]).await;
        self.of("users list", &[], List("users")).await;
        self.of("users disable", &["ann"], Change("disabled")).await;
        self.of("users enable", &["ann"], Change("enabled")).await;
        self.account("ann").await;
        self.of("upstream list", &[], List("accounts")).await;
        self.of("upstream disconnect", &["ann", "git"], Change("disconnected")).await;
    }

    /// An account that this user has connected at a server, and an app.
    async fn account(&self, user: &str) {
        let options = SqliteConnectOptions::new().filename(self.folder.join("lockkeeper.sqlite3"));
        let pool = SqlitePool::connect_with(options).await.unwrap();
        let statement = "INSERT INTO upstream_tokens VALUES (?, 'git', zeroblob(32), 'https://id.example', NULL, NULL, x'00', 1, 1)";
        sqlx::query(statement).bind(user).execute(&pool).await.unwrap();
        pool.close().await;
    }

    /// A grant of this user to this client.
    async fn grant(&self, user: &str, client: &str) {
        let options = SqliteConnectOptions::new().filename(self.folder.join("lockkeeper.sqlite3"));
        let pool = SqlitePool::connect_with(options).await.unwrap();
        let statement = "INSERT INTO grants SELECT 'g', user_id, id, ?, '/mcp', 'mcp', 'https://app.example/', created, \
                         9999999999999, 2, NULL FROM api_keys WHERE user_id = ? LIMIT 1";
        sqlx::query(statement).bind(client).bind(user).execute(&pool).await.unwrap();
        pool.close().await;
    }

    async fn clients(&mut self) {
        let client = self.made("clients create", &["portal", "--redirect-uri", "https://app.example/"]).await;
        self.of("clients list", &[], List("clients")).await;
        self.of("clients show", &[&client], One).await;
        self.grant("ann", &client).await;
        self.of("grants list", &[], List("grants")).await;
        self.of("grants revoke", &["--client", &client], Change("revoked")).await;
        self.of("clients revoke", &[&client], Change("revoked")).await;
        self.of("clients restore", &[&client], Change("restored")).await;
        self.of("clients prune", &[], Change("deleted")).await;
        let token = self.made("clients initial-access-tokens create", &["build"]).await;
        self.of("clients initial-access-tokens list", &[], List("initial_access_tokens")).await;
        self.of("clients initial-access-tokens revoke", &[&token], Change("revoked")).await;
        self.of("users delete", &["ann"], Change("deleted")).await;
        let signing = self.made("signing-keys rotate", &["--now"]).await;
        self.of("signing-keys list", &[], List("signing_keys")).await;
        self.of("signing-keys retire", &[&signing], Change("retired")).await;
    }

    /// Files, and what starts servers of its own.
    async fn servers(&mut self, url: &str) {
        self.of("list", &[], List("servers")).await;
        self.of("check", &[], List("servers")).await;
        self.of("tools", &[], List("tools")).await;
        self.of("tools list", &[], List("tools")).await;
        self.of("tools call", &["git__about"], Foreign).await;
        self.of("add", &["docs", "https://docs.example/mcp", "--no-check"], Change("added")).await;
        fs::write(self.folder.join("client.json"), r#"{"mcpServers":{"more":{"command":"more"}}}"#).unwrap();
        self.of("import", &["client.json"], Change("added")).await;
        self.of("import", &["client.json"], Change("unchanged")).await;
        for name in ["docs", "more"] {
            self.of("remove", &[name], Change("removed")).await;
        }
        self.of("client", &[], List("clients")).await;
        self.of("client", &["cursor"], One).await;
        self.of("client", &["cursor", "--write", "--file", "c.json"], Change("written")).await;
        self.of("client", &["cursor", "--write", "--file", "c.json"], Change("unchanged")).await;
        self.of("client", &["cursor", "--remove", "--file", "c.json"], Change("removed")).await;
        self.of("doctor", &[&format!("{url}/mcp"), "--no-register", "--client", "gemini"], List("clients")).await;
        self.of("version", &[], Foreign).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_prints_json_in_one_of_two_forms() {
    let (folder, server) = (DataFolder::new(), operator::server());
    let text = operator::with_printing(folder.path(), &server);
    let gateway = operator::start(folder.path(), &text).await;
    let mut commands = Commands { folder: folder.path().to_owned(), asked: BTreeSet::new() };
    let mut client = Person::new(&gateway.url, &direct_key(folder.path())).client("2025-11-25", json!({}));
    assert!(!client.tools().await.is_empty());
    commands.of("status", &[], List("servers")).await;
    let sessions = commands.of("sessions list", &[], List("sessions")).await;
    let session = sessions["sessions"][0]["id"].as_str().unwrap().to_owned();
    commands.of("sessions end", &[&session], Change("ended")).await;
    commands.of("restart", &["git"], Change("restarted")).await;
    commands.of("logs", &["git"], Lines).await;
    commands.of("log", &["debug"], Change("changed")).await;
    commands.of("log", &["configured"], Change("changed")).await;
    commands.of("log", &["configured"], Change("unchanged")).await;
    commands.keys().await;
    commands.clients().await;
    commands.of("audit", &[], Lines).await;
    commands.of("backup", &["copy.sqlite3"], Change("written")).await;
    commands.servers(&gateway.url).await;
    gateway.stop().await;
    commands.of("master-key rotate", &[], Change("rotated")).await;
    commands.of("migrate", &["--to", "sqlite:other.sqlite3"], Change("copied")).await;
    assert_eq!(commands.asked, with_json(), "a command is not asked here, or is no more");
}

/// Every command of the command line that takes `--json`: all but a few.
fn with_json() -> BTreeSet<String> {
    fn leaves(command: &clap::Command, before: &str) -> Vec<(String, bool)> {
        let own = |name: &str| format!("{before} {name}").trim().to_owned();
        let takes = |command: &clap::Command| command.get_arguments().any(|one| one.get_long() == Some("json"));
        let each = command.get_subcommands().flat_map(|one| {
            let itself = (!one.has_subcommands() || takes(one)).then(|| (own(one.get_name()), takes(one)));
            itself.into_iter().chain(leaves(one, &own(one.get_name())))
        });
        each.collect()
    }
    let (with, without): (Vec<_>, Vec<_>) =
        leaves(&Cli::command(), "").into_iter().partition(|(_, takes_json)| *takes_json);
    assert_eq!(without.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), WITHOUT, "without `--json`");
    with.into_iter().map(|(name, _)| name).collect()
}
