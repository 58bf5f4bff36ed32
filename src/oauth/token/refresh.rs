//! The refresh grant: rotation with a forgiving window, and reuse detection (RFC 6749 6; `OA-89` to `OA-94`).
//!
//! A token that was replaced is one of four things: a race of processes that share it (within the grace window; all get
//! the same successor), an answer that was lost (its successor was never used; it is replaced once more), a thief or a
//! victim (anything else; the family dies).

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer, narrowed};
use crate::{
    model::{Client, Grant, GrantId},
    oauth::{
        core::Core,
        error::{Error, Failure},
        form::Params,
        limits::Buckets,
        opaque,
        problem::GrantProblem,
        revocation::Revocations,
        uses::Uses,
    },
    storage::{RefreshTokenRow, Revocation, Rotation},
    support::{Digest, NotSealedHere, SealingKey, Secret, Timestamp},
};

/// What the key is derived for that a successor is sealed under.
const SUCCESSOR: &str = "lockkeeper refresh successor v1";

/// The refresh grant.
pub(super) struct RefreshGrant {
    core: Core,
    issuer: Arc<Issuer>,
    revocations: Arc<Revocations>,
    uses: Arc<Uses>,
    /// For each grant: each refresh leaves a row, and an access token that may be revoked by itself.
    limits: Buckets<GrantId>,
}

impl RefreshGrant {
    /// The tokens of one grant may be refreshed 60 times at once, then once a minute.
    pub(super) fn new(issuer: Arc<Issuer>, revocations: Arc<Revocations>, uses: Arc<Uses>) -> Self {
        let limits = Buckets::new(60, Duration::from_mins(1));
        Self { core: issuer.core.clone(), issuer, revocations, uses, limits }
    }

    /// Replaces a refresh token and issues an access token.
    pub(super) async fn refresh(&self, client: &Client, form: &Params) -> Result<Issued, Failure> {
        let now = self.core.now();
        let text = form.get("refresh_token")?.ok_or_else(|| Failure::missing("refresh_token"))?;
        if !opaque::is_refresh(text) {
            return Err(Failure::InvalidGrant(GrantProblem::TokenMalformed(client.id.clone())));
        }
        let presented = Secret::new(text);
        let unknown = || Failure::InvalidGrant(GrantProblem::UnknownToken(client.id.clone()));
        let row = self.core.storage.refresh_tokens().lookup(&presented.digest()).await?.ok_or_else(unknown)?;
        let grant = self.issuer.live_grant(&row.grant, client).await?;
        self.limits.take(grant.id.clone(), now).map_err(Failure::Limited)?;
        self.issuer.check_resource(form, &grant)?;
        let scopes = narrowed(form, &grant)?;
        let (token, generation) = self.successor(&presented, row, &grant, now).await?;
        let issued = self.issuer.issue(&grant, scopes, &generation, now)?;
        Ok(Issued { refresh: Some(token), ..issued })
    }

    /// The token that the client is to use from now on, and its generation.
    async fn successor(
        &self,
        presented: &Secret,
        row: RefreshTokenRow,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<(Secret, String), Failure> {
        if row.withdrawn.is_some() {
            return self.refresh_reused(grant).await;
        }
        if row.rotated.is_none() {
            if now >= row.expires {
                return Err(Failure::InvalidGrant(GrantProblem::TokenExpired(grant.id.clone())));
            }
            let (token, rotation) = self.rotation(presented, grant, now)?;
            if self.core.storage.refresh_tokens().rotate(&rotation, now).await? {
                return Ok((token, rotation.new.generation));
            }
        }
        // it was replaced before, or just now by somebody faster
        let row = self.find_refresh(&presented.digest(), grant).await?;
        if row.withdrawn.is_some() {
            return self.refresh_reused(grant).await;
        }
        let (Some(rotated), Some((successor, sealed))) = (row.rotated, row.successor) else {
            return Err(Failure::InvalidGrant(GrantProblem::GrantRevoked(grant.id.clone())));
        };
        if now.since(rotated) <= self.core.settings.policy.refresh_grace {
            let token = unsealed(presented, &sealed)?;
            let generation = self.find_refresh(&successor, grant).await?.generation;
            return Ok((token, generation));
        }
        self.uses.write().await?;
        let (token, rotation) = self.rotation(presented, grant, now)?;
        if let Some(withdrawn) =
            self.core.storage.refresh_tokens().replace_successor(&rotation, &successor, now).await?
        {
            self.revocations.index().revoke(&Revocation::Generation(withdrawn));
            return Ok((token, rotation.new.generation));
        }
        self.refresh_reused(grant).await
    }

    fn rotation(&self, presented: &Secret, grant: &Grant, now: Timestamp) -> Result<(Secret, Rotation), Error> {
        let (token, new) = self.issuer.mint_refresh(grant, now);
        let key = SealingKey::derived(presented, SUCCESSOR);
        let sealed = key.seal(token.expose().as_bytes(), SUCCESSOR.as_bytes(), &*self.core.random)?;
        Ok((token, Rotation { grant: grant.id.clone(), old: presented.digest(), new, sealed }))
    }

    async fn find_refresh(&self, digest: &Digest, grant: &Grant) -> Result<RefreshTokenRow, Failure> {
        let row = self.core.storage.refresh_tokens().lookup(digest).await?;
        row.ok_or_else(|| Failure::InvalidGrant(GrantProblem::UnknownGrant(grant.id.clone())))
    }

    /// RFC 9700 4.14.2: whoever presented it, two parties hold tokens of one family; the family dies.
    async fn refresh_reused(&self, grant: &Grant) -> Result<(Secret, String), Failure> {
        tracing::warn!(target: "audit", client = %grant.client, user = %grant.user, grant = %grant.id, "refresh token reused; the grant is revoked");
        self.revocations.end_grant(&grant.id).await?;
        Err(Failure::InvalidGrant(GrantProblem::TokenReused(grant.id.clone())))
    }
}

fn unsealed(presented: &Secret, sealed: &[u8]) -> Result<Secret, Error> {
    let plain = SealingKey::derived(presented, SUCCESSOR).open(sealed, SUCCESSOR.as_bytes())?;
    str::from_utf8(&plain).map(Secret::new).map_err(|_| NotSealedHere.into())
}
