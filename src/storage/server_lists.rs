//! The last lists of each server, so that clients are shown them after a restart until it answers. Sealed ones are
//! sealed elsewhere.

use std::time::Duration;

use super::database::{Database, StorageError};
use crate::{
    model::{BackendId, UserId},
    support::{Digest, Timestamp},
};

/// The most bytes that are kept of one server for one user, or for everybody; the oldest lists make room.
const MAX_BYTES: i64 = 4 << 20;
/// Bytes that a row counts in addition to its list, so that many small ones have a bound too.
const ROW: i64 = 4096;

/// The place of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerListKey {
    /// The server.
    pub server: BackendId,
    /// The only user who is shown it; `None`: everybody is.
    pub user: Option<UserId>,
    /// Digest of the client capabilities that the server was told.
    pub capabilities: Digest,
    /// The method that lists.
    pub method: String,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerListRow {
    /// Digest of the server's section in the configuration.
    pub section: Digest,
    /// Protocol version of the list.
    pub revision: String,
    /// JSON text of the result; sealed if it is a user's.
    pub list: Vec<u8>,
}

/// What happens to a stored list.
pub enum ServerListChange {
    Set(ServerListRow),
    /// It stays as it is, as if it were stored now.
    Renew,
    Delete,
}

/// Lists of servers.
#[derive(Debug, Clone, Copy)]
pub struct ServerListTable<'a>(pub(super) &'a Database);

impl ServerListTable<'_> {
    /// The time for which a list is kept.
    pub const KEPT_FOR: Duration = Duration::from_hours(7 * 24);

    /// The list in this place, unless it is too old.
    pub async fn find(&self, key: &ServerListKey, now: Timestamp) -> Result<Option<ServerListRow>, StorageError> {
        let row: Option<(Vec<u8>, String, Vec<u8>)> = sqlx::query_as(
            "SELECT section, revision, list FROM server_lists
             WHERE server = $1 AND user_id = $2 AND capabilities = $3 AND method = $4 AND stored >= $5",
        )
        .bind(key.server.as_str())
        .bind(key.user())
        .bind(key.capabilities.as_bytes().as_slice())
        .bind(&key.method)
        .bind((now - Self::KEPT_FOR).as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(|(section, revision, list)| {
            let section = Digest::from_slice(&section);
            let section = section.ok_or(StorageError::Inconsistent { table: "server_lists", column: "section" })?;
            Ok(ServerListRow { section, revision, list })
        })
        .transpose()
    }

    /// Makes these changes in one transaction. If more than 4 MiB are then kept for a user at a server, the oldest of
    /// the other lists are deleted, those that the gateway asked for itself last.
    pub async fn write(
        &self,
        changes: &[(ServerListKey, ServerListChange)],
        now: Timestamp,
    ) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        for (key, to) in changes {
            match to {
                ServerListChange::Set(row) => set(&mut change, key, row, now).await?,
                ServerListChange::Renew => renew(&mut change, key, now).await?,
                ServerListChange::Delete => {
                    delete(&mut change, key, key.capabilities.as_bytes(), &key.method).await?;
                }
            }
        }
        Ok(change.commit().await?)
    }
}

async fn set(
    change: &mut sqlx::AnyConnection,
    key: &ServerListKey,
    row: &ServerListRow,
    now: Timestamp,
) -> Result<(), StorageError> {
    sqlx::query(
        "INSERT INTO server_lists (server, user_id, capabilities, method, section, revision, list, stored)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (server, user_id, capabilities, method) DO UPDATE SET section = excluded.section,
             revision = excluded.revision, list = excluded.list, stored = excluded.stored",
    )
    .bind(key.server.as_str())
    .bind(key.user())
    .bind(key.capabilities.as_bytes().as_slice())
    .bind(&key.method)
    .bind(row.section.as_bytes().as_slice())
    .bind(&row.revision)
    .bind(&row.list)
    .bind(now.as_millis())
    .execute(&mut *change)
    .await?;
    let rows: Vec<(Vec<u8>, String, i64)> = sqlx::query_as(
        "SELECT capabilities, method, CAST(length(list) AS BIGINT) FROM server_lists WHERE server = $1 AND user_id = $2
         ORDER BY CASE WHEN capabilities = $3 THEN 0 ELSE 1 END, stored DESC",
    )
    .bind(key.server.as_str())
    .bind(key.user())
    .bind(Digest::sha256("").as_bytes().as_slice())
    .fetch_all(&mut *change)
    .await?;
    let own = (key.capabilities.as_bytes().as_slice(), key.method.as_str());
    let mut bytes = i64::try_from(row.list.len()).unwrap_or(i64::MAX);
    for (capabilities, method, length) in &rows {
        if (capabilities.as_slice(), method.as_str()) == own {
            continue;
        }
        bytes = bytes.saturating_add(*length).saturating_add(ROW);
        if bytes > MAX_BYTES {
            delete(change, key, capabilities, method).await?;
        }
    }
    Ok(())
}

async fn renew(change: &mut sqlx::AnyConnection, key: &ServerListKey, now: Timestamp) -> Result<(), StorageError> {
    sqlx::query(
        "UPDATE server_lists SET stored = $1 WHERE server = $2 AND user_id = $3 AND capabilities = $4 AND method = $5",
    )
    .bind(now.as_millis())
    .bind(key.server.as_str())
    .bind(key.user())
    .bind(key.capabilities.as_bytes().as_slice())
    .bind(&key.method)
    .execute(change)
    .await?;
    Ok(())
}

async fn delete(
    change: &mut sqlx::AnyConnection,
    key: &ServerListKey,
    capabilities: &[u8],
    method: &str,
) -> Result<(), StorageError> {
    let statement = "DELETE FROM server_lists WHERE server = $1 AND user_id = $2 AND capabilities = $3 AND method = $4";
    sqlx::query(statement)
        .bind(key.server.as_str())
        .bind(key.user())
        .bind(capabilities)
        .bind(method)
        .execute(change)
        .await?;
    Ok(())
}

// === impl ServerListKey ===

impl ServerListKey {
    /// The user as stored: empty for everybody.
    fn user(&self) -> &str {
        self.user.as_ref().map_or("", UserId::as_str)
    }
}
