//! This gateway as one of several on its database. Knows nothing of what it serves.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{http_service::HttpService, module_settings};
use crate::{
    config::Config,
    listener::{self, Workers},
    model::{BackendId, BackendSpec, Groups, ReplicaNumber, ServerHome, Target},
    replicas::{CarriedRequests, ReplicaDeps, ReplicaDoor, Replicas},
    storage::Storage,
    support::{Clock, Fence, Latch, MemoryBudget},
};

/// Joins the other replicas on the database, if there may be any, and listens for them.
pub(super) async fn join(
    (storage, budget): (&Storage, &MemoryBudget),
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<(Option<Replicas>, Option<ReplicaDoor>)> {
    let Some(replica) = &config.replica else { return Ok((None, None)) };
    let listener = TcpListener::bind(replica.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {} for other replicas", replica.listen))?;
    let at_home = home_targets(&config.backends, &config.groups);
    let deps = ReplicaDeps { storage: storage.clone(), clock: Arc::clone(clock), budget: budget.clone() };
    let (replicas, door) = Replicas::join(deps, &replica.advertise, listener, at_home).await?;
    Ok((Some(replicas), Some(door)))
}

/// What tells this gateway from the others on its database.
#[derive(Debug, Clone)]
pub(super) struct ReplicaPart {
    /// Its number.
    pub(super) number: ReplicaNumber,
    /// Open while it owns what it has.
    pub(super) fence: Fence,
    /// Open once it runs the servers that all share.
    pub(super) home: Latch,
}

// === impl ReplicaPart ===

impl ReplicaPart {
    /// That of a gateway among these.
    pub(super) fn of(replicas: Option<&Replicas>) -> Self {
        replicas.map_or_else(Self::sole, |replicas| Self {
            number: replicas.number(),
            fence: replicas.fence(),
            home: replicas.home(),
        })
    }

    /// That of a gateway without others.
    pub(super) fn sole() -> Self {
        Self { number: ReplicaNumber::SOLE, fence: Fence::always_open(), home: Latch::opened() }
    }
}

/// The endpoints with a server that runs at one replica: those of it and of its groups, and the one of all.
pub(super) fn home_targets(backends: &[BackendSpec], groups: &Groups) -> BTreeSet<Target> {
    let at_home: BTreeSet<&BackendId> =
        backends.iter().filter(|spec| spec.home == ServerHome::One).map(|spec| &spec.id).collect();
    let groups = groups.iter().filter(|group| group.servers.iter().any(|id| at_home.contains(id)));
    let named = at_home.iter().copied().chain(groups.map(|group| &group.id)).cloned().map(Target::Backend);
    let merged = (!at_home.is_empty()).then_some(Target::Merged);
    named.chain(merged).collect()
}

/// The open door for other replicas.
pub(super) struct OpenDoor {
    tasks: TaskTracker,
    end: CancellationToken,
}

// === impl OpenDoor ===

impl OpenDoor {
    /// Serves the requests that other replicas carry here, until it is closed: also while the gateway drains.
    pub(super) fn open(door: ReplicaDoor, service: HttpService, (connections, workers): (usize, Workers)) -> Self {
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let (drain, cancel, tracker) = (end.clone(), end.clone(), tasks.clone());
        let lifecycle = listener::Lifecycle { workers, tracker, drain, cancel };
        let settings = module_settings::replica_door(connections);
        tasks.spawn(listener::serve(door, CarriedRequests(service), settings, lifecycle));
        Self { tasks, end }
    }

    /// Ends its connections.
    pub(super) async fn close(self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
