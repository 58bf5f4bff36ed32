//! Parts of a gateway that run alongside requests, and how they end.

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    call_path::CallPath,
    events::{self, HeldParts, PendingEvents},
    freed_memory,
    kept_lists::KeptLists,
    known_servers::KnownServers,
    replica::OpenDoor,
};
use crate::{oauth::OAuth, replicas::Replicas, storage::Storage, upstream::Upstream};

/// Background tasks that act on events.
pub(super) struct Background {
    pub(super) known_servers: KnownServers,
    pub(super) kept_lists: Arc<KeptLists>,
    pub(super) events: PendingEvents,
}

/// Everything that must be ended.
pub(super) struct Parts {
    pub(super) storage: Storage,
    pub(super) oauth: OAuth,
    pub(super) upstream: Upstream,
    pub(super) path: CallPath,
    /// `None` unless this gateway is one of several replicas.
    pub(super) replicas: Option<Replicas>,
    pub(super) tracker: TaskTracker,
    /// Cancelled when the gateway is about to stop, but still serves.
    pub(super) leaving: CancellationToken,
    pub(super) cancel: CancellationToken,
    /// Cancelled when all backends have ended.
    pub(super) ended: CancellationToken,
}

// === impl Parts ===

impl Parts {
    /// Starts the background tasks. The returned token is cancelled if this replica is deposed.
    pub(super) fn watch(&self, background: Background) -> CancellationToken {
        let Background { known_servers, kept_lists, events } = background;
        let (oauth, cancel) = (self.oauth.clone(), self.cancel.clone());
        self.tracker.spawn(async move { oauth.watch_revocations(cancel).await });
        let (upstream, cancel) = (self.upstream.clone(), self.cancel.clone());
        self.tracker.spawn(async move { upstream.watch(cancel).await });
        let (frontend, cancel) = (self.path.frontend.clone(), self.cancel.clone());
        self.tracker.spawn(async move { frontend.run_reaper(cancel).await });
        let events = events.handle(Arc::clone(&self.path.gateway), self.path.frontend.clone());
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move { cancel.run_until_cancelled(events).await });
        let ending = events::end_held(
            self.oauth.gone_users(),
            self.oauth.ended(),
            HeldParts {
                supervisor: Arc::clone(&self.path.supervisor),
                gateway: Arc::clone(&self.path.gateway),
                frontend: self.path.frontend.clone(),
                storage: self.storage.clone(),
                oauth: self.oauth.clone(),
            },
        );
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move { cancel.run_until_cancelled(ending).await });
        self.tracker.spawn(known_servers.run(self.ended.clone()));
        self.tracker.spawn(kept_lists.run(self.ended.clone()));
        self.tracker.spawn(freed_memory::return_to_system(self.cancel.clone()));
        let deposed = CancellationToken::new();
        if let Some(replicas) = self.replicas.clone() {
            let (ended, deposed) = (self.ended.clone(), deposed.clone());
            self.tracker.spawn(async move {
                if replicas.keep(ended).await.is_err() {
                    deposed.cancel();
                }
            });
        }
        deposed
    }

    /// Ends all parts in the reverse order of their creation.
    pub(super) async fn end(self, door: Option<OpenDoor>) {
        if let Some(replicas) = &self.replicas {
            replicas.stop();
        }
        self.path.end(&self.cancel).await;
        self.ended.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        if let Some(replicas) = &self.replicas {
            replicas.leave().await;
        }
        if let Some(door) = door {
            door.close().await;
        }
        self.storage.close().await;
        tracing::info!("stopped");
    }
}
