//! The tokens of a user at a server, as stored: sealed in the vault.

use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::{context::UpstreamContext, error::UpstreamError, servers::ProtectedServer};
use crate::{
    model::{BackendId, DiscoveredNetwork, UserId},
    oauth_client::{RegisteredClient, SavedTokens, TokenSource},
    storage::{UpstreamTokenRow, WithdrawnTokenRow},
    support::{Digest, Secret, Timestamp},
    vault::{VaultError, VaultOwner, VaultPlace},
};

/// The field of tokens in the vault.
const TOKENS: &str = "tokens";

/// The tokens, and everything needed to refresh and revoke them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AccountTokens {
    pub(super) source: TokenSource,
    pub(super) client: RegisteredClient,
    pub(super) tokens: SavedTokens,
    /// The server's URL, and the network that URLs it names may be in.
    pub(super) server: (Url, DiscoveredNetwork),
}

/// The tokens with their row in the store.
#[derive(Debug, Clone)]
pub(super) struct StoredAccount {
    pub(super) account: AccountTokens,
    pub(super) row: UpstreamTokenRow,
}

// === impl AccountTokens ===

impl AccountTokens {
    /// Stores the tokens of a login, in place of earlier ones.
    pub(super) async fn add(
        self,
        context: &UpstreamContext,
        user: &UserId,
        backend: &BackendId,
        server: Digest,
    ) -> Result<(), UpstreamError> {
        let sealed = self.sealed(context, user, backend).await?;
        let row = self.row(user, backend, server, sealed, context.now());
        Ok(context.storage.upstream_tokens().set(&row).await?)
    }

    pub(super) async fn withdrawn(context: &UpstreamContext, row: &WithdrawnTokenRow) -> Result<Self, UpstreamError> {
        open(context, place(&row.user, &row.backend, &row.issuer), &row.sealed).await
    }

    async fn sealed(
        &self,
        context: &UpstreamContext,
        user: &UserId,
        backend: &BackendId,
    ) -> Result<Vec<u8>, UpstreamError> {
        let text = Zeroizing::new(serde_json::to_vec(self).map_err(|_| VaultError::Form)?);
        Ok(context.vault.seal(place(user, backend, &self.source.issuer), &text).await?)
    }

    fn row(
        &self,
        user: &UserId,
        backend: &BackendId,
        server: Digest,
        sealed: Vec<u8>,
        connected: Timestamp,
    ) -> UpstreamTokenRow {
        UpstreamTokenRow {
            user: user.clone(),
            backend: backend.clone(),
            server,
            issuer: self.source.issuer.clone(),
            resource: self.source.resource.clone(),
            scope: self.tokens.scope.clone(),
            sealed,
            connected,
            version: 1,
        }
    }
}

// === impl StoredAccount ===

impl StoredAccount {
    /// The tokens of a user at a server; `None` if there are none for the server as configured.
    pub(super) async fn load(
        context: &UpstreamContext,
        user: &UserId,
        backend: &BackendId,
        server: &ProtectedServer,
    ) -> Result<Option<Self>, UpstreamError> {
        let row = context.storage.upstream_tokens().lookup(user, backend).await?;
        match row.filter(|row| server.takes(row)) {
            Some(row) => Ok(Some(Self::open(context, row).await?)),
            None => Ok(None),
        }
    }

    /// Opens the tokens in this row.
    pub(super) async fn open(context: &UpstreamContext, row: UpstreamTokenRow) -> Result<Self, UpstreamError> {
        let account = open(context, place(&row.user, &row.backend, &row.issuer), &row.sealed).await?;
        Ok(Self { account, row })
    }

    pub(super) fn access(&self) -> Secret {
        self.account.tokens.access.secret().clone()
    }

    /// True if the tokens are useless until the person logs in again.
    pub(super) fn need_login(&self, context: &UpstreamContext) -> bool {
        self.account.tokens.need_login(context.now())
    }

    /// Stores new facts about the tokens, unless they were replaced or deleted in the meantime.
    pub(super) async fn mark(&mut self, context: &UpstreamContext, tokens: SavedTokens) -> Result<(), UpstreamError> {
        let known = &self.account.tokens;
        if (known.end, known.expires) == (tokens.end, tokens.expires) {
            return Ok(());
        }
        let account = AccountTokens { tokens, ..self.account.clone() };
        let sealed = account.sealed(context, &self.row.user, &self.row.backend).await?;
        let row = UpstreamTokenRow { sealed, ..self.row.clone() };
        if context.storage.upstream_tokens().replace(&row).await? {
            self.row = UpstreamTokenRow { version: row.version + 1, ..row };
            self.account = account;
        }
        Ok(())
    }

    /// Stores refreshed tokens. If the old ones were replaced or deleted in the meantime, returns false and has the new
    /// ones revoked.
    pub(super) async fn replace(
        &mut self,
        context: &UpstreamContext,
        tokens: SavedTokens,
    ) -> Result<bool, UpstreamError> {
        let account = AccountTokens { tokens, ..self.account.clone() };
        let sealed = account.sealed(context, &self.row.user, &self.row.backend).await?;
        let row = UpstreamTokenRow { scope: account.tokens.scope.clone(), sealed, ..self.row.clone() };
        if context.storage.upstream_tokens().replace(&row).await? {
            self.row = UpstreamTokenRow { version: row.version + 1, ..row };
            self.account = account;
            return Ok(true);
        }
        context.storage.upstream_tokens().withdraw(&row).await?;
        Ok(false)
    }
}

fn place<'a>(user: &'a UserId, backend: &'a BackendId, issuer: &'a str) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::User(user), backend: Some(backend), issuer, field: TOKENS }
}

async fn open(context: &UpstreamContext, place: VaultPlace<'_>, sealed: &[u8]) -> Result<AccountTokens, UpstreamError> {
    let text = context.vault.open(place, sealed).await?;
    Ok(serde_json::from_slice(&text).map_err(|_| VaultError::Form)?)
}
