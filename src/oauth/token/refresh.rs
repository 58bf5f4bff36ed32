//! The refresh grant: rotation with a grace period, and detection of reuse (RFC 6749 6; `OA-89` to `OA-94`).
//!
//! There are three reasons why a replaced token can come again. Within the grace period, concurrent processes share it,
//! and all get the same successor. If its successor was never used, a response was lost, and it is replaced again.
//! Anything else is theft, and the whole family is revoked.

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer, narrowed};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{Client, ClientIp, Grant},
    oauth::{
        credentials::{revocation::Revocations, usage::UsageRecorder},
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError},
        form::Params,
        logged_reason::GrantProblem,
        rate_limits::RateLimit,
        secrets::opaque,
    },
    storage::{RefreshTokenRow, Revocation, Rotation},
    support::{Digest, NotSealedHere, SealingKey, Secret, Timestamp},
};

/// Purpose of the key that seals a successor.
const SUCCESSOR: &str = "lockkeeper refresh successor v1";

pub(super) struct RefreshGrant {
    deps: OAuthDeps,
    issuer: Arc<Issuer>,
    revocations: Arc<Revocations>,
    uses: Arc<UsageRecorder>,
    /// Refreshes by grant. Each one leaves a row, and an access token that may be revoked separately.
    limits: RateLimit,
}

impl RefreshGrant {
    /// One grant may be refreshed 60 times at once, then once a minute.
    pub(super) fn new(issuer: Arc<Issuer>, revocations: Arc<Revocations>, uses: Arc<UsageRecorder>) -> Self {
        let limits = issuer.deps.limits.limit("refreshes", 60, Duration::from_mins(1));
        Self { deps: issuer.deps.clone(), issuer, revocations, uses, limits }
    }

    /// Replaces a refresh token and issues an access token.
    pub(super) async fn refresh(
        &self,
        client: &Client,
        form: &Params,
        from: ClientIp,
    ) -> Result<Issued, ErrorResponse> {
        let now = self.deps.now();
        let text = form.get("refresh_token")?.ok_or_else(|| ErrorResponse::missing("refresh_token"))?;
        if !opaque::is_refresh(text) {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::TokenMalformed(client.id.clone())));
        }
        let presented = Secret::new(text);
        let unknown = || ErrorResponse::InvalidGrant(GrantProblem::UnknownToken(client.id.clone()));
        let row = self.deps.storage.refresh_tokens().lookup(&presented.digest()).await?.ok_or_else(unknown)?;
        let grant = self.issuer.live_grant(&row.grant, client, from).await?;
        self.limits.take(&grant.id, now).map_err(ErrorResponse::Limited)?;
        self.issuer.check_resource(form, &grant)?;
        let scopes = narrowed(form, &grant)?;
        let (token, generation) = self.successor(&presented, row, &grant, now).await?;
        let issued = self.issuer.issue(&grant, scopes, &generation, now)?;
        Ok(Issued { refresh: Some(token), ..issued })
    }

    /// The client's next refresh token, and its generation.
    async fn successor(
        &self,
        presented: &Secret,
        row: RefreshTokenRow,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<(Secret, String), ErrorResponse> {
        if row.withdrawn.is_some() {
            return self.refresh_reused(grant).await;
        }
        if row.rotated.is_none() {
            if now >= row.expires {
                return Err(ErrorResponse::InvalidGrant(GrantProblem::TokenExpired(grant.id.clone())));
            }
            let (token, rotation) = self.rotation(presented, grant, now)?;
            if self.deps.storage.refresh_tokens().rotate(&rotation, now).await? {
                return Ok((token, rotation.new.generation));
            }
        }
        // it was already replaced, perhaps by a concurrent request
        let row = self.find_refresh(&presented.digest(), grant).await?;
        if row.withdrawn.is_some() {
            return self.refresh_reused(grant).await;
        }
        let (Some(rotated), Some((successor, sealed))) = (row.rotated, row.successor) else {
            return Err(ErrorResponse::InvalidGrant(GrantProblem::GrantRevoked(grant.id.clone())));
        };
        if now.since(rotated) <= self.deps.settings.policy.get().refresh_grace {
            let token = unsealed(presented, &sealed)?;
            let generation = self.find_refresh(&successor, grant).await?.generation;
            return Ok((token, generation));
        }
        self.uses.write().await?;
        let (token, rotation) = self.rotation(presented, grant, now)?;
        if let Some(withdrawn) =
            self.deps.storage.refresh_tokens().replace_successor(&rotation, &successor, now).await?
        {
            self.revocations.index().revoke(&Revocation::Generation(withdrawn));
            return Ok((token, rotation.new.generation));
        }
        self.refresh_reused(grant).await
    }

    fn rotation(&self, presented: &Secret, grant: &Grant, now: Timestamp) -> Result<(Secret, Rotation), OAuthError> {
        let (token, new) = self.issuer.mint_refresh(grant, now);
        let key = SealingKey::derived(presented, SUCCESSOR);
        let sealed = key.seal(token.expose().as_bytes(), SUCCESSOR.as_bytes(), &*self.deps.random)?;
        Ok((token, Rotation { grant: grant.id.clone(), old: presented.digest(), new, sealed }))
    }

    async fn find_refresh(&self, digest: &Digest, grant: &Grant) -> Result<RefreshTokenRow, ErrorResponse> {
        let row = self.deps.storage.refresh_tokens().lookup(digest).await?;
        row.ok_or_else(|| ErrorResponse::InvalidGrant(GrantProblem::UnknownGrant(grant.id.clone())))
    }

    /// RFC 9700 4.14.2: two parties hold tokens of the same family, so the family is revoked.
    async fn refresh_reused(&self, grant: &Grant) -> Result<(Secret, String), ErrorResponse> {
        self.deps.audit.record(GrantEvent::RefreshReused(GrantParties::of(grant)));
        self.revocations.end_grant(&grant.id).await?;
        Err(ErrorResponse::InvalidGrant(GrantProblem::TokenReused(grant.id.clone())))
    }
}

fn unsealed(presented: &Secret, sealed: &[u8]) -> Result<Secret, OAuthError> {
    let plain = SealingKey::derived(presented, SUCCESSOR).open(sealed, SUCCESSOR.as_bytes())?;
    str::from_utf8(&plain).map(Secret::new).map_err(|_| NotSealedHere.into())
}
