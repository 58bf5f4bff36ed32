//! The table of browser sessions. Knows nothing of cookies and of what the pages remember.

use sqlx::Row as _;

use super::{Error, Storage};
use crate::{
    model::KeyId,
    support::{Digest, Timestamp},
};

/// One browser session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSession {
    /// The digest of its id.
    pub id: Digest,
    /// The API key that the person logged in with; `None` before the login.
    pub key: Option<KeyId>,
    /// What the pages remember, as JSON.
    pub data: String,
    /// When it began; a login begins a new one.
    pub created: Timestamp,
    /// When it was last used, to the minute.
    pub used: Timestamp,
}

impl Storage {
    /// Adds a session.
    pub async fn add_browser_session(&self, session: &BrowserSession) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO browser_sessions (id_digest, key_id, data, created_at, used_at) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(session.id.as_bytes().as_slice())
        .bind(session.key.as_ref().map(KeyId::as_str))
        .bind(&session.data)
        .bind(session.created.as_millis())
        .bind(session.used.as_millis())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The session with this id, stale or not.
    pub async fn lookup_browser_session(&self, id: &Digest) -> Result<Option<BrowserSession>, Error> {
        let row = sqlx::query("SELECT key_id, data, created_at, used_at FROM browser_sessions WHERE id_digest = ?")
            .bind(id.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(BrowserSession {
            id: *id,
            key: row.try_get::<Option<String>, _>("key_id")?.map(KeyId::new),
            data: row.try_get("data")?,
            created: Timestamp::from_millis(row.try_get("created_at")?),
            used: Timestamp::from_millis(row.try_get("used_at")?),
        }))
    }

    /// Writes what changed in a session. One that was deleted meanwhile stays deleted.
    pub async fn update_browser_session(&self, session: &BrowserSession) -> Result<(), Error> {
        sqlx::query("UPDATE browser_sessions SET key_id = ?, data = ?, used_at = ? WHERE id_digest = ?")
            .bind(session.key.as_ref().map(KeyId::as_str))
            .bind(&session.data)
            .bind(session.used.as_millis())
            .bind(session.id.as_bytes().as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Notes that a session was used.
    pub async fn touch_browser_session(&self, id: &Digest, used: Timestamp) -> Result<(), Error> {
        sqlx::query("UPDATE browser_sessions SET used_at = ? WHERE id_digest = ?")
            .bind(used.as_millis())
            .bind(id.as_bytes().as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Deletes a session.
    pub async fn delete_browser_session(&self, id: &Digest) -> Result<(), Error> {
        sqlx::query("DELETE FROM browser_sessions WHERE id_digest = ?")
            .bind(id.as_bytes().as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Deletes the sessions that were last used, or began, before these moments; says how many there were.
    pub async fn delete_stale_browser_sessions(
        &self,
        used_before: Timestamp,
        created_before: Timestamp,
    ) -> Result<u64, Error> {
        let done = sqlx::query("DELETE FROM browser_sessions WHERE used_at <= ? OR created_at <= ?")
            .bind(used_before.as_millis())
            .bind(created_before.as_millis())
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected())
    }

    /// Deletes the oldest sessions without a login where there are more than `keep`, so that strangers cannot fill the
    /// disk.
    pub async fn trim_anonymous_browser_sessions(&self, keep: u32) -> Result<u64, Error> {
        let done = sqlx::query(
            "DELETE FROM browser_sessions WHERE id_digest IN (
                SELECT id_digest FROM browser_sessions WHERE key_id IS NULL ORDER BY used_at DESC LIMIT -1 OFFSET ?)",
        )
        .bind(keep)
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn session(name: &str, key: Option<&str>, used: Timestamp) -> BrowserSession {
        let data = "{}".to_owned();
        BrowserSession { id: Digest::sha256(name), key: key.map(KeyId::new), data, created: used, used }
    }

    #[tokio::test]
    async fn strangers_cannot_fill_the_table_and_the_stale_go() {
        let storage = Storage::in_memory().await.unwrap();
        let start = Timestamp::from_seconds(1000);
        storage.add_browser_session(&session("known", Some("k1"), start)).await.unwrap();
        for number in 1..=5 {
            let used = start + Duration::from_secs(number);
            storage.add_browser_session(&session(&format!("stranger {number}"), None, used)).await.unwrap();
        }
        assert_eq!(storage.trim_anonymous_browser_sessions(2).await.unwrap(), 3);
        let there = async |name: &str| storage.lookup_browser_session(&Digest::sha256(name)).await.unwrap().is_some();
        assert!(there("known").await && there("stranger 5").await && there("stranger 4").await);
        assert!(!there("stranger 3").await, "the oldest go first");

        let stale = start + Duration::from_secs(4);
        assert_eq!(storage.delete_stale_browser_sessions(stale, start).await.unwrap(), 2);
        assert!(there("stranger 5").await && !there("known").await);
    }

    #[tokio::test]
    async fn a_deleted_session_does_not_come_back() {
        let storage = Storage::in_memory().await.unwrap();
        let mut row = session("a", None, Timestamp::from_seconds(1));
        storage.add_browser_session(&row).await.unwrap();
        row.key = Some(KeyId::new("k1"));
        storage.update_browser_session(&row).await.unwrap();
        assert_eq!(storage.lookup_browser_session(&row.id).await.unwrap().as_ref(), Some(&row));
        storage.delete_browser_session(&row.id).await.unwrap();
        storage.update_browser_session(&row).await.unwrap();
        assert_eq!(storage.lookup_browser_session(&row.id).await.unwrap(), None);
    }
}
