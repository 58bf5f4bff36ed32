//! The connections to the database, and what can go wrong with them. Knows no table.

use sqlx::{Sqlite, SqlitePool, Transaction};

use crate::support::Timestamp;

/// The connections of one gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) pool: SqlitePool,
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

// === impl Database ===

impl Database {
    /// Begins a change that no other writer can come between (`OA-143`). Undone unless committed.
    pub(super) async fn change(&self) -> Result<Transaction<'static, Sqlite>, Error> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }
}

// === impl Error ===

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
pub(super) const fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}
