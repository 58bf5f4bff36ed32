//! The compared ways to a backend, and the processes along them.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    channel::Channel,
    client::{Connection, Endpoint},
    floor::TOOL_PREFIX,
    load::{self, Batch, Work},
    peers::Era,
    process::{Gateway, Process, START, children, cpu_time, free_port, this_program},
    secure::Certificate,
    servers::{Server, Servers},
};

/// Debian's path.
const NGINX: &str = "/usr/sbin/nginx";
/// Number of its serving processes.
const NGINX_WORKERS: usize = 2;

/// The ways used as a baseline.
pub(crate) const DIRECT_WAY: &str = "directly";
pub(crate) const NGINX_WAY: &str = "nginx";
pub(crate) const FLOOR_WAY: &str = "floor";

/// Every kind of work.
const ALL: [Work; 4] = [Work::Small, Work::Large, Work::Notes, Work::Session];

/// All running parts, and the ways through them. Dropping it ends them all.
pub(crate) struct Bed {
    pub(crate) ways: Vec<Way>,
    gateway: Process,
    _servers: Servers,
    _parts: Vec<Process>,
    folder: TempDir,
}

/// One way to a backend, for one kind of work.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// The processes between the client and the backend.
    between: Vec<u32>,
    backend: Backend,
    traffic: Traffic,
}

/// Process whose CPU time is the backend's.
#[derive(Clone, Copy)]
enum Backend {
    Process(u32),
    ChildrenOf(u32),
}

enum Traffic {
    Http { endpoint: Endpoint, era: Era, tool: String, connections: Vec<Connection> },
    Channel { channel: Channel, tool: String },
}

// === impl Bed ===

impl Bed {
    /// Starts the backends, nginx if it is installed, the floor and the gateway, and opens a session on each way.
    pub(crate) async fn lay(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let servers = Servers::start(folder.path()).await?;
        let (port, modern_port) = (servers.legacy.port, servers.modern.port);
        let (behind, behind_modern) = (Backend::of(&servers.legacy), Backend::of(&servers.modern));
        let mut ways = Vec::new();
        let mut parts = Vec::new();
        let plain = Endpoint::new(port, "/mcp", None)?;
        ways.extend(Way::http(DIRECT_WAY, &plain, "", (Vec::new(), behind), &ALL).await?);
        if Path::new(NGINX).exists() {
            let (nginx, listens) = start_nginx(folder.path(), port, None).await?;
            let between = [vec![nginx.id()], children(nginx.id())?].concat();
            let endpoint = Endpoint::new(listens, "/mcp", None)?;
            ways.extend(Way::http(NGINX_WAY, &endpoint, "", (between, behind), &ALL).await?);
            parts.push(nginx);
        }
        let floor = Server::start(folder.path(), "floor", &[&port.to_string()]).await?;
        let endpoint = Endpoint::new(floor.port, "/mcp", None)?;
        ways.extend(Way::http(FLOOR_WAY, &endpoint, "", (vec![floor.process.id()], behind), &ALL).await?);

        let (floors, through) =
            start_reading_floors(folder.path(), [(port, behind), (modern_port, behind_modern)]).await?;
        ways.extend(through);

        let (through, secured) = tls_ways(program, folder.path(), (port, behind)).await?;
        ways.extend(through);
        parts.extend(secured);

        let (gateway, key) = start_gateway(program, folder.path(), &servers).await?;
        let between = vec![gateway.process.id()];
        let merged = Endpoint::new(gateway.port, "/mcp", Some(&key))?;
        ways.extend(merged_ways(&merged, &between, [behind, behind_modern]).await?);
        let single = Endpoint::new(gateway.port, "/mcp/fast", Some(&key))?;
        ways.extend(
            Way::http("gateway, /mcp/fast", &single, "", (between.clone(), behind), &[Work::Small, Work::Large])
                .await?,
        );
        ways.push(Way::pipes().await?);
        let children = Backend::ChildrenOf(gateway.process.id());
        let small = &[Work::Small];
        ways.extend(Way::http("stdio, gateway, /mcp", &merged, "pipe__", (between.clone(), children), small).await?);
        for (name, prefix, server) in [
            ("HTTPS server, gateway, /mcp", "secure__", &servers.secure),
            ("HTTP+SSE server, gateway, /mcp", "events__", &servers.channels),
            ("WebSocket server, gateway, /mcp", "socket__", &servers.channels),
            ("TCP server, gateway, /mcp", "lines__", &servers.lines),
        ] {
            let parties = (between.clone(), Backend::of(server));
            ways.extend(Way::http(name, &merged, prefix, parties, small).await?);
        }
        let parties = (between, behind);
        let events = Channel::sse(gateway.port, "/sse", &key).await?;
        ways.push(Way::channel("gateway, /sse", events, "fast__pass", parties.clone()).await?);
        let socket = Channel::websocket(gateway.port, "/ws", &key).await?;
        ways.push(Way::channel("gateway, /ws", socket, "fast__pass", parties).await?);
        let url = format!("http://127.0.0.1:{port}/mcp");
        let local = Channel::pipes(tokio::process::Command::new(program).args(["stdio", "--url", &url]))?;
        let parties = (vec![local.process().context("it ended at once")?], behind);
        ways.push(Way::channel("gateway on stdio", local, "pass", parties).await?);
        parts.push(floor.process);
        parts.extend(floors);
        Ok(Self { ways, gateway: gateway.process, _servers: servers, _parts: parts, folder })
    }

    /// Closes the ways, then ends the gateway as a service manager does.
    pub(crate) async fn end(self) -> Result<()> {
        drop(self.ways);
        self.gateway.end().await.with_context(|| log(self.folder.path(), "gateway.log"))
    }
}

/// Starts the reading floors: for the legacy server on this port, for the modern one, and for one on stdio; returns the
/// ways through them.
async fn start_reading_floors(
    folder: &Path,
    [(legacy, behind), (modern, behind_modern)]: [(u16, Backend); 2],
) -> Result<([Process; 3], Vec<Way>)> {
    let start = async |role: &str, options: &[&str]| {
        let Server { process, port } = Server::start(folder, role, options).await?;
        Ok::<_, anyhow::Error>((process, Endpoint::new(port, "/mcp", Some("floor"))?))
    };
    let (legacy, endpoint) = start("reading-floor", &[&legacy.to_string()]).await?;
    let parties = (vec![legacy.id()], behind);
    let works = [Work::Small, Work::Large];
    let mut ways = Way::http("reading floor, legacy", &endpoint, TOOL_PREFIX, parties, &works).await?;

    let (modern, endpoint) = start("reading-floor", &[&modern.to_string()]).await?;
    let (tool, parties) = (format!("{TOOL_PREFIX}pass"), (vec![modern.id()], behind_modern));
    ways.push(Way::modern("reading floor, modern", &endpoint, &tool, parties)?);

    let (stdio, endpoint) = start("stdio-floor", &[]).await?;
    let parties = (vec![stdio.id()], Backend::ChildrenOf(stdio.id()));
    ways.extend(Way::http("stdio, reading floor", &endpoint, TOOL_PREFIX, parties, &[Work::Small]).await?);
    Ok(([legacy, modern, stdio], ways))
}

/// The ways through `/mcp` from a client of each era to a server of each.
async fn merged_ways(merged: &Endpoint, between: &[u32], [legacy, modern]: [Backend; 2]) -> Result<Vec<Way>> {
    let (to_legacy, to_modern) = ((between.to_vec(), legacy), (between.to_vec(), modern));
    let mut ways = Way::http("gateway, /mcp, legacy", merged, "fast__", to_legacy.clone(), &ALL).await?;
    ways.push(Way::modern("gateway, /mcp, modern", merged, "modern__pass", to_modern.clone())?);
    ways.extend(Way::http("gateway, /mcp, legacy to modern", merged, "modern__", to_modern, &[Work::Small]).await?);
    ways.push(Way::modern("gateway, /mcp, modern to legacy", merged, "fast__pass", to_legacy)?);
    Ok(ways)
}

/// nginx and another gateway, both with TLS in front of the legacy server on this port, and the ways through them.
async fn tls_ways(
    program: &Path,
    folder: &Path,
    (backend, behind): (u16, Backend),
) -> Result<(Vec<Way>, Vec<Process>)> {
    let folder = folder.join("tls");
    fs::create_dir(&folder)?;
    let certificate = Certificate::make(&folder)?;
    let (mut ways, mut parts) = (Vec::new(), Vec::new());
    if Path::new(NGINX).exists() {
        let (nginx, port) = start_nginx(&folder, backend, Some(&certificate)).await?;
        let between = [vec![nginx.id()], children(nginx.id())?].concat();
        let endpoint = Endpoint::new(port, "/mcp", None)?.over(certificate.trusting()?);
        ways.extend(Way::http(NGINX_WAY, &endpoint, "", (between, behind), &[Work::Tls]).await?);
        parts.push(nginx);
    }
    let config = format!(
        "[tls]\ncert_file = '{}'\nkey_file = '{}'\nhttp_listen = \"127.0.0.1:{}\"\n\
         [servers.fast]\nurl = \"http://127.0.0.1:{backend}/mcp\"\n",
        certificate.pem.display(),
        certificate.key.display(),
        free_port()?
    );
    fs::write(folder.join("lockkeeper.toml"), config)?;
    let mut gateway = Gateway::start(program, &folder)?;
    let healthz = Endpoint::new(gateway.port, "/healthz", None)?.over(certificate.trusting()?);
    gateway.answering_at(&healthz).await.with_context(|| log(&folder, "gateway.log"))?;
    let key = Gateway::create_key(program, &folder)?;
    let endpoint = Endpoint::new(gateway.port, "/mcp", Some(&key))?.over(certificate.trusting()?);
    let between = vec![gateway.process.id()];
    ways.extend(Way::http("gateway, /mcp, legacy", &endpoint, "fast__", (between, behind), &[Work::Tls]).await?);
    parts.push(gateway.process);
    Ok((ways, parts))
}

async fn start_gateway(program: &Path, folder: &Path, servers: &Servers) -> Result<(Gateway, String)> {
    fs::write(folder.join("lockkeeper.toml"), servers.config()?)?;
    let mut gateway = Gateway::start(program, folder)?;
    gateway.answering().await.with_context(|| log(folder, "gateway.log"))?;
    let key = Gateway::create_key(program, folder)?;
    Ok((gateway, key))
}

async fn start_nginx(folder: &Path, backend: u16, tls: Option<&Certificate>) -> Result<(Process, u16)> {
    let port = free_port()?;
    let (config, own) = (folder.join("nginx.conf"), folder.display());
    let text = include_str!("nginx.conf");
    let text = text.replace("@FOLDER@", &own.to_string()).replace("@WORKERS@", &NGINX_WORKERS.to_string());
    let tls = tls.map_or_else(String::new, |tls| {
        format!(" ssl; ssl_certificate {}; ssl_certificate_key {}", tls.pem.display(), tls.key.display())
    });
    let text = text.replace("@TLS@", &tls);
    fs::write(&config, text.replace("@PORT@", &port.to_string()).replace("@BACKEND@", &backend.to_string()))?;
    let mut command = Command::new(NGINX);
    command.arg("-p").arg(folder).arg("-e").arg(folder.join("nginx.log")).arg("-c").arg(&config);
    let mut nginx = Process::start(&mut command, &folder.join("nginx.log"))?;
    nginx.listening(port).await.with_context(|| log(folder, "nginx.log"))?;
    // the workers, whose time counts, start a moment after the port opens
    let workers = async {
        while children(nginx.id()).is_ok_and(|workers| workers.len() < NGINX_WORKERS) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(START, workers).await.context("nginx lacks workers")?;
    Ok((nginx, port))
}

fn log(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

// === impl Backend ===

impl Backend {
    fn of(server: &Server) -> Self {
        Self::Process(server.process.id())
    }
}

// === impl Way ===

impl Way {
    /// A way of clients with a session, for each kind of work; `prefix` comes before tool names.
    async fn http(
        name: &'static str,
        endpoint: &Endpoint,
        prefix: &str,
        (between, backend): (Vec<u32>, Backend),
        works: &[Work],
    ) -> Result<Vec<Self>> {
        let mut ways = Vec::new();
        for work in works {
            let endpoint = match work {
                Work::Session => endpoint.clone(),
                _ => endpoint.with_session(&mut Connection::to(endpoint).await?).await.context(name)?,
            };
            let tool = format!("{prefix}{}", work.tool());
            let traffic = Traffic::Http { endpoint, era: Era::Legacy, tool, connections: Vec::new() };
            ways.push(Self { name, work: *work, between: between.clone(), backend, traffic });
        }
        Ok(ways)
    }

    /// A way of 2026-07-28 clients.
    fn modern(
        name: &'static str,
        endpoint: &Endpoint,
        tool: &str,
        (between, backend): (Vec<u32>, Backend),
    ) -> Result<Self> {
        let endpoint = endpoint.clone().modern(tool)?;
        let traffic = Traffic::Http { endpoint, era: Era::Modern, tool: tool.to_owned(), connections: Vec::new() };
        Ok(Self { name, work: Work::Small, between, backend, traffic })
    }

    /// A way of a client on a channel with an open session.
    async fn channel(
        name: &'static str,
        mut channel: Channel,
        tool: &str,
        (between, backend): (Vec<u32>, Backend),
    ) -> Result<Self> {
        channel.greet().await.context(name)?;
        let traffic = Traffic::Channel { channel, tool: tool.to_owned() };
        Ok(Self { name, work: Work::Small, between, backend, traffic })
    }

    async fn pipes() -> Result<Self> {
        let channel = Channel::pipes(tokio::process::Command::new(this_program()?).arg("stdio"))?;
        let backend = Backend::Process(channel.process().context("it ended at once")?);
        Self::channel("stdio, directly", channel, "pass", (Vec::new(), backend)).await
    }

    /// One batch of calls, `at_once` of them at any time.
    pub(crate) async fn run(&mut self, at_once: usize, length: Duration) -> Result<Batch> {
        if let Traffic::Http { endpoint, connections, .. } = &mut self.traffic {
            while connections.len() < at_once {
                connections.push(Connection::to(endpoint).await?);
            }
        }
        let (started, before) = (Instant::now(), self.cpu()?);
        let latencies = match &mut self.traffic {
            Traffic::Http { endpoint, era, tool, connections } => {
                load::over_http((endpoint, *era), &mut connections[..at_once], (tool, self.work), length).await?
            }
            Traffic::Channel { channel, tool } => channel.load(tool, at_once, length).await?,
        };
        let (took, after) = (started.elapsed(), self.cpu()?);
        let cpu = std::array::from_fn(|part| after[part].saturating_sub(before[part]));
        Ok(Batch { latencies, cpu, took })
    }

    /// CPU time so far of the processes in between, and of the backend.
    fn cpu(&self) -> Result<[Duration; 2]> {
        let backend = match self.backend {
            Backend::Process(id) => vec![id],
            Backend::ChildrenOf(id) => children(id)?,
        };
        let sum = |ids: &[u32]| ids.iter().map(|id| cpu_time(*id)).sum::<Result<Duration>>();
        Ok([sum(&self.between)?, sum(&backend)?])
    }
}
