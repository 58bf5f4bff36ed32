//! A sick server and a fine one behind a gateway, with what a client and an operator see of them. Knows nothing of
//! faults.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};

use lockkeeper::{
    app::stack::Stacks,
    backend::Supervisor,
    gateway::Gateway,
    layers::TaskOwnerDeps,
    mcp::{Method, Outcome},
    model::{
        BackendId, BackendSpec, EraChoice, HttpSpec, Requester, SessionId, SocketAddress, TransportSpec,
        status::BackendStatus,
    },
    support::SystemClock,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    backend::scripted_servers::{SOON, hold_time, pass, start, until},
    gateway::script::{Client, gateway},
    support::python,
};

/// Silence in a call after which it fails.
pub(super) const SILENCE: Duration = Duration::from_secs(50);
const SICK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults/sick.py");
/// Puts a server on stdio behind another transport.
const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bridge.py");
/// The same for Streamable HTTP.
const HTTP_BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults/http_bridge.py");

/// The way to the sick server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Stdio,
    Sse,
    WebSocket,
    Unix,
    Http,
    /// To a server of 2026-07-28, as the following.
    ModernStdio,
    ModernWebSocket,
    ModernUnix,
    ModernHttp,
}

/// A gateway with the servers `sick` and `fine`.
pub(super) struct Bench {
    pub(super) supervisor: Supervisor,
    pub(super) gateway: Arc<Gateway>,
    pub(super) folder: TempDir,
    metrics: PrometheusHandle,
    _bridge: Option<Bridge>,
}

/// A process that ends with the test.
struct Bridge(Child);

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Way ===

impl Way {
    const fn era(self) -> EraChoice {
        match self {
            Self::Stdio | Self::Sse | Self::WebSocket | Self::Unix | Self::Http => EraChoice::Legacy,
            Self::ModernStdio | Self::ModernWebSocket | Self::ModernUnix | Self::ModernHttp => EraChoice::Modern,
        }
    }

    /// The protocol version of the server.
    pub(super) const fn version(self) -> &'static str {
        match self.era() {
            EraChoice::Modern => "2026-07-28",
            EraChoice::Auto | EraChoice::Legacy => "2025-11-25",
        }
    }

    /// A server with this mode that is reached this way, and the process that has to live for it.
    fn to_script(self, folder: &TempDir, mode: &str) -> (TransportSpec, Option<Bridge>) {
        let mut args = vec![SICK, folder.path().to_str().unwrap(), mode];
        if self.era() == EraChoice::Modern {
            args.push("modern");
        }
        if matches!(self, Self::Stdio | Self::ModernStdio) {
            return (TransportSpec::Stdio(python::stdio(&args)), None);
        }
        let socket = folder.path().join("socket").display().to_string();
        let behind: &[&str] = match self {
            Self::Unix | Self::ModernUnix => &[BRIDGE, "unix", &socket],
            Self::WebSocket | Self::ModernWebSocket => &[BRIDGE, "ws", "0"],
            Self::Http | Self::ModernHttp => &[HTTP_BRIDGE],
            Self::Stdio | Self::ModernStdio | Self::Sse => &[BRIDGE, "sse", "0"],
        };
        let mut bridge = python::command(&[behind, &python::words(&args)].concat());
        bridge.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = bridge.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at = |url: String| HttpSpec::new(url.parse().unwrap());
        let port = line.trim();
        let transport = match self {
            Self::Unix | Self::ModernUnix => TransportSpec::Socket(SocketAddress::Unix(PathBuf::from(port))),
            Self::WebSocket | Self::ModernWebSocket => {
                TransportSpec::WebSocket(at(format!("ws://127.0.0.1:{port}/mcp")))
            }
            Self::Http | Self::ModernHttp => TransportSpec::Http(at(format!("http://127.0.0.1:{port}/mcp"))),
            Self::Stdio | Self::ModernStdio | Self::Sse => {
                TransportSpec::Sse(at(format!("http://127.0.0.1:{port}/sse")))
            }
        };
        (transport, Some(Bridge(child)))
    }
}

// === impl Bench ===

impl Bench {
    /// Starts both servers.
    pub(super) async fn start(way: Way, mode: &str, metrics: PrometheusHandle) -> Self {
        let folder = TempDir::new().unwrap();
        let (transport, bridge) = way.to_script(&folder, mode);
        // in this mode alone it passes
        let start_timeout = if mode == "never answers the handshake" { Duration::from_secs(1) } else { SOON };
        let sick = BackendSpec { start_timeout, call_timeout: SILENCE, era: way.era(), ..legacy("sick", transport) };
        let bench = Self::beside(sick, (folder, metrics));
        let bench = Self { _bridge: bridge, ..bench };
        bench.settle().await;
        bench
    }

    /// Starts both servers, and does not wait for them.
    pub(super) fn start_with(
        transport: TransportSpec,
        era: EraChoice,
        (folder, metrics): (TempDir, PrometheusHandle),
    ) -> Self {
        let sick = BackendSpec { start_timeout: SOON, call_timeout: SILENCE, era, ..legacy("sick", transport) };
        Self::beside(sick, (folder, metrics))
    }

    /// Starts both servers, and does not wait for them. A call fails after this silence.
    pub(super) fn start_silent_for(
        (transport, call_timeout): (TransportSpec, Duration),
        of: (TempDir, PrometheusHandle),
    ) -> Self {
        Self::beside(BackendSpec { call_timeout, ..legacy("sick", transport) }, of)
    }

    fn beside(sick: BackendSpec, (folder, metrics): (TempDir, PrometheusHandle)) -> Self {
        let (fine, _) = Way::Stdio.to_script(&folder, "none");
        let fine = legacy("fine", fine);
        let specs = vec![sick, fine];
        let supervisor = start(specs.clone());
        let quiet = |spec: BackendSpec| BackendSpec { heartbeat: None, ..spec };
        let task_owners = TaskOwnerDeps { store: None, clock: Arc::new(SystemClock) };
        let stacks = Stacks::new(task_owners, (TaskTracker::new(), CancellationToken::new()));
        let mounts = supervisor.servers().into_iter().zip(specs);
        let mounts = mounts.map(|(server, spec)| stacks.around_server(&quiet(spec), server, None)).collect();
        Self { gateway: gateway(mounts), supervisor, folder, metrics, _bridge: None }
    }

    /// Waits until both servers have started and been listed, or failed.
    pub(super) async fn settle(&self) {
        assert!(self.supervisor.ready(SOON).await, "a server has not settled");
        until("the lists", || self.gateway.is_listed().then_some(())).await;
    }

    /// A client session with this name.
    pub(super) fn client(&self, session: &str) -> Client {
        let mut client = Client::new(self.gateway.merged());
        client.context.requester = Requester::Session(SessionId::new(session));
        client
    }

    /// The text of the result of a tool, or the error.
    pub(super) async fn call(&self, session: &str, tool: &str) -> Result<String, String> {
        let reply = self.client(session).call(Method::ToolsCall, &format!(r#"{{"name":"{tool}"}}"#));
        match tokio::time::timeout(SOON * 5, reply.outcome()).await.map_err(|_| "no answer")? {
            Outcome::Complete(result) => {
                let result: Value = serde_json::from_slice(result.json()).unwrap();
                Ok(result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            }
            Outcome::Failed(error) => Err(format!("{} {}", error.code(), error.message())),
            Outcome::InputRequired(_) => Err("a question".to_owned()),
        }
    }

    /// Like [`Bench::call`], of a tool that stays silent, with a clock that is advanced until the call is given up.
    pub(super) async fn call_silent(&self, session: &str, tool: &str) -> Result<String, String> {
        let held = hold_time();
        let call = std::pin::pin!(self.call(session, tool));
        let passing = async {
            loop {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                pass(SILENCE).await;
            }
        };
        let ended = tokio::select! {
            ended = call => ended,
            () = passing => Err("time passes".to_owned()),
        };
        drop(held);
        ended
    }

    /// The status of the sick server.
    pub(super) fn status(&self) -> BackendStatus {
        let mut status = self.supervisor.status().remove(0);
        // as the application does
        status.warnings.extend(self.gateway.warnings(&BackendId::parse("sick").unwrap()));
        status
    }

    /// The value of a metric with these labels of the sick server; 0 if there is none.
    pub(super) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let rendered = self.metrics.render();
        let is_it = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        rendered.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The number in a file that the sick server wrote.
    pub(super) async fn number(&self, file: &str) -> i32 {
        let path = self.folder.path().join(file);
        until(file, || fs::read_to_string(&path).ok()?.lines().last()?.parse().ok()).await
    }
}

fn legacy(name: &str, transport: TransportSpec) -> BackendSpec {
    BackendSpec { era: EraChoice::Legacy, ..BackendSpec::new(BackendId::parse(name).unwrap(), transport) }
}
