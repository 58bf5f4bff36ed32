//! Lifecycle events of all parts, and the actions on them. Knows nothing of their causes.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{mpsc, watch};

use super::known_servers::ServerRecords;
use crate::{
    backend::Supervisor,
    gateway::Gateway,
    mcp::observer::{LifecycleEvent, Observer},
    model::{KnownEra, SessionId},
};

/// Maximum number of lost sessions that wait for their end.
const MAX_LOST: usize = 1_024;

/// Handler of lifecycle events.
pub(super) struct EventHandler {
    /// Parts with state of requesters, once they are built.
    holders: OnceLock<(Weak<Supervisor>, Weak<Gateway>)>,
    known: watch::Sender<ServerRecords>,
    lost: mpsc::Sender<SessionId>,
}

/// Events that are handled later.
pub(super) struct Inbox {
    /// Records of the servers; only the latest state counts.
    pub(super) known: watch::Receiver<ServerRecords>,
    /// The client sessions to end.
    pub(super) lost: mpsc::Receiver<SessionId>,
}

impl EventHandler {
    /// Creates a handler without events.
    pub(super) fn new() -> (Arc<Self>, Inbox) {
        let (known, changes) = watch::channel(ServerRecords::default());
        let (lost, lost_sessions) = mpsc::channel(MAX_LOST);
        let events = Self { holders: OnceLock::new(), known, lost };
        (Arc::new(events), Inbox { known: changes, lost: lost_sessions })
    }

    /// The observer for all parts.
    pub(super) fn observer(self: &Arc<Self>) -> Observer {
        let events = Arc::clone(self);
        Observer::new(move |event| events.act(event))
    }

    /// Sets the parts with state of requesters. They are not kept alive.
    pub(super) fn set_holders(&self, supervisor: &Arc<Supervisor>, gateway: &Arc<Gateway>) {
        let _ = self.holders.set((Arc::downgrade(supervisor), Arc::downgrade(gateway)));
    }

    /// Starts with the eras that the backends know; later ones come as events.
    pub(super) fn set_eras(&self, eras: impl FnOnce() -> Vec<KnownEra>) {
        // no event can come in between
        self.known.send_modify(|known| known.eras = eras());
    }

    fn act(&self, event: LifecycleEvent<'_>) {
        match event {
            LifecycleEvent::RequesterEnded(requester) => {
                let Some((supervisor, gateway)) = self.holders.get() else { return };
                if let Some(supervisor) = supervisor.upgrade() {
                    supervisor.ended(requester);
                }
                if let (Some(gateway), Some(session)) = (gateway.upgrade(), requester.session()) {
                    gateway.session_ended(session);
                }
            }
            LifecycleEvent::SessionLost(session) => {
                if self.lost.try_send(session.clone()).is_err() {
                    tracing::warn!(?session, "sessions are lost faster than they can be ended");
                }
            }
            LifecycleEvent::ServerMovedHere(backend) => {
                if let Some(gateway) = self.holders.get().and_then(|(_, gateway)| gateway.upgrade()) {
                    gateway.moved_here(backend);
                }
            }
            LifecycleEvent::EraDetected(era) => self.known.send_modify(|known| known.set_era(*era)),
            LifecycleEvent::ServerDescribed(backend, result) => {
                self.known.send_modify(|known| drop(known.descriptions.insert(backend.clone(), result.clone())));
            }
        }
    }
}
