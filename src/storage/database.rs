//! Database connections and errors. Knows no table.

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::support::Timestamp;

/// Connection pool. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) pool: SqlitePool,
}

/// Database error.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file cannot be created, or its mode cannot be set.
    #[error("the database file {path} cannot be opened: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A newer program has changed the schema.
    #[error(
        "a newer version of this program has changed the database (to schema {found}; this one knows up to {known}): run \
         that version, or go back to a backup from before the upgrade"
    )]
    Newer {
        /// The first migration that is unknown here.
        found: i64,
        /// The last one that is known.
        known: i64,
    },
    /// The migrations failed.
    #[error("the database schema cannot be brought up to date: {0}")]
    Migration(#[from] MigrateError),
    /// A query failed.
    #[error("the database query failed: {0}")]
    Query(#[from] sqlx::Error),
    /// A row has a value that the gateway never writes.
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
    pub(super) async fn connect(pool: SqlitePoolOptions, options: SqliteConnectOptions) -> Result<Self, StorageError> {
        Ok(Self { pool: pool.connect_with(options).await? })
    }

    /// Brings the schema up to date.
    pub(super) async fn migrate(&self) -> Result<(), StorageError> {
        let migrator = sqlx::migrate!();
        migrator.run(&self.pool).await.map_err(|error| match error {
            MigrateError::VersionMissing(found) => {
                StorageError::Newer { found, known: migrator.iter().map(|one| one.version).max().unwrap_or(0) }
            }
            error => error.into(),
        })
    }

    /// Begins an exclusive write transaction (`OA-143`). Rolled back unless committed.
    pub(super) async fn change(&self) -> Result<Transaction<'static, Sqlite>, StorageError> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }
}

// === impl StorageError ===

impl StorageError {
    /// True if the values of the statement violate a constraint: other values would have succeeded.
    pub fn is_constraint(&self) -> bool {
        // SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH
        matches!(self.code(), Some(18..=20))
    }

    /// True if the database was busy: a retry may succeed.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Query(sqlx::Error::PoolTimedOut) => true,
            // SQLITE_BUSY and SQLITE_LOCKED
            _ => matches!(self.code(), Some(5 | 6)),
        }
    }

    /// SQLite's primary result code, if there is one.
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
