//! Lifecycle events of all parts, and the actions on them. Knows nothing of their causes.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};

use super::known_servers::ServerRecords;
use crate::{
    backend::Supervisor,
    frontend::Frontend,
    gateway::Gateway,
    mcp::observer::{LifecycleEvent, Observer, RequesterObserver},
    model::{BackendId, KnownEra, SessionId, UserId},
    storage::Storage,
};

/// Maximum number of lost sessions that wait for their end.
const MAX_LOST: usize = 1_024;
/// Maximum number of servers that wait to be asked for their lists.
const MAX_MOVED: usize = 1_024;

/// Handler of the events of servers.
pub(super) struct EventHandler {
    known: watch::Sender<ServerRecords>,
    lost: mpsc::Sender<SessionId>,
    moved: mpsc::Sender<BackendId>,
}

/// Events that are handled later.
pub(super) struct Inbox {
    /// Records of the servers; only the latest state counts.
    pub(super) known: watch::Receiver<ServerRecords>,
    pub(super) pending: PendingEvents,
}

/// Events that wait for parts in front of the servers.
pub(super) struct PendingEvents {
    /// The client sessions to end, since their state at a server is lost (`on_loss = "end"`).
    lost: mpsc::Receiver<SessionId>,
    /// The servers that start at this replica now.
    moved: mpsc::Receiver<BackendId>,
}

// === impl EventHandler ===

impl EventHandler {
    /// Creates a handler without events.
    pub(super) fn new() -> (Arc<Self>, Inbox) {
        let (known, changes) = watch::channel(ServerRecords::default());
        let (lost, lost_sessions) = mpsc::channel(MAX_LOST);
        let (moved, moved_servers) = mpsc::channel(MAX_MOVED);
        let pending = PendingEvents { lost: lost_sessions, moved: moved_servers };
        (Arc::new(Self { known, lost, moved }), Inbox { known: changes, pending })
    }

    /// The observer for the parts around servers.
    pub(super) fn observer(self: &Arc<Self>) -> Observer {
        let events = Arc::clone(self);
        Observer::new(move |event| events.act(event))
    }

    /// Starts with the eras that the backends know; later ones come as events.
    pub(super) fn set_eras(&self, eras: impl FnOnce() -> Vec<KnownEra>) {
        // no event can come in between
        self.known.send_modify(|known| known.eras = eras());
    }

    fn act(&self, event: LifecycleEvent<'_>) {
        match event {
            LifecycleEvent::SessionLost(session) => {
                if self.lost.try_send(session.clone()).is_err() {
                    tracing::warn!(%session, "sessions are lost faster than they can be ended");
                }
            }
            LifecycleEvent::ServerMovedHere(backend) => {
                if self.moved.try_send(backend.clone()).is_err() {
                    tracing::warn!(server = %backend, "servers move here faster than they can be asked for their lists");
                }
            }
            LifecycleEvent::EraDetected(era) => self.known.send_modify(|known| known.set_era(*era)),
            LifecycleEvent::ServerDescribed(backend, result) => {
                self.known.send_modify(|known| drop(known.descriptions.insert(backend.clone(), result.clone())));
            }
        }
    }
}

// === impl PendingEvents ===

impl PendingEvents {
    /// Handles the events as they come.
    pub(super) async fn handle(mut self, gateway: Arc<Gateway>, frontend: Frontend) {
        loop {
            tokio::select! {
                Some(session) = self.lost.recv() => frontend.end_session(&session).await,
                Some(backend) = self.moved.recv() => gateway.moved_here(&backend),
                else => return,
            }
        }
    }
}

/// Ends what is held for users who are disabled or deleted, by whichever process, until the sender is gone.
pub(super) async fn end_gone_users(
    mut gone: broadcast::Receiver<UserId>,
    (supervisor, gateway): (Arc<Supervisor>, Arc<Gateway>),
    frontend: Frontend,
    storage: Storage,
) {
    loop {
        let user = match gone.recv().await {
            Ok(user) => user,
            Err(broadcast::error::RecvError::Lagged(count)) => {
                tracing::warn!(count, "users leave faster than what is held for them ends: it ends when it is idle");
                continue;
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        frontend.end_user(&user).await;
        supervisor.user_gone(&user);
        gateway.user_gone(&user);
        // what was under way when the user left
        if let Err(error) = storage.users().delete_rest(&user).await {
            tracing::warn!(%error, %user, "rows that were added for a user who left could not be deleted");
        }
    }
}

/// The observer for the client side: drops what the parts hold for a requester that has ended.
pub(super) fn requester_observer(supervisor: &Arc<Supervisor>, gateway: &Arc<Gateway>) -> RequesterObserver {
    let (supervisor, gateway) = (Arc::clone(supervisor), Arc::clone(gateway));
    RequesterObserver::new(move |requester| {
        supervisor.ended(requester);
        if let Some(session) = requester.session() {
            gateway.session_ended(session);
        }
    })
}
