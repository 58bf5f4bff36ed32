//! A gateway as a process of its own, with its database, and people and clients who work there.

use std::{fs, process::Command, time::Duration};

use lockkeeper::{
    config::Environment,
    mcp::Revision,
    support::{Clock as _, SystemClock},
};
use serde_json::{Value, json};
use sqlx::AnyPool;
use tempfile::TempDir;
use tokio::time::sleep;

use super::curve::Cost;
use crate::{
    kit::{
        gateway::{Program, environment, make_key},
        person::{ConnectedApp, Person},
        player::{Binding, Card, Door, PlayerConnection},
    },
    storage::filling::{Ages, Filling, new_database},
    support::postgres,
};

/// Limits that no curve reaches.
pub(super) const ROOMY: &str = "[limits]\nsessions = 100000\nsessions_per_user = 100000\nmemory = \"4GiB\"\n";
/// Time after which the gateway has given freed memory back.
const SETTLE: Duration = Duration::from_millis(2_500);

/// A database.
pub(super) struct Engine {
    pub(super) name: &'static str,
    server: Option<String>,
}

/// A gateway that is not started yet.
pub(super) struct Installation {
    folder: TempDir,
    pub(super) database: AnyPool,
    variables: Vec<(&'static str, String)>,
}

/// A gateway that runs, and a person who is logged in.
pub(super) struct Running {
    program: Program,
    pub(super) person: Person,
    http: reqwest::Client,
}

// === impl Engine ===

impl Engine {
    pub(super) const fn sqlite() -> Self {
        Self { name: "SQLite", server: None }
    }

    /// The server that `scripts/scale` starts.
    pub(super) fn postgresql() -> Self {
        Self { name: "PostgreSQL", server: Some(postgres().unwrap()) }
    }
}

// === impl Installation ===

impl Installation {
    pub(super) async fn new(engine: &Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (url, database) = new_database(folder.path(), engine.server.as_deref()).await;
        let given = engine.server.is_some().then_some(("LOCKKEEPER_DATABASE", url));
        Self { folder, database, variables: environment().into_iter().chain(given).collect() }
    }

    /// The same with this configuration.
    pub(super) fn configured(self, configuration: &str) -> Self {
        fs::write(self.folder.path().join("lockkeeper.toml"), configuration).unwrap();
        self
    }

    /// Adds so many rows to each table.
    pub(super) async fn fill(&self, rows: u32, ages: Ages) {
        let filling = Filling { rows: 1..=i64::from(rows), now: SystemClock.now().as_millis(), ages };
        filling.add(&self.database).await;
        // these wait for work at other servers, or belong to some: there are none
        let others = "DELETE FROM upstream_tokens; DELETE FROM upstream_withdrawn; DELETE FROM user_secrets;
                      DELETE FROM ended_user_secrets";
        sqlx::raw_sql(others).execute(&self.database).await.unwrap();
    }

    /// Starts the gateway.
    pub(super) async fn start(&self) -> Running {
        let mut command = self.command();
        command.arg("serve").stderr(fs::File::create(self.folder.path().join("log")).unwrap());
        command.arg("--data-dir").arg(self.folder.path()).current_dir(self.folder.path());
        let program = Program::run(command);
        let mut person = Person::new(&program.url, &self.key("ann"));
        person.log_in().await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Running { program, person, http }
    }

    /// Another key of a user.
    pub(super) fn key(&self, user: &str) -> String {
        make_key(self.folder.path(), &["--direct", "--user", user], &self.variables)
    }

    /// Runs a command of the operator.
    pub(super) fn run(&self, arguments: &[&str]) {
        let output = self.command().args(arguments).arg("--data-dir").arg(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The program of the tests, or the one that `LOCKKEEPER_SCALE_PROGRAM` names.
    fn command(&self) -> Command {
        let other = Environment::system().get("LOCKKEEPER_SCALE_PROGRAM").map(str::to_owned);
        let mut command = Command::new(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_lockkeeper").to_owned()));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

// === impl Running ===

impl Running {
    /// A client with a session and this credential, at the endpoint of this path below `/mcp` or `/sse`.
    pub(super) async fn session_of(&self, key: &str, binding: Binding, path: &str) -> PlayerConnection {
        let (http, url, path) = (self.http.clone(), self.program.url.clone(), path.to_owned());
        let door = Door { http, url, key: key.to_owned(), path, config: None };
        let version = if binding == Binding::Sse { Revision::V2024_11_05 } else { Revision::V2025_11_25 };
        let info = json!({ "name": "scale", "version": "1" });
        let opened = PlayerConnection::open(Card { door, binding, version, info, capabilities: json!({}) }).await;
        opened.unwrap_or_else(|fault| panic!("{fault}")).0
    }

    /// A client of the person with a session at `/mcp`.
    pub(super) async fn session(&self) -> PlayerConnection {
        self.session_of(&self.person.key, Binding::Streamable, "").await
    }

    /// Opens a session, and asks something in it.
    pub(super) async fn initialize(&self) {
        ask(&mut self.session().await, "ping", json!({})).await;
    }

    /// The resident memory of the gateway while nothing happens.
    pub(super) async fn memory(&self) -> Cost {
        sleep(SETTLE).await;
        Cost::Bytes(self.program.memory())
    }
}

/// The result of a request.
pub(super) async fn ask(client: &mut PlayerConnection, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    client.send(&request).await.unwrap_or_else(|fault| panic!("{method}: {fault}"));
    let (_, answer) = client.answer(&request["id"]).await.unwrap_or_else(|fault| panic!("{method}: {fault}"));
    assert!(answer["result"].is_object(), "{method}: {answer}");
    answer["result"].clone()
}

/// Calls a tool with this text.
pub(super) async fn call(client: &mut PlayerConnection, tool: &str, text: &str) {
    let result = ask(client, "tools/call", json!({ "name": tool, "arguments": { "message": text } })).await;
    assert_ne!(result["isError"], true, "{result}");
}

/// The names of all tools.
pub(super) async fn tools(client: &mut PlayerConnection) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = ask(client, "tools/list", params).await;
        names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::Null => return names,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
}

impl Person {
    pub(super) async fn refresh(&mut self, app: &mut ConnectedApp) {
        let fields = [("grant_type", "refresh_token"), ("client_id", &*app.client), ("refresh_token", &*app.refresh)];
        let answer = self.post("/oauth/token", &fields).await;
        let tokens: Value = serde_json::from_str(&answer.body).unwrap();
        tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("{tokens}")).clone_into(&mut app.refresh);
    }
}
