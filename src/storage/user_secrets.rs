//! The tables of secrets that users enter for servers, and of ended secrets. Their content is sealed.

use super::database::{Database, StorageError};
use crate::{
    model::{SecretName, UserId},
    support::Timestamp,
};

/// Secrets of users.
#[derive(Debug, Clone, Copy)]
pub struct UserSecretTable<'a>(pub(super) &'a Database);

impl UserSecretTable<'_> {
    /// The sealed value of this name.
    pub async fn lookup(&self, user: &UserId, name: &SecretName) -> Result<Option<Vec<u8>>, StorageError> {
        let sealed = sqlx::query_scalar("SELECT sealed FROM user_secrets WHERE user_id = $1 AND name = $2");
        Ok(sealed.bind(user.as_str()).bind(name.as_str()).fetch_optional(&self.0.pool).await?)
    }

    /// The names of a user's secrets, each with the time it was entered.
    pub async fn entered(&self, user: &UserId) -> Result<Vec<(SecretName, Timestamp)>, StorageError> {
        let rows = sqlx::query_as("SELECT name, changed FROM user_secrets WHERE user_id = $1 ORDER BY name");
        let rows: Vec<(String, i64)> = rows.bind(user.as_str()).fetch_all(&self.0.pool).await?;
        let entered =
            |(name, changed): (String, i64)| Some((SecretName::parse(&name).ok()?, Timestamp::from_millis(changed)));
        Ok(rows.into_iter().filter_map(entered).collect())
    }

    /// Stores a secret, in place of the earlier one that was looked up. Returns false, and stores nothing, if that was
    /// replaced by now.
    pub async fn set(
        &self,
        user: &UserId,
        name: &SecretName,
        sealed: &[u8],
        earlier: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        // no value equals NULL
        let done = sqlx::query(
            "INSERT INTO user_secrets (user_id, name, sealed, changed) VALUES ($1, $2, $3, $4)
             ON CONFLICT (user_id, name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed
             WHERE user_secrets.sealed = $5",
        )
        .bind(user.as_str())
        .bind(name.as_str())
        .bind(sealed)
        .bind(now.as_millis())
        .bind(earlier)
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes a secret. Returns false if there was none.
    pub async fn delete(&self, user: &UserId, name: &SecretName) -> Result<bool, StorageError> {
        let done = sqlx::query("DELETE FROM user_secrets WHERE user_id = $1 AND name = $2")
            .bind(user.as_str())
            .bind(name.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Takes the oldest deleted secrets whose use has not been ended yet.
    pub async fn take_ended(&self) -> Result<Vec<(UserId, SecretName)>, StorageError> {
        let oldest: Vec<i64> = sqlx::query_scalar("SELECT id FROM ended_user_secrets ORDER BY id LIMIT 100")
            .fetch_all(&self.0.pool)
            .await?;
        // a writing statement takes the lock of the database, even with nothing to write
        let Some(last) = oldest.last() else { return Ok(Vec::new()) };
        // the process that deletes a row handles its end: others may take rows at the same time
        let rows: Vec<(String, String)> =
            sqlx::query_as("DELETE FROM ended_user_secrets WHERE id <= $1 RETURNING user_id, name")
                .bind(last)
                .fetch_all(&self.0.pool)
                .await?;
        let ended = |(user, name): (String, String)| Some((UserId::new(user), SecretName::parse(&name).ok()?));
        Ok(rows.into_iter().filter_map(ended).collect())
    }
}
