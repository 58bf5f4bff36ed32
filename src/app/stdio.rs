//! The application for one local client on standard input and output. No listener, no users, no pages; nothing is written
//! to the data folder.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    call_path::{CallPath, CallPathDeps, World, end_lost},
    known_servers::ServerRecords,
};
use crate::{
    config::Config,
    listener::descriptors,
    model::Caller,
    resource::{Authorized, StreamLease},
    storage::Storage,
    support::SealingKey,
    telemetry::Telemetry,
};

/// Time for running calls after a signal. Clients wait two seconds between the signal that asks and the one that kills.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of connections, from which the number of listens derives: there is one client.
const CONNECTIONS: usize = 1_024;

/// A gateway for one local client.
pub struct StdioApp {
    path: CallPath,
    storage: Storage,
    world: World,
}

// === impl StdioApp ===

impl StdioApp {
    /// Starts the backends. Returns before they are ready.
    pub async fn build(config: &Config, telemetry: Telemetry) -> anyhow::Result<Self> {
        descriptors::raise();
        let world = World::new(telemetry);
        // sessions are their channel: nothing has to outlive the process
        let storage = Storage::in_memory().await?;
        let deps = CallPathDeps {
            config,
            storage: &storage,
            state_key: SealingKey::ephemeral(&*world.random),
            known: &ServerRecords::default(),
            connections: CONNECTIONS,
        };
        let path = deps.build(&world)?;
        Ok(Self { path, storage, world })
    }

    /// Serves the client until it closes `input`, stops reading `output`, or `stop`; then everything is ended. The client
    /// is whoever started this process, so it needs no authorization.
    pub async fn serve(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        stop: impl Future<Output = ()>,
    ) {
        let Self { path, storage, world } = self;
        let World { telemetry, inbox, tracker, cancel, .. } = world;
        tracker.spawn(telemetry.upkeep(cancel.clone()));
        let lost = end_lost(path.frontend.clone(), inbox.lost);
        tracker.spawn(cancel.clone().run_until_cancelled_owned(lost));
        let lease = StreamLease { expires: None, revoked: Arc::default() };
        let client = Authorized { caller: Arc::new(Caller::local()), lease };
        let stopping = async {
            stop.await;
            tracing::info!("stopping: running calls may finish");
            path.frontend.drain();
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            () = path.frontend.serve_stdio(client, input, output) => {}
            () = stopping => {}
        }
        path.end(&cancel).await;
        tracker.close();
        tracker.wait().await;
        storage.close().await;
        tracing::info!("stopped");
    }
}
