//! The gateway and its servers.

use std::{fmt::Write as _, fs, sync::Arc};

use lockkeeper::{
    config::Config,
    mcp::{Era, Revision},
};
use reqwest::Client;
use serde_json::Value;

use super::{
    Pair,
    gateways::{Gateways, Place, replicas},
};
use crate::{
    kit::{
        carriers::{Carrier, Hosted},
        gateway::make_key,
        player::Door,
        record::{Entry, Page, Record},
        scripted::ScriptedServer,
    },
    support::{data_folder::DataFolder, strict},
};

/// The line of a server that one of several gateways runs for all.
pub(super) const HOME: &str = "home = \"one\"\n";

/// A server of the gateway.
#[derive(Debug, Clone)]
pub(super) struct Behind {
    pub(super) name: String,
    pub(super) transport: &'static str,
    pub(super) version: Revision,
    /// Its configured era, or `auto`.
    pub(super) era: &'static str,
    /// Further lines of its section.
    pub(super) options: String,
    pub(super) served_on: ServedOn,
}

/// The gateway that has a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedOn {
    /// The one in this process, which every other binding reaches.
    Network,
    /// A gateway of the client's own.
    Pipes,
}

/// Servers, configuration and data of a gateway, running or not.
pub(super) struct Site {
    _folder: DataFolder,
    place: Place,
    /// True if servers may get messages that only those of the other era understand.
    probes: bool,
    /// What the servers received.
    record: Arc<Record>,
    /// Ended with the test.
    _servers: Vec<Hosted>,
}

/// A gateway in this process, or several that are as one.
pub(super) struct World {
    pub(super) site: Site,
    pub(super) key: String,
    http: Client,
    /// With the servers of all gateways.
    config: Arc<Config>,
    gateways: Gateways,
}

// === impl Behind ===

impl Behind {
    /// A server without further options, named after its version.
    pub(super) fn new(transport: &'static str, version: Revision) -> Self {
        let era = if version.era() == Era::Modern { "modern" } else { "legacy" };
        Self {
            name: format!("{transport}-{version}"),
            transport,
            version,
            era,
            options: String::new(),
            served_on: ServedOn::Network,
        }
    }

    /// The same server with an era that the gateway has to detect.
    pub(super) fn of_unknown_era(self) -> Self {
        Self { era: "auto", ..self }
    }

    /// The same server with a suffix to its name and another line in its section.
    pub(super) fn with(self, end: &str, option: &str) -> Self {
        Self { name: format!("{}-{end}", self.name), options: format!("{}{option}\n", self.options), ..self }
    }
}

// === impl Site ===

impl Site {
    /// Starts the servers, and writes the configuration; `limits` are lines of that section.
    pub(super) fn new(limits: &str, behind: &[Behind]) -> Self {
        let folder = DataFolder::new();
        let record = Arc::<Record>::default();
        let mut text = format!("[limits]\n{limits}\n");
        let mut servers = Vec::new();
        for Behind { name, transport, version, era, options, .. } in behind {
            let scripted = ScriptedServer::new(*version, Arc::clone(&record), replicas());
            let server = Hosted::start(Carrier::named(transport), Arc::new(scripted));
            writeln!(text, "[servers.{name}]\nera = \"{era}\"\n{options}{}", server.lines()).unwrap();
            if *transport == "stdio" {
                // a client has one process, and another would be started for one to come
                text += "spares = 0\n";
            }
            servers.push(server);
        }
        fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let probes = behind.iter().any(|one| one.era == "auto");
        let place = Place::new(folder.path());
        Self { _folder: folder, place, probes, record, _servers: servers }
    }

    /// Validates every message that a server got against the schema of its version.
    pub(super) fn servers_got_what_their_schema_takes(&self) {
        let mut count = 0;
        for Page { version, entries } in self.record.pages() {
            for entry in entries {
                match entry {
                    // it comes first, to a server of unknown era
                    Entry::Fault(fault) if self.probes && fault == "there is no handshake" => {}
                    Entry::Fault(fault) => panic!("a server of {version}: {fault}"),
                    Entry::Received { question, message } => {
                        self.is_valid(version, question.as_deref(), &message);
                        count += 1;
                    }
                    Entry::Closed(_) | Entry::Noted { .. } => {}
                }
            }
        }
        assert!(count > 0, "nothing was received");
    }

    fn is_valid(&self, version: Revision, question: Option<&str>, message: &Value) {
        assert!(question.is_some() || message.get("method").is_some(), "nobody asked for {message}");
        let version = match message["method"].as_str() {
            Some("server/discover") if self.probes => Revision::V2026_07_28,
            Some("initialize") if self.probes && version.era() == Era::Modern => Revision::NEWEST_LEGACY,
            _ => version,
        };
        strict::to_server(version, question, message).unwrap_or_else(|fault| panic!("a server of {version}: {fault}"));
    }

    /// A key of `user`. The gateways must run.
    pub(super) fn key(&self, user: &str) -> String {
        make_key(&self.place.data(0), &["--user", user, "--direct"], &self.place.environment())
    }
}

// === impl World ===

impl World {
    /// The servers of these pairs; `limits` are lines of that section.
    pub(super) async fn start(limits: &str, pairs: &[Pair]) -> Self {
        let mut behind: Vec<Behind> = Vec::new();
        for pair in pairs {
            let name = pair.backend();
            if behind.iter().all(|known| known.name != name) {
                let options = if pair.has_home() { HOME.to_owned() } else { String::new() };
                let served_on = pair.served_on();
                behind.push(Behind { name, options, served_on, ..Behind::new(pair.transport, pair.server) });
            }
        }
        Self::of(limits, &behind).await
    }

    pub(super) async fn of(limits: &str, behind: &[Behind]) -> Self {
        let mut site = Site::new(limits, behind);
        site.place = site.place.shared().await;
        let is_here = |name: &str| behind.iter().any(|one| one.name == name && one.served_on == ServedOn::Network);
        let gateways =
            Gateways::start(&site.place, |config| config.backends.retain(|backend| is_here(backend.id.as_str()))).await;
        let config = Arc::new(site.place.config(0, "127.0.0.1:0".to_owned(), None, ""));
        let key = site.key("ann");
        let http = Client::builder().no_proxy().build().unwrap();
        Self { site, key, http, config, gateways }
    }

    /// The endpoint of one of its servers, with the first key.
    pub(super) fn door(&self, backend: &str) -> Door {
        Door {
            http: self.http.clone(),
            url: self.gateways.url.clone(),
            key: self.key.clone(),
            path: format!("/{backend}"),
            config: Some(Arc::clone(&self.config)),
        }
    }

    pub(super) async fn stop(self) {
        self.gateways.stop().await;
        self.site.servers_got_what_their_schema_takes();
    }
}
