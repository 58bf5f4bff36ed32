//! The table of values that users enter for servers. Knows nothing of their content, which is sealed.

use super::database::{Database, StorageError};
use crate::{model::UserId, support::Timestamp};

/// Values of users.
#[derive(Debug, Clone, Copy)]
pub struct UserSecretTable<'a>(pub(super) &'a Database);

impl UserSecretTable<'_> {
    /// The value of this name.
    pub async fn lookup(&self, user: &UserId, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let sealed = sqlx::query_scalar("SELECT sealed FROM user_secrets WHERE user_id = $1 AND name = $2");
        Ok(sealed.bind(user.as_str()).bind(name).fetch_optional(&self.0.pool).await?)
    }

    /// The names of a user's values.
    pub async fn names(&self, user: &UserId) -> Result<Vec<String>, StorageError> {
        let names = sqlx::query_scalar("SELECT name FROM user_secrets WHERE user_id = $1 ORDER BY name");
        Ok(names.bind(user.as_str()).fetch_all(&self.0.pool).await?)
    }

    /// Stores a value, in place of an earlier one.
    pub async fn set(&self, user: &UserId, name: &str, sealed: &[u8], now: Timestamp) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO user_secrets (user_id, name, sealed, changed) VALUES ($1, $2, $3, $4)
             ON CONFLICT (user_id, name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed",
        )
        .bind(user.as_str())
        .bind(name)
        .bind(sealed)
        .bind(now.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Deletes a value. Returns false if there is none.
    pub async fn delete(&self, user: &UserId, name: &str) -> Result<bool, StorageError> {
        let done = sqlx::query("DELETE FROM user_secrets WHERE user_id = $1 AND name = $2")
            .bind(user.as_str())
            .bind(name)
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}
