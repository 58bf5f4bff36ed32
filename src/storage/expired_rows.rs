//! Deletion of expired rows in the tables of the authorization server. Knows nothing of clients and sessions, whose
//! tables delete their own rows.

use super::database::{Database, StorageError};
use crate::support::Timestamp;

/// Expired rows of the authorization server.
#[derive(Debug, Clone, Copy)]
pub struct ExpiredRows<'a>(pub(super) &'a Database);

impl ExpiredRows<'_> {
    /// Deletes expired rows that have no further use: requests, codes, revocations, counts, and grants with their tokens.
    pub async fn delete(&self, now: Timestamp) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        for statement in [
            "DELETE FROM transactions WHERE expires < $1",
            "DELETE FROM used_assertions WHERE expires < $1",
            "DELETE FROM device_authorizations WHERE expires < $1",
            // a month is time enough to see what became of one
            "DELETE FROM initial_access_tokens WHERE expires < $1 - 2592000000",
            // a reused code must be recognised while its grant lives (OA-85); an hour is far beyond any
            "DELETE FROM codes WHERE expires < $1 - 3600000",
            "DELETE FROM limit_counts WHERE full_at < $1",
            "DELETE FROM task_owners WHERE expires < $1",
            "DELETE FROM revoked_tokens WHERE expires < $1",
            "DELETE FROM revocations WHERE at < $1 - 86400000",
            // the end of a grant counts as activity of its client (OA-43)
            "UPDATE clients SET registered = $1
             WHERE registered < $1 AND id IN (SELECT client FROM grants WHERE expires < $1)",
            // only whole families, so that reuse is detected until the end of the grant (OA-136)
            "DELETE FROM grants WHERE expires < $1",
            // approved, but the code was never redeemed
            "DELETE FROM grants WHERE last_used IS NULL AND created < $1 - 3600000",
        ] {
            sqlx::query(statement).bind(now.as_millis()).execute(&mut *change).await?;
        }
        Ok(change.commit().await?)
    }
}
