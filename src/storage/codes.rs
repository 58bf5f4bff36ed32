//! The table of authorization codes.

use super::{
    NewRefreshToken,
    database::{Database, StorageError, moment},
    refresh_tokens,
};
use crate::{
    model::GrantId,
    support::{Digest, Timestamp},
};

/// An authorization code, found by its digest.
#[derive(Debug, Clone)]
pub struct CodeRow {
    pub grant: GrantId,
    /// The S256 challenge (RFC 7636).
    pub challenge: String,
    /// Expiry.
    pub expires: Timestamp,
    /// Time of redemption.
    pub used: Option<Timestamp>,
}

/// Authorization codes.
#[derive(Debug, Clone, Copy)]
pub struct CodeTable<'a>(pub(super) &'a Database);

impl CodeTable<'_> {
    /// The code with this digest, even if used or expired.
    pub async fn lookup(&self, digest: &Digest) -> Result<Option<CodeRow>, StorageError> {
        let row: Option<(String, String, i64, Option<i64>)> =
            sqlx::query_as("SELECT grant_id, challenge, expires, used FROM codes WHERE digest = $1")
                .bind(digest.as_bytes().as_slice())
                .fetch_optional(&self.0.pool)
                .await?;
        Ok(row.map(|(grant, challenge, expires, used)| CodeRow {
            grant: GrantId::new(grant),
            challenge,
            expires: moment(expires),
            used: used.map(moment),
        }))
    }

    /// Notes that a client has repeated the exchange of a code that was redeemed at `since` or later. Returns false,
    /// without changes, if this is not the first repetition, or the code was redeemed earlier: only one of two
    /// concurrent calls succeeds.
    pub async fn repeat(&self, digest: &Digest, since: Timestamp, now: Timestamp) -> Result<bool, StorageError> {
        let repeated =
            sqlx::query("UPDATE codes SET repeated = $1 WHERE digest = $2 AND repeated IS NULL AND used >= $3")
                .bind(now.as_millis())
                .bind(digest.as_bytes().as_slice())
                .bind(since.as_millis())
                .execute(&self.0.pool)
                .await?;
        Ok(repeated.rows_affected() > 0)
    }

    /// Redeems a code and adds its refresh token, if any. Returns false, without changes, if it is already redeemed or
    /// the grant is revoked: only one of two concurrent calls succeeds (`OA-84`).
    pub async fn redeem(
        &self,
        digest: &Digest,
        grant: &GrantId,
        refresh: Option<&NewRefreshToken>,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let used = sqlx::query("UPDATE codes SET used = $1 WHERE digest = $2 AND used IS NULL")
            .bind(now.as_millis())
            .bind(digest.as_bytes().as_slice())
            .execute(&mut *change)
            .await?;
        if used.rows_affected() == 0 || !refresh_tokens::touch(&mut change, grant, now).await? {
            return Ok(false);
        }
        if let Some(refresh) = refresh {
            refresh_tokens::insert(&mut change, grant, refresh).await?;
        }
        change.commit().await?;
        Ok(true)
    }
}
