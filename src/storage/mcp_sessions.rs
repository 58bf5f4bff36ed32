//! MCP sessions of legacy clients, so that they survive a restart.
//!
//! The row of a session that is its connection, as over HTTP+SSE, holds what is known of its client, for its return.

#[cfg(test)]
mod tests;

use sqlx::{AnyConnection, AssertSqlSafe, Row as _, any::AnyRow};

use super::database::{Database, StorageError};
use crate::{
    model::{Binding, ClientId, KeyId, Owner, ReplicaNumber, SessionAddress, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of rows of one owner's connections; the least recent ones leave. Connections themselves are bounded
/// by `sessions_per_user`.
const MAX_CONNECTION_ROWS: i64 = 128;

/// The rows of one owner: `$1` to `$3` are user, client and key.
const OF_OWNER: &str =
    "user_id = $1 AND client IS NOT DISTINCT FROM $2 AND (client IS NOT NULL OR key IS NOT DISTINCT FROM $3)";

/// One session. The row has only the digest of the session id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSession {
    /// The SHA-256 of the id.
    pub digest: Digest,
    pub user: UserId,
    /// OAuth client.
    pub client: Option<ClientId>,
    /// API key that opened it.
    pub key: Option<KeyId>,
    /// Its address: the path of its endpoint, and the transport if it is not the usual one ([`SessionAddress`]).
    pub endpoint: String,
    /// The negotiated protocol version.
    pub revision: String,
    /// The text of the client's `Implementation` object.
    pub implementation: Vec<u8>,
    /// The text of the client's capabilities.
    pub capabilities: Vec<u8>,
    /// State that changes.
    pub state: McpSessionState,
    /// Time of opening.
    pub created: Timestamp,
    /// The replica that has it.
    pub owner: ReplicaNumber,
}

/// State of a session that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSessionState {
    /// Minimum log level that the client set.
    pub log_level: Option<String>,
    /// URIs of subscribed resources.
    pub subscriptions: Vec<String>,
    /// True after `notifications/initialized`.
    pub initialized: bool,
    /// Last activity.
    pub last_seen: Timestamp,
}

/// One write to the table.
#[derive(Debug, Clone)]
pub enum McpSessionWrite {
    /// Adds a new session.
    Add(Box<McpSession>),
    /// Updates a session. Does nothing if it has no row.
    Change(Digest, McpSessionState),
    /// The same for a live session: its row is written again if it is gone.
    Keep(Box<McpSession>),
    /// Leaves a session to the next replica that needs it.
    GiveUp(Digest),
    /// Deletes a session, if it has a row.
    Delete(Digest),
    /// Deletes the row of a connection that another one continues, unless a live replica has it.
    Supersede(Digest),
}

/// The times of last activity before which rows are deleted.
#[derive(Debug, Clone, Copy)]
pub struct InactiveSince {
    /// The present time.
    pub now: Timestamp,
    /// Of sessions.
    pub ready: Timestamp,
    /// Of sessions without `notifications/initialized`.
    pub unready: Timestamp,
    /// Of other replicas' sessions, whose activity they write from time to time.
    pub elsewhere: Timestamp,
}

/// MCP sessions of clients.
#[derive(Debug, Clone, Copy)]
pub struct McpSessionTable<'a> {
    /// Connections whose commits do not wait for the disk.
    pub(super) relaxed: &'a Database,
    /// Connections whose commits do.
    pub(super) durable: &'a Database,
}

impl McpSessionTable<'_> {
    /// Applies the writes of a replica in order, in one transaction. Sessions of other replicas stay as they are.
    pub async fn write(&self, writes: &[McpSessionWrite], by: ReplicaNumber) -> Result<(), StorageError> {
        match writes {
            [] => Ok(()),
            // a single statement is a transaction of its own, and three times as cheap as one between BEGIN and COMMIT
            [write] => run(write, by, &mut *self.relaxed.pool.acquire().await?).await,
            writes => {
                let mut transaction = self.relaxed.batch().await?;
                for write in writes {
                    run(write, by, &mut transaction).await?;
                }
                Ok(transaction.commit().await?)
            }
        }
    }

    /// The session of this digest; `None` if it is unknown or ended.
    pub async fn lookup(&self, digest: &Digest) -> Result<Option<McpSession>, StorageError> {
        let row = sqlx::query("SELECT * FROM mcp_sessions WHERE digest = $1")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.relaxed.pool)
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// The sessions of this owner at this address, most recent first, at most 128.
    pub async fn of_owner(&self, owner: &Owner, endpoint: &str) -> Result<Vec<McpSession>, StorageError> {
        let query = format!(
            "SELECT * FROM mcp_sessions WHERE {OF_OWNER} AND endpoint = $4 ORDER BY last_seen DESC, digest LIMIT $5"
        );
        let rows = sqlx::query(AssertSqlSafe(query))
            .bind(owner.user().as_str())
            .bind(owner.client().map(ClientId::as_str))
            .bind(owner.key().map(KeyId::as_str))
            .bind(endpoint)
            .bind(MAX_CONNECTION_ROWS)
            .fetch_all(&self.relaxed.pool)
            .await?;
        let readable = |row| read(row).inspect_err(|error| tracing::error!(%error, "a session is left out")).ok();
        Ok(rows.iter().filter_map(readable).collect())
    }

    /// Moves a session from the lost replica `from` to `to`; `false` if another has taken it by now.
    pub async fn succeed(&self, digest: &Digest, from: ReplicaNumber, to: ReplicaNumber) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE mcp_sessions SET owner = $1 WHERE digest = $2 AND owner = $3
             AND NOT EXISTS (SELECT 1 FROM replicas WHERE number = $3)",
        )
        .bind(to.get())
        .bind(digest.as_bytes().as_slice())
        .bind(from.get())
        .execute(&self.durable.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes the idle sessions of the replica `by`, and sessions that no replica has; sessions of others only if they
    /// are certainly not in use. A clock ahead of the database's deletes only its own sessions too early. Returns their
    /// number.
    pub async fn delete_idle(&self, by: ReplicaNumber, since: InactiveSince) -> Result<u64, StorageError> {
        let now = self.relaxed.engine.now();
        let seen = format!("(last_seen + CASE WHEN $4 > {now} THEN $4 - {now} ELSE 0 END)");
        let mut deleted = 0;
        for (initialized, before) in [("", since.ready), ("initialized = 0 AND ", since.unready)] {
            let statement = format!(
                "DELETE FROM mcp_sessions WHERE digest IN (
                     SELECT digest FROM mcp_sessions WHERE {initialized}last_seen <= $1
                         AND (owner = $2 OR ({seen} <= $1 AND ({seen} <= $3
                             OR NOT EXISTS (SELECT 1 FROM replicas WHERE number = mcp_sessions.owner))))
                     ORDER BY last_seen LIMIT $5)
                 AND {initialized}last_seen <= $1"
            );
            let arguments = [before.as_millis(), by.get(), since.elsewhere.as_millis(), since.now.as_millis()];
            deleted += self.relaxed.run_in_steps(AssertSqlSafe(statement), &arguments).await?;
        }
        Ok(deleted)
    }
}

async fn run(write: &McpSessionWrite, by: ReplicaNumber, connection: &mut AnyConnection) -> Result<(), StorageError> {
    match write {
        McpSessionWrite::Add(session) => add(session, connection).await,
        McpSessionWrite::Change(digest, state) => change(digest, state, by, connection).await,
        // the rows of connections are bounded: a row evicted for another does not come back
        McpSessionWrite::Keep(session) if is_connection(session) => {
            change(&session.digest, &session.state, by, connection).await
        }
        McpSessionWrite::Keep(session) => insert(KEEP, session, connection).await,
        McpSessionWrite::GiveUp(digest) => {
            by_replica("UPDATE mcp_sessions SET owner = 0 WHERE digest = $1 AND owner = $2", digest, by, connection)
                .await
        }
        McpSessionWrite::Delete(digest) => {
            by_replica("DELETE FROM mcp_sessions WHERE digest = $1 AND owner = $2", digest, by, connection).await
        }
        McpSessionWrite::Supersede(digest) => {
            let statement = "DELETE FROM mcp_sessions WHERE digest = $1
                AND (owner = $2 OR NOT EXISTS (SELECT 1 FROM replicas WHERE number = mcp_sessions.owner))";
            by_replica(statement, digest, by, connection).await
        }
    }
}

/// Runs a statement about one session of a replica.
async fn by_replica(
    statement: &'static str,
    digest: &Digest,
    owner: ReplicaNumber,
    connection: &mut AnyConnection,
) -> Result<(), StorageError> {
    let query = sqlx::query(statement).bind(digest.as_bytes().as_slice()).bind(owner.get());
    query.execute(connection).await?;
    Ok(())
}

async fn change(
    digest: &Digest,
    state: &McpSessionState,
    by: ReplicaNumber,
    connection: &mut AnyConnection,
) -> Result<(), StorageError> {
    let statement = "UPDATE mcp_sessions SET log_level = $1, subscriptions = $2, initialized = $3, last_seen = $4
        WHERE digest = $5 AND owner = $6";
    sqlx::query(statement)
        .bind(&state.log_level)
        .bind(list(&state.subscriptions))
        .bind(i64::from(state.initialized))
        .bind(state.last_seen.as_millis())
        .bind(digest.as_bytes().as_slice())
        .bind(by.get())
        .execute(connection)
        .await?;
    Ok(())
}

/// True for a session that is its connection.
fn is_connection(session: &McpSession) -> bool {
    SessionAddress::parse(&session.endpoint).is_some_and(|address| address.binding == Binding::Sse)
}

async fn add(session: &McpSession, connection: &mut AnyConnection) -> Result<(), StorageError> {
    insert(INSERT, session, connection).await?;
    if is_connection(session) { forget_oldest(session, connection).await } else { Ok(()) }
}

macro_rules! insert_row {
    () => {
        "INSERT INTO mcp_sessions (digest, user_id, client, key, endpoint, revision, implementation, capabilities, \
         log_level, subscriptions, initialized, created, last_seen, owner)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    };
}

/// Writes a new row.
const INSERT: &str = insert_row!();
/// The same, or an update of the existing row, unless another replica has it.
const KEEP: &str = concat!(
    insert_row!(),
    " ON CONFLICT (digest) DO UPDATE SET log_level = excluded.log_level, subscriptions = excluded.subscriptions,
     initialized = excluded.initialized, last_seen = excluded.last_seen WHERE mcp_sessions.owner = excluded.owner"
);

async fn insert(
    statement: &'static str,
    session: &McpSession,
    connection: &mut AnyConnection,
) -> Result<(), StorageError> {
    sqlx::query(statement)
        .bind(session.digest.as_bytes().as_slice())
        .bind(session.user.as_str())
        .bind(session.client.as_ref().map(ClientId::as_str))
        .bind(session.key.as_ref().map(KeyId::as_str))
        .bind(&session.endpoint)
        .bind(&session.revision)
        .bind(&session.implementation)
        .bind(&session.capabilities)
        .bind(&session.state.log_level)
        .bind(list(&session.state.subscriptions))
        .bind(i64::from(session.state.initialized))
        .bind(session.created.as_millis())
        .bind(session.state.last_seen.as_millis())
        .bind(session.owner.get())
        .execute(connection)
        .await?;
    Ok(())
}

/// Deletes the rows of the owner's connections beyond their limit.
async fn forget_oldest(of: &McpSession, connection: &mut AnyConnection) -> Result<(), StorageError> {
    let statement = format!(
        "DELETE FROM mcp_sessions WHERE digest IN (SELECT digest FROM mcp_sessions WHERE {OF_OWNER}
         AND (endpoint LIKE '%#sse' OR endpoint LIKE '/sse%' AND endpoint NOT LIKE '%#mcp')
         ORDER BY last_seen DESC, created DESC, digest LIMIT 1000 OFFSET $4)"
    );
    sqlx::query(AssertSqlSafe(statement))
        .bind(of.user.as_str())
        .bind(of.client.as_ref().map(ClientId::as_str))
        .bind(of.key.as_ref().map(KeyId::as_str))
        .bind(MAX_CONNECTION_ROWS)
        .execute(connection)
        .await?;
    Ok(())
}

/// Serializes a list as a JSON array.
fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_else(|_| "[]".to_owned())
}

fn read(row: &AnyRow) -> Result<McpSession, StorageError> {
    let digest: Vec<u8> = row.try_get("digest")?;
    let subscriptions: String = row.try_get("subscriptions")?;
    let inconsistent = StorageError::Inconsistent { table: "mcp_sessions", column: "digest" };
    Ok(McpSession {
        digest: Digest::from_slice(&digest).ok_or(inconsistent)?,
        user: UserId::new(row.try_get::<String, _>("user_id")?),
        client: row.try_get::<Option<String>, _>("client")?.map(ClientId::new),
        key: row.try_get::<Option<String>, _>("key")?.map(KeyId::new),
        endpoint: row.try_get("endpoint")?,
        revision: row.try_get("revision")?,
        implementation: row.try_get("implementation")?,
        capabilities: row.try_get("capabilities")?,
        state: McpSessionState {
            log_level: row.try_get("log_level")?,
            subscriptions: serde_json::from_str(&subscriptions)
                .map_err(|_| StorageError::Inconsistent { table: "mcp_sessions", column: "subscriptions" })?,
            initialized: row.try_get::<i64, _>("initialized")? != 0,
            last_seen: Timestamp::from_millis(row.try_get("last_seen")?),
        },
        created: Timestamp::from_millis(row.try_get("created")?),
        owner: ReplicaNumber::new(row.try_get("owner")?),
    })
}
