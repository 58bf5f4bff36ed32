//! The call path, built in order: backends, gateway, crossing, frontend.

use std::{collections::HashMap, path::Path, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    events::{self, EventHandler, Inbox},
    known_servers::ServerRecords,
    module_settings::{self, LiveSettings},
    replica::ReplicaPart,
    stack::Stacks,
};
use crate::{
    backend::{self, Supervisor},
    config::Config,
    crossing::{self, Crossing},
    fetch::Fetcher,
    frontend::{self, BehindEndpoint, Frontend, Routes},
    gateway::{self, ConfiguredBackend, Gateway, GatewaySettings, ListStore},
    layers::{TaskOwnerDeps, TaskOwnerStore},
    mcp::{Payload, Server, SoleClient, observer::RequesterObserver},
    model::{BackendId, BackendSpec, EgressPolicy, IdentitySigner, ServerAccess, Target},
    storage::Storage,
    support::{Clock, OsRandom, Random, SealingKey, SystemClock},
    telemetry::Telemetry,
};

/// What every part gets: time, randomness, telemetry, events.
pub(super) struct World {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) telemetry: Telemetry,
    pub(super) events: Arc<EventHandler>,
    pub(super) inbox: Inbox,
    /// Owns all background tasks.
    pub(super) tracker: TaskTracker,
    /// Cancelled when the gateway is about to stop, but still serves.
    pub(super) leaving: CancellationToken,
    /// Cancelling it ends all tasks.
    pub(super) cancel: CancellationToken,
    /// Fetches URLs that strangers name; `None` if the certificates of the system cannot be read.
    pub(super) fetcher: Option<Fetcher>,
}

/// The base that the call path is built on.
pub(super) struct CallPathDeps<'a> {
    pub(super) config: &'a Config,
    /// Settings that change on reload.
    pub(super) live: &'a LiveSettings,
    pub(super) storage: &'a Storage,
    /// Key that seals request states.
    pub(super) state_key: SealingKey,
    /// The stored knowledge about the servers.
    pub(super) known: &'a ServerRecords,
    /// Maximum number of client connections.
    pub(super) connections: usize,
    /// Signs assertions about the calling user; `None` without an authorization server.
    pub(super) signer: Option<IdentitySigner>,
    pub(super) gateway: GatewaySettings,
    /// Access to servers that require a login or secrets first.
    pub(super) access: ServerAccess,
    /// Lists kept from earlier runs; `None` if none are kept.
    pub(super) list_store: Option<Arc<dyn ListStore>>,
    /// Stores the owners of tasks; `None` if there is a single user.
    pub(super) task_owners: Option<Arc<dyn TaskOwnerStore>>,
    /// What differs between replicas on one database.
    pub(super) replica: ReplicaPart,
    /// The only client of a gateway over stdio; `None` if there may be several.
    pub(super) sole_client: Option<SoleClient>,
}

/// Everything between a client and a server.
pub(super) struct CallPath {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) stacks: Arc<Stacks>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) crossing: Crossing,
    pub(super) frontend: Frontend,
}

// === impl World ===

impl World {
    /// Creates the environment of this process. `egress` restricts requests to URLs that strangers name.
    pub(super) fn new(telemetry: Telemetry, egress: &EgressPolicy) -> Self {
        let fetcher = Fetcher::system(egress).inspect_err(|error| {
            tracing::warn!(%error, "documents that clients name cannot be read: install the certificates of authorities");
        });
        let (events, inbox) = EventHandler::new();
        Self {
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
            telemetry,
            events,
            inbox,
            tracker: TaskTracker::new(),
            leaving: CancellationToken::new(),
            cancel: CancellationToken::new(),
            fetcher: fetcher.ok(),
        }
    }
}

// === impl CallPath ===

impl CallPath {
    /// Ends the calls, then the tasks of `cancel`, then the backends.
    pub(super) async fn end(&self, cancel: &CancellationToken) {
        self.frontend.close().await;
        self.crossing.close().await;
        cancel.cancel();
        self.supervisor.shutdown().await;
    }
}

// === impl CallPathDeps ===

impl CallPathDeps<'_> {
    /// Starts the backends, and builds everything in front of them.
    pub(super) fn build(self, world: &World) -> anyhow::Result<CallPath> {
        let supervisor = Arc::new(Supervisor::start(self.config.backends.clone(), self.backend_deps(world))?);
        world.events.set_eras(|| supervisor.eras());
        let task_owners = TaskOwnerDeps { store: self.task_owners.clone(), clock: Arc::clone(&world.clock) };
        let stacks = Stacks::new(task_owners, world.tracker.clone(), world.cancel.child_token());
        let stacks = Arc::new(stacks.of(self.sole_client.clone()));
        let gateway = self.gateway(&supervisor, &stacks, world);
        let crossing = self.crossing(world);
        let observer = events::requester_observer(&supervisor, &gateway);
        let frontend = self.frontend(routes(&stacks, &gateway, &crossing, None), observer, world);
        Ok(CallPath { supervisor, stacks, gateway, crossing, frontend })
    }

    fn backend_deps(&self, world: &World) -> backend::BackendDeps {
        backend::BackendDeps {
            clock: Arc::clone(&world.clock),
            signer: self.signer.clone(),
            eras: self.known.eras.clone(),
            environment: self.config.environment.to_strings(),
            launcher: self.config.environment.launcher().map(Path::to_owned),
            budget: self.live.budget.clone(),
            limits: self.live.limits.clone(),
            access: self.access.clone(),
            observer: world.events.observer(),
            fence: self.replica.fence.clone(),
            sole_client: self.sole_client.clone(),
            home: self.replica.home.clone(),
            shutdown: world.cancel.child_token(),
        }
    }

    fn gateway(&self, supervisor: &Supervisor, stacks: &Stacks, world: &World) -> Arc<Gateway> {
        let deps = gateway::GatewayDeps {
            observer: world.events.observer(),
            budget: self.live.budget.clone(),
            list_store: self.list_store.clone(),
            random: Arc::clone(&world.random),
            tracker: world.tracker.clone(),
            cancel: world.cancel.child_token(),
        };
        let backends = configured_backends(&self.config.backends, supervisor, stacks, &self.known.descriptions);
        Gateway::new(backends, &self.config.groups, self.gateway.clone(), deps)
    }

    fn crossing(&self, world: &World) -> Crossing {
        let (clock, random) = (Arc::clone(&world.clock), Arc::clone(&world.random));
        let deps =
            crossing::SuspensionDeps { clock, random, state_key: self.state_key.clone(), replica: self.replica.number };
        Crossing::new(self.live.limits.clone(), deps)
    }

    fn frontend(&self, routes: Routes, observer: RequesterObserver, world: &World) -> Frontend {
        let deps = frontend::Deps {
            storage: self.storage.clone(),
            clock: Arc::clone(&world.clock),
            random: Arc::clone(&world.random),
            observer,
            budget: self.live.budget.clone(),
            replica: self.replica.number,
            fence: self.replica.fence.clone(),
        };
        Frontend::new(routes, module_settings::frontend(self.config, self.live, self.connections), deps)
    }
}

/// The backends in the form that the gateway takes, with stored server information.
pub(super) fn configured_backends(
    specs: &[BackendSpec],
    supervisor: &Supervisor,
    stacks: &Stacks,
    described: &HashMap<BackendId, Payload>,
) -> Vec<ConfiguredBackend> {
    let configured = |(supervised, spec)| stacks.around_server(spec, supervised, described.get(&spec.id).cloned());
    supervisor.servers().into_iter().zip(specs).map(configured).collect()
}

/// The servers of each endpoint. If an endpoint existed `before`, its servers stay, because they hold the state of its
/// clients.
pub(super) fn routes(stacks: &Stacks, gateway: &Gateway, crossing: &Crossing, before: Option<&Routes>) -> Routes {
    let around = |target: Target, server: Arc<dyn Server>, behind: BehindEndpoint| {
        if let Some(servers) = before.and_then(|before| before.at(&target)).filter(|before| before.behind == behind) {
            return Arc::clone(servers);
        }
        Arc::new(stacks.around_endpoint(target, server, behind, crossing))
    };
    let named = |(id, behind): (BackendId, BehindEndpoint)| {
        let server = gateway.single(&id)?;
        Some((id.clone(), around(Target::Backend(id), server, behind)))
    };
    let backends = gateway.ids().into_iter().map(|id| (id, BehindEndpoint::One));
    let groups = gateway.group_ids().into_iter().map(|id| (id, BehindEndpoint::Many));
    Routes {
        merged: around(Target::Merged, gateway.merged(), BehindEndpoint::Many),
        backends: backends.chain(groups).filter_map(named).collect(),
    }
}
