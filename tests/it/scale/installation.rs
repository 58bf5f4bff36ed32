//! A gateway with a database of many rows, and a person who works there.

use std::path::Path;

use lockkeeper::{
    config::CommandLineOptions,
    support::{Clock as _, SystemClock},
};
use serde_json::{Value, json};
use sqlx::AnyPool;
use tempfile::TempDir;

use crate::{
    kit::{
        gateway::{Gateway, configuration, environment, make_key},
        person::{ConnectedApp, Person},
    },
    storage::filling::{Ages, Filling, new_database},
};

/// A gateway with its database.
pub(super) struct Installation {
    pub(super) folder: TempDir,
    pub(super) database: AnyPool,
    variables: Vec<(&'static str, String)>,
}

// === impl Installation ===

impl Installation {
    /// A file, or a schema on this server.
    pub(super) async fn new(server: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (url, database) = new_database(folder.path(), server).await;
        let given = server.map(|_| ("LOCKKEEPER_DATABASE", url));
        Self { folder, database, variables: environment().into_iter().chain(given).collect() }
    }

    /// Adds so many rows to each table.
    pub(super) async fn fill(&self, rows: u32, ages: Ages) {
        let filling = Filling { rows: 1..=i64::from(rows), now: SystemClock.now().as_millis(), ages };
        filling.add(&self.database).await;
        // these wait for work at other servers, or belong to some: there are none
        let others = "DELETE FROM upstream_tokens; DELETE FROM upstream_withdrawn; DELETE FROM ended_user_secrets";
        sqlx::raw_sql(others).execute(&self.database).await.unwrap();
    }

    /// Starts the gateway.
    pub(super) async fn start(&self) -> (Gateway, Person) {
        let data = self.folder.path();
        let gateway = Gateway::of(configuration((data, data), &self.variables, CommandLineOptions::default())).await;
        let key = make_key(data, &["--direct"], &self.variables);
        let mut person = Person::new(gateway.url.trim_end_matches('/'), &key);
        person.log_in().await;
        (gateway, person)
    }

    /// Runs a command of the operator.
    pub(super) fn run(&self, arguments: &[&str]) {
        run(self.folder.path(), &self.variables, arguments);
    }
}

fn run(data: &Path, variables: &[(&'static str, String)], arguments: &[&str]) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let variables = variables.iter().map(|(name, value)| (name, value));
    let output = command.args(arguments).arg("--data-dir").arg(data).envs(variables).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a person and their app do.
impl Person {
    pub(super) async fn initialize(&self) {
        let mut client = self.client("2025-11-25", json!({}));
        let answer = client.ask("ping", json!({})).await;
        assert!(answer.get("error").is_none(), "{answer}");
    }

    pub(super) async fn refresh(&mut self, app: &mut ConnectedApp) {
        let fields = [("grant_type", "refresh_token"), ("client_id", &*app.client), ("refresh_token", &*app.refresh)];
        let answer = self.post("/oauth/token", &fields).await;
        let tokens: Value = serde_json::from_str(&answer.body).unwrap();
        tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("{tokens}")).clone_into(&mut app.refresh);
    }
}
