//! Expiry of clients that nobody uses, in the table of clients (`OA-43`). Knows nothing of how long they may be idle.
//!
//! An expired client keeps its row. Those without a consent still count toward the bounds of such clients, which evict
//! the oldest first.

use super::database::{Database, StorageError};
use crate::{model::ClientId, support::Timestamp};

/// Clients that one statement changes.
const BATCH: i64 = 500;

/// Moments before which a client was last active if it is to expire.
#[derive(Debug, Clone, Copy)]
pub struct IdleSince {
    /// Without a consent.
    pub unused: Timestamp,
    /// With a consent, but without a grant that was live since.
    pub idle: Timestamp,
    /// Expired without a consent: it is deleted.
    pub forgotten: Timestamp,
}

/// Expiry of clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientExpiry<'a>(pub(super) &'a Database);

impl ClientExpiry<'_> {
    /// Expires clients that were idle for too long, none of the operator, and deletes those that expired long ago without a
    /// consent.
    pub async fn expire(&self, since: &IdleSince, now: Timestamp) -> Result<(), StorageError> {
        loop {
            let done = sqlx::query(
                "UPDATE clients SET expired = $1 WHERE id IN (
                     SELECT id FROM clients WHERE revoked IS NULL AND expired IS NULL AND origin <> 'operator'
                     AND ((consented IS NULL AND registered < $2)
                         OR (consented IS NOT NULL AND registered < $3 AND NOT EXISTS (
                             SELECT 1 FROM grants WHERE client = clients.id
                             AND ((revoked IS NULL AND expires >= $3) OR coalesce(last_used, created) >= $3)
                         )))
                     LIMIT $4
                 )",
            )
            .bind(now.as_millis())
            .bind(since.unused.as_millis())
            .bind(since.idle.as_millis())
            .bind(BATCH)
            .execute(&self.0.pool)
            .await?;
            if done.rows_affected() == 0 {
                break;
            }
        }
        sqlx::query("DELETE FROM clients WHERE consented IS NULL AND revoked IS NULL AND expired < $1")
            .bind(since.forgotten.as_millis())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Revives an expired client without a secret. Returns false if there is none of this id.
    pub async fn revive(&self, id: &ClientId, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE clients SET expired = NULL, registered = $1
             WHERE id = $2 AND expired IS NOT NULL AND revoked IS NULL AND auth = 'none'",
        )
        .bind(now.as_millis())
        .bind(id.as_str())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes every expired client; returns their number.
    pub async fn prune(&self) -> Result<u64, StorageError> {
        let done = sqlx::query(
            "DELETE FROM clients WHERE expired IS NOT NULL AND revoked IS NULL
             AND NOT EXISTS (SELECT 1 FROM grants WHERE client = clients.id)",
        )
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
