//! A gateway of a test: the whole application in this process, on real sockets, with a real database; and its operator's
//! commands.

use std::{path::Path, process::Command};

use lockkeeper::{
    app::App,
    config::{self, CommandLineOptions, Config, Environment},
    support::Secret,
    telemetry::Telemetry,
};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::in_time;

/// A gateway that runs until it is stopped.
pub(crate) struct Gateway {
    pub(crate) url: String,
    pub(crate) first_key: Option<Secret>,
    stop: CancellationToken,
    served: JoinSet<anyhow::Result<()>>,
}

// === impl Gateway ===

impl Gateway {
    /// The gateway whose configuration file and whose data are in this folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::of(configuration((folder, folder), &environment(), CommandLineOptions::default())).await
    }

    pub(crate) async fn of(config: Config) -> Self {
        let built = Box::pin(App::build(config, Telemetry::detached().unwrap()));
        let mut app = in_time("the start of a gateway", built).await.unwrap();
        let (url, first_key, stop) = (app.public_url().to_string(), app.take_first_key(), CancellationToken::new());
        let mut served = JoinSet::new();
        served.spawn(app.serve(stop.clone().cancelled_owned()));
        Self { url, first_key, stop, served }
    }

    /// Tells it to stop.
    pub(crate) fn signal(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn stop(mut self) {
        self.signal();
        while let Some(served) = in_time("the end of a gateway", self.served.join_next()).await {
            served.unwrap().unwrap();
        }
    }
}

/// The configuration in the first folder, of a gateway with its data in the second, on a port of its own if no other one is
/// `given`.
pub(crate) fn configuration(
    (folder, data): (&Path, &Path),
    variables: &[(&'static str, String)],
    given: CommandLineOptions,
) -> Config {
    let listen = given.listen.or_else(|| Some("127.0.0.1:0".to_owned()));
    let given = CommandLineOptions { listen, data_dir: Some(data.to_owned()), ..given };
    let environment: Environment = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    config::load(&given, &environment, folder).unwrap()
}

/// The variables of a gateway.
#[expect(clippy::disallowed_methods, reason = "the test stands for `main` here")]
pub(crate) fn environment() -> Vec<(&'static str, String)> {
    vec![("PATH", std::env::var("PATH").unwrap_or_default()), ("HOME", "/tmp".to_owned())]
}

/// A key with these options, created as an operator does. The gateway on `data` must have run once.
pub(crate) fn make_key(data: &Path, options: &[&str], variables: &[(&'static str, String)]) -> String {
    let mut create = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    create.args(["keys", "create", "test"]).args(options).args(["--json", "--data-dir"]).arg(data);
    let output = create.envs(variables.iter().map(|(name, value)| (name, value))).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    made["secret"].as_str().or_else(|| made["key"].as_str()).unwrap().to_owned()
}

/// Runs a command of the operator; returns what it prints.
pub(crate) fn run(data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(arguments).arg("--data-dir").arg(data).output().unwrap();
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
