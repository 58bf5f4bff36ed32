//! Clients that come back over HTTP+SSE. `EventSource` reopens a lost stream by itself, and continues without
//! `initialize` as if nothing had happened. The rows of the caller's connections show which client it is.

use std::collections::HashSet;

use bytes::Bytes;

use super::{Sessions, error::LookupError, record};
use crate::{
    frontend::session::Session,
    mcp::{Capabilities, ClientInfo, Level, Revision},
    model::{Binding, Caller, Endpoint, SessionAddress},
    storage::mcp_sessions::McpSession,
    support::Digest,
};

/// The rows of the connections that a session continues. They are replaced once its own row is written.
pub(crate) struct Continued(Vec<Digest>);

/// The way in which a client opens a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrival {
    /// For the first time, as far as its request shows: it names no version and no event.
    First,
    /// Again, after it lost a stream; with its version, if it names one.
    Return(Option<Revision>),
}

/// The known facts about a client that comes back.
struct ReturningClient {
    client: ClientInfo,
    level: Option<Level>,
    subscriptions: Vec<String>,
}

// === impl Sessions ===

impl Sessions {
    /// Finds out who the session's client is, from the rows of this caller's connections at this endpoint. Uses the
    /// ended ones, or the open ones if none has ended, because a client may come back before the gateway notices its
    /// loss. If the rows agree, they describe the client. If they do not agree, or a client comes back without any, it
    /// is served without capabilities. A new client without rows stays as it is.
    pub(crate) async fn recognize(
        &self,
        session: &Session,
        arrival: Arrival,
    ) -> Result<Option<Continued>, LookupError> {
        let _permit = self.lookups.permit(&session.owner.user).await.ok_or(LookupError::TooManyLookups)?;
        let revision = match arrival {
            Arrival::First => None,
            Arrival::Return(revision) => revision,
        };
        let (ended, open) = self.connections_of(&session.owner, &session.address, revision).await;
        let rows = if ended.is_empty() { &open } else { &ended };
        if let Some(ReturningClient { client, level, subscriptions }) = ReturningClient::agreed(rows) {
            session.presume(client, &self.settings);
            session.restore(level, subscriptions);
            return Ok(Some(Continued(ended.iter().map(|row| row.digest).collect())));
        }
        if !rows.is_empty() || matches!(arrival, Arrival::Return(_)) {
            session.presume(unknown(revision), &self.settings);
        }
        Ok(None)
    }

    /// Writes the row of a session, which replaces the rows that it continues. A session of an unknown client gets no
    /// row, because that would be one more row that does not agree with the others.
    pub(crate) async fn keep(&self, session: &Session, Continued(rows): Continued) {
        self.store(session).await;
        if !rows.is_empty() {
            drop(self.rows.supersede(rows));
        }
    }

    /// True if this caller had a connection at this endpoint, with this version, that has ended.
    pub(crate) async fn has_ended_connection(
        &self,
        caller: &Caller,
        endpoint: &Endpoint,
        revision: Option<Revision>,
    ) -> Result<bool, LookupError> {
        let _permit = self.lookups.permit(&caller.user).await.ok_or(LookupError::TooManyLookups)?;
        let address = SessionAddress { endpoint: endpoint.clone(), binding: Binding::Sse };
        let (ended, _) = self.connections_of(caller, &address, revision).await;
        Ok(!ended.is_empty())
    }

    /// The rows of the caller's connections at this address. The ended ones come first, then the ones open here.
    async fn connections_of(
        &self,
        caller: &Caller,
        address: &SessionAddress,
        revision: Option<Revision>,
    ) -> (Vec<McpSession>, Vec<McpSession>) {
        let rows = match self.deps.storage.mcp_sessions().of_owner(&caller.owner(), &address.to_string()).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "a client that comes back is served as one without capabilities");
                Vec::new()
            }
        };
        let now = self.now();
        let open: HashSet<Digest> =
            self.table.of(&caller.owner()).iter().map(|session| Digest::sha256(session.id.as_str())).collect();
        rows.into_iter()
            .filter(|row| now.since(row.state.last_seen) < self.settings.limits.get().session_idle)
            .filter(|row| revision.is_none_or(|revision| row.revision == revision.as_str()))
            .partition(|row| !open.contains(&row.digest))
    }
}

/// A client of which at most the version is known.
fn unknown(revision: Option<Revision>) -> ClientInfo {
    ClientInfo {
        revision: revision.unwrap_or(Revision::V2024_11_05),
        implementation: Bytes::from_static(b"{}"),
        capabilities: Capabilities::new(Bytes::from_static(b"{}")),
    }
}

// === impl ReturningClient ===

impl ReturningClient {
    /// The client that all these rows describe; `None` if there are no rows, or if they describe several clients.
    /// Settings that differ between them are left out.
    fn agreed(rows: &[McpSession]) -> Option<Self> {
        fn description(row: &McpSession) -> (&str, &[u8], &[u8]) {
            (&row.revision, &row.implementation, &row.capabilities)
        }
        let (first, others) = rows.split_first()?;
        if others.iter().any(|row| description(row) != description(first)) {
            return None;
        }
        let is_one_level = others.iter().all(|row| row.state.log_level == first.state.log_level);
        let is_one_set = others.iter().all(|row| row.state.subscriptions == first.state.subscriptions);
        let level = first.state.log_level.as_deref().filter(|_| is_one_level).and_then(Level::parse);
        let subscriptions = if is_one_set { first.state.subscriptions.clone() } else { Vec::new() };
        Some(Self { client: record::client(first), level, subscriptions })
    }
}
