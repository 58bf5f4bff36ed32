//! `lockkeeper check`: is the configuration right, and does every server answer. Serves nobody.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    arguments::{self, Configuration, Form},
    failure::Failure,
    output::Style,
    process::Process,
    serve, status,
    table::{Cell, Table},
};
use crate::{
    backend::{self, Supervisor},
    config::{Config, Given},
    gateway::{self, Gateway, Mount},
    mcp::{
        Call, CancelReason, ClientInfo, Context, ErrorObject, Method, Outcome, Payload, Revision, Step,
        observer::Observer, translate::Profile,
    },
    model::{
        BackendId, BackendSpec, Caller, Requester,
        status::{BackendState, BackendStatus},
    },
    support::{Clock, OsRandom, SystemClock},
};

/// How long a server that has started may take to list what it offers.
const LISTING: Duration = Duration::from_secs(30);

/// `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    single: arguments::Single,
}

/// The backends, running for the sake of being looked at.
struct Probe {
    supervisor: Supervisor,
    gateway: Arc<Gateway>,
    cancel: CancellationToken,
}

// === impl Args ===

impl Args {
    /// Checks and prints.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let given = Given { single: self.single.given(), ..self.configuration.given() };
        let config = arguments::load(&given, process)?;
        if given.log.is_some() {
            serve::install(&config.log, process)?;
        }
        process.output.remark(&format!("configuration: {}", config.source));
        if let Some(warning) = config.proxy_warning() {
            process.output.remark(&format!("warning: {warning}"));
        }
        let probe = Probe::start(&config)?;
        let looked = tokio::select! {
            backends = probe.look(&config.backends) => Some(backends),
            _ = tokio::signal::ctrl_c() => None,
        };
        probe.end().await;
        let backends = looked.ok_or_else(|| Failure::failed("the check was interrupted"))?;
        if self.form.json {
            process.output.json(&json!({ "configuration": config.source.to_string(), "backends": backends }));
        } else {
            let text = render(&backends, process.output.out);
            process.output.print(&text);
        }
        verdict(&backends)
    }
}

// === impl Probe ===

impl Probe {
    fn start(config: &Config) -> Result<Self, Failure> {
        let cancel = CancellationToken::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let deps = backend::Deps {
            clock,
            // what is checked is how it is now
            eras: Vec::new(),
            environment: config.environment.to_strings(),
            sessions: config.limits.backend_sessions,
            slot_limits: backend::SlotLimits::default(),
            observer: Observer::none(),
            shutdown: cancel.clone(),
        };
        let supervisor = Supervisor::start(config.backends.clone(), deps)
            .map_err(|error| Failure::failed("outbound HTTP cannot be set up").why(error))?;
        let mount = |(spec, (id, server)): (&BackendSpec, (BackendId, _))| {
            let title = id.to_string();
            Mount {
                id,
                title,
                server,
                share: spec.share,
                read_only_tools: spec.read_only_tools.clone(),
                introduction: None,
            }
        };
        let mounts = config.backends.iter().zip(supervisor.servers()).map(mount).collect();
        let deps = gateway::Deps {
            random: Arc::new(OsRandom),
            // a check leaves no trace
            observer: Observer::none(),
            tracker: TaskTracker::new(),
            cancel: cancel.child_token(),
        };
        let gateway = Gateway::new(mounts, gateway::Settings::default(), deps);
        Ok(Self { supervisor, gateway, cancel })
    }

    /// How every backend is, once its first start has come to an end and it has been asked what it offers.
    async fn look(&self, specs: &[BackendSpec]) -> Vec<BackendStatus> {
        let patience = specs.iter().map(|spec| spec.start_timeout).max().unwrap_or_default();
        self.supervisor.ready(patience + Duration::from_secs(5)).await;
        let before = self.supervisor.status();
        let ready = |spec: &&BackendSpec| {
            let its = before.iter().find(|status| status.id == spec.id.as_str());
            its.is_some_and(|status| status.state == BackendState::Ready)
        };
        let listed = futures_util::future::join_all(specs.iter().filter(ready).map(|spec| self.list(&spec.id))).await;
        let mut statuses = self.supervisor.status();
        for status in &mut statuses {
            let Ok(id) = BackendId::parse(&status.id) else { continue };
            status.counts = self.gateway.counts(&id);
            let failed = listed.iter().find(|(listed, _)| *listed == id).and_then(|(_, outcome)| outcome.clone().err());
            status.state = judge(status.state.clone(), failed);
        }
        statuses
    }

    /// Has the backend list everything; says what went wrong.
    async fn list(&self, id: &BackendId) -> (BackendId, Result<(), String>) {
        let methods = [Method::ToolsList, Method::PromptsList, Method::ResourcesList, Method::ResourceTemplatesList];
        for method in methods {
            let name = method.to_string();
            let outcome = match tokio::time::timeout(LISTING, self.ask(id, method)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no answer within {} s", LISTING.as_secs())),
            };
            if let Err(why) = outcome {
                return (id.clone(), Err(format!("`{name}` failed: {why}")));
            }
        }
        (id.clone(), Ok(()))
    }

    async fn ask(&self, id: &BackendId, method: Method) -> Result<(), String> {
        let context = Context {
            caller: Arc::new(Caller::gateway()),
            requester: Requester::Gateway,
            mirror: None,
            client: Arc::new(ClientInfo::gateway()),
            profile: Profile::default(),
            cancel_reason: CancelReason::default(),
            revoked: None,
        };
        let Some(server) = self.gateway.single(id) else { return Ok(()) };
        let params = Payload::of(Revision::NEWEST_LEGACY, &json!({}));
        let mut reply = server.call(Call { method, params, context });
        loop {
            match reply.next().await {
                Step::Notified(_, rest) | Step::Asked(_, rest) => reply = rest,
                // it has none of these: servers are asked for what they do not offer too
                Step::Done(Outcome::Failed(error)) if error.code() == ErrorObject::METHOD_NOT_FOUND => return Ok(()),
                Step::Done(Outcome::Failed(error)) => return Err(error.message().clone()),
                Step::Done(_) => return Ok(()),
            }
        }
    }

    async fn end(self) {
        self.cancel.cancel();
        self.supervisor.shutdown().await;
    }
}

/// What a state means where nobody waits any longer.
fn judge(state: BackendState, failed: Option<String>) -> BackendState {
    match (state, failed) {
        (_, Some(reason)) | (BackendState::Restarting { reason, .. }, None) => BackendState::Failed { reason },
        (BackendState::Starting, None) => {
            let reason = "it did not start in time; `start_timeout` says how long it may take".to_owned();
            BackendState::Failed { reason }
        }
        (state, None) => state,
    }
}

/// The backends as a table; below it, why some do not answer.
fn render(backends: &[BackendStatus], style: Style) -> String {
    let mut table =
        Table::new(&["BACKEND", "TRANSPORT", "VERSION", "SERVER", "TOOLS", "PROMPTS", "RESOURCES", "STATE"]);
    for backend in backends {
        let named = [
            &backend.id,
            &backend.transport,
            backend.protocol_version.as_deref().unwrap_or("-"),
            backend.server.as_deref().unwrap_or("-"),
        ];
        let counts = [backend.counts.tools, backend.counts.prompts, backend.counts.resources];
        let cells = named.map(Cell::from).into_iter().chain(counts.map(Cell::from));
        table.row(cells.chain([status::state(backend)]));
    }
    table.render(style) + &status::notes(backends, style) + &status::versions(backends, style)
}

/// Fails where any backend is not ready.
fn verdict(backends: &[BackendStatus]) -> Result<(), Failure> {
    let sick: Vec<&str> =
        backends.iter().filter(|one| one.state != BackendState::Ready).map(|one| one.id.as_str()).collect();
    if sick.is_empty() {
        return Ok(());
    }
    let what = format!("{} of {} backends cannot be used: {}", sick.len(), backends.len(), sick.join(", "));
    Err(Failure::failed(what).advise("the reasons stand above; the others are served all the same"))
}
