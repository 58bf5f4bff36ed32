//! The table of data keys: one for each user, sealed under the master key.

use super::database::{Database, StorageError};
use crate::support::Timestamp;

/// Data keys.
#[derive(Debug, Clone, Copy)]
pub struct DataKeyTable<'a>(pub(super) &'a Database);

impl DataKeyTable<'_> {
    /// The key of this owner, sealed.
    pub async fn lookup(&self, owner: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let key = sqlx::query_scalar("SELECT sealed FROM data_keys WHERE owner = $1").bind(owner);
        Ok(key.fetch_optional(&self.0.pool).await?)
    }

    /// Adds a key, and returns the owner's key: if two processes add one, both get the first.
    pub async fn get_or_add(&self, owner: &str, sealed: &[u8], now: Timestamp) -> Result<Vec<u8>, StorageError> {
        sqlx::query(
            "INSERT INTO data_keys (owner, sealed, version, created)
             VALUES ($1, $2, (SELECT coalesce(max(version), 1) FROM data_keys), $3) ON CONFLICT DO NOTHING",
        )
        .bind(owner)
        .bind(sealed)
        .bind(now.as_millis())
        .execute(&self.0.pool)
        .await?;
        let key = sqlx::query_scalar("SELECT sealed FROM data_keys WHERE owner = $1").bind(owner);
        Ok(key.fetch_one(&self.0.pool).await?)
    }

    /// Deletes the keys of users who were deleted since then, once nothing is sealed under them.
    pub async fn delete_unused(&self, since: Timestamp) -> Result<(), StorageError> {
        // a writing statement takes the lock of the database, even with nothing to write
        let unused: Vec<String> = sqlx::query_scalar(
            "SELECT id FROM users WHERE deleted > $1 AND EXISTS (SELECT 1 FROM data_keys WHERE owner = users.id)
                 AND NOT EXISTS (SELECT 1 FROM upstream_withdrawn WHERE user_id = users.id)",
        )
        .bind(since.as_millis())
        .fetch_all(&self.0.pool)
        .await?;
        for owner in unused {
            sqlx::query(
                "DELETE FROM data_keys WHERE owner = $1
                     AND NOT EXISTS (SELECT 1 FROM users WHERE id = $1 AND deleted IS NULL)
                     AND NOT EXISTS (SELECT 1 FROM upstream_withdrawn WHERE user_id = $1)",
            )
            .bind(owner)
            .execute(&self.0.pool)
            .await?;
        }
        Ok(())
    }
}
