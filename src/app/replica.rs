//! This gateway as one of several on its database. Knows nothing of what it serves.

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{http_service::HttpService, module_settings};
use crate::{
    config::Config,
    listener,
    model::ReplicaNumber,
    replicas::{CarriedRequests, ReplicaDoor, Replicas},
    storage::Storage,
    support::Fence,
};

/// Joins the other replicas on the database, if there may be any, and listens for them.
pub(super) async fn join(
    storage: &Storage,
    config: &Config,
) -> anyhow::Result<(Option<Replicas>, Option<ReplicaDoor>)> {
    let Some(replica) = &config.replica else { return Ok((None, None)) };
    let listener = TcpListener::bind(replica.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {} for other replicas", replica.listen))?;
    let (replicas, door) = Replicas::join(storage.clone(), &replica.advertise, listener).await?;
    Ok((Some(replicas), Some(door)))
}

/// The number and the fence of what this gateway owns.
pub(super) fn ownership(replicas: Option<&Replicas>) -> (ReplicaNumber, Fence) {
    match replicas {
        Some(replicas) => (replicas.number(), replicas.fence()),
        None => (ReplicaNumber::SOLE, Fence::always_open()),
    }
}

/// Serves the requests that other replicas carry here, until `end`: also while the gateway drains.
pub(super) fn serve(
    (door, service): (ReplicaDoor, HttpService),
    connections: usize,
    (beside, end): (&listener::Lifecycle, &CancellationToken),
) -> impl Future<Output = ()> + Send + use<> {
    let lifecycle = listener::Lifecycle {
        drain: end.child_token(),
        cancel: end.child_token(),
        workers: beside.workers.clone(),
        tracker: beside.tracker.clone(),
    };
    listener::serve(door, CarriedRequests(service), module_settings::replica_door(connections), lifecycle)
}
