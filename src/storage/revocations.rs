//! Revocations in order, for all processes on the same database.

use sqlx::{Any, AnyConnection, Executor};

use super::database::{Database, StorageError};
use crate::{
    model::{GrantId, KeyId, UserId},
    support::Timestamp,
};

/// Channel of the notices. All schemas of a server share it, and a notice only causes a read.
pub(super) const CHANNEL: &str = "lockkeeper revocations";

/// A revocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Revocation {
    /// A grant with its tokens.
    Grant(GrantId),
    /// An API key; its grants are announced separately.
    Key(KeyId),
    /// Access tokens issued with one refresh token, by the prefix of their `jti`.
    Generation(String),
    /// One access token, by its `jti`.
    Token(String),
    /// A user who was disabled or deleted, with everything held for them.
    User(UserId),
    /// The rights of an API key or account, which are now wider: credentials verified before are verified again.
    Rights(KeyId),
    /// A signing key, by its id, with the access tokens it signed.
    SigningKey(String),
    /// A kind announced by a newer version and unknown here: anything may have ended.
    Unknown(String),
}

/// Revocations.
#[derive(Debug, Clone, Copy)]
pub struct RevocationTable<'a>(pub(super) &'a Database);

impl RevocationTable<'_> {
    /// Revokes one access token until it expires, and announces it; does nothing if it is already revoked.
    pub async fn revoke_token(&self, jti: &str, expires: Timestamp, now: Timestamp) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("INSERT INTO revoked_tokens (jti, expires) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(jti)
            .bind(expires.as_millis())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(());
        }
        announce(&mut change, "token", jti, now).await?;
        Ok(change.commit().await?)
    }

    /// True if this access token is revoked, or the refresh token of its generation is withdrawn.
    pub async fn is_token_revoked(&self, jti: &str, generation: &str) -> Result<bool, StorageError> {
        let found: i64 = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM revoked_tokens WHERE jti = $1)
                 + (SELECT count(*) FROM refresh_tokens WHERE generation = $2 AND withdrawn IS NOT NULL)",
        )
        .bind(jti)
        .bind(generation)
        .fetch_one(&self.0.pool)
        .await?;
        Ok(found > 0)
    }

    /// Number of the newest revocation, or 0.
    pub async fn newest(&self) -> Result<i64, StorageError> {
        Ok(sqlx::query_scalar("SELECT coalesce(max(sequence), 0) FROM revocations").fetch_one(&self.0.pool).await?)
    }

    pub(super) async fn after(&self, sequence: i64) -> Result<Vec<(i64, Revocation)>, StorageError> {
        after(&self.0.pool, sequence).await
    }
}

/// Revocations after the number `sequence`, in order, with their numbers; at most 1000.
pub(super) async fn after(
    executor: impl Executor<'_, Database = Any>,
    sequence: i64,
) -> Result<Vec<(i64, Revocation)>, StorageError> {
    let rows: Vec<(i64, String, String)> = sqlx::query_as(
        "SELECT sequence, kind, subject FROM revocations WHERE sequence > $1 ORDER BY sequence LIMIT 1000",
    )
    .bind(sequence)
    .fetch_all(executor)
    .await?;
    let revocations = rows
        .into_iter()
        .map(|(sequence, kind, subject)| {
            let revocation = match kind.as_str() {
                "grant" => Revocation::Grant(GrantId::new(subject)),
                "key" => Revocation::Key(KeyId::new(subject)),
                "generation" => Revocation::Generation(subject),
                "token" => Revocation::Token(subject),
                "user" => Revocation::User(UserId::new(subject)),
                "rights" => Revocation::Rights(KeyId::new(subject)),
                "signing_key" => Revocation::SigningKey(subject),
                _ => Revocation::Unknown(kind),
            };
            (sequence, revocation)
        })
        .collect();
    Ok(revocations)
}

/// Announces a revocation to every process, within the same transaction; a server notifies them at its commit.
pub(super) async fn announce(
    change: &mut AnyConnection,
    kind: &'static str,
    subject: &str,
    now: Timestamp,
) -> Result<(), StorageError> {
    sqlx::query("INSERT INTO revocations (kind, subject, at) VALUES ($1, $2, $3)")
        .bind(kind)
        .bind(subject)
        .bind(now.as_millis())
        .execute(&mut *change)
        .await?;
    if change.backend_name() == "PostgreSQL" {
        sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(change).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    #[tokio::test]
    async fn a_kind_that_a_newer_version_announces_is_read_as_unknown() {
        let storage = Storage::empty().await;
        storage
            .poison("INSERT INTO revocations (kind, subject, at) VALUES ('passkey', 'p1', 1), ('key', 'k1', 1)")
            .await;
        let read = storage.revocations().after(0).await.unwrap().into_iter().map(|(_, revocation)| revocation);
        let expected = [Revocation::Unknown("passkey".to_owned()), Revocation::Key(KeyId::new("k1"))];
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }
}
