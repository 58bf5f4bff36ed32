//! Starts the configured servers once in this process without serving a client: for `check`, `add` and `tools`.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::stack::Stacks,
    backend::{self, Supervisor},
    cli::terminal::failure::CommandFailure,
    config::Config,
    gateway::{self, Gateway},
    layers::TaskOwnerDeps,
    mcp::{
        Call, ClientInfo, Context, ErrorObject, ListKind, Method, Outcome, Payload, Reply, Revision, Server, Step,
        observer::Observer,
    },
    model::{
        BackendId, BackendSpec, GroupSpec, LimitsConfig, Naming, ServerAccess,
        status::{BackendState, BackendStatus},
    },
    support::{Account, Clock, Fence, Latch, Live, MemoryBudget, OsRandom, SystemClock},
};

/// Time for a started server to list its features.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The servers under test.
pub(super) struct Probe {
    pub(super) supervisor: Supervisor,
    /// The gateway in front of them.
    pub(super) gateway: Arc<Gateway>,
    cancel: CancellationToken,
}

// === impl Probe ===

impl Probe {
    pub(super) fn start(config: &Config) -> Result<Self, CommandFailure> {
        let cancel = CancellationToken::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let deps = backend::BackendDeps {
            signer: None,
            clock,
            // no cached eras: every server is probed
            eras: Vec::new(),
            environment: config.environment.to_strings(),
            launcher: config.environment.launcher().map(Path::to_owned),
            budget: MemoryBudget::unbounded(),
            // no calls to wait for at the end
            limits: Live::new(LimitsConfig { shutdown: Duration::ZERO, ..config.limits.clone() }),
            access: ServerAccess::none(),
            observer: Observer::none(),
            fence: Fence::always_open(),
            sole_client: None,
            home: Latch::opened(),
            shutdown: cancel.clone(),
        };
        let supervisor = Supervisor::start(config.backends.clone(), deps)
            .map_err(|error| CommandFailure::failed("outbound HTTP cannot be set up").why(error))?;
        let (tracker, cancelled) = (TaskTracker::new(), cancel.child_token());
        let task_owners = TaskOwnerDeps { store: None, clock: Arc::new(SystemClock) };
        let stacks = Stacks::new(task_owners, tracker.clone(), cancelled.clone());
        let backends = config.backends.iter().zip(supervisor.servers());
        let backends = backends.map(|(spec, supervised)| stacks.around_server(spec, supervised, None)).collect();
        let deps = gateway::GatewayDeps {
            random: Arc::new(OsRandom),
            budget: MemoryBudget::unbounded(),
            // a check records nothing
            observer: Observer::none(),
            list_store: None,
            tracker,
            cancel: cancelled,
        };
        let settings = gateway::GatewaySettings::new(Naming::Prefixed, config.limits.tool_name_length);
        let gateway = Gateway::new(backends, &config.groups, settings, deps);
        Ok(Self { supervisor, gateway, cancel })
    }

    /// Status of every backend after its first start and its lists.
    pub(super) async fn look(&self, specs: &[BackendSpec]) -> Vec<BackendStatus> {
        let patience = specs.iter().map(|spec| spec.start_timeout).max().unwrap_or_default();
        self.supervisor.ready(patience + Duration::from_secs(5)).await;
        let before = self.supervisor.status();
        let ready = |spec: &&BackendSpec| {
            let its = before.iter().find(|status| status.id == spec.id.as_str());
            its.is_some_and(|status| status.state == BackendState::Ready)
        };
        let listed = futures_util::future::join_all(specs.iter().filter(ready).map(|spec| self.list(&spec.id))).await;
        self.supervisor.ask_for_other_eras().await;
        let mut statuses = self.supervisor.status();
        for status in &mut statuses {
            let Ok(id) = BackendId::parse(&status.id) else { continue };
            let failed = listed.iter().find(|(listed, _)| *listed == id).and_then(|(_, outcome)| outcome.clone().err());
            status.state = judge(status.state.clone(), failed);
            // it has just been started
            status.failing_since = None;
            status.offers(self.gateway.counts(&id), self.gateway.no_tools(&id));
            status.warnings.extend(self.gateway.warnings(&id));
        }
        statuses
    }

    /// Asks a backend for all its lists; returns the first error.
    async fn list(&self, id: &BackendId) -> (BackendId, Result<(), String>) {
        for method in ListKind::ALL.map(ListKind::method) {
            let name = method.to_string();
            let outcome = match tokio::time::timeout(LIST_TIMEOUT, self.ask(id, method)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no answer within {} s", LIST_TIMEOUT.as_secs())),
            };
            if let Err(why) = outcome {
                return (id.clone(), Err(format!("`{name}` failed: {why}")));
            }
        }
        (id.clone(), Ok(()))
    }

    /// A sentence about the tools of a group.
    pub(super) async fn look_at_group(&self, group: &GroupSpec) -> String {
        let (id, mut number) = (&group.id, 0);
        if let Some(server) = self.gateway.single(id) {
            number = self.tool_names(&*server).await.len();
        }
        match number {
            0 => format!("warning: the group `{id}` has no tools: `tools` leaves none, or its servers offer none"),
            1 => format!("the group `{id}` has 1 tool, at /mcp/{id}"),
            number => format!("the group `{id}` has {number} tools, at /mcp/{id}"),
        }
    }

    /// The names of the tools at an endpoint, as far as it lists them.
    pub(super) async fn tool_names(&self, server: &dyn Server) -> Vec<String> {
        let tools = self.tools(server).await;
        tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
    }

    /// The tools at an endpoint, as far as it lists them.
    pub(super) async fn tools(&self, server: &dyn Server) -> Vec<Value> {
        self.entries(server, ListKind::Tools).await
    }

    /// The names and URIs that a server lists, each with its kind.
    pub(super) async fn names(&self, id: &BackendId) -> Vec<(&'static str, String)> {
        let Some(server) = self.gateway.single(id) else { return Vec::new() };
        let mut names = Vec::new();
        for kind in ListKind::ALL {
            let (word, member) = match kind {
                ListKind::Tools => ("tool", "name"),
                ListKind::Prompts => ("prompt", "name"),
                ListKind::Resources => ("resource", "uri"),
                ListKind::Templates => ("template", "uriTemplate"),
            };
            let entries = self.entries(&*server, kind).await;
            names.extend(entries.iter().filter_map(|entry| Some((word, entry[member].as_str()?.to_owned()))));
        }
        names
    }

    /// The entries of a list at an endpoint, up to the first page that fails.
    async fn entries(&self, server: &dyn Server, kind: ListKind) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut params = json!({});
        while let Outcome::Complete(page) = call(server, kind.method(), &params).outcome().await {
            let more = page.view::<Value>().and_then(|mut page| match page[kind.member()].take() {
                Value::Array(more) => Some(more),
                _ => None,
            });
            let more = more.unwrap_or_default();
            let is_last = more.is_empty();
            entries.extend(more);
            match page.string("nextCursor") {
                Some(cursor) if !is_last => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
        entries
    }

    async fn ask(&self, id: &BackendId, method: Method) -> Result<(), String> {
        let Some(server) = self.gateway.single(id) else { return Ok(()) };
        let mut reply = call(&*server, method, &json!({}));
        loop {
            match reply.next().await {
                Step::Notified(_, rest) | Step::Asked(_, rest) => reply = rest,
                // this also asks for lists that a server does not offer
                Step::Done(Outcome::Failed(error)) if error.code() == ErrorObject::METHOD_NOT_FOUND => return Ok(()),
                Step::Done(Outcome::Failed(error)) => return Err(error.message().clone()),
                Step::Done(_) => return Ok(()),
            }
        }
    }

    pub(super) async fn end(self) {
        self.cancel.cancel();
        self.supervisor.shutdown().await;
    }
}

/// Calls a server in the gateway's own name.
pub(super) fn call(server: &dyn Server, method: Method, params: &Value) -> Reply {
    let context = Context::of_gateway(ClientInfo::gateway(), Account::unbounded());
    server.call(Call { method, params: Payload::of(Revision::NEWEST_LEGACY, params), context })
}

/// The final state: a backend whose start or lists failed, or that is still starting, has failed.
fn judge(state: BackendState, failed: Option<String>) -> BackendState {
    match (state, failed) {
        (_, Some(reason)) | (BackendState::Restarting { reason } | BackendState::Failed { reason, .. }, None) => {
            BackendState::Failed { reason, retry_in: None }
        }
        (BackendState::Starting { .. }, None) => {
            let reason = "it did not start in time; raise `start_timeout` if it needs longer".to_owned();
            BackendState::Failed { reason, retry_in: None }
        }
        (state @ (BackendState::Ready | BackendState::Elsewhere), None) => state,
    }
}
