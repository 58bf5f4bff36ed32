//! Counts of rate limits, shared by all gateways on one database.

use super::database::{Database, StorageError};
use crate::support::{Digest, Timestamp};

/// The count of one key, or an amount to add to it.
#[derive(Debug, Clone)]
pub struct LimitCount {
    /// Name of the limit.
    pub name: String,
    /// The party it counts for.
    pub key: Digest,
    /// When the bucket will be full again, in milliseconds; to add: by how many milliseconds later.
    pub value: i64,
}

/// Counts of rate limits.
#[derive(Debug, Clone, Copy)]
pub struct LimitCountTable<'a>(pub(super) &'a Database);

impl LimitCountTable<'_> {
    /// Adds to these counts and returns them. Skips counts that cannot be added.
    pub async fn add(&self, mut counts: Vec<LimitCount>, now: Timestamp) -> Result<Vec<LimitCount>, StorageError> {
        // in the same order everywhere, so that no two gateways deadlock
        counts.sort_by_cached_key(|count| (count.name.clone(), *count.key.as_bytes()));
        let mut change = self.0.batch().await?;
        for count in &mut counts {
            count.value = sqlx::query_scalar(
                "INSERT INTO limit_counts (name, key, full_at, changed) VALUES ($1, $2, $3 + $4, $3)
                 ON CONFLICT (name, key) DO UPDATE SET changed = excluded.changed, full_at = $4
                     + CASE WHEN limit_counts.full_at > excluded.changed THEN limit_counts.full_at ELSE excluded.changed END
                 RETURNING full_at",
            )
            .bind(&count.name)
            .bind(count.key.as_bytes().as_slice())
            .bind(now.as_millis())
            .bind(count.value)
            .fetch_one(&mut *change)
            .await?;
        }
        change.commit().await?;
        Ok(counts)
    }

    /// The counts that changed since then.
    pub async fn changed_since(&self, since: Timestamp) -> Result<Vec<LimitCount>, StorageError> {
        let rows: Vec<(String, Vec<u8>, i64)> =
            sqlx::query_as("SELECT name, key, full_at FROM limit_counts WHERE changed >= $1")
                .bind(since.as_millis())
                .fetch_all(&self.0.pool)
                .await?;
        let read = |(name, key, value): (String, Vec<u8>, i64)| {
            let key = Digest::from_slice(&key);
            let key = key.ok_or(StorageError::Inconsistent { table: "limit_counts", column: "key" })?;
            Ok(LimitCount { name, key, value })
        };
        rows.into_iter().map(read).collect()
    }
}
