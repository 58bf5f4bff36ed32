//! Lifecycle of connections for clients: opened on demand, given the clients' log levels and subscriptions, reported
//! when lost.

use std::sync::Arc;

use super::external_backend::ExternalBackend;
use crate::{
    backend::{
        connection::ServerConnection,
        error::StartError,
        sharing::{
            connection_key::ConnectionKey,
            connection_slot::{Slot, SlotState},
        },
        start::{
            connection_start::{ConnectionStart, Succession},
            era::AssumedEra,
            introductions::Introductions,
            opener::{ClientOpening, Failure},
        },
    },
    mcp::{
        ClientInfo, Method, Notification, Payload, Revision,
        hearers::Addressees,
        large_messages::{MessageOwner, OffWorker},
        observer::LifecycleEvent,
    },
    model::{UserId, status::last_output_text},
};

impl ExternalBackend {
    /// Opens the connection of `slot` in a task. All calls that wait for the slot share it.
    pub(crate) fn open(self: &Arc<Self>, slot: &Arc<Slot>, key: &ConnectionKey, opening: ClientOpening) {
        if let Some(trouble) = self.trouble().or_else(|| slot.circuit.admit().err()) {
            slot.set(SlotState::Failed(trouble));
            return;
        }
        let (backend, slot, key) = (Arc::clone(self), Arc::clone(slot), key.clone());
        let owner = MessageOwner::Server(self.spec.id.clone());
        let lifetime = async move {
            let succession = if slot.has_lived() { Succession::Another } else { Succession::First };
            let (assumed, client, user) = (opening.assumed, Arc::clone(&opening.client), opening.user.clone());
            let opened = async {
                if let Some(connection) = Introductions(&backend).adopted(&key, &client).await {
                    return Ok(connection);
                }
                let start = ConnectionStart { key: &key, succession, user: Some(&opening.user) };
                Introductions(&backend).opened(start, &opening).await
            };
            // cancelling this also ends a process that is being started
            let Some(opened) = slot.left().run_until_cancelled(opened).await else {
                return slot.set(SlotState::Failed(StartError::Unreachable(slot.why_left().to_owned())));
            };
            backend.opener.count(opened.as_deref().ok());
            if let Ok(connection) = &opened {
                backend.crossing.set_server_tasks(connection.tasks());
            }
            match opened {
                Ok(connection) => {
                    slot.circuit.succeeded();
                    backend.keep_spares();
                    Introductions(&backend).prepare_next(&key, &connection, opening);
                    backend.run(connection, &slot, &key, &client, &user).await;
                }
                // the era has changed: waiting calls start over
                Err(_) if backend.era.now() != assumed.known() => slot.set(SlotState::Gone),
                Err(Failure { error, output }) => {
                    let output = last_output_text(&output);
                    tracing::warn!(server = %backend.spec.id, %error, output, "no session could be opened");
                    slot.circuit.failed(&error);
                    slot.set(SlotState::Failed(error.clone()));
                    backend.contradicted(assumed, &error);
                }
            }
        };
        self.context.tasks.spawn(OffWorker::future(owner, Box::pin(lifetime)));
    }

    /// Starts spare processes for clients to come.
    fn keep_spares(self: &Arc<Self>) {
        let backend = Arc::clone(self);
        self.context.tasks.spawn_until_end(async move { backend.opener.transport.start_spares().await });
    }

    /// Keeps a new connection until it ends: in this slot, or in the slot for its era if the assumed era was wrong.
    async fn run(
        self: &Arc<Self>,
        connection: Arc<ServerConnection>,
        slot: &Arc<Slot>,
        key: &ConnectionKey,
        client: &Arc<ClientInfo>,
        user: &UserId,
    ) {
        let of_era = connection.context.key.clone();
        if of_era == *key {
            return self.run_in(slot, key, connection).await;
        }
        // waiting calls look for the connection under the key of its era
        slot.set(SlotState::Gone);
        let lease = if of_era.is_base() { None } else { self.pool.lease(&of_era, user).ok() };
        match lease.map(|lease| Arc::clone(lease.slot())).filter(|slot| slot.begin(client)) {
            Some(slot) => self.run_in(&slot, &of_era, connection).await,
            None => connection.end("another connection serves its client"),
        }
    }

    /// Keeps a new connection in its slot until it ends.
    async fn run_in(self: &Arc<Self>, slot: &Slot, key: &ConnectionKey, connection: Arc<ServerConnection>) {
        connection.follow_interests().await;
        if slot.has_lived() {
            self.notify_restarted(key, &connection);
        }
        slot.set(SlotState::Ready(Arc::clone(&connection)));
        if slot.left().is_cancelled() {
            connection.end(slot.why_left());
        }
        if self.era.now() != Some(connection.era()) {
            // connections of the other era were ended while this one was being opened
            connection.end("the server's protocol era has changed");
        }
        let reason = connection.over().await;
        slot.gone();
        self.lost(slot);
        tracing::info!(server = %self.spec.id, reason, "a session at the server ended");
    }

    /// Handles a connection that failed because the server reports another era. The base connection belongs to an older
    /// process, or the gateway has not noticed its loss yet: it is ended, and the era is detected again.
    fn contradicted(&self, assumed: AssumedEra, error: &StartError) {
        let base = self.pool.base();
        if let (StartError::OtherEra(_), Some(assumed)) = (error, assumed.known())
            && !self.era.is_configured()
            && base.era() == Some(assumed)
        {
            self.era.doubt(assumed);
            base.end("the server's protocol era seems to have changed");
        }
    }

    /// With `on_loss = "end"`, ends the client sessions that called on a lost connection: on a shared one all of them,
    /// since it is unknown whose state was lost. Sessions stay when the gateway stops.
    pub(crate) fn lost(&self, slot: &Slot) {
        let bound = slot.take_bound();
        if self.context.tasks.end().is_cancelled() {
            return;
        }
        for session in bound {
            self.context.observer.notify(LifecycleEvent::SessionLost(&session));
        }
    }

    /// Notifies the clients that their server was restarted (design rule 9): by a log message, and as a change of every
    /// list.
    pub(crate) fn notify_restarted(&self, key: &ConnectionKey, connection: &ServerConnection) {
        if connection.can_log() {
            let text =
                format!("Server `{}` was started anew; what it remembered of this session is gone", self.spec.id);
            let params = serde_json::json!({ "level": "warning", "logger": "lockkeeper", "data": text });
            let params = Payload::of(Revision::NEWEST_LEGACY, &params);
            self.listens.notify(key, &Notification { method: Method::LoggingMessage, params }, &Addressees::All);
        }
        self.listens.notify_lists_changed(key);
    }
}
