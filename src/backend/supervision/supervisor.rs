//! All backends: started independently of each other, processes a few at a time, and stopped together.

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

/// Dependencies of the backends.
pub struct BackendDeps {
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Signer of who calls, for servers that are told by a JWT; `None` in a process without signing keys.
    pub signer: Option<IdentitySigner>,
    /// Detected eras from the store; those of other servers are ignored.
    pub eras: Vec<KnownEra>,
    /// The gateway's environment; child processes get an allow list of it.
    pub environment: BTreeMap<String, String>,
    /// The launcher of programs, which end with this process then ([`crate::support::launcher`]).
    pub launcher: Option<PathBuf>,
    /// The memory budget of the process.
    pub budget: MemoryBudget,
    /// The configured limits.
    pub limits: Live<LimitsConfig>,
    /// Access to servers that ask for something first.
    pub access: ServerAccess,
    /// The observer of lost sessions and of detected eras.
    pub observer: Observer,
    /// Passed by everything that is sent to servers.
    pub fence: Fence,
    /// The only client, of a gateway that has no other: the base connections are its own, and are opened once it is known.
    pub sole_client: Option<SoleClient>,
    /// Open when this replica is the home of the servers that have one ([`ServerHome::One`]).
    ///
    /// [`ServerHome::One`]: crate::model::ServerHome::One
    pub home: Latch,
    /// Cancelled when the gateway stops: then every connection and process ends.
    pub shutdown: CancellationToken,
}

/// All backends. Dropping it stops them.
pub struct Supervisor {
    /// In configured order.
    members: ArcSwap<Vec<Arc<StartedBackend>>>,
    /// One replacement at a time.
    replacing: Mutex<()>,
    /// Number of servers started so far.
    started: AtomicU64,
    context: BackendContext,
    _end: DropGuard,
}

/// A backend, and the configuration that it was started with.
struct StartedBackend {
    spec: BackendSpec,
    generation: u64,
    backend: Backend,
    server: Arc<dyn Server>,
    programs: RunningPrograms,
    kept: KeptOutput,
}

/// A backend as a server.
pub struct SupervisedServer {
    /// Its name.
    pub id: BackendId,
    /// Number of the start that made this server: another server of the same name has another one.
    pub generation: u64,
    /// The server itself.
    pub server: Arc<dyn Server>,
    /// The way in which it tells clients; `None` if each has to listen at it.
    pub announcer: Option<Arc<dyn Announcer>>,
}

/// A backend at this moment, for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendVitals {
    /// Its name.
    pub id: BackendId,
    /// True if it can be called; `None` if it runs at another replica.
    pub is_up: Option<bool>,
    /// Calls that run at it or wait for it.
    pub running_calls: usize,
}

/// The difference between two sets of backends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendChanges {
    /// The backends that were not there.
    pub added: Vec<BackendId>,
    /// Those that are gone.
    pub removed: Vec<BackendId>,
    /// Those that were started anew, since their configuration is another.
    pub replaced: Vec<BackendId>,
}

/// The reason why a backend cannot be started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartRefusal {
    /// It is the built-in server, which has no process and no connection.
    BuiltIn,
    /// It runs at another replica.
    Elsewhere,
    /// There is no such backend.
    Unknown,
}

// === impl Supervisor ===

impl Supervisor {
    /// Starts all backends concurrently, processes in turns, without waiting for any. Must be called on a tokio
    /// runtime. Fails only if no HTTP client can be created: certificates are missing, or a proxy variable of the
    /// environment is no URL.
    pub fn start(specs: Vec<BackendSpec>, deps: BackendDeps) -> Result<Self, ClientError> {
        let end = deps.shutdown.child_token();
        let context = BackendContext {
            starts: StartTurns::new(deps.limits.clone()),
            budget: deps.budget.clone(),
            limits: deps.limits,
            client: transport::http::Client::new(&deps.environment)?,
            environment: Arc::new(deps.environment),
            spawner: Spawner::new(deps.launcher.as_deref()),
            // each backend has its own
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

    /// Replaces the backends. One whose configuration asks nothing else of its server stays as it is; another is
    /// started beside the one that it replaces. The caller directs new calls to [`Supervisor::servers`]; the servers that
    /// are gone end by [`RetiredBackends::end`]. Must be called on a tokio runtime.
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

    /// The digest of a backend's server; `None` without such a backend, or if it has none.
    pub fn server_of(&self, id: &BackendId) -> Option<Digest> {
        self.member(id)?.spec.transport.server()
    }

    /// Prepares for somebody who looks at the status: servers that took the handshake are asked, once, whether they speak the other
    /// era too. Takes a few seconds at most.
    pub async fn ask_for_other_eras(&self) {
        join_all(self.members.load_full().iter().map(|member| member.backend.ask_for_other_era())).await;
    }

    /// The programs that run for each backend that starts any, by the number of their first process. Those in a container are not
    /// among them.
    pub fn programs(&self) -> Vec<(BackendId, Vec<u32>)> {
        let members = self.members.load();
        let with_programs =
            members.iter().filter(|member| member.spec.transport.starts_process() && member.spec.container.is_none());
        with_programs.map(|member| (member.spec.id.clone(), member.programs.pids())).collect()
    }

    /// Says whether a backend can be started anew.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub fn may_restart(&self, id: &BackendId) -> Result<(), RestartRefusal> {
        match &self.member(id).ok_or(RestartRefusal::Unknown)?.backend {
            Backend::BuiltIn(_) => Err(RestartRefusal::BuiltIn),
            backend if backend.is_elsewhere() => Err(RestartRefusal::Elsewhere),
            _ => Ok(()),
        }
    }

    /// Ends the connections and processes of a backend, and starts it anew. Waits for that start, so long at most.
    pub async fn restart(&self, id: &BackendId, patience: Duration) {
        if let Some(member) = self.member(id) {
            let _ = timeout(patience, member.backend.restart()).await;
        }
    }

    /// The lines after this number that the programs of a backend printed; without one, waits for the next, so long at most. `None`
    /// without such a backend.
    pub async fn output(&self, id: &BackendId, after: u64, patience: Duration) -> Option<Vec<KeptLine>> {
        let kept = self.member(id)?.kept.clone();
        Some(kept.after(after, patience).await)
    }

    fn member(&self, id: &BackendId) -> Option<Arc<StartedBackend>> {
        self.members.load().iter().find(|member| member.spec.id == *id).cloned()
    }

    /// The status of all backends, in configured order. The catalog fills in the counts.
    pub fn status(&self) -> Vec<BackendStatus> {
        let BackendContext { environment, spawner, .. } = &self.context;
        let status = |member: &Arc<StartedBackend>| BackendStatus {
            containment: transport::contained(&member.spec, environment, spawner),
            ..member.backend.status(&member.spec)
        };
        self.members.load().iter().map(status).collect()
    }

    /// All backends at this moment, in configured order.
    pub fn vitals(&self) -> Vec<BackendVitals> {
        let vitals = |member: &Arc<StartedBackend>| BackendVitals {
            id: member.spec.id.clone(),
            is_up: member.backend.is_up(),
            running_calls: member.backend.running_calls(),
        };
        self.members.load().iter().map(vitals).collect()
    }

    /// Waits at most `patience` until the first start of every backend has ended, well or not. Returns true if all
    /// have.
    pub async fn ready(&self, patience: Duration) -> bool {
        let members = self.members.load_full();
        timeout(patience, join_all(members.iter().map(|member| member.backend.settled()))).await.is_ok()
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub fn ended(&self, requester: &Requester) {
        for member in self.members.load().iter() {
            member.backend.ended(requester);
        }
    }

    /// Ends what runs for a user who is gone, and for nobody else.
    pub fn user_gone(&self, user: &UserId) {
        for member in self.members.load().iter() {
            member.backend.user_gone(user);
            member.kept.forget(user);
        }
    }

    /// Detected eras of the servers whose era is not configured.
    pub fn eras(&self) -> Vec<KnownEra> {
        self.context.memory.all()
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
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

/// Backends that no new call may reach.
pub struct RetiredBackends {
    members: Vec<Arc<StartedBackend>>,
    tasks: TaskGroup,
    grace: Duration,
}

// === impl RetiredBackends ===

impl RetiredBackends {
    /// Ends each once no call runs at it, after the time for running calls at the latest. Does not wait for that.
    pub fn end(self) {
        for member in self.members {
            let grace = self.grace;
            self.tasks.spawn(async move { member.backend.retire(grace).await });
        }
    }
}
