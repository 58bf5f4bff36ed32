//! All backends: started at once, each by itself, and ended together.

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
    supervise::Supervision,
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

/// What backends need of the world.
pub struct BackendDeps {
    /// The time of day, for the demonstration backend.
    pub clock: Arc<dyn Clock>,
    /// What was found out about the servers' eras before this start: what of it concerns none of them is left aside.
    pub eras: Vec<KnownEra>,
    /// The gateway's environment, of which child processes see an allow list.
    pub environment: BTreeMap<String, String>,
    /// How many sessions (of a stdio backend: processes) each backend may have beside its base session.
    pub sessions: usize,
    /// How long calls keep question slots that others wait for, and how long those wait.
    pub slot_limits: SlotLimits,
    /// The observer of lost sessions and of detected eras.
    pub observer: Observer,
    /// Cancelled when the gateway stops: every session and process is ended then.
    pub shutdown: CancellationToken,
}

/// Holds all backends. Where it is dropped, all of them end.
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
    /// Starts every backend, all at the same time, and does not wait for any. Must be called on a tokio runtime. Fails
    /// only where no HTTP client can be made: certificates are missing, or a proxy in the environment is no URL.
    pub fn start(specs: Vec<BackendSpec>, deps: BackendDeps) -> Result<Self, ClientError> {
        let end = deps.shutdown.child_token();
        let tasks = TaskGroup::new(end.clone());
        let memory = KnownEras::of(&specs, deps.eras, deps.observer.clone());
        let context = BackendContext {
            sessions: deps.sessions,
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

    /// Every backend as a server, in configured order.
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

    /// How every backend is, in configured order. The counts are left for the catalog to fill in.
    pub fn status(&self) -> Vec<BackendStatus> {
        let status = |member: &SupervisedBackend| match member {
            SupervisedBackend::Remote(backend) => {
                backend.health.status(&backend.spec, backend.era.status(), backend.pool.count())
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
                stderr: Vec::new(),
            },
        };
        self.members.iter().map(status).collect()
    }

    /// Waits until every backend has settled, which is that its first start came to an end, well or not; no longer than
    /// `patience`. Whether all of them have.
    pub async fn ready(&self, patience: Duration) -> bool {
        let remote = self.members.iter().filter_map(|member| match member {
            SupervisedBackend::Remote(backend) => Some(backend.health.settled()),
            SupervisedBackend::Demo(..) => None,
        });
        timeout(patience, join_all(remote)).await.is_ok()
    }

    /// Ends what the backends hold for a client session that is over, or for a request without one.
    pub fn ended(&self, requester: &Requester) {
        for member in &self.members {
            match member {
                SupervisedBackend::Remote(backend) => backend.ended(requester),
                SupervisedBackend::Demo(_, demo) => demo.ended(requester),
            }
        }
    }

    /// The eras that are known of those servers whose era is to be detected.
    pub fn eras(&self) -> Vec<KnownEra> {
        self.memory.all()
    }

    /// Ends every session and every process, and waits until they have ended: some seconds at most.
    pub async fn shutdown(&self) {
        self.tasks.finish().await;
    }
}
