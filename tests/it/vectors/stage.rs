//! The whole gateway on real sockets, with the scripted servers of some vectors.

use std::{collections::HashMap, fmt::Write as _, fs, sync::Arc};

use lockkeeper::config::{CommandLineOptions, Config};
use reqwest::Client;
use tokio::sync::mpsc::UnboundedReceiver;

use super::plan::Plan;
use crate::{
    kit::{
        carriers::{Carrier, Hosted},
        gateway::{Gateway, configuration, environment, make_key},
        player::Door,
        prescribed::{Came, PrescribedServer},
    },
    support::data_folder::DataFolder,
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
    gateway: Gateway,
    key: String,
    http: Client,
    config: Arc<Config>,
    /// The messages that each server got.
    pub(super) came: HashMap<String, UnboundedReceiver<Came>>,
    _servers: Vec<Hosted>,
    _folder: DataFolder,
}

impl Stage {
    pub(super) async fn before(behind: Vec<Behind>) -> Self {
        Self::set(behind, "", "").await
    }

    /// Starts the gateway with further limits and this section of HTTP.
    pub(super) async fn set(behind: Vec<Behind>, limits: &str, http: &str) -> Self {
        let (mut came, mut servers) = (HashMap::new(), Vec::new());
        let folder = DataFolder::new();
        let mut text = format!(
            "limits = {{ shutdown = \"0s\", sessions_per_user = 1000{limits} }}\nclients.{STRICT}.profile = \"strict\"\n"
        );
        for Behind { name, transport, plan } in behind {
            let keeping = plan.keeping(transport == Transport::Stdio);
            let (server, received) = PrescribedServer::new(keeping, move |message| plan.respond(message));
            let way = match transport {
                Transport::Nowhere => "url = \"http://127.0.0.1:1/\"".to_owned(),
                Transport::Http | Transport::Stdio => {
                    let carrier = if transport == Transport::Stdio { Carrier::Stdio } else { Carrier::Http };
                    let hosted = Hosted::start(carrier, Arc::new(server));
                    let lines = hosted.lines();
                    servers.push(hosted);
                    lines
                }
            };
            writeln!(text, "[servers.{name}]\n{way}").unwrap();
            came.insert(name, received);
        }
        fs::write(folder.path().join("lockkeeper.toml"), text + http).unwrap();
        let data = folder.path().join("data");
        let config = configuration((folder.path(), &data), &environment(), CommandLineOptions::default());
        let gateway = Gateway::of(config.clone()).await;
        let key = make_key(&data, &["--user", "ann", "--direct"], &[]);
        let (http, config) = (Client::builder().no_proxy().build().unwrap(), Arc::new(config));
        Self { gateway, key, http, config, came, _servers: servers, _folder: folder }
    }

    /// The endpoint at this path.
    pub(super) fn door(&self, path: String) -> Door {
        let (http, url, key) = (self.http.clone(), self.gateway.url.clone(), self.key.clone());
        Door { http, url, key, path, config: Some(Arc::clone(&self.config)) }
    }

    pub(super) async fn stop(self) {
        self.gateway.stop().await;
    }
}
