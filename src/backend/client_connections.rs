//! Lives of connections for clients: each is opened when a call needs it, brought to what its clients have set, and told of
//! when it is lost.

use std::sync::Arc;

use super::{
    connection::ServerConnection,
    connection_key::ConnectionKey,
    error::StartError,
    external_backend::ExternalBackend,
    open::{Failure, Succession},
    pool::{Slot, SlotState},
};
use crate::mcp::{ClientInfo, Era, Method, Notification, Payload, Revision, observer::LifecycleEvent};

impl ExternalBackend {
    /// Opens the connection of `slot`, in a task that all who wait for it share.
    pub(super) fn open(self: &Arc<Self>, slot: &Arc<Slot>, key: &ConnectionKey, client: &Arc<ClientInfo>) {
        if let Some(trouble) = self.health.trouble() {
            slot.set(SlotState::Failed(trouble));
            return;
        }
        let (backend, slot, key, client) = (Arc::clone(self), Arc::clone(slot), key.clone(), Arc::clone(client));
        self.context.tasks.spawn(async move {
            let era = backend.era.now();
            let succession = if slot.has_lived() { Succession::Another } else { Succession::First };
            let opened = backend.opener.open(era, (&key, succession), &client).await;
            backend.opener.count(opened.as_deref().ok());
            if let Ok(connection) = &opened {
                backend.crossing.met(connection.tasks());
            }
            match opened {
                Ok(connection) => backend.live_in(&slot, &key, connection).await,
                // who waits begins again
                Err(_) if backend.era.now() != era => slot.set(SlotState::Gone),
                Err(Failure { error, stderr_tail }) => {
                    tracing::warn!(backend = %backend.spec.id, %error, stderr = ?stderr_tail, "no session could be opened");
                    slot.set(SlotState::Failed(error.clone()));
                    backend.contradicted(era, &error);
                }
            }
        });
    }

    /// Serves as long as a connection in a slot lasts, from when it can be used.
    async fn live_in(self: &Arc<Self>, slot: &Slot, key: &ConnectionKey, connection: Arc<ServerConnection>) {
        self.settings.bring_up(key, &connection).await;
        if slot.has_lived() {
            self.tell_fresh(key, &connection);
        }
        slot.set(SlotState::Ready(Arc::clone(&connection)));
        if self.era.now() != Some(connection.era()) {
            // it was being opened when the others were ended
            connection.end("the server was found to be of another era");
        }
        // who set one in the moment before did not find the connection yet
        self.settings.bring_to_level(key, &connection).await;
        let reason = connection.over().await;
        slot.gone();
        self.lost(slot);
        tracing::info!(backend = %self.spec.id, reason, "a session at the backend ended");
    }

    /// Notes that a connection beside the base one could not be opened since the server says that it is of another era: then
    /// the base one is an older process of it, or does not know yet that it is lost, and it is found out anew.
    fn contradicted(&self, era: Option<Era>, error: &StartError) {
        let base = self.pool.base();
        if matches!(error, StartError::OtherEra(_)) && !self.era.is_configured() && base.era() == era {
            self.era.doubt();
            base.end("the server seems to be of another era than it was");
        }
    }

    /// Ends the client sessions that called on a connection that is gone, if that is how it is to be: of a shared one every
    /// such session, since none knows what of its own was there. Sessions that the gateway leaves at its own end are kept:
    /// they survive it.
    pub(super) fn lost(&self, slot: &Slot) {
        let bound = slot.take_bound();
        if self.context.tasks.end().is_cancelled() {
            return;
        }
        for session in bound {
            self.context.observer.notify(LifecycleEvent::SessionLost(&session));
        }
    }

    /// Tells the client that the server behind it is a fresh one (design rule 9).
    fn tell_fresh(&self, key: &ConnectionKey, connection: &ServerConnection) {
        if connection.can_log() {
            let text =
                format!("Backend `{}` was started anew; what it remembered of this session is gone", self.spec.id);
            let params = serde_json::json!({ "level": "warning", "logger": "lockkeeper", "data": text });
            let params = Payload::of(Revision::NEWEST_LEGACY, &params);
            self.listens.tell(key, &Notification { method: Method::LoggingMessage, params }, |_| true);
        }
        self.listens.tell_all_changed(key);
    }
}
