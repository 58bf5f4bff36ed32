//! The end of tokens (`UP-10`): those of servers and users that are gone are deleted, and deleted ones are revoked at their
//! authorization server, best effort. Secrets of users that are gone end too. Deletions by other processes are noticed.
//! Knows nothing of logins.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    account_tokens::AccountTokens, assertion, context::UpstreamContext, error::UpstreamError,
    servers::ProtectedServers, user_secrets::UserSecrets,
};
use crate::{audit::ServerEvent, model::AccessEffect, storage::WithdrawnTokenRow};

/// Interval between two looks.
const POLL: Duration = Duration::from_millis(500);
/// Looks between two further attempts to revoke, and between two searches for users without keys: 10 seconds.
const RARELY: u64 = 20;

/// Looks after tokens that end.
pub(super) struct Withdrawal {
    context: UpstreamContext,
    servers: Arc<ProtectedServers>,
    secrets: UserSecrets,
}

// === impl Withdrawal ===

impl Withdrawal {
    pub(super) const fn new(context: UpstreamContext, servers: Arc<ProtectedServers>, secrets: UserSecrets) -> Self {
        Self { context, servers, secrets }
    }

    pub(super) async fn run(self, cancel: CancellationToken) {
        let mut servers = self.servers.generations();
        let mut timer = interval(POLL);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut round: u64 = 0;
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            let mut looked = Ok(());
            if servers.has_changed().unwrap_or(false) {
                servers.mark_unchanged();
                looked = self.end_tokens_of_gone_servers().await;
            }
            if looked.is_ok() {
                looked = self.look(round.is_multiple_of(RARELY)).await;
            }
            if let Err(error) = looked {
                servers.mark_changed();
                tracing::warn!(%error, "ended tokens of users could not be looked after; next try in 500 ms");
            }
            round = round.wrapping_add(1);
        }
    }

    async fn end_tokens_of_gone_servers(&self) -> Result<(), UpstreamError> {
        Ok(self.context.storage.upstream_tokens().retain(&self.servers.all()).await?)
    }

    async fn look(&self, is_rare: bool) -> Result<(), UpstreamError> {
        let storage = self.context.storage.for_rounds();
        if is_rare {
            storage.users().delete_sealed_of_ended(self.context.now()).await?;
        }
        self.secrets.look().await?;
        for row in storage.upstream_tokens().withdrawn().await? {
            if row.is_new() {
                let ended = ServerEvent::Disconnected(row.user.clone(), row.backend.clone());
                self.context.audit.record(ended);
                self.context.announce((&row.user, &row.backend), AccessEffect::Ended);
            }
            if row.attempts == 0 || is_rare || row.is_given_up() {
                self.revoke(&row).await?;
            }
        }
        if is_rare {
            storage.data_keys().delete_unused().await?;
        }
        Ok(())
    }

    async fn revoke(&self, row: &WithdrawnTokenRow) -> Result<(), UpstreamError> {
        let table = self.context.storage.upstream_tokens();
        if row.is_given_up() {
            return Ok(table.delete_withdrawn(row.id).await?);
        }
        match self.request(row).await {
            Ok(()) => {
                let WithdrawnTokenRow { user, backend, issuer, .. } = row;
                tracing::info!(%user, server = %backend, issuer, "tokens of a user revoked");
                Ok(table.delete_withdrawn(row.id).await?)
            }
            Err(error @ (UpstreamError::Login(_) | UpstreamError::Assertion)) => {
                tracing::info!(%error, server = %row.backend, "tokens of a user were not revoked; tried again");
                Ok(table.count_attempt(row.id).await?)
            }
            // they cannot be read, and never will be
            Err(UpstreamError::Vault(error)) => {
                tracing::warn!(%error, server = %row.backend, "tokens of a user cannot be revoked");
                Ok(table.delete_withdrawn(row.id).await?)
            }
            Err(error) => Err(error),
        }
    }

    async fn request(&self, row: &WithdrawnTokenRow) -> Result<(), UpstreamError> {
        let AccountTokens { source, client, tokens, server: (server, network) } =
            AccountTokens::withdrawn(&self.context, row).await?;
        let proven = assertion::authenticated(&self.context, &client, &source)?;
        Ok(source.revoke(&self.context.http(&server, network), proven, &tokens).await?)
    }
}
