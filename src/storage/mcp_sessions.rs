//! MCP sessions of legacy clients, so that they survive a restart. Knows nothing of their calls.
//!
//! The row of a session that is its connection, as over HTTP+SSE, is what is known of its client when that comes back.

use sqlx::{AnyConnection, AssertSqlSafe, Row as _, any::AnyRow};

use super::database::{Database, StorageError};
use crate::{
    model::{ClientId, KeyId, Owner, ReplicaNumber, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of rows of one owner's connections; the least recent ones leave. Connections themselves are bounded by
/// `sessions_per_caller`.
const MAX_CONNECTION_ROWS: i64 = 128;

/// The rows of one owner: `$1` to `$3` are user, client and key.
const OF_OWNER: &str =
    "user_id = $1 AND client IS NOT DISTINCT FROM $2 AND (client IS NOT NULL OR key IS NOT DISTINCT FROM $3)";

/// One session. The row has only the digest of the session id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSession {
    /// The SHA-256 of the id.
    pub digest: Digest,
    /// User.
    pub user: UserId,
    /// OAuth client.
    pub client: Option<ClientId>,
    /// API key that opened it.
    pub key: Option<KeyId>,
    /// The path of its endpoint.
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
    /// Updates a session. Does nothing if there is no row.
    Change(Digest, McpSessionState),
    /// The same for a session that goes on: its row is written again if it is gone.
    Keep(Box<McpSession>),
    /// Leaves a session to whoever needs it next.
    GiveUp(Digest),
    /// Deletes a session, if there is a row.
    Delete(Digest),
    /// Deletes the row of a connection that another one continues, unless a replica that is there has it.
    Supersede(Digest),
}

/// The times of last activity before which rows are deleted.
#[derive(Debug, Clone, Copy)]
pub struct InactiveSince {
    /// Of sessions.
    pub ready: Timestamp,
    /// Of sessions without `notifications/initialized`.
    pub unready: Timestamp,
    /// Of sessions that another replica has. It writes their activity from time to time.
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
    /// Applies the writes of a replica in order, in one transaction. Sessions that another replica has stay as they are.
    pub async fn write(&self, writes: &[McpSessionWrite], by: ReplicaNumber) -> Result<(), StorageError> {
        match writes {
            [] => Ok(()),
            // one statement is a transaction of its own, and three times as cheap as one between BEGIN and COMMIT
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

    /// The session of this digest; `None` if there is none or it ended.
    pub async fn lookup(&self, digest: &Digest) -> Result<Option<McpSession>, StorageError> {
        let row = sqlx::query("SELECT * FROM mcp_sessions WHERE digest = $1")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.relaxed.pool)
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// The sessions of this owner at the endpoint of this path, the most recent first, at most 128.
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

    /// Gives a session of `from`, which is no replica any more, to `to`; `false` if another has it by now.
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

    /// Deletes the idle sessions of the replica `by` and those that no replica has; those of others only if they are not in
    /// use for certain. Returns their number.
    pub async fn delete_idle(&self, by: ReplicaNumber, since: InactiveSince) -> Result<u64, StorageError> {
        let statement = "DELETE FROM mcp_sessions WHERE (last_seen <= $1 OR (initialized = 0 AND last_seen <= $2))
            AND (owner = $3 OR last_seen <= $4
                 OR NOT EXISTS (SELECT 1 FROM replicas WHERE number = mcp_sessions.owner))";
        let done = sqlx::query(statement)
            .bind(since.ready.as_millis())
            .bind(since.unready.as_millis())
            .bind(by.get())
            .bind(since.elsewhere.as_millis())
            .execute(&self.relaxed.pool)
            .await?;
        Ok(done.rows_affected())
    }
}

async fn run(write: &McpSessionWrite, by: ReplicaNumber, connection: &mut AnyConnection) -> Result<(), StorageError> {
    match write {
        McpSessionWrite::Add(session) => add(session, connection).await,
        McpSessionWrite::Change(digest, state) => change((digest, state), by, connection).await,
        // the rows of connections are bounded: one that left for another does not come back
        McpSessionWrite::Keep(session) if is_connection(session) => {
            change((&session.digest, &session.state), by, connection).await
        }
        McpSessionWrite::Keep(session) => insert(KEEP, session, connection).await,
        McpSessionWrite::GiveUp(digest) => {
            by_replica("UPDATE mcp_sessions SET owner = 0 WHERE digest = $1 AND owner = $2", (digest, by), connection)
                .await
        }
        McpSessionWrite::Delete(digest) => {
            by_replica("DELETE FROM mcp_sessions WHERE digest = $1 AND owner = $2", (digest, by), connection).await
        }
        McpSessionWrite::Supersede(digest) => {
            let statement = "DELETE FROM mcp_sessions WHERE digest = $1
                AND (owner = $2 OR NOT EXISTS (SELECT 1 FROM replicas WHERE number = mcp_sessions.owner))";
            by_replica(statement, (digest, by), connection).await
        }
    }
}

/// Runs a statement about one session of a replica.
async fn by_replica(
    statement: &'static str,
    (digest, owner): (&Digest, ReplicaNumber),
    connection: &mut AnyConnection,
) -> Result<(), StorageError> {
    let query = sqlx::query(statement).bind(digest.as_bytes().as_slice()).bind(owner.get());
    query.execute(connection).await?;
    Ok(())
}

async fn change(
    (digest, state): (&Digest, &McpSessionState),
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
    session.endpoint.starts_with("/sse")
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
/// The same, or what changed in the row that is there, unless another replica has it.
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

/// Deletes the rows of the owner's connections beyond their bound.
async fn forget_oldest(of: &McpSession, connection: &mut AnyConnection) -> Result<(), StorageError> {
    let statement = format!(
        "DELETE FROM mcp_sessions WHERE digest IN (SELECT digest FROM mcp_sessions WHERE {OF_OWNER}
         AND endpoint LIKE '/sse%' ORDER BY last_seen DESC, created DESC, digest LIMIT 1000 OFFSET $4)"
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        model::{Caller, ReplicaAddress, Rights},
        storage::Storage,
    };

    fn session(id: &str, seen: Timestamp) -> McpSession {
        McpSession {
            digest: Digest::sha256(id),
            user: UserId::new("ann"),
            client: Some(ClientId::new("c1")),
            key: None,
            endpoint: "/mcp".to_owned(),
            revision: "2025-06-18".to_owned(),
            implementation: b"{}".to_vec(),
            capabilities: b"{\"roots\":{}}".to_vec(),
            state: McpSessionState { log_level: None, subscriptions: Vec::new(), initialized: false, last_seen: seen },
            created: seen,
            owner: ReplicaNumber::SOLE,
        }
    }

    const SOLE: ReplicaNumber = ReplicaNumber::SOLE;

    #[tokio::test]
    async fn a_session_is_read_back_as_it_was_written_and_changed() {
        let storage = Storage::empty().await;
        let start = Timestamp::from_seconds(100);
        let mut one = session("one", start);
        storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(one.clone()))], SOLE).await.unwrap();
        assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap().as_ref(), Some(&one));
        let later = start + Duration::from_secs(5);
        let subscriptions = vec!["file:///a \"b\"".to_owned()];
        let log_level = Some("error".to_owned());
        one.state = McpSessionState { log_level, subscriptions, initialized: true, last_seen: later };
        storage.mcp_sessions().write(&[McpSessionWrite::Change(one.digest, one.state.clone())], SOLE).await.unwrap();
        assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap().as_ref(), Some(&one));
        storage.mcp_sessions().write(&[McpSessionWrite::Delete(one.digest)], SOLE).await.unwrap();
        assert_eq!(storage.mcp_sessions().lookup(&one.digest).await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_row_that_cannot_be_read_stands_in_no_other_ones_way() {
        let storage = Storage::empty().await;
        let [good, bad] = ["good", "bad"].map(|id| session(id, Timestamp::from_seconds(1)));
        for row in [&good, &bad] {
            storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row.clone()))], SOLE).await.unwrap();
        }
        sqlx::query("UPDATE mcp_sessions SET subscriptions = 'garbage' WHERE digest = $1")
            .bind(bad.digest.as_bytes().as_slice())
            .execute(&storage.mcp_sessions().durable.pool)
            .await
            .unwrap();
        assert!(matches!(storage.mcp_sessions().lookup(&bad.digest).await, Err(StorageError::Inconsistent { .. })));
        let caller = Caller {
            user: good.user.clone(),
            client: good.client.clone(),
            grant: None,
            key: None,
            rights: Rights::none(),
        };
        assert_eq!(storage.mcp_sessions().of_owner(&caller.owner(), "/mcp").await.unwrap(), [good]);
    }

    #[tokio::test]
    async fn several_writes_are_all_applied_or_none() {
        let storage = Storage::empty().await;
        let add = |id| McpSessionWrite::Add(Box::new(session(id, Timestamp::from_seconds(1))));
        let error = storage.mcp_sessions().write(&[add("one"), add("two"), add("one")], SOLE).await.unwrap_err();
        assert!(error.is_constraint() && !error.is_busy());
        let there = storage.mcp_sessions().lookup(&Digest::sha256("two")).await.unwrap();
        assert_eq!(there, None);
        storage
            .mcp_sessions()
            .write(&[add("one"), McpSessionWrite::Delete(Digest::sha256("one"))], SOLE)
            .await
            .unwrap();
        assert_eq!(storage.mcp_sessions().lookup(&Digest::sha256("one")).await.unwrap(), None);
    }

    #[tokio::test]
    async fn idle_sessions_and_uninitialized_ones_are_deleted_after_their_timeouts() {
        let storage = Storage::empty().await;
        let at = Timestamp::from_seconds;
        let mut ready = session("ready", at(50));
        ready.state.initialized = true;
        for row in [session("idle", at(10)), session("unready", at(50)), session("fresh", at(90)), ready] {
            storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row))], SOLE).await.unwrap();
        }
        let since = InactiveSince { ready: at(20), unready: at(60), elsewhere: at(0) };
        assert_eq!(storage.mcp_sessions().delete_idle(SOLE, since).await.unwrap(), 2);
        for (id, there) in [("idle", false), ("unready", false), ("fresh", true), ("ready", true)] {
            let found = storage.mcp_sessions().lookup(&Digest::sha256(id)).await.unwrap();
            assert_eq!(found.is_some(), there, "{id}");
        }
    }

    #[tokio::test]
    async fn a_replica_deletes_idle_rows_of_its_own_of_nobody_and_late_those_of_others() {
        let storage = Storage::empty().await;
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let join = async || storage.replicas().join(&address, b"key", Duration::from_mins(10)).await.unwrap();
        let (own, other, gone) = (join().await, join().await, join().await);
        storage.replicas().leave(gone).await.unwrap();
        let at = Timestamp::from_seconds;
        let rows =
            [("own", own, 50), ("other", other, 50), ("gone", gone, 50), ("nobody", SOLE, 50), ("left", other, 30)];
        for (id, owner, seen) in rows {
            let mut row = McpSession { owner, ..session(id, at(seen)) };
            row.state.initialized = true;
            storage.mcp_sessions().write(&[McpSessionWrite::Add(Box::new(row))], owner).await.unwrap();
        }
        let since = InactiveSince { ready: at(60), unready: at(60), elsewhere: at(40) };
        assert_eq!(storage.mcp_sessions().delete_idle(own, since).await.unwrap(), 4);
        assert!(storage.mcp_sessions().lookup(&Digest::sha256("other")).await.unwrap().is_some(), "it may be in use");
    }

    #[tokio::test]
    async fn a_session_that_goes_on_gets_its_row_back_unless_another_replica_has_it() {
        let storage = Storage::empty().await;
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let join = async || storage.replicas().join(&address, b"key", Duration::from_mins(10)).await.unwrap();
        let (one, two) = (join().await, join().await);
        let table = storage.mcp_sessions();
        let mut row = McpSession { owner: one, ..session("s", Timestamp::from_seconds(1)) };
        table.write(&[McpSessionWrite::Keep(Box::new(row.clone()))], one).await.unwrap();
        assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row), "the row was gone");
        row.state.last_seen = Timestamp::from_seconds(9);
        table.write(&[McpSessionWrite::Keep(Box::new(row.clone()))], one).await.unwrap();
        assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row));
        let late = McpSession { owner: two, ..session("s", Timestamp::from_seconds(99)) };
        table.write(&[McpSessionWrite::Keep(Box::new(late))], two).await.unwrap();
        assert_eq!(table.lookup(&row.digest).await.unwrap().as_ref(), Some(&row), "it is another's");
        let connection = McpSession { endpoint: "/sse".to_owned(), ..session("c", Timestamp::from_seconds(1)) };
        table.write(&[McpSessionWrite::Keep(Box::new(connection.clone()))], SOLE).await.unwrap();
        assert_eq!(table.lookup(&connection.digest).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_session_has_one_owner_which_alone_writes_and_which_one_replica_succeeds() {
        let storage = Storage::empty().await;
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let join = async || storage.replicas().join(&address, b"key", Duration::from_mins(10)).await.unwrap();
        let (one, two, three) = (join().await, join().await, join().await);
        let mut row = McpSession { owner: one, ..session("s", Timestamp::from_seconds(1)) };
        let table = storage.mcp_sessions();
        table.write(&[McpSessionWrite::Add(Box::new(row.clone()))], one).await.unwrap();
        assert!(!table.succeed(&row.digest, one, two).await.unwrap(), "its owner is there");
        storage.replicas().leave(one).await.unwrap();
        assert!(table.succeed(&row.digest, one, two).await.unwrap());
        assert!(!table.succeed(&row.digest, one, three).await.unwrap(), "another was first");
        // the owner that was does not know yet
        let state = McpSessionState { initialized: true, ..row.state.clone() };
        let late = [McpSessionWrite::Change(row.digest, state), McpSessionWrite::Delete(row.digest)];
        table.write(&late, one).await.unwrap();
        row.owner = two;
        assert_eq!(table.lookup(&row.digest).await.unwrap(), Some(row));
    }
}
