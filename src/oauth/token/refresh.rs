//! The refresh grant: rotation with a forgiving window, and reuse detection (RFC 6749 6; `OA-89` to `OA-94`).
//!
//! A token that was replaced is one of four things: a race of processes that share it (within the grace window; all get
//! the same successor), an answer that was lost (its successor was never used; it is replaced once more), a thief or a
//! victim (anything else; the family dies).

use super::{Issued, narrowed};
use crate::{
    model::{Client, Grant},
    oauth::{Error, OAuth, error::Failure, form::Params, opaque, seal::SealingKey},
    storage::{RefreshTokenRow, Rotation},
    support::{Digest, Secret, Timestamp},
};

/// What the key is derived for that a successor is sealed under.
const SUCCESSOR: &str = "lockkeeper refresh successor v1";

impl OAuth {
    /// Replaces a refresh token and issues an access token.
    pub(super) async fn refresh(&self, client: &Client, form: &Params) -> Result<Issued, Failure> {
        let now = self.0.clock.now();
        let text = form.get("refresh_token")?.ok_or_else(|| Failure::missing("refresh_token"))?;
        if !opaque::is_refresh(text) {
            return Err(Failure::InvalidGrant);
        }
        let presented = Secret::new(text);
        let row = self.find_refresh(&presented.digest()).await?;
        let grant = self.live_grant(&row.grant, client).await?;
        self.check_resource(form, &grant)?;
        let scopes = narrowed(form, &grant)?;
        let (token, generation) = self.successor(&presented, row, &grant, now).await?;
        let issued = self.issue(&grant, scopes, &generation, now)?;
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
                return Err(Failure::InvalidGrant);
            }
            let (token, rotation) = self.rotation(presented, grant, now)?;
            if self.0.storage.rotate_refresh_token(&rotation, now).await? {
                return Ok((token, rotation.new.generation));
            }
        }
        // it was replaced before, or just now by somebody faster
        let row = self.find_refresh(&presented.digest()).await?;
        let (Some(rotated), Some((successor, sealed))) = (row.rotated, row.successor) else {
            return Err(Failure::InvalidGrant);
        };
        if now.since(rotated) <= self.settings().refresh_grace {
            let token = unsealed(presented, &sealed)?;
            let generation = self.find_refresh(&successor).await?.generation;
            return Ok((token, generation));
        }
        self.settle_uses().await?;
        let (token, rotation) = self.rotation(presented, grant, now)?;
        if self.0.storage.replace_successor(&rotation, &successor, now).await? {
            return Ok((token, rotation.new.generation));
        }
        self.refresh_reused(grant).await
    }

    fn rotation(&self, presented: &Secret, grant: &Grant, now: Timestamp) -> Result<(Secret, Rotation), Error> {
        let (token, new) = self.mint_refresh(grant, now);
        let key = SealingKey::derived(presented, SUCCESSOR);
        let sealed = key.seal(token.expose().as_bytes(), SUCCESSOR, &*self.0.random)?;
        Ok((token, Rotation { grant: grant.id.clone(), old: presented.digest(), new, sealed }))
    }

    async fn find_refresh(&self, digest: &Digest) -> Result<RefreshTokenRow, Failure> {
        self.0.storage.lookup_refresh_token(digest).await?.ok_or(Failure::InvalidGrant)
    }

    /// RFC 9700 4.14.2: whoever presented it, two parties hold tokens of one family; the family dies.
    async fn refresh_reused(&self, grant: &Grant) -> Result<(Secret, String), Failure> {
        tracing::warn!(target: "audit", client = %grant.client, user = %grant.user, grant = %grant.id, "refresh token reused; the grant is revoked");
        self.end_grant(&grant.id).await?;
        Err(Failure::InvalidGrant)
    }
}

fn unsealed(presented: &Secret, sealed: &[u8]) -> Result<Secret, Error> {
    let plain = SealingKey::derived(presented, SUCCESSOR).open(sealed, SUCCESSOR)?;
    str::from_utf8(&plain).map(Secret::new).map_err(|_| Error::Sealed)
}
