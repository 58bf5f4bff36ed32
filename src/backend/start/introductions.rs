//! Connections of clients before anybody knows the server's era, and processes that were introduced to clients like them: a
//! client waits for one start, and for none where a process is ready. Knows nothing of calls.

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

/// The longest that a client waits for lists to be fetched on the connection that is to become its own.
const LISTING: Duration = Duration::from_secs(1);

/// Introductions of one backend's server to its clients.
pub(crate) struct Introductions<'a>(pub(crate) &'a Arc<ExternalBackend>);

// === impl Introductions ===

impl Introductions<'_> {
    /// Opens the connection of this client before the base connection has told the era of the server, so that its call waits
    /// for one start alone. Returns the right to wait for it; `None` if the era has to be found out first, or the base
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

    /// A connection to a server of this era, or of another one if it was only presumed.
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

    /// The process in which the server was introduced to clients like this one, which serves this one from now on: as soon as
    /// it is open and the lists were fetched there.
    pub(crate) async fn adopted(&self, key: &ConnectionKey, client: &ClientInfo) -> Option<Arc<ServerConnection>> {
        if !self.0.spec.transport.starts_process() {
            return None;
        }
        let adoption = self.0.pool.adoption(key, client)?;
        if !adoption.is_open().await {
            return None;
        }
        // it is of no use to a client that would have to wait longer
        let _ = timeout(LISTING, adoption.free()).await;
        let introduced = self.0.pool.adopt(&adoption, key, client)?;
        self.0.opener.take_over(&introduced, key).await
    }

    /// Prepares for a call of this client, which waits for the lists while the server starts: that start is given a turn before
    /// those that nobody waits for, and a process is introduced to clients like this one beside it.
    pub(crate) fn expect(&self, client: &Context) {
        if self.0.pool.base().connection().is_some() {
            return;
        }
        self.0.demand_start();
        // the base connection is the only client's own
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

    /// Has a process introduced to clients like this one, for the next of them, where that takes long.
    pub(crate) fn prepare_next(&self, key: &ConnectionKey, opened: &ServerConnection, opening: ClientOpening) {
        if self.0.opener.is_introduced_ahead() {
            self.introduce(key.introduced(), ClientOpening { assumed: AssumedEra::Known(opened.era()), ..opening });
        }
    }

    /// Has a process introduced to clients like this one, unless there is one, or one that was started for this user is still
    /// unused. The first of them that calls takes it.
    fn introduce(&self, next: Option<ConnectionKey>, opening: ClientOpening) {
        let Some(next) = next.filter(|_| self.0.spec.transport.starts_process()) else { return };
        if let Some(lease) = self.0.pool.lease_spare(&next, &opening.user)
            && lease.slot().begin(&opening.client)
        {
            self.0.open(lease.slot(), &next, opening);
        }
    }
}
