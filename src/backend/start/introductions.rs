//! Connections that are opened for clients before the server's era is known, and processes that complete the handshake
//! before a client needs them. So a client waits for one start, or for none if a process is ready.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    connection_start::ConnectionStart,
    era::AssumedEra,
    opener::{ClientOpening, Failure},
};
use crate::{
    backend::{
        connection::ServerConnection,
        server::external_backend::ExternalBackend,
        sharing::{connection_key::ConnectionKey, connection_slot::Lease},
    },
    mcp::{ClientInfo, Context},
};

/// Maximum wait of a client until lists are fetched on the connection that it takes over.
const LISTING: Duration = Duration::from_secs(1);

/// Early connections of one backend.
pub(crate) struct Introductions<'a>(pub(crate) &'a Arc<ExternalBackend>);

// === impl Introductions ===

impl Introductions<'_> {
    /// Opens the connection of this client before the base connection has shown the server's era, so that its call
    /// waits for a single start. Returns a lease to wait on; `None` if the era has to be detected first, or the base
    /// connection serves this client.
    pub(crate) fn begin(&self, context: &Context) -> Option<Lease> {
        let assumed = self.0.era.assumed(self.0.opener.transport.is_channel())?;
        let key = self.0.key(assumed.era(), context);
        if key.is_base() {
            return None;
        }
        let lease = self.0.pool.lease(&key, &context.caller.user).ok()?;
        if lease.slot().begin(&context.client) {
            self.0.open(lease.slot(), &key, ClientOpening::of(assumed, context));
        }
        Some(lease)
    }

    /// Opens a connection; if the era was only presumed, possibly one of the other era.
    pub(crate) async fn opened(
        &self,
        start: ConnectionStart<'_>,
        ClientOpening { assumed, client, .. }: &ClientOpening,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match *assumed {
            AssumedEra::Known(era) => self.0.opener.open(era, start, client).await,
            AssumedEra::Presumed(era) => {
                let modern = start.key.without_sessions().unwrap_or_else(|| self.0.base_key());
                self.0.detection(start, &modern).open_early(era, client).await
            }
        }
    }

    /// Takes over the process in which the gateway introduced clients like this one, once it is open and lists were
    /// fetched there. `None` if there is none.
    pub(crate) async fn adopted(&self, key: &ConnectionKey, client: &ClientInfo) -> Option<Arc<ServerConnection>> {
        if !self.0.spec.transport.starts_process() {
            return None;
        }
        let adoption = self.0.pool.adoption(key, client)?;
        if !adoption.is_open().await {
            return None;
        }
        // taking over must not make the client wait longer
        let _ = timeout(LISTING, adoption.free()).await;
        let introduced = self.0.pool.adopt(&adoption, key, client)?;
        self.0.opener.take_over(&introduced, key).await
    }

    /// Prepares for a call of this client, which waits for lists while the server starts: the start moves ahead of
    /// starts that no call waits for, and a second process completes the handshake for clients like this one.
    pub(crate) fn expect(&self, client: &Context) {
        if self.0.pool.base().connection().is_some() {
            return;
        }
        self.0.demand_start();
        // the base connection is the session of the only client
        if self.0.sole_client().is_some() {
            return;
        }
        if let Some(assumed) = self.0.era.assumed(self.0.opener.transport.is_channel())
            && assumed.has_sessions()
            && self.0.opener.transport.spares.are_wanted()
        {
            self.introduce(
                ConnectionKey::introducing(&self.0.spec, &client.client),
                ClientOpening::of(assumed, client),
            );
        }
    }

    /// Prepares a process for the next client like this one, if starts are slow.
    pub(crate) fn prepare_next(&self, key: &ConnectionKey, opened: &ServerConnection, opening: ClientOpening) {
        if self.0.opener.is_introduced_ahead() {
            self.introduce(key.introduced(), ClientOpening { assumed: AssumedEra::Known(opened.era()), ..opening });
        }
    }

    /// Completes the handshake in a process for clients like this one, unless there is such a process, or an unused one
    /// for this user. The first such client that calls takes it over.
    fn introduce(&self, next: Option<ConnectionKey>, opening: ClientOpening) {
        let Some(next) = next.filter(|_| self.0.spec.transport.starts_process()) else { return };
        if let Some(lease) = self.0.pool.lease_spare(&next, &opening.user)
            && lease.slot().begin(&opening.client)
        {
            self.0.open(lease.slot(), &next, opening);
        }
    }
}
