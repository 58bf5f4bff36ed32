//! The table of browser sessions after a login.

use sqlx::Row as _;

use super::database::{Database, NO_LIMIT, StorageError};
use crate::{
    model::KeyId,
    support::{Digest, Timestamp},
};

/// Maximum number of browser sessions of one API key.
const MAX_PER_KEY: i64 = 64;

/// One browser session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSession {
    /// Digest of the session id.
    pub id: Digest,
    /// API key of the login.
    pub key: KeyId,
    /// Data of the pages, as JSON.
    pub data: String,
    /// Time of the login that began it.
    pub created: Timestamp,
    /// Last use, to the minute.
    pub used: Timestamp,
}

/// Browser sessions.
#[derive(Debug, Clone, Copy)]
pub struct BrowserSessionTable<'a>(pub(super) &'a Database);

impl BrowserSessionTable<'_> {
    /// Adds a session. The least recently used of more than 64 sessions with the same key are deleted.
    pub async fn add(&self, session: &BrowserSession) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        sqlx::query(
            "INSERT INTO browser_sessions (id_digest, key_id, data, created_at, used_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(session.id.as_bytes().as_slice())
        .bind(session.key.as_str())
        .bind(&session.data)
        .bind(session.created.as_millis())
        .bind(session.used.as_millis())
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "DELETE FROM browser_sessions WHERE id_digest IN (
                SELECT id_digest FROM browser_sessions WHERE key_id = $1 AND id_digest <> $2
                ORDER BY used_at DESC LIMIT $4 OFFSET $3 - 1)",
        )
        .bind(session.key.as_str())
        .bind(session.id.as_bytes().as_slice())
        .bind(MAX_PER_KEY)
        .bind(NO_LIMIT)
        .execute(&mut *change)
        .await?;
        Ok(change.commit().await?)
    }

    /// The session with this id, even a stale one.
    pub async fn lookup(&self, id: &Digest) -> Result<Option<BrowserSession>, StorageError> {
        let row = sqlx::query("SELECT key_id, data, created_at, used_at FROM browser_sessions WHERE id_digest = $1")
            .bind(id.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(BrowserSession {
            id: *id,
            key: KeyId::new(row.try_get::<String, _>("key_id")?),
            data: row.try_get("data")?,
            created: Timestamp::from_millis(row.try_get("created_at")?),
            used: Timestamp::from_millis(row.try_get("used_at")?),
        }))
    }

    /// Updates a session. A deleted session stays deleted.
    pub async fn update(&self, session: &BrowserSession) -> Result<(), StorageError> {
        sqlx::query("UPDATE browser_sessions SET key_id = $1, data = $2, used_at = $3 WHERE id_digest = $4")
            .bind(session.key.as_str())
            .bind(&session.data)
            .bind(session.used.as_millis())
            .bind(session.id.as_bytes().as_slice())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Records a use.
    pub async fn touch(&self, id: &Digest, used: Timestamp) -> Result<(), StorageError> {
        sqlx::query("UPDATE browser_sessions SET used_at = $1 WHERE id_digest = $2")
            .bind(used.as_millis())
            .bind(id.as_bytes().as_slice())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deletes a session.
    pub async fn delete(&self, id: &Digest) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM browser_sessions WHERE id_digest = $1")
            .bind(id.as_bytes().as_slice())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deletes every session of this key.
    pub async fn delete_of(&self, key: &KeyId) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM browser_sessions WHERE key_id = $1").bind(key.as_str()).execute(&self.0.pool).await?;
        Ok(())
    }

    /// Deletes sessions whose last use or start lies before these moments; returns their number.
    pub async fn delete_stale(&self, used_before: Timestamp, created_before: Timestamp) -> Result<u64, StorageError> {
        let unused = "DELETE FROM browser_sessions WHERE id_digest IN (
                 SELECT id_digest FROM browser_sessions WHERE used_at <= $1 ORDER BY used_at LIMIT $2)
             AND used_at <= $1";
        let old = "DELETE FROM browser_sessions WHERE id_digest IN (
                 SELECT id_digest FROM browser_sessions WHERE created_at <= $1 ORDER BY created_at LIMIT $2)";
        let unused = self.0.run_in_steps(unused, &[used_before.as_millis()]).await?;
        Ok(unused + self.0.run_in_steps(old, &[created_before.as_millis()]).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::Storage;

    fn session(name: &str, key: &str, used: Timestamp) -> BrowserSession {
        let (id, key, data) = (Digest::sha256(name), KeyId::new(key), "{}".to_owned());
        BrowserSession { id, key, data, created: used, used }
    }

    async fn there(storage: &Storage, name: &str) -> bool {
        storage.browser_sessions().lookup(&Digest::sha256(name)).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn stale_sessions_are_deleted() {
        let storage = Storage::empty().await;
        let start = Timestamp::from_seconds(1000);
        for number in 1..=3 {
            let used = start + Duration::from_secs(number);
            storage.browser_sessions().add(&session(&format!("{number}"), "k1", used)).await.unwrap();
        }
        let stale = start + Duration::from_secs(2);
        assert_eq!(storage.browser_sessions().delete_stale(stale, start).await.unwrap(), 2);
        assert!(there(&storage, "3").await && !there(&storage, "2").await);
    }

    #[tokio::test]
    async fn one_key_has_a_bounded_number_of_sessions() {
        let storage = Storage::empty().await;
        let start = Timestamp::from_seconds(1000);
        storage.browser_sessions().add(&session("other", "k2", start)).await.unwrap();
        for number in 0..70 {
            let used = start + Duration::from_secs(number);
            storage.browser_sessions().add(&session(&format!("{number}"), "k1", used)).await.unwrap();
        }
        assert!(there(&storage, "69").await && there(&storage, "6").await && there(&storage, "other").await);
        assert!(!there(&storage, "5").await && !there(&storage, "0").await, "the oldest go first");
        // a clock that was set back does not delete a new session
        storage.browser_sessions().add(&session("new", "k1", start)).await.unwrap();
        assert!(there(&storage, "new").await);
    }

    #[tokio::test]
    async fn a_deleted_session_does_not_come_back() {
        let storage = Storage::empty().await;
        let mut row = session("a", "k1", Timestamp::from_seconds(1));
        storage.browser_sessions().add(&row).await.unwrap();
        row.key = KeyId::new("k2");
        storage.browser_sessions().update(&row).await.unwrap();
        assert_eq!(storage.browser_sessions().lookup(&row.id).await.unwrap().as_ref(), Some(&row));
        storage.browser_sessions().delete(&row.id).await.unwrap();
        storage.browser_sessions().update(&row).await.unwrap();
        assert_eq!(storage.browser_sessions().lookup(&row.id).await.unwrap(), None);
    }
}
