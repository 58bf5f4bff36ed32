//! The gateway and its servers.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use lockkeeper::{
    config::Config,
    mcp::{Era, Revision},
};
use reqwest::Client;
use serde_json::Value;

use super::{
    Pair,
    gateways::{Gateways, Place},
    peer::Door,
};
use crate::support::{data_folder::DataFolder, python, strict};

const LEGACY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/matrix/server.py");
/// Puts a server on stdio behind another transport.
const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bridge.py");
/// The line of a server that one of several gateways runs for all.
pub(super) const HOME: &str = "home = \"one\"\n";
const MODERN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/matrix/modern.py");

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
    folder: DataFolder,
    place: Place,
    /// True if servers may get messages that only those of the other era understand.
    probes: bool,
    /// Ended with the test.
    _servers: Vec<Server>,
}

/// A gateway in this process, or several that are as one.
pub(super) struct World {
    pub(super) site: Site,
    pub(super) key: String,
    http: Client,
    /// With the servers of all gateways.
    config: Config,
    gateways: Gateways,
}

/// A process that ends with the test.
struct Server(Child);

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

    fn script(version: Revision) -> &'static str {
        if version.era() == Era::Modern { MODERN } else { LEGACY }
    }

    /// The same server with a suffix to its name and another line in its section.
    pub(super) fn with(self, end: &str, option: &str) -> Self {
        Self { name: format!("{}-{end}", self.name), options: format!("{}{option}\n", self.options), ..self }
    }
}

// === impl Server ===

impl Server {
    /// Starts a server over HTTP; returns it with its URL.
    fn over_http(version: Revision, received: &Path) -> (Self, String) {
        let arguments = [Behind::script(version), "http", "0", received.to_str().unwrap(), version.as_str()];
        let (server, port) = Self::start(&arguments);
        (server, format!("http://127.0.0.1:{port}/mcp"))
    }

    /// Starts servers on stdio behind another transport; returns their URL.
    fn bridged(transport: &str, stdio: &[&str], socket: &Path) -> (Self, String) {
        let address = if transport == "unix" { socket.to_str().unwrap() } else { "0" };
        let (server, name) = Self::start(&[&[BRIDGE, transport, address], &*python::words(stdio)].concat());
        let url = match transport {
            "unix" => format!("unix:{name}"),
            "sse" => format!("http://127.0.0.1:{name}/sse"),
            _ => format!("ws://127.0.0.1:{name}/mcp"),
        };
        (server, url)
    }

    /// Starts a script; returns it with the first line that it prints.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut child = python::command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Self(child), line.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Site ===

impl Site {
    /// Starts the servers over HTTP, and writes the configuration; `limits` are lines of that section.
    pub(super) fn new(limits: &str, behind: &[Behind]) -> Self {
        let folder = DataFolder::new();
        let received = folder.path().join("received");
        fs::create_dir(&received).unwrap();
        let mut text = format!("[limits]\n{limits}\n");
        let mut servers = Vec::new();
        for Behind { name, transport, version, era, options, .. } in behind {
            writeln!(text, "[servers.{name}]\nera = \"{era}\"\n{options}").unwrap();
            let stdio = [Behind::script(*version), "stdio", received.to_str().unwrap(), version.as_str()];
            let (server, url) = match *transport {
                "stdio" => {
                    // a client has one process, and another would be started for one to come
                    text += &(python::lines(&stdio) + "spares = 0\n");
                    continue;
                }
                "http" => Server::over_http(*version, &received),
                channel => Server::bridged(channel, &stdio, &folder.path().join(format!("{name}.sock"))),
            };
            servers.push(server);
            writeln!(text, "url = {url:?}").unwrap();
        }
        fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let probes = behind.iter().any(|one| one.era == "auto");
        let place = Place::new(folder.path());
        Self { folder, place, probes, _servers: servers }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Validates every message that a server got against the schema of its version.
    pub(super) fn servers_got_what_their_schema_takes(&self) {
        let mut count = 0;
        for file in fs::read_dir(self.folder().join("received")).unwrap() {
            let path = file.unwrap().path();
            let (version, _) = path.file_name().unwrap().to_str().unwrap().split_once(' ').unwrap();
            let version = Revision::parse(version).unwrap();
            for line in fs::read_to_string(&path).unwrap().lines() {
                let received: Value = serde_json::from_str(line).unwrap();
                if self.probes && received["fault"] == "there is no handshake" {
                    // it comes first, to a server of unknown era
                    continue;
                }
                assert_eq!(received.get("fault"), None, "{}", path.display());
                if received.get("message").is_none() {
                    continue;
                }
                let (question, message) = (received["question"].as_str(), &received["message"]);
                assert!(question.is_some() || message.get("method").is_some(), "nobody asked for {message}");
                let version = match message["method"].as_str() {
                    Some("server/discover") if self.probes => Revision::V2026_07_28,
                    Some("initialize") if self.probes && version.era() == Era::Modern => Revision::NEWEST_LEGACY,
                    _ => version,
                };
                strict::to_server(version, question, message)
                    .unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
                count += 1;
            }
        }
        assert!(count > 0, "nothing was received");
    }

    /// A key of `user`. The gateways must run.
    pub(super) fn key(&self, user: &str) -> String {
        key(&self.place.data(0), self.place.environment(), user)
    }
}

/// A direct key of `user`, created as an operator does. The gateway on `data` must have run once.
pub(crate) fn key(data: &Path, variables: Vec<(&'static str, String)>, user: &str) -> String {
    let made = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["keys", "create", "matrix", "--user", user, "--direct", "--json", "--data-dir"])
        .arg(data)
        .envs(variables)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&made.stdout);
    let made: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{made:?}"));
    made["secret"].as_str().or_else(|| made["key"].as_str()).unwrap().to_owned()
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
        let config = site.place.config(0, "127.0.0.1:0".to_owned(), None, "");
        let key = site.key("ann");
        let http = Client::builder().no_proxy().build().unwrap();
        Self { site, key, http, config, gateways }
    }

    /// The endpoint of one of its servers, with the first key.
    pub(super) fn door<'a>(&'a self, backend: &'a str) -> Door<'a> {
        Door { http: &self.http, url: &self.gateways.url, key: &self.key, backend, config: &self.config }
    }

    pub(super) async fn stop(self) {
        self.gateways.stop().await;
        self.site.servers_got_what_their_schema_takes();
    }
}
