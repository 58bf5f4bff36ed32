//! The end of tokens (`UP-10`): tokens of removed servers and users are deleted, and deleted tokens are revoked at
//! their authorization server, best effort. Secrets of removed users end too. This includes deletions by other
//! processes.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    account_tokens::AccountTokens, assertion, context::UpstreamContext, error::UpstreamError,
    servers::ProtectedServers, user_secrets::UserSecrets,
};
use crate::{audit::ServerEvent, model::AccessEffect, storage::WithdrawnTokenRow, support::Timestamp};

/// Interval between two checks.
const POLL: Duration = Duration::from_millis(500);
/// Number of checks between two further attempts to revoke, and between two searches for users without keys: 10
/// seconds.
const RARELY: u64 = 20;
/// Number of checks between two complete searches for users without keys: an hour.
const FULLY: u64 = RARELY * 360;
/// Overlap of a search with the one before it: clocks differ, a login may still be in progress, and a failed revocation
/// of tokens is tried again several times.
const OVERLAP: Duration = Duration::from_mins(10);

/// A time before anything that is stored.
const EVER: Timestamp = Timestamp::from_millis(i64::MIN);

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
        let mut searched = None;
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            let since = searched.filter(|_| !round.is_multiple_of(FULLY)).map_or(EVER, |last| last - OVERLAP);
            let (since, now) = (round.is_multiple_of(RARELY).then_some(since), self.context.now());
            let are_replaced = servers.has_changed().unwrap_or(false);
            servers.mark_unchanged();
            // a round takes a while if many tokens end at once, so it can be cancelled
            match cancel.run_until_cancelled(self.round(are_replaced, since)).await {
                None => return,
                Some(Ok(())) => searched = since.map_or(searched, |_| Some(now)),
                Some(Err(error)) => {
                    servers.mark_changed();
                    tracing::warn!(%error, "ended tokens of users could not be handled; next try in 500 ms");
                }
            }
            round = round.wrapping_add(1);
        }
    }

    async fn round(&self, are_replaced: bool, since: Option<Timestamp>) -> Result<(), UpstreamError> {
        if are_replaced {
            self.end_tokens_of_gone_servers().await?;
        }
        self.look(since).await
    }

    async fn end_tokens_of_gone_servers(&self) -> Result<(), UpstreamError> {
        Ok(self.context.storage.upstream_tokens().retain(&self.servers.all()).await?)
    }

    /// Handles everything that has ended. With a time, also users whose last key has ended since then.
    async fn look(&self, since: Option<Timestamp>) -> Result<(), UpstreamError> {
        let storage = self.context.storage.for_rounds();
        let is_rare = since.is_some();
        if let Some(since) = since {
            storage.users().delete_sealed_of_ended(since, self.context.now()).await?;
        }
        self.secrets.look().await?;
        for row in storage.upstream_tokens().withdrawn().await? {
            if row.is_new() {
                let ended = ServerEvent::Disconnected(row.user.clone(), row.backend.clone());
                self.context.audit.record(ended);
                self.context.announce(&row.user, &row.backend, AccessEffect::Ended);
            }
            if row.attempts == 0 || is_rare || row.is_given_up() {
                self.revoke(&row).await?;
            }
        }
        if let Some(since) = since {
            storage.data_keys().delete_unused(since).await?;
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
                tracing::info!(%error, server = %row.backend, "tokens of a user were not revoked; the gateway tries again");
                Ok(table.count_attempt(row.id).await?)
            }
            // unreadable now means unreadable forever
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
        // with the transport of the server, if it still exists
        let present = self.servers.find(&row.backend).filter(|present| present.url == server);
        let http = match present {
            Some(present) => present.http(&self.context)?,
            None => self.context.http(&server, network),
        };
        Ok(source.revoke(&http, proven, &tokens).await?)
    }
}
