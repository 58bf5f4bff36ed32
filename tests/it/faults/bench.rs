//! A sick server and a fine one behind a gateway, with what a client and an operator see of them. Knows nothing of
//! faults.

use std::{fs, sync::Arc, time::Duration};

use lockkeeper::{
    app::stack::Stacks,
    backend::Supervisor,
    gateway::Gateway,
    layers::TaskOwnerDeps,
    mcp::{Method, Outcome},
    model::{BackendId, BackendSpec, EraChoice, Requester, SessionId, Share, TransportSpec, status::BackendStatus},
    support::SystemClock,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::sick::Sick;
use crate::{
    backend::scripted_servers::{SOON, hold_time, pass, start, until},
    gateway::script::{Client, gateway},
    kit::carriers::{Carrier, Hosted},
};

/// Silence in a call after which it fails.
pub(super) const SILENCE: Duration = Duration::from_secs(50);

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
    /// Lets the sick server answer a call that is late.
    pub(super) late: CancellationToken,
    servers: Vec<Hosted>,
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

    const fn carrier(self) -> Carrier {
        match self {
            Self::Stdio | Self::ModernStdio => Carrier::Stdio,
            Self::Sse => Carrier::Sse,
            Self::WebSocket | Self::ModernWebSocket => Carrier::WebSocket,
            Self::Unix | Self::ModernUnix => Carrier::Unix,
            Self::Http | Self::ModernHttp => Carrier::Http,
        }
    }

    /// A server with this mode that is reached this way.
    fn to_script(self, mode: &str, (folder, late): (&TempDir, &CancellationToken)) -> Hosted {
        let file = folder.path().join("grandchild").display().to_string();
        let at_end = match mode {
            "leaves grandchildren" => format!("sleep 1000 & echo $! >{file}"),
            "leaves a daemon" => "setsid sleep 20 &".to_owned(),
            _ => String::new(),
        };
        let sick = Sick::new(mode, self.era() == EraChoice::Modern, (at_end, late.clone()));
        Hosted::start(self.carrier(), Arc::new(sick))
    }
}

// === impl Bench ===

impl Bench {
    /// Starts both servers.
    pub(super) async fn start(way: Way, mode: &str, metrics: PrometheusHandle) -> Self {
        let folder = TempDir::new().unwrap();
        let late = CancellationToken::new();
        let server = way.to_script(mode, (&folder, &late));
        // in this mode alone it passes
        let start_timeout = if mode == "never answers the handshake" { Duration::from_secs(1) } else { SOON };
        let sick =
            BackendSpec { start_timeout, call_timeout: SILENCE, era: way.era(), ..legacy("sick", server.transport()) };
        let mut bench = Self { late, ..Self::beside(sick, (folder, metrics)) };
        bench.servers.push(server);
        bench.settle().await;
        bench
    }

    /// Starts both servers, of which the sick one is shared so.
    pub(super) async fn start_shared(way: Way, mode: &str, share: Share) -> Self {
        let (folder, late) = (TempDir::new().unwrap(), CancellationToken::new());
        let server = way.to_script(mode, (&folder, &late));
        let sick = BackendSpec {
            start_timeout: SOON,
            call_timeout: SILENCE,
            era: way.era(),
            share,
            ..legacy("sick", server.transport())
        };
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let mut bench = Self { late, ..Self::beside(sick, (folder, metrics)) };
        bench.servers.push(server);
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
        let late = CancellationToken::new();
        let server = Way::Stdio.to_script("none", (&folder, &late));
        let fine = legacy("fine", server.transport());
        let specs = vec![sick, fine];
        let supervisor = start(specs.clone());
        let quiet = |spec: BackendSpec| BackendSpec { heartbeat: None, ..spec };
        let task_owners = TaskOwnerDeps { store: None, clock: Arc::new(SystemClock) };
        let stacks = Stacks::new(task_owners, TaskTracker::new(), CancellationToken::new());
        let mounts = supervisor.servers().into_iter().zip(specs);
        let mounts = mounts.map(|(server, spec)| stacks.around_server(&quiet(spec), server, None)).collect();
        Self { gateway: gateway(mounts), supervisor, folder, metrics, late, servers: vec![server] }
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
        let sick = BackendId::parse("sick").unwrap();
        status.offers(self.gateway.counts(&sick), self.gateway.no_tools(&sick));
        status.warnings.extend(self.gateway.warnings(&sick));
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
