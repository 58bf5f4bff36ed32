//! The table of accepted client assertions.

use super::database::{Database, StorageError};
use crate::support::{Digest, Timestamp};

/// Accepted client assertions.
#[derive(Debug, Clone, Copy)]
pub struct AssertionTable<'a>(pub(super) &'a Database);

impl AssertionTable<'_> {
    /// Records an assertion until it expires. Returns false if it was recorded before: only one of several concurrent
    /// calls succeeds.
    pub async fn add(&self, assertion: &Digest, expires: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query("INSERT INTO used_assertions (digest, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(assertion.as_bytes().as_slice())
            .bind(expires.as_millis())
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}
