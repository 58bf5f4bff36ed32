//! Database connections and errors.

use std::time::Duration;

use sqlx::{
    Any, AnyConnection, AnyPool, Connection as _, Transaction,
    any::{AnyPoolOptions, install_default_drivers},
    migrate::MigrateError,
    postgres::PgDatabaseError,
};
use tokio::time::timeout;

use crate::support::Timestamp;

/// Maximum time to wait for a lock of the database.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// For `LIMIT` where only an `OFFSET` is meant: SQLite takes no `OFFSET` alone, and PostgreSQL no `LIMIT -1`.
pub(super) const NO_LIMIT: i64 = i64::MAX;

/// Connection pool. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) pool: AnyPool,
    pub(super) engine: Engine,
}

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
    PostgreSql,
}

impl Engine {
    /// The present time of the database, in milliseconds since the epoch, in its dialect.
    pub(super) const fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            // the statement's, not the transaction's
            Self::PostgreSql => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }
}

/// Database error.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file cannot be created, or its mode cannot be set.
    #[error("the database file {path} cannot be opened: {source}")]
    File { path: String, source: std::io::Error },
    /// A newer program has changed the schema.
    #[error(
        "a newer version of this program has changed the database (to schema {found}; this one knows up to {known}): run \
         that version, or go back to a backup from before the upgrade"
    )]
    Newer {
        /// The first unknown migration.
        found: i64,
        /// The last migration known to this version.
        known: i64,
    },
    #[error("the database schema cannot be brought up to date: {0}")]
    Migration(#[from] MigrateError),
    /// No connection could be opened in time.
    #[error("the database cannot be reached: {0}")]
    Unreachable(sqlx::Error),
    /// The file's disk is full.
    #[error("no space is left on the disk of the database")]
    DiskFull,
    /// The file system cannot map memory, which SQLite shares between connections.
    #[error(
        "the file system of the database has no shared memory (disk I/O error 5386), as network disks often have none; SQLite \
         needs it"
    )]
    NoSharedMemory,
    #[error("the database query failed: {0}")]
    Query(#[source] sqlx::Error),
    /// The server did not answer.
    #[error("the database did not answer in time")]
    Silent,
    /// The user or the key of a new row has ended.
    #[error("its user, API key or account has ended")]
    Ended,
    /// A row has a value that the gateway never writes.
    #[error("the database is inconsistent: table {table}, column {column}")]
    Inconsistent { table: &'static str, column: &'static str },
}

// === impl Database ===

impl Database {
    /// Connects to the database at `url`. Each connection runs `settings` first.
    pub(super) async fn connect(
        pool: AnyPoolOptions,
        engine: Engine,
        url: &str,
        settings: &'static str,
    ) -> Result<Self, StorageError> {
        install_default_drivers();
        if engine == Engine::Sqlite
            && let Some(unusable) = unusable_disk(url, settings).await
        {
            return Err(unusable);
        }
        let pool = pool.after_connect(move |connection, _| {
            Box::pin(async move { sqlx::raw_sql(settings).execute(connection).await.map(drop) })
        });
        match pool.connect(url).await {
            Ok(pool) => Ok(Self { pool, engine }),
            Err(sqlx::Error::PoolTimedOut) => Err(why_unreachable(url).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins an exclusive write transaction (`OA-143`): one at a time, of all processes on the database. Rolled back
    /// unless committed.
    pub(super) async fn change(&self) -> Result<Transaction<'static, Any>, StorageError> {
        match self.engine {
            Engine::Sqlite => self.batch().await,
            Engine::PostgreSql => {
                let mut change = self.batch().await?;
                // conflicts with itself but not with readers; nothing else writes to the table after the start
                sqlx::query("LOCK TABLE gateway IN SHARE ROW EXCLUSIVE MODE").execute(&mut *change).await?;
                Ok(change)
            }
        }
    }

    /// Begins a transaction whose writes depend on no reads.
    pub(super) async fn batch(&self) -> Result<Transaction<'static, Any>, StorageError> {
        Ok(match self.engine {
            Engine::Sqlite => self.pool.begin_with("BEGIN IMMEDIATE").await?,
            Engine::PostgreSql => self.pool.begin().await?,
        })
    }
}

/// The error if a file's disk is unusable for a connection. A pool would retry that for half a minute.
async fn unusable_disk(url: &str, settings: &'static str) -> Option<StorageError> {
    if settings.is_empty() {
        return None;
    }
    let tried = async {
        let mut connection = AnyConnection::connect(url).await?;
        sqlx::raw_sql(settings).execute(&mut connection).await?;
        // a new file maps its shared memory at the first read
        sqlx::raw_sql("PRAGMA user_version").execute(&mut connection).await
    };
    StorageError::of_disk(&tried.await.err()?)
}

/// Why a pool got no connection, which it does not report itself.
async fn why_unreachable(url: &str) -> StorageError {
    match timeout(LOCK_TIMEOUT, AnyConnection::connect(url)).await {
        Ok(Err(error)) => StorageError::Unreachable(error),
        Ok(Ok(_)) | Err(_) => StorageError::Silent,
    }
}

// === impl StorageError ===

impl StorageError {
    /// True if the values of the statement violate a constraint: other values would have succeeded.
    pub fn is_constraint(&self) -> bool {
        match self.code() {
            // SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH
            Some(Code::Sqlite(code)) => matches!(code, 18..=20),
            // data exception, integrity constraint violation, program limit exceeded
            Some(Code::PostgreSql(state)) => ["22", "23", "54"].iter().any(|class| state.starts_with(class)),
            None => false,
        }
    }

    /// True if the database was busy, accepted no writes or could not be reached: a retry may succeed.
    pub fn is_busy(&self) -> bool {
        match (self, self.code()) {
            (Self::Silent | Self::Unreachable(_) | Self::Query(sqlx::Error::PoolTimedOut | sqlx::Error::Io(_)), _) => {
                true
            }
            // SQLITE_BUSY, SQLITE_LOCKED and SQLITE_READONLY
            (_, Some(Code::Sqlite(code))) => matches!(code, 5 | 6 | 8),
            // connection exception, transaction rollback, insufficient resources, operator intervention; a lock in use;
            // a server that accepts no writes, as after a failover
            (_, Some(Code::PostgreSql(state))) => {
                ["08", "40", "53", "57", "55P03", "25006"].iter().any(|class| state.starts_with(class))
            }
            (_, None) => false,
        }
    }

    /// The error of SQLite for an unusable disk.
    pub(super) fn of_disk(error: &sqlx::Error) -> Option<Self> {
        let sqlx::Error::Database(error) = error else { return None };
        if error.try_downcast_ref::<PgDatabaseError>().is_some() {
            return None;
        }
        match &*error.code()? {
            // SQLITE_FULL, and SQLITE_IOERR_SHMSIZE of the shared memory of a file
            "13" | "4874" => Some(Self::DiskFull),
            // SQLITE_IOERR_SHMMAP
            "5386" => Some(Self::NoSharedMemory),
            _ => None,
        }
    }

    fn code(&self) -> Option<Code<'_>> {
        let Self::Query(sqlx::Error::Database(error)) = self else { return None };
        if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
            return Some(Code::PostgreSql(error.code()));
        }
        // extended codes have the primary code in their lowest byte
        error.code()?.parse::<u32>().ok().map(|code| Code::Sqlite(code & 0xff))
    }
}

impl From<sqlx::Error> for StorageError {
    fn from(error: sqlx::Error) -> Self {
        Self::of_disk(&error).unwrap_or(Self::Query(error))
    }
}

/// Error code of a database.
enum Code<'a> {
    /// The primary result code.
    Sqlite(u32),
    PostgreSql(&'a str),
}

/// A moment read back from a column.
pub(super) const fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, fmt};

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    /// An error of SQLite with this code.
    #[derive(Debug)]
    struct SqliteCode(&'static str);

    impl fmt::Display for SqliteCode {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("disk I/O error")
        }
    }

    impl std::error::Error for SqliteCode {}

    impl DatabaseError for SqliteCode {
        fn message(&self) -> &'static str {
            "disk I/O error"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    #[test]
    fn a_disk_that_does_not_do_is_named() {
        let error = |code| StorageError::from(sqlx::Error::Database(Box::new(SqliteCode(code))));
        let told = error("5386").to_string();
        assert!(told.contains("no shared memory (disk I/O error 5386)"), "{told}");
        assert!(matches!(error("13"), StorageError::DiskFull) && matches!(error("4874"), StorageError::DiskFull));
        assert!(matches!(error("266"), StorageError::Query(_)));
    }
}
