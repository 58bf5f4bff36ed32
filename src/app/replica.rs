//! This gateway as one of several replicas on its database.

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

/// Joins the other replicas on the database and listens for them; `None` without `[replica]`.
pub(super) async fn join(
    config: &Config,
    storage: &Storage,
    budget: &MemoryBudget,
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

/// What differs between replicas on one database.
#[derive(Debug, Clone)]
pub(super) struct ReplicaPart {
    /// Number of this replica.
    pub(super) number: ReplicaNumber,
    /// Open while this replica's lease is valid, so that it may send.
    pub(super) fence: Fence,
    /// Open once this replica runs the servers that run on one replica only.
    pub(super) home: Latch,
}

// === impl ReplicaPart ===

impl ReplicaPart {
    /// The values for a gateway with replicas; with `None`, see [`ReplicaPart::sole`].
    pub(super) fn of(replicas: Option<&Replicas>) -> Self {
        replicas.map_or_else(Self::sole, |replicas| Self {
            number: replicas.number(),
            fence: replicas.fence(),
            home: replicas.home(),
        })
    }

    /// The values for a gateway without replicas: always open.
    pub(super) fn sole() -> Self {
        Self { number: ReplicaNumber::SOLE, fence: Fence::always_open(), home: Latch::opened() }
    }
}

/// Endpoints with a server that runs on one replica only: its own, those of its groups, and the merged one.
pub(super) fn home_targets(backends: &[BackendSpec], groups: &Groups) -> BTreeSet<Target> {
    let at_home: BTreeSet<&BackendId> =
        backends.iter().filter(|spec| spec.home == ServerHome::One).map(|spec| &spec.id).collect();
    let groups = groups.iter().filter(|group| group.servers.iter().any(|id| at_home.contains(id)));
    let named = at_home.iter().copied().chain(groups.map(|group| &group.id)).cloned().map(Target::Backend);
    let merged = (!at_home.is_empty()).then_some(Target::Merged);
    named.chain(merged).collect()
}

/// The running listener for other replicas.
pub(super) struct OpenDoor {
    tasks: TaskTracker,
    end: CancellationToken,
}

// === impl OpenDoor ===

impl OpenDoor {
    /// Serves requests forwarded by other replicas until it is closed, even while the gateway drains.
    pub(super) fn open(door: ReplicaDoor, service: HttpService, connections: usize, workers: Workers) -> Self {
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let (drain, cancel, tracker) = (end.clone(), end.clone(), tasks.clone());
        let lifecycle = listener::Lifecycle { workers, tracker, drain, cancel };
        let settings = module_settings::replica_door(connections);
        tasks.spawn(listener::serve(door, CarriedRequests(service), settings, lifecycle));
        Self { tasks, end }
    }

    /// Ends its connections, and waits for them.
    pub(super) async fn close(self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
