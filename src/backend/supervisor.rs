//! All backends: started independently of each other, processes a few at a time, and stopped together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Demo,
    context::BackendContext,
    era::KnownEras,
    external_backend::ExternalBackend,
    server::BackendServer,
    slots::SlotLimits,
    start_turns::StartTurns,
    supervision::Supervision,
    task_group::TaskGroup,
    transport::{self, http::ClientError},
};
use crate::{
    mcp::{Server, observer::Observer},
    model::{
        BackendId, BackendSpec, KnownEra, Requester,
        status::{BackendState, BackendStatus, OfferCounts},
    },
    support::Clock,
};

/// Dependencies of the backends.
pub struct BackendDeps {
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Detected eras from the store; those of other servers are ignored.
    pub eras: Vec<KnownEra>,
    /// The gateway's environment; child processes get an allow list of it.
    pub environment: BTreeMap<String, String>,
    /// Maximum number of connections of each backend (for stdio: processes), without the base connection.
    pub sessions: usize,
    /// Maximum number of processes that start at once.
    pub parallel_starts: usize,
    /// Limits of question slots.
    pub slot_limits: SlotLimits,
    /// The observer of lost sessions and of detected eras.
    pub observer: Observer,
    /// Cancelled when the gateway stops: then every connection and process ends.
    pub shutdown: CancellationToken,
}

/// All backends. Dropping it stops them.
pub struct Supervisor {
    members: Vec<SupervisedBackend>,
    tasks: TaskGroup,
    memory: KnownEras,
    _end: DropGuard,
}

enum SupervisedBackend {
    Remote(Arc<ExternalBackend>),
    Demo(Box<BackendSpec>, Arc<Demo>),
}

impl Supervisor {
    /// Starts all backends concurrently, processes in turns, without waiting for any. Must be called on a tokio runtime. Fails only if no
    /// HTTP client can be created: certificates are missing, or a proxy variable of the environment is no URL.
    pub fn start(specs: Vec<BackendSpec>, deps: BackendDeps) -> Result<Self, ClientError> {
        let end = deps.shutdown.child_token();
        let tasks = TaskGroup::new(end.clone());
        let memory = KnownEras::of(&specs, deps.eras, deps.observer.clone());
        let context = BackendContext {
            sessions: deps.sessions,
            starts: StartTurns::new(deps.parallel_starts),
            slot_limits: deps.slot_limits,
            client: transport::http::Client::new(&deps.environment)?,
            environment: Arc::new(deps.environment),
            tasks: tasks.clone(),
            clock: Arc::clone(&deps.clock),
            observer: deps.observer,
            memory: memory.clone(),
        };
        let member = |spec: BackendSpec| {
            if spec.is_built_in() {
                return SupervisedBackend::Demo(Box::new(spec), Arc::new(Demo::new(Arc::clone(&deps.clock))));
            }
            let backend = Arc::new(ExternalBackend::new(spec, context.clone()));
            tasks.spawn(Supervision(Arc::clone(&backend)).supervise());
            tasks.spawn(Supervision(Arc::clone(&backend)).sweep());
            SupervisedBackend::Remote(backend)
        };
        let members = specs.into_iter().map(member).collect();
        Ok(Self { members, tasks, memory, _end: end.drop_guard() })
    }

    /// All backends as servers, in configured order.
    pub fn servers(&self) -> Vec<(BackendId, Arc<dyn Server>)> {
        let server = |member: &SupervisedBackend| match member {
            SupervisedBackend::Remote(backend) => {
                let server: Arc<dyn Server> = Arc::new(BackendServer(Arc::clone(backend)));
                (backend.spec.id.clone(), server)
            }
            SupervisedBackend::Demo(spec, demo) => {
                let server: Arc<dyn Server> = Arc::<Demo>::clone(demo);
                (spec.id.clone(), server)
            }
        };
        self.members.iter().map(server).collect()
    }

    /// The status of all backends, in configured order. The catalog fills in the counts.
    pub fn status(&self) -> Vec<BackendStatus> {
        let status = |member: &SupervisedBackend| match member {
            SupervisedBackend::Remote(backend) => {
                let server = (&backend.spec.id, backend.opener.transport.name());
                let printed = &backend.opener.output;
                let mut status = backend.health.status(server, backend.era.status(), (backend.pool.count(), printed));
                status.warnings.extend(backend.pool.warning());
                status
            }
            SupervisedBackend::Demo(spec, _) => BackendStatus {
                id: spec.id.to_string(),
                transport: spec.transport.name().to_owned(),
                protocol_version: Some(Demo::REVISION.to_string()),
                era: None,
                lacks: super::health::lacks(Demo::REVISION),
                notices: Vec::new(),
                server: Some(format!("lockkeeper-demo {}", env!("CARGO_PKG_VERSION"))),
                state: BackendState::Ready,
                counts: OfferCounts::default(),
                left_out: Vec::new(),
                sessions: 0,
                restarts: 0,
                output: Vec::new(),
                advice: None,
                warnings: Vec::new(),
            },
        };
        self.members.iter().map(status).collect()
    }

    /// Waits at most `patience` until the first start of every backend has ended, well or not. Returns true if all
    /// have.
    pub async fn ready(&self, patience: Duration) -> bool {
        let remote = self.members.iter().filter_map(|member| match member {
            SupervisedBackend::Remote(backend) => Some(backend.health.settled()),
            SupervisedBackend::Demo(..) => None,
        });
        timeout(patience, join_all(remote)).await.is_ok()
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub fn ended(&self, requester: &Requester) {
        for member in &self.members {
            match member {
                SupervisedBackend::Remote(backend) => backend.ended(requester),
                SupervisedBackend::Demo(_, demo) => demo.ended(requester),
            }
        }
    }

    /// Detected eras of the servers whose era is not configured.
    pub fn eras(&self) -> Vec<KnownEra> {
        self.memory.all()
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
    pub async fn shutdown(&self) {
        self.tasks.finish().await;
    }
}
