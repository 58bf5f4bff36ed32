//! The table of data keys: one for each user, sealed under the master key. Knows nothing of what they seal.

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

    /// Adds a key, and returns that of this owner: if two add one, both get the first.
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

    /// Deletes the keys of users that no longer exist and under which nothing is sealed any more.
    pub async fn delete_unused(&self) -> Result<(), StorageError> {
        sqlx::query(
            "DELETE FROM data_keys WHERE owner <> '' AND owner NOT IN (SELECT id FROM users WHERE deleted IS NULL)
                AND owner NOT IN (SELECT user_id FROM upstream_withdrawn)",
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }
}
