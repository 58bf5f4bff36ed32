//! The whole gateway on real sockets, with the scripted servers of some vectors.

use std::{collections::HashMap, fmt::Write as _, fs};

use lockkeeper::{
    app::App,
    config::{self, CommandLineOptions, Config, Environment},
    telemetry::Telemetry,
};
use tokio::{
    sync::{mpsc::UnboundedReceiver, oneshot},
    task::JoinSet,
};

use super::{
    plan::Plan,
    servers::{BRIDGE, Came, Servers},
};
use crate::{
    matrix::world,
    support::{data_folder::DataFolder, python},
};

/// The name of the client with the strict profile.
pub(super) const STRICT: &str = "cli-strict";

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Http,
    Stdio,
    /// Unreachable.
    Nowhere,
}

/// A server of the gateway.
pub(super) struct Behind {
    pub(super) name: String,
    pub(super) transport: Transport,
    pub(super) plan: Plan,
}

/// A running gateway.
pub(super) struct Stage {
    pub(super) url: String,
    pub(super) key: String,
    pub(super) config: Config,
    /// The messages that each server got.
    pub(super) came: HashMap<String, UnboundedReceiver<Came>>,
    _servers: Servers,
    _folder: DataFolder,
    stop: oneshot::Sender<()>,
    served: JoinSet<anyhow::Result<()>>,
}

impl Stage {
    pub(super) async fn before(behind: Vec<Behind>) -> Self {
        Self::set(behind, "", "").await
    }

    /// Starts the gateway with further limits and this section of HTTP.
    #[expect(clippy::disallowed_methods, reason = "the test stands for `main` here")]
    pub(super) async fn set(behind: Vec<Behind>, limits: &str, http: &str) -> Self {
        let places: Vec<(String, Transport)> = behind.iter().map(|one| (one.name.clone(), one.transport)).collect();
        let plans = behind.into_iter().map(|one| (one.name, one.plan)).collect();
        let (servers, came) = Servers::start(plans).await;
        let folder = DataFolder::new();
        fs::write(folder.path().join("lockkeeper.toml"), configuration(&servers, &places, limits) + http).unwrap();
        let data_dir = Some(folder.path().join("data"));
        let given =
            CommandLineOptions { listen: Some("127.0.0.1:0".to_owned()), data_dir, ..CommandLineOptions::default() };
        let path = std::env::var("PATH").unwrap_or_default();
        let environment: Environment = [("PATH", path.as_str()), ("HOME", "/tmp")].into_iter().collect();
        let config = config::load(&given, &environment, folder.path()).unwrap();
        let app = Box::pin(App::build(config.clone(), Telemetry::detached().unwrap())).await.unwrap();
        let (url, key) = (app.public_url().to_string(), world::key(&folder.path().join("data"), Vec::new(), "ann"));
        let (stop, stopped) = oneshot::channel();
        let mut served = JoinSet::new();
        served.spawn(app.serve(async {
            let _ = stopped.await;
        }));
        Self { url, key, config, came, _servers: servers, _folder: folder, stop, served }
    }

    pub(super) async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.served.join_next().await.unwrap().unwrap().unwrap();
    }
}

fn configuration(servers: &Servers, places: &[(String, Transport)], limits: &str) -> String {
    let mut text = format!(
        "limits = {{ shutdown = \"0s\", sessions_per_caller = 1000{limits} }}\nclients.{STRICT}.profile = \"strict\"\n"
    );
    for (name, transport) in places {
        let way = match transport {
            Transport::Http => format!("url = \"http://127.0.0.1:{}/{name}\"", servers.http),
            Transport::Nowhere => "url = \"http://127.0.0.1:1/\"".to_owned(),
            Transport::Stdio => python::lines(&["-c", BRIDGE, &servers.lines.to_string(), name]),
        };
        writeln!(text, "[servers.{name}]\n{way}").unwrap();
    }
    text
}
