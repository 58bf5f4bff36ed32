//! A test's gateway: the whole application in this process, on real sockets, with a real database; and its operator's
//! commands.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use lockkeeper::{
    app::{App, FirstAccess, FirstAccessForm},
    config::{self, CommandLineOptions, Config, Environment},
    support::Secret,
    telemetry::Telemetry,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
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

/// A gateway as a process. Dropping it kills it.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) url: String,
}

// === impl Gateway ===

impl Gateway {
    /// The gateway with its configuration file and data in this folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::of(configuration((folder, folder), &environment(), CommandLineOptions::default())).await
    }

    pub(crate) async fn of(config: Config) -> Self {
        let built = Box::pin(App::build(config, Telemetry::detached()));
        let app = in_time("the start of a gateway", built).await.unwrap();
        let first_key = match app.first_access(FirstAccessForm::Key).await.unwrap() {
            Some(FirstAccess::Key(key)) => Some(key),
            _ => None,
        };
        let (url, stop) = (app.public_url().to_string(), CancellationToken::new());
        let mut served = JoinSet::new();
        served.spawn(app.serve(stop.clone().cancelled_owned()));
        Self { url, first_key, stop, served }
    }

    /// Signals it to stop.
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

// === impl Program ===

impl Program {
    /// Starts it in this folder, with its data in `data`, and waits until it listens.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[], Stdio::null())
    }

    /// The same with these options and this reader of its log.
    pub(crate) fn start_with(folder: &Path, options: &[&str], log: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["serve", "--data-dir", "data"]).args(options).current_dir(folder).stderr(log);
        Self::run(command)
    }

    /// Runs a command that serves, on its own port.
    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("/mcp") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        let url = said.split_whitespace().find_map(|word| word.strip_suffix("/mcp")).unwrap().to_owned();
        Self { child, url }
    }

    pub(crate) fn hang_up(&self) {
        self.send(Signal::SIGHUP);
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The configuration in the first folder, for a gateway with its data in the second. Its port is its own unless another
/// is `given`.
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

/// The environment variables of a gateway.
#[expect(clippy::disallowed_methods, reason = "the test stands for `main` here")]
pub(crate) fn environment() -> Vec<(&'static str, String)> {
    vec![("PATH", std::env::var("PATH").unwrap_or_default()), ("HOME", "/tmp".to_owned())]
}

/// A key with these options, created the way an operator does. The gateway on `data` must have run once.
pub(crate) fn make_key(data: &Path, options: &[&str], variables: &[(&'static str, String)]) -> String {
    let mut create = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    create.args(["keys", "create", "test"]).args(options).args(["--json", "--data-dir"]).arg(data);
    let output = create.envs(variables.iter().map(|(name, value)| (name, value))).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    made["secret"].as_str().unwrap().to_owned()
}

/// Runs an operator command; returns its output.
pub(crate) fn run(data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(arguments).arg("--data-dir").arg(data).output().unwrap();
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
