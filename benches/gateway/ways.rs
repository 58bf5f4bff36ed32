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
    load::{self, Batch},
    process::{Gateway, Process, children, cpu_time, free_port, this_program},
};

/// Where Debian keeps it.
const NGINX: &str = "/usr/sbin/nginx";

/// Every part, running, and the ways through them. Dropping it ends them all.
pub(crate) struct Bed {
    pub(crate) ways: Vec<Way>,
    _parts: Vec<Process>,
    _folder: TempDir,
}

/// One way to a backend.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// What stands between the client and the backend.
    between: Vec<u32>,
    backend: Backend,
    traffic: Traffic,
}

/// Whose CPU time is the backend's.
enum Backend {
    Process(u32),
    ChildrenOf(u32),
}

enum Traffic {
    Http { endpoint: Endpoint, tool: &'static str, connections: Vec<Connection> },
    Pipes { input: ChildStdin, output: BufReader<ChildStdout>, _child: Box<tokio::process::Child> },
}

// === impl Bed ===

impl Bed {
    /// Starts the backends, nginx where it is installed, and the gateway, and opens a session on each way.
    pub(crate) async fn lay(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = Command::new(this_program()?);
        let mut backend =
            Process::start(command.args(["http", &port.to_string()]), &folder.path().join("backend.log"))?;
        backend.listening(port).await?;
        let behind = || Backend::Process(backend.id());

        let mut ways = vec![Way::http("HTTP, directly", Endpoint::new(port, "/mcp", None)?, "pass", behind()).await?];
        let mut parts = Vec::new();
        if Path::new(NGINX).exists() {
            let (nginx, listens) = start_nginx(folder.path(), port).await?;
            let between = [vec![nginx.id()], children(nginx.id())?].concat();
            let way = Way::http("HTTP, nginx", Endpoint::new(listens, "/mcp", None)?, "pass", behind()).await?;
            ways.push(Way { between, ..way });
            parts.push(nginx);
        }
        let (gateway, key) = start_gateway(program, folder.path(), port).await?;
        let between = vec![gateway.process.id()];
        let endpoint = Endpoint::new(gateway.port, "/mcp", Some(&key))?;
        let way = Way::http("HTTP, gateway", endpoint.clone(), "fast__pass", behind()).await?;
        ways.push(Way { between: between.clone(), ..way });

        ways.push(Way::pipes()?);
        let behind = Backend::ChildrenOf(gateway.process.id());
        let way = Way::http("stdio, gateway", endpoint, "pipe__pass", behind).await?;
        ways.push(Way { between, ..way });
        parts.extend([gateway.process, backend]);
        Ok(Self { ways, _parts: parts, _folder: folder })
    }
}

async fn start_gateway(program: &Path, folder: &Path, backend: u16) -> Result<(Gateway, String)> {
    let pipe = this_program()?;
    let config = format!(
        "[backends.fast]\nurl = \"http://127.0.0.1:{backend}/mcp\"\n\n[backends.pipe]\ncommand = {:?}\nargs = [\"stdio\"]\n",
        pipe.display().to_string(),
    );
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
    async fn http(name: &'static str, mut endpoint: Endpoint, tool: &'static str, backend: Backend) -> Result<Self> {
        let first = endpoint.open_session().await.context(name)?;
        let traffic = Traffic::Http { endpoint, tool, connections: vec![first] };
        Ok(Self { name, between: Vec::new(), backend, traffic })
    }

    fn pipes() -> Result<Self> {
        let mut command = tokio::process::Command::new(this_program()?);
        let mut child = command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let backend = Backend::Process(child.id().context("it ended at once")?);
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let traffic = Traffic::Pipes { input, output, _child: Box::new(child) };
        Ok(Self { name: "stdio, directly", between: Vec::new(), backend, traffic })
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
            Traffic::Http { endpoint, tool, connections } => {
                load::over_http(endpoint, &mut connections[..at_once], tool, length).await?
            }
            Traffic::Pipes { input, output, .. } => load::over_pipes((input, output), (at_once, length)).await?,
        };
        let (took, after) = (started.elapsed(), self.cpu()?);
        let cpu = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
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
