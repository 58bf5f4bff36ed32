//! The SQLite database: the only room that knows SQL. Knows nothing of HTTP and MCP; what a row means is `model`'s.
//!
//! One file a table group; each adds functions to [`Storage`]. Look-ups return `Result<Option<T>>`; verbs are `lookup`,
//! `find_by_*`, `add`, `list`, `count`, `delete`. Secrets are stored as digests or ciphertext alone.

mod backend_eras;
mod backend_introductions;
mod browser_sessions;
mod clients;
mod codes;
mod facts;
mod file;
mod grants;
mod key_rotation;
mod keys;
mod refresh_tokens;
mod revocations;
pub mod sessions;
mod signing_keys;
mod transactions;

use std::{
    path::{Path, PathBuf},
    str::FromStr as _,
    time::Duration,
};

pub use backend_introductions::IntroductionRow;
pub use browser_sessions::BrowserSession;
pub use clients::{NewClient, Registered, UnusedLimits};
pub use codes::CodeRow;
pub use grants::ListedGrant;
pub use refresh_tokens::{NewRefreshToken, RefreshTokenRow, Rotation};
pub use revocations::Revocation;
pub use signing_keys::{KeyState, SigningKeyRow};
use sqlx::{
    Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
pub use transactions::TransactionRow;

use crate::support::Timestamp;

/// The database of one gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    pool: SqlitePool,
}

/// What can go wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be created or its mode cannot be set.
    #[error("the database file {path} cannot be opened: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The schema cannot be brought up to date.
    #[error("the database schema cannot be brought up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A query failed.
    #[error("the database did not do it: {0}")]
    Query(#[from] sqlx::Error),
    /// A row holds what the gateway never writes.
    #[error("the database is inconsistent: table {table}, column {column}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
}

impl Storage {
    /// Opens the database at `path`, created with mode 0600 where it does not exist, in WAL mode, with foreign keys
    /// enforced, waiting up to 5 s for a lock, and brought up to date by the migrations.
    pub async fn open(path: &Path) -> Result<Self, Error> {
        let _lock = prepare(path.to_owned()).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        Self::connect(SqlitePoolOptions::new().max_connections(4), options).await
    }

    /// Holds the only connection of a database in memory until it is dropped: nothing is read or written meanwhile.
    #[cfg(test)]
    pub(crate) async fn stall(&self) -> Result<sqlx::pool::PoolConnection<Sqlite>, Error> {
        Ok(self.pool.acquire().await?)
    }

    /// An empty database in memory, for tests.
    pub async fn in_memory() -> Result<Self, Error> {
        let options = SqliteConnectOptions::from_str("sqlite::memory:")?;
        let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        Self::connect(pool, options).await
    }

    /// Writes everything out and closes the database.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Begins a change that no other writer can come between (`OA-143`). Undone unless committed.
    async fn change(&self) -> Result<Transaction<'static, Sqlite>, Error> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }

    async fn connect(pool: SqlitePoolOptions, options: SqliteConnectOptions) -> Result<Self, Error> {
        let options = options.foreign_keys(true).busy_timeout(Duration::from_secs(5));
        let pool = pool.connect_with(options).await?;
        sqlx::migrate!().run(&pool).await?;
        Ok(Self { pool })
    }
}

impl Error {
    /// Whether the statement itself was refused because of its values: others in its place would have succeeded.
    pub fn is_constraint(&self) -> bool {
        // SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH
        matches!(self.code(), Some(18..=20))
    }

    /// Whether the database was only busy and the same may be tried again.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Query(sqlx::Error::PoolTimedOut) => true,
            // SQLITE_BUSY and SQLITE_LOCKED
            _ => matches!(self.code(), Some(5 | 6)),
        }
    }

    /// The primary result code of SQLite, where it gave one.
    fn code(&self) -> Option<u32> {
        let Self::Query(sqlx::Error::Database(error)) = self else { return None };
        // extended codes have the primary one in their lowest byte
        error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
    }
}

/// A moment read back from a column.
const fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Creates the file and waits for its lock, off the threads that others need.
async fn prepare(path: PathBuf) -> Result<file::Lock, Error> {
    let name = path.display().to_string();
    let prepared = tokio::task::spawn_blocking(move || {
        // the file is closed again before SQLite opens it: closing one later would drop SQLite's own locks (POSIX fcntl)
        file::private(&path)?;
        file::Lock::wait(&path)
    });
    let prepared = prepared.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
    prepared.map_err(|source| Error::File { path: name, source })
}
