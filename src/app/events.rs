//! Lifecycle events from all parts, and what follows from them.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};

use super::known_servers::ServerRecords;
use crate::{
    backend::Supervisor,
    frontend::Frontend,
    gateway::Gateway,
    mcp::observer::{LifecycleEvent, Observer, RequesterObserver},
    model::{BackendId, GrantId, KeyId, KnownEra, SessionId, UserId},
    oauth::{EndedAccess, OAuth, OAuthError},
    storage::Storage,
};

/// Maximum number of sessions that wait to be ended.
const MAX_LOST: usize = 1_024;
/// Maximum number of servers that wait for their lists to be fetched.
const MAX_MOVED: usize = 1_024;

/// Receives events about servers.
pub(super) struct EventHandler {
    known: watch::Sender<ServerRecords>,
    lost: mpsc::Sender<SessionId>,
    moved: mpsc::Sender<BackendId>,
}

/// Events to be handled by tasks.
pub(super) struct Inbox {
    /// State of the servers to store; only the latest counts.
    pub(super) known: watch::Receiver<ServerRecords>,
    pub(super) pending: PendingEvents,
}

/// Events whose handling needs parts in front of the backends.
pub(super) struct PendingEvents {
    /// Client sessions to end, because their state at a server is lost (`on_loss = "end"`).
    lost: mpsc::Receiver<SessionId>,
    /// Servers that now run at this replica.
    moved: mpsc::Receiver<BackendId>,
}

// === impl EventHandler ===

impl EventHandler {
    pub(super) fn new() -> (Arc<Self>, Inbox) {
        let (known, changes) = watch::channel(ServerRecords::default());
        let (lost, lost_sessions) = mpsc::channel(MAX_LOST);
        let (moved, moved_servers) = mpsc::channel(MAX_MOVED);
        let pending = PendingEvents { lost: lost_sessions, moved: moved_servers };
        (Arc::new(Self { known, lost, moved }), Inbox { known: changes, pending })
    }

    /// The observer to hand to backends and the gateway.
    pub(super) fn observer(self: &Arc<Self>) -> Observer {
        let events = Arc::clone(self);
        Observer::new(move |event| events.act(event))
    }

    /// Sets the eras that the backends know at the start; later ones arrive as events.
    pub(super) fn set_eras(&self, eras: impl FnOnce() -> Vec<KnownEra>) {
        // under the lock, so that no event is lost
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
    /// Handles events as they arrive.
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

/// The parts that hold something for users.
pub(super) struct HeldParts {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) frontend: Frontend,
    pub(super) storage: Storage,
    pub(super) oauth: OAuth,
}

/// Ends everything held for users, keys and apps whose access ends, by this process or another, until the senders are
/// dropped.
pub(super) async fn end_held(
    mut gone: broadcast::Receiver<UserId>,
    mut ended: broadcast::Receiver<EndedAccess>,
    parts: HeldParts,
) {
    let users = async {
        while let Some(user) = next(&mut gone).await {
            warn(parts.end_user(&user).await);
        }
    };
    let access = async {
        while let Some(access) = next(&mut ended).await {
            warn(match access {
                EndedAccess::Key(key) => parts.end_key(&key).await,
                EndedAccess::Grant(grant) => parts.end_app(&grant).await,
            });
        }
    };
    tokio::join!(users, access);
}

async fn next<T: Clone>(receiver: &mut broadcast::Receiver<T>) -> Option<T> {
    loop {
        match receiver.recv().await {
            Ok(next) => return Some(next),
            Err(broadcast::error::RecvError::Lagged(count)) => {
                tracing::warn!(
                    count,
                    "access ends faster than its sessions and processes can be ended: they end when they are idle"
                );
            }
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

fn warn(done: Result<(), OAuthError>) {
    if let Err(error) = done {
        tracing::warn!(%error, "sessions and processes of access that ended may stay until they are idle");
    }
}

// === impl HeldParts ===

impl HeldParts {
    async fn end_user(&self, user: &UserId) -> Result<(), OAuthError> {
        self.frontend.end_user(user).await;
        self.supervisor.user_gone(user);
        self.gateway.user_gone(user);
        // rows of requests that were in progress when the user left
        Ok(self.storage.users().delete_rest(user).await?)
    }

    /// Ends the sessions of a key, unless it only has fewer rights now.
    async fn end_key(&self, key: &KeyId) -> Result<(), OAuthError> {
        if let Some(user) = self.oauth.keys().user_of_ended(key).await? {
            self.frontend.end_key(&user, key).await;
        }
        Ok(())
    }

    /// Ends the sessions of the grant's app, unless its user has let it in again.
    async fn end_app(&self, grant: &GrantId) -> Result<(), OAuthError> {
        if let Some((user, client)) = self.oauth.grants().last_of(grant).await? {
            self.frontend.end_app(&user, &client).await;
        }
        Ok(())
    }
}

/// The observer for the frontend: drops what other parts hold for a client that has left.
pub(super) fn requester_observer(supervisor: &Arc<Supervisor>, gateway: &Arc<Gateway>) -> RequesterObserver {
    let (supervisor, gateway) = (Arc::clone(supervisor), Arc::clone(gateway));
    RequesterObserver::new(move |requester| {
        supervisor.ended(requester);
        if let Some(session) = requester.session() {
            gateway.session_ended(session);
        }
    })
}
