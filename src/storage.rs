//! The SQLite database: the only module with SQL. Knows nothing of HTTP and MCP; `model` defines the meaning of rows.
//!
//! One file for each subject, mostly a single table: [`Storage`] returns a handle for each. Look-ups return
//! `Result<Option<T>>`; verbs are `lookup`, `find_by_*`, `add`, `list`, `count`, `delete`. Secrets are stored only as
//! digests or ciphertext.

mod api_keys;
mod assertions;
mod audit_events;
mod backend_eras;
mod browser_sessions;
mod client_documents;
mod client_expiry;
mod clients;
mod codes;
mod data_keys;
mod database;
mod device_authorizations;
mod expired_rows;
mod file;
mod gateway_values;
mod grants;
mod key_rotation;
mod master_key;
pub mod mcp_sessions;
mod provider_logins;
mod refresh_tokens;
mod revocations;
mod server_info;
mod signing_keys;
mod transactions;
mod upstream_clients;
mod upstream_tokens;
mod user_secrets;
mod users;

use std::{
    path::{Path, PathBuf},
    str::FromStr as _,
    time::Duration,
};

pub use api_keys::KeyTable;
pub use assertions::AssertionTable;
pub use audit_events::{AuditRow, AuditSearch, AuditTable, StoredAuditRow};
pub use backend_eras::BackendEraTable;
pub use browser_sessions::{BrowserSession, BrowserSessionTable};
pub use client_documents::{ClientDocumentTable, StoredDocument};
pub use client_expiry::{ClientExpiry, IdleSince};
pub use clients::{ClientTable, NewClient, RegistrationOutcome, UnusedLimits};
pub use codes::{CodeRow, CodeTable};
pub use data_keys::DataKeyTable;
pub use database::StorageError;
pub use device_authorizations::{DeviceAuthorizationTable, DeviceRow, NewDeviceRow};
pub use expired_rows::ExpiredRows;
pub use gateway_values::GatewayValueTable;
pub use grants::{GrantTable, ListedGrant};
pub use master_key::{MasterSealed, MasterSealedValues};
pub use mcp_sessions::McpSessionTable;
pub use provider_logins::{BoundLogin, ProviderLoginTable};
pub use refresh_tokens::{NewRefreshToken, RefreshTokenRow, RefreshTokenTable, Rotation};
pub use revocations::{Revocation, RevocationTable};
pub use server_info::{ServerInfoRow, ServerInfoTable};
pub use signing_keys::{SigningKeyRow, SigningKeyTable};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
pub use transactions::{TransactionRow, TransactionTable};
pub use upstream_clients::{UpstreamClientTable, UpstreamRequestRow};
pub use upstream_tokens::{UpstreamTokenRow, UpstreamTokenTable, WithdrawnTokenRow};
pub use user_secrets::UserSecretTable;
pub use users::UserTable;

use self::database::Database;

/// The time to wait for a lock of the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The database of one gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    database: Database,
    /// The same file through connections that do not wait for the disk.
    mcp_sessions: Database,
}

// === impl Storage ===

impl Storage {
    /// Opens the database at `path`: creates a missing file with mode 0600, enables WAL mode and foreign keys, waits up
    /// to 5 s for a lock, and runs the migrations.
    ///
    /// A commit is on the disk when it returns, but for those of MCP sessions: they survive the end of the process in
    /// whatever way, not that of the machine. A client whose session is gone opens another.
    pub async fn open(path: &Path) -> Result<Self, StorageError> {
        let _lock = prepare(path.to_owned()).await?;
        let options = SqliteConnectOptions::new().filename(path).journal_mode(SqliteJournalMode::Wal);
        let options = options.foreign_keys(true).busy_timeout(BUSY_TIMEOUT);
        let durable = options.clone().synchronous(SqliteSynchronous::Full);
        let database = Database::connect(SqlitePoolOptions::new().max_connections(4), durable).await?;
        database.migrate().await?;
        let relaxed = options.synchronous(SqliteSynchronous::Normal);
        let mcp_sessions = Database::connect(SqlitePoolOptions::new().max_connections(2), relaxed).await?;
        Ok(Self { database, mcp_sessions })
    }

    /// Takes the only connection of a database in memory: reads and writes wait until it is dropped.
    #[cfg(test)]
    pub(crate) async fn stall(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Sqlite>, StorageError> {
        Ok(self.database.pool.acquire().await?)
    }

    /// An empty database in memory, for tests.
    pub async fn in_memory() -> Result<Self, StorageError> {
        let options = SqliteConnectOptions::from_str("sqlite::memory:")?.foreign_keys(true);
        let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let database = Database::connect(pool, options).await?;
        database.migrate().await?;
        Ok(Self { mcp_sessions: database.clone(), database })
    }

    /// Flushes and closes the database.
    pub async fn close(&self) {
        self.mcp_sessions.pool.close().await;
        self.database.pool.close().await;
    }

    /// Client assertions that were accepted.
    pub const fn assertions(&self) -> AssertionTable<'_> {
        AssertionTable(&self.database)
    }

    /// Devices that wait for a person.
    pub const fn device_authorizations(&self) -> DeviceAuthorizationTable<'_> {
        DeviceAuthorizationTable(&self.database)
    }

    /// The audit trail.
    pub const fn audit(&self) -> AuditTable<'_> {
        AuditTable(&self.database)
    }

    /// Eras of backends.
    pub const fn backend_eras(&self) -> BackendEraTable<'_> {
        BackendEraTable(&self.database)
    }

    /// Server information of backends.
    pub const fn server_info(&self) -> ServerInfoTable<'_> {
        ServerInfoTable(&self.database)
    }

    /// Browser sessions.
    pub const fn browser_sessions(&self) -> BrowserSessionTable<'_> {
        BrowserSessionTable(&self.database)
    }

    /// Expiry of clients.
    pub fn client_expiry(&self) -> ClientExpiry<'_> {
        ClientExpiry(&self.database)
    }

    /// Clients that a metadata document describes.
    pub fn client_documents(&self) -> ClientDocumentTable<'_> {
        ClientDocumentTable(&self.database)
    }

    /// OAuth clients.
    pub const fn clients(&self) -> ClientTable<'_> {
        ClientTable(&self.database)
    }

    /// Authorization codes.
    pub const fn codes(&self) -> CodeTable<'_> {
        CodeTable(&self.database)
    }

    /// Data keys of users.
    pub const fn data_keys(&self) -> DataKeyTable<'_> {
        DataKeyTable(&self.database)
    }

    /// Values that are sealed under the master key.
    pub const fn master_sealed(&self) -> MasterSealedValues<'_> {
        MasterSealedValues(&self.database)
    }

    /// Expired rows of the authorization server.
    pub const fn expired_rows(&self) -> ExpiredRows<'_> {
        ExpiredRows(&self.database)
    }

    /// Single values of the gateway.
    pub const fn gateway_values(&self) -> GatewayValueTable<'_> {
        GatewayValueTable(&self.database)
    }

    /// Grants.
    pub const fn grants(&self) -> GrantTable<'_> {
        GrantTable(&self.database)
    }

    /// API keys.
    pub const fn keys(&self) -> KeyTable<'_> {
        KeyTable(&self.database)
    }

    /// Logins through OpenID providers.
    pub const fn provider_logins(&self) -> ProviderLoginTable<'_> {
        ProviderLoginTable(&self.database)
    }

    /// Refresh tokens.
    pub const fn refresh_tokens(&self) -> RefreshTokenTable<'_> {
        RefreshTokenTable(&self.database)
    }

    /// Revocations.
    pub const fn revocations(&self) -> RevocationTable<'_> {
        RevocationTable(&self.database)
    }

    /// MCP sessions of clients.
    pub const fn mcp_sessions(&self) -> McpSessionTable<'_> {
        McpSessionTable(&self.mcp_sessions)
    }

    /// Signing keys.
    pub const fn signing_keys(&self) -> SigningKeyTable<'_> {
        SigningKeyTable(&self.database)
    }

    /// Pending authorization requests.
    pub const fn transactions(&self) -> TransactionTable<'_> {
        TransactionTable(&self.database)
    }

    /// Users.
    pub const fn users(&self) -> UserTable<'_> {
        UserTable(&self.database)
    }

    /// Registrations and requests at authorization servers of servers.
    pub const fn upstream_clients(&self) -> UpstreamClientTable<'_> {
        UpstreamClientTable(&self.database)
    }

    /// Tokens at protected servers.
    pub const fn upstream_tokens(&self) -> UpstreamTokenTable<'_> {
        UpstreamTokenTable(&self.database)
    }

    /// Values that users enter for servers.
    pub const fn user_secrets(&self) -> UserSecretTable<'_> {
        UserSecretTable(&self.database)
    }
}

/// Creates the file and waits for its lock, on a blocking thread.
async fn prepare(path: PathBuf) -> Result<file::Lock, StorageError> {
    let name = path.display().to_string();
    let prepared = tokio::task::spawn_blocking(move || {
        // the file is closed again before SQLite opens it: closing one later would drop SQLite's own locks (POSIX fcntl)
        file::private(&path)?;
        file::Lock::wait(&path)
    });
    let prepared = prepared.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
    prepared.map_err(|source| StorageError::File { path: name, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_commit_but_that_of_a_session_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
        for (database, level) in [(&storage.database, 2), (&storage.mcp_sessions, 1)] {
            let row: (i64,) = sqlx::query_as("PRAGMA synchronous").fetch_one(&database.pool).await.unwrap();
            assert_eq!(row.0, level);
            let row: (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&database.pool).await.unwrap();
            assert_eq!(row.0, "wal");
        }
        storage.close().await;
    }
}
