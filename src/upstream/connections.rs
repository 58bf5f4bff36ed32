//! The accounts that users have connected.

use std::sync::Arc;

use super::{account_tokens::StoredAccount, context::UpstreamContext, error::UpstreamError, servers::ProtectedServers};
use crate::{
    model::{AccessEffect, BackendId, UserId},
    storage::UpstreamTokenRow,
    support::Timestamp,
};

#[derive(Clone)]
pub struct Connections {
    context: UpstreamContext,
    servers: Arc<ProtectedServers>,
}

/// A server where users log in, with one user's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    pub backend: BackendId,
    /// The login, if any.
    pub login: Option<LoginView>,
}

/// A user's login at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginView {
    /// The authorization server.
    pub issuer: String,
    /// The granted scopes, separated by spaces.
    pub scope: Option<String>,
    /// Time of the login.
    pub connected: Timestamp,
}

// === impl Connections ===

impl Connections {
    pub(super) const fn new(context: UpstreamContext, servers: Arc<ProtectedServers>) -> Self {
        Self { context, servers }
    }

    /// True if users log in at this server.
    pub fn is_protected(&self, backend: &BackendId) -> bool {
        self.servers.find(backend).is_some()
    }

    /// Every server where users log in, with this user's login at each.
    pub async fn of(&self, user: &UserId) -> Result<Vec<ConnectionView>, UpstreamError> {
        let rows = self.context.storage.upstream_tokens().list(Some(user)).await?;
        let mut all = Vec::new();
        for (backend, _) in self.servers.all() {
            let row = rows.iter().find(|row| row.backend == backend);
            let login = match (self.servers.find(&backend), row) {
                (Some(server), Some(row)) if server.takes(row) => self.login(row).await?,
                _ => None,
            };
            all.push(ConnectionView { backend, login });
        }
        Ok(all)
    }

    /// The login with these tokens, unless it has ended.
    async fn login(&self, row: &UpstreamTokenRow) -> Result<Option<LoginView>, UpstreamError> {
        let stored = StoredAccount::open(&self.context, row.clone()).await?;
        let UpstreamTokenRow { issuer, scope, connected, .. } = row.clone();
        Ok((!stored.need_login(&self.context)).then_some(LoginView { issuer, scope, connected }))
    }

    /// Ends a login: its tokens are deleted now and revoked later. Returns false if there is none.
    pub async fn disconnect(&self, user: &UserId, backend: &BackendId) -> Result<bool, UpstreamError> {
        let is_deleted = self.context.storage.upstream_tokens().delete(user, backend).await?;
        if is_deleted {
            self.context.announce(user, backend, AccessEffect::Ended);
        }
        Ok(is_deleted)
    }
}
