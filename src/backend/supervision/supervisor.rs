//! All backends. They start independently of each other, a few processes at a time, and stop together.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::Backend;
use crate::{
    backend::{
        context::BackendContext,
        start::{era::KnownEras, start_turns::StartTurns},
        task_group::TaskGroup,
        transport::{self, RunningPrograms, Spawner, http::ClientError, kept_output::KeptOutput},
    },
    mcp::{Server, SoleClient, hearers::Announcer, observer::Observer},
    model::{
        BackendId, BackendSpec, IdentitySigner, KnownEra, LimitsConfig, Requester, ServerAccess, UserId,
        status::{BackendStatus, KeptLine},
    },
    support::{Clock, Digest, Fence, Latch, Live, MemoryBudget},
};

/// Dependencies of all backends.
pub struct BackendDeps {
    pub clock: Arc<dyn Clock>,
    /// Signs assertions about the calling user, for servers that receive a JWT; `None` in a process without signing
    /// keys.
    pub signer: Option<IdentitySigner>,
    /// Detected eras from the store; eras of servers that are not configured are ignored.
    pub eras: Vec<KnownEra>,
    /// The gateway's environment; child processes get an allow list of it.
    pub environment: BTreeMap<String, String>,
    /// The launcher, which ends its program when this process ends ([`crate::support::launcher`]).
    pub launcher: Option<PathBuf>,
    /// Memory budget of the process.
    pub budget: MemoryBudget,
    pub limits: Live<LimitsConfig>,
    /// Access to servers that require a login or secrets first.
    pub access: ServerAccess,
    /// Notified of lost client sessions and of detected eras.
    pub observer: Observer,
    /// Everything sent to servers waits here until this replica may send.
    pub fence: Fence,
    /// The only client of a gateway over stdio: the base connections are its sessions, and are opened once it is known.
    /// `None` if there may be several clients.
    pub sole_client: Option<SoleClient>,
    /// Open while this replica is the home of servers that run on one replica only ([`ServerHome::One`]).
    ///
    /// [`ServerHome::One`]: crate::model::ServerHome::One
    pub home: Latch,
    /// Cancelled when the gateway stops, which ends every connection and process.
    pub shutdown: CancellationToken,
}

/// All backends. Dropping it stops them.
pub struct Supervisor {
    /// In the order of the configuration.
    members: ArcSwap<Vec<Arc<StartedBackend>>>,
    /// Held during a replacement, so that there is one at a time.
    replacing: Mutex<()>,
    /// Number of backends started so far.
    started: AtomicU64,
    context: BackendContext,
    _end: DropGuard,
}

/// A backend and the configuration that it was started with.
struct StartedBackend {
    spec: BackendSpec,
    generation: u64,
    backend: Backend,
    server: Arc<dyn Server>,
    programs: RunningPrograms,
    kept: KeptOutput,
}

pub struct SupervisedServer {
    pub id: BackendId,
    /// Number of the start that made this server: a later server of the same name has a different one.
    pub generation: u64,
    pub server: Arc<dyn Server>,
    /// How it notifies clients that follow all servers; `None` if each client needs a listen at it.
    pub announcer: Option<Arc<dyn Announcer>>,
}

/// State of a backend for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendVitals {
    pub id: BackendId,
    /// True if it can be called; `None` if it runs at another replica.
    pub is_up: Option<bool>,
    /// Number of calls that run at it or wait for it.
    pub running_calls: usize,
}

/// The difference between two sets of backends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendChanges {
    /// New backends.
    pub added: Vec<BackendId>,
    /// Backends that are no longer configured.
    pub removed: Vec<BackendId>,
    /// Backends that were started anew, because their configuration changed.
    pub replaced: Vec<BackendId>,
}

/// Why a backend cannot be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartRefusal {
    /// It is the built-in server, which has no process and no connection.
    BuiltIn,
    /// It runs at another replica.
    Elsewhere,
    /// No backend has this name.
    Unknown,
}

// === impl Supervisor ===

impl Supervisor {
    /// Starts all backends concurrently, processes in turns, without waiting for any. Must be called on a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// If no HTTP client can be created: certificates are missing, or a proxy variable of the environment is not a URL.
    pub fn start(specs: Vec<BackendSpec>, deps: BackendDeps) -> Result<Self, ClientError> {
        let end = deps.shutdown.child_token();
        let context = BackendContext {
            starts: StartTurns::new(deps.limits.clone()),
            budget: deps.budget.clone(),
            limits: deps.limits,
            client: transport::http::Client::new(&deps.environment)?,
            environment: Arc::new(deps.environment),
            spawner: Spawner::new(deps.launcher.as_deref()),
            // each backend gets its own below
            kept: KeptOutput::new(deps.budget.process(), &deps.clock),
            tasks: TaskGroup::new(end.clone()),
            clock: deps.clock,
            signer: deps.signer,
            memory: KnownEras::of(&specs, deps.eras, deps.observer.clone()),
            access: deps.access,
            observer: deps.observer,
            fence: deps.fence,
            sole_client: deps.sole_client,
            home: deps.home,
            user: None,
            hearers: Arc::default(),
        };
        let start =
            |(spec, generation): (BackendSpec, u64)| Arc::new(StartedBackend::start(spec, generation, context.clone()));
        let members: Vec<_> = specs.into_iter().zip(0..).map(start).collect();
        let started = AtomicU64::new(members.len() as u64);
        Ok(Self {
            members: ArcSwap::from_pointee(members),
            replacing: Mutex::default(),
            started,
            context,
            _end: end.drop_guard(),
        })
    }

    /// Replaces the backends. A backend stays as it is if its server would run the same way. If not, a new one starts
    /// alongside the one that it replaces. The caller directs new calls to [`Supervisor::servers`], and ends the old
    /// ones with [`RetiredBackends::end`]. Must be called on a tokio runtime.
    pub fn replace(&self, specs: &[BackendSpec]) -> (BackendChanges, RetiredBackends) {
        let _replacing = self.replacing.lock();
        let old = self.members.load_full();
        let mut changes = BackendChanges::default();
        let member = |spec: &BackendSpec| {
            let before = old.iter().find(|member| member.spec.id == spec.id);
            match before {
                Some(kept) if spec.is_served_as(&kept.spec) => return Arc::clone(kept),
                Some(_) => changes.replaced.push(spec.id.clone()),
                None => changes.added.push(spec.id.clone()),
            }
            let generation = self.started.fetch_add(1, Ordering::Relaxed);
            Arc::new(StartedBackend::start(spec.clone(), generation, self.context.clone()))
        };
        let new: Vec<Arc<StartedBackend>> = specs.iter().map(member).collect();
        let is_gone = |member: &&Arc<StartedBackend>| !new.iter().any(|kept| Arc::ptr_eq(kept, member));
        let retired: Vec<Arc<StartedBackend>> = old.iter().filter(is_gone).cloned().collect();
        let is_removed = |id: &&BackendId| specs.iter().all(|spec| spec.id != **id);
        changes.removed = retired.iter().map(|member| &member.spec.id).filter(is_removed).cloned().collect();
        self.context.memory.retain(specs);
        self.members.store(Arc::new(new));
        (
            changes,
            RetiredBackends {
                members: retired,
                tasks: self.context.tasks.clone(),
                grace: self.context.limits.get().shutdown,
            },
        )
    }

    /// All backends as servers, in configured order.
    pub fn servers(&self) -> Vec<SupervisedServer> {
        self.members.load().iter().map(|member| member.server()).collect()
    }

    /// Digest that identifies a backend's server; `None` if there is no such backend, or it has no server.
    pub fn server_of(&self, id: &BackendId) -> Option<Digest> {
        self.member(id)?.spec.transport.server()
    }

    /// Probes once if servers that completed the handshake also speak the other era, for the status. Takes a few
    /// seconds at most.
    pub async fn ask_for_other_eras(&self) {
        join_all(self.members.load_full().iter().map(|member| member.backend.ask_for_other_era())).await;
    }

    /// Running programs of each backend that starts any, by the process id of the first process. Containers are left
    /// out.
    pub fn programs(&self) -> Vec<(BackendId, Vec<u32>)> {
        let members = self.members.load();
        let with_programs =
            members.iter().filter(|member| member.spec.transport.starts_process() && member.spec.container.is_none());
        with_programs.map(|member| (member.spec.id.clone(), member.programs.pids())).collect()
    }

    /// Checks if a backend can be restarted.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn may_restart(&self, id: &BackendId) -> Result<(), RestartRefusal> {
        match &self.member(id).ok_or(RestartRefusal::Unknown)?.backend {
            Backend::BuiltIn(_) => Err(RestartRefusal::BuiltIn),
            backend if backend.is_elsewhere() => Err(RestartRefusal::Elsewhere),
            _ => Ok(()),
        }
    }

    /// Ends the connections and processes of a backend, and starts it anew. Waits for that start, for at most
    /// `patience`.
    pub async fn restart(&self, id: &BackendId, patience: Duration) {
        if let Some(member) = self.member(id) {
            let _ = timeout(patience, member.backend.restart()).await;
        }
    }

    /// Lines after the number `after` that the programs of a backend printed. If there are none, waits for the next,
    /// for at most `patience`. `None` if there is no such backend.
    pub async fn output(&self, id: &BackendId, after: u64, patience: Duration) -> Option<Vec<KeptLine>> {
        let kept = self.member(id)?.kept.clone();
        Some(kept.after(after, patience).await)
    }

    fn member(&self, id: &BackendId) -> Option<Arc<StartedBackend>> {
        self.members.load().iter().find(|member| member.spec.id == *id).cloned()
    }

    /// Status of all backends, in configured order. The catalog adds the counts of lists.
    pub fn status(&self) -> Vec<BackendStatus> {
        let BackendContext { environment, spawner, .. } = &self.context;
        let status = |member: &Arc<StartedBackend>| BackendStatus {
            containment: transport::contained(&member.spec, environment, spawner),
            ..member.backend.status(&member.spec)
        };
        self.members.load().iter().map(status).collect()
    }

    /// State of all backends for the metrics, in configured order.
    pub fn vitals(&self) -> Vec<BackendVitals> {
        let vitals = |member: &Arc<StartedBackend>| BackendVitals {
            id: member.spec.id.clone(),
            is_up: member.backend.is_up(),
            running_calls: member.backend.running_calls(),
        };
        self.members.load().iter().map(vitals).collect()
    }

    /// Waits for at most `patience` until the first start of every backend has succeeded or failed. Returns true if all
    /// have.
    pub async fn ready(&self, patience: Duration) -> bool {
        let members = self.members.load_full();
        timeout(patience, join_all(members.iter().map(|member| member.backend.settled()))).await.is_ok()
    }

    /// Drops the state of a client session that has ended, or of a client without a session that has left.
    pub fn ended(&self, requester: &Requester) {
        for member in self.members.load().iter() {
            member.backend.ended(requester);
        }
    }

    /// Ends what runs only for a user who has left.
    pub fn user_gone(&self, user: &UserId) {
        for member in self.members.load().iter() {
            member.backend.user_gone(user);
            member.kept.forget(user);
        }
    }

    /// Detected eras, for the store.
    pub fn eras(&self) -> Vec<KnownEra> {
        self.context.memory.all()
    }

    /// Ends all connections and processes, and waits for a few seconds at most.
    pub async fn shutdown(&self) {
        self.context.tasks.finish().await;
        join_all(self.members.load_full().iter().map(|member| member.backend.end())).await;
    }
}

// === impl StartedBackend ===

impl StartedBackend {
    fn start(spec: BackendSpec, generation: u64, context: BackendContext) -> Self {
        let kept = KeptOutput::new(context.budget.server(spec.id.as_str()), &context.clock);
        let context = BackendContext { spawner: context.spawner.of_backend(), kept: kept.clone(), ..context };
        let programs = context.spawner.running().clone();
        let backend = Backend::start(&spec, context);
        let server = backend.server();
        Self { spec, generation, backend, server, programs, kept }
    }

    fn server(&self) -> SupervisedServer {
        let Self { spec, generation, server, backend, .. } = self;
        let announcer = backend.announcer();
        SupervisedServer { id: spec.id.clone(), generation: *generation, server: Arc::clone(server), announcer }
    }
}

/// Backends that receive no new calls.
pub struct RetiredBackends {
    members: Vec<Arc<StartedBackend>>,
    tasks: TaskGroup,
    grace: Duration,
}

// === impl RetiredBackends ===

impl RetiredBackends {
    /// Ends each backend in the background: once no call runs, or after the configured `shutdown` time at the latest.
    pub fn end(self) {
        for member in self.members {
            let grace = self.grace;
            self.tasks.spawn(async move { member.backend.retire(grace).await });
        }
    }
}
