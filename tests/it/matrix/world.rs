//! The gateway and the servers behind it.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use lockkeeper::{
    app::App,
    config::{self, Environment, Given},
    mcp::Revision,
    telemetry::Telemetry,
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinSet};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/matrix/server.py");

/// The gateway with a server of each version on each transport.
pub(super) struct World {
    pub(super) url: String,
    pub(super) key: String,
    stop: oneshot::Sender<()>,
    served: JoinSet<anyhow::Result<()>>,
    servers: Vec<Server>,
    _folder: TempDir,
}

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on HTTP, and its port.
fn over_http(version: Revision) -> (Server, u16) {
    let mut child =
        Command::new("python3").args([SCRIPT, "http", "0", version.as_str()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Server(child), line.trim().parse().unwrap())
}

/// A key that is let in as it is, made as an operator makes it.
fn direct_key(data: &Path) -> String {
    let made = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["keys", "create", "matrix", "--direct", "--json", "--data-dir"])
        .arg(data)
        .output()
        .unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    made["secret"].as_str().or_else(|| made["key"].as_str()).unwrap().to_owned()
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "the test stands for `main` here")]
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "[limits]\nquestion_timeout = \"6s\"\n".to_owned();
        let mut servers = Vec::new();
        for version in Revision::LEGACY {
            let (server, port) = over_http(version);
            servers.push(server);
            write!(
                text,
                "[backends.stdio-{version}]\ncommand = \"python3\"\nargs = [\"{SCRIPT}\", \"stdio\", \"{version}\"]\n\
                 [backends.http-{version}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
            )
            .unwrap();
        }
        std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let given = Given {
            listen: Some("127.0.0.1:0".to_owned()),
            data_dir: Some(folder.path().join("data")),
            ..Given::default()
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let environment: Environment = [("PATH", path.as_str()), ("HOME", "/tmp")].into_iter().collect();
        let config = config::load(&given, &environment, folder.path()).unwrap();
        let app = Box::pin(App::build(config, Telemetry::detached().unwrap())).await.unwrap();
        let url = app.public_url().to_string();
        let key = direct_key(&folder.path().join("data"));
        let (stop, stopped) = oneshot::channel();
        let mut served = JoinSet::new();
        served.spawn(app.serve(async {
            let _ = stopped.await;
        }));
        Self { url, key, stop, served, servers, _folder: folder }
    }

    pub(super) async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.served.join_next().await.unwrap().unwrap().unwrap();
        drop(self.servers);
    }
}
