//! The ways to a backend that are compared, and the processes that they lead through.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::{
    io::BufReader,
    process::{ChildStdin, ChildStdout},
    time::Instant,
};

use crate::{
    client::{Connection, Endpoint},
    load::{self, Batch, Work},
    peers::Era,
    process::{Gateway, Process, children, cpu_time, free_port, this_program},
};

/// Where Debian keeps it.
const NGINX: &str = "/usr/sbin/nginx";

/// The ways that others are compared with.
pub(crate) const DIRECT_WAY: &str = "directly";
pub(crate) const NGINX_WAY: &str = "nginx";
pub(crate) const FLOOR_WAY: &str = "floor";

/// Every part, running, and the ways through them. Dropping it ends them all.
pub(crate) struct Bed {
    pub(crate) ways: Vec<Way>,
    _parts: Vec<Process>,
    _folder: TempDir,
}

/// One way to a backend, for one kind of work.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// What stands between the client and the backend.
    between: Vec<u32>,
    backend: Backend,
    traffic: Traffic,
}

/// Whose CPU time is the backend's.
#[derive(Clone, Copy)]
enum Backend {
    Process(u32),
    ChildrenOf(u32),
}

enum Traffic {
    Http { endpoint: Endpoint, era: Era, tool: String, connections: Vec<Connection> },
    Pipes { input: ChildStdin, output: BufReader<ChildStdout>, _child: Box<tokio::process::Child> },
}

// === impl Bed ===

impl Bed {
    /// Starts the backends, nginx if it is installed, the floor and the gateway, and opens a session on each way.
    pub(crate) async fn lay(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (legacy, port) = start_role(folder.path(), &["http"], &["legacy"]).await?;
        let (modern, modern_port) = start_role(folder.path(), &["http"], &["modern"]).await?;
        let (behind, behind_modern) = (Backend::Process(legacy.id()), Backend::Process(modern.id()));
        let mut ways = Vec::new();
        let mut parts = Vec::new();
        let all = [Work::Small, Work::Large, Work::Notes, Work::Session];
        let plain = Endpoint::new(port, "/mcp", None)?;
        ways.extend(Way::http(DIRECT_WAY, &plain, "", (Vec::new(), behind), &all).await?);
        if Path::new(NGINX).exists() {
            let (nginx, listens) = start_nginx(folder.path(), port).await?;
            let between = [vec![nginx.id()], children(nginx.id())?].concat();
            let endpoint = Endpoint::new(listens, "/mcp", None)?;
            ways.extend(Way::http(NGINX_WAY, &endpoint, "", (between, behind), &all).await?);
            parts.push(nginx);
        }
        let (floor, listens) = start_role(folder.path(), &["floor"], &[&port.to_string()]).await?;
        let endpoint = Endpoint::new(listens, "/mcp", None)?;
        ways.extend(Way::http(FLOOR_WAY, &endpoint, "", (vec![floor.id()], behind), &all).await?);

        let (gateway, key) = start_gateway(program, folder.path(), [port, modern_port]).await?;
        let between = vec![gateway.process.id()];
        let merged = Endpoint::new(gateway.port, "/mcp", Some(&key))?;
        ways.extend(Way::http("gateway, /mcp, legacy", &merged, "fast__", (between.clone(), behind), &all).await?);
        ways.push(Way::modern("gateway, /mcp, modern", &merged, "modern__pass", (between.clone(), behind_modern))?);
        let single = Endpoint::new(gateway.port, "/mcp/fast", Some(&key))?;
        ways.extend(
            Way::http("gateway, /mcp/fast", &single, "", (between.clone(), behind), &[Work::Small, Work::Large])
                .await?,
        );
        ways.push(Way::pipes()?);
        let behind = Backend::ChildrenOf(gateway.process.id());
        ways.extend(Way::http("stdio, gateway, /mcp", &merged, "pipe__", (between, behind), &[Work::Small]).await?);
        parts.extend([gateway.process, floor, legacy, modern]);
        Ok(Self { ways, _parts: parts, _folder: folder })
    }
}

/// Starts this program in a role that listens on a port.
pub(crate) async fn start_role(folder: &Path, role: &[&str], options: &[&str]) -> Result<(Process, u16)> {
    let port = free_port()?;
    let mut command = Command::new(this_program()?);
    command.args(role).arg(port.to_string()).args(options);
    let log = folder.join(format!("{}-{port}.log", role.concat()));
    let mut process = Process::start(&mut command, &log)?;
    process.listening(port).await.with_context(|| fs::read_to_string(log).unwrap_or_default())?;
    Ok((process, port))
}

async fn start_gateway(program: &Path, folder: &Path, [legacy, modern]: [u16; 2]) -> Result<(Gateway, String)> {
    let pipe = this_program()?.display().to_string();
    let http = |name: &str, port: u16| format!("[backends.{name}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n\n");
    let stdio = format!("[backends.pipe]\ncommand = {pipe:?}\nargs = [\"stdio\"]\nshare = \"session\"\n");
    let config = [http("fast", legacy), http("modern", modern), stdio].concat();
    fs::write(folder.join("lockkeeper.toml"), config)?;
    let mut gateway = Gateway::start(program, folder)?;
    gateway.answering().await.with_context(|| log(folder, "gateway.log"))?;
    let key = Gateway::create_key(program, folder)?;
    Ok((gateway, key))
}

async fn start_nginx(folder: &Path, backend: u16) -> Result<(Process, u16)> {
    let port = free_port()?;
    let (config, own) = (folder.join("nginx.conf"), folder.display());
    let text = include_str!("nginx.conf");
    let text = text.replace("@FOLDER@", &own.to_string()).replace("@PORT@", &port.to_string());
    fs::write(&config, text.replace("@BACKEND@", &backend.to_string()))?;
    let mut command = Command::new(NGINX);
    command.arg("-p").arg(folder).arg("-e").arg(folder.join("nginx.log")).arg("-c").arg(&config);
    let mut nginx = Process::start(&mut command, &folder.join("nginx.log"))?;
    nginx.listening(port).await.with_context(|| log(folder, "nginx.log"))?;
    Ok((nginx, port))
}

fn log(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

// === impl Way ===

impl Way {
    /// A way of clients with a session, for each kind of work; `prefix` stands before the names of tools.
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
                _ => endpoint.with_session(&mut Connection::open(endpoint.port).await?).await.context(name)?,
            };
            let tool = format!("{prefix}{}", work.tool());
            let traffic = Traffic::Http { endpoint, era: Era::Legacy, tool, connections: Vec::new() };
            ways.push(Self { name, work: *work, between: between.clone(), backend, traffic });
        }
        Ok(ways)
    }

    /// A way of clients of 2026-07-28.
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

    fn pipes() -> Result<Self> {
        let mut command = tokio::process::Command::new(this_program()?);
        let mut child = command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let backend = Backend::Process(child.id().context("it ended at once")?);
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let traffic = Traffic::Pipes { input, output, _child: Box::new(child) };
        Ok(Self { name: "stdio, directly", work: Work::Small, between: Vec::new(), backend, traffic })
    }

    /// One batch of calls, `at_once` of them under way at any time.
    pub(crate) async fn run(&mut self, at_once: usize, length: Duration) -> Result<Batch> {
        if let Traffic::Http { endpoint, connections, .. } = &mut self.traffic {
            while connections.len() < at_once {
                connections.push(Connection::open(endpoint.port).await?);
            }
        }
        let (started, before) = (Instant::now(), self.cpu()?);
        let latencies = match &mut self.traffic {
            Traffic::Http { endpoint, era, tool, connections } => {
                load::over_http((endpoint, *era), &mut connections[..at_once], (tool, self.work), length).await?
            }
            Traffic::Pipes { input, output, .. } => load::over_pipes((input, output), (at_once, length)).await?,
        };
        let (took, after) = (started.elapsed(), self.cpu()?);
        let cpu = std::array::from_fn(|part| after[part].saturating_sub(before[part]));
        Ok(Batch { latencies, cpu, took })
    }

    /// CPU time so far of what stands between, and of the backend.
    fn cpu(&self) -> Result<[Duration; 2]> {
        let backend = match self.backend {
            Backend::Process(id) => vec![id],
            Backend::ChildrenOf(id) => children(id)?,
        };
        let sum = |ids: &[u32]| ids.iter().map(|id| cpu_time(*id)).sum::<Result<Duration>>();
        Ok([sum(&self.between)?, sum(&backend)?])
    }
}
