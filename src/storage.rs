//! The database, SQLite or PostgreSQL. Only this module has SQL, in the dialect common to both. `model` defines the
//! meaning of rows.
//!
//! One file for each subject, mostly a single table: [`Storage`] returns a handle for each. Look-ups return
//! `Result<Option<T>>`; verbs are `lookup`, `find_by_*`, `add`, `list`, `count`, `delete`. Secrets are stored only as
//! digests or ciphertext.

mod api_keys;
mod assertions;
mod audit_events;
mod backend_eras;
mod browser_sessions;
mod certificates;
mod claim;
mod client_documents;
mod client_expiry;
mod clients;
mod codes;
mod columns;
mod copy;
mod data_keys;
mod database;
mod device_authorizations;
mod expired_rows;
mod file;
mod free_pages;
mod gateway_values;
mod grants;
mod initial_access_tokens;
mod invitations;
mod key_changes;
mod key_rotation;
mod limit_counts;
mod master_key;
pub mod mcp_sessions;
mod migrations;
mod named_rows;
mod open;
mod provider_logins;
mod refresh_tokens;
mod replicas;
mod revocation_feed;
mod revocations;
mod server_info;
mod server_lists;
mod signing_keys;
mod steps;
mod task_owners;
mod transactions;
mod upstream_clients;
mod upstream_tokens;
mod user_secrets;
mod users;

pub use api_keys::KeyTable;
pub use assertions::AssertionTable;
pub use audit_events::{AuditRow, AuditSearch, AuditTable, StoredAuditRow};
pub use backend_eras::BackendEraTable;
pub use browser_sessions::{BrowserSession, BrowserSessionTable};
pub use certificates::{CertificateHold, CertificateRow, CertificateTable, ChallengeRow, IssuedCertificate};
pub use claim::{ClaimKind, DatabaseClaim};
pub use client_documents::{ClientDocumentTable, StoredDocument};
pub use client_expiry::{ClientExpiry, IdleSince};
pub use clients::{ClientTable, NewClient, RegistrationOutcome, UnusedLimits};
pub use codes::{CodeRow, CodeTable};
pub use data_keys::DataKeyTable;
pub use database::StorageError;
pub use device_authorizations::{DecidedDevice, DeviceApproval, DeviceAuthorizationTable, DeviceRow, NewDeviceRow};
pub use expired_rows::ExpiredRows;
pub use free_pages::FreePages;
pub use gateway_values::GatewayValueTable;
pub use grants::{GrantTable, ListedGrant};
pub use initial_access_tokens::InitialAccessTokenTable;
pub use invitations::{InvitationAddition, InvitationTable, LinkedKey, TakenRule};
pub use key_changes::ChangedKey;
pub use limit_counts::{LimitCount, LimitCountTable};
pub use master_key::{MasterSealed, MasterSealedValues};
pub use mcp_sessions::McpSessionTable;
pub use provider_logins::{BoundLogin, ProviderLoginTable};
pub use refresh_tokens::{NewRefreshToken, RefreshTokenRow, RefreshTokenTable, Rotation};
pub use replicas::{LeaseRenewal, ReplicaRow, ReplicaTable};
pub use revocation_feed::{RevocationFeed, RevocationNotices};
pub use revocations::{Revocation, RevocationTable};
pub use server_info::{ServerInfoRow, ServerInfoTable};
pub use server_lists::{ServerListChange, ServerListKey, ServerListRow, ServerListTable};
pub use signing_keys::{SigningKeyRow, SigningKeyTable};
pub use task_owners::TaskOwnerTable;
pub use transactions::{FoundTransaction, NewCode, RequestApproval, StoredDecision, TransactionRow, TransactionTable};
pub use upstream_clients::{
    BegunUpstreamRequest, TakenUpstreamRequest, UpstreamClientTable, UpstreamForm, UpstreamRequestBinding,
    UpstreamRequestRow,
};
pub use upstream_tokens::{UpstreamTokenRow, UpstreamTokenTable, WithdrawnTokenRow};
pub use user_secrets::UserSecretTable;
pub use users::UserTable;

use std::time::Duration;

use self::database::{Database, Engine};

/// A database restarts within this time. Requests wait this long for a missing one, since many messages are sent only
/// once.
pub const RESTARTS_WITHIN: Duration = Duration::from_secs(10);

/// The database of one gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    database: Database,
    /// The same database, on connections that do not wait for the disk.
    mcp_sessions: Database,
    /// The same, on connections for reads every second or so: a pool rotates through all its connections, so that none
    /// of the others would ever be idle.
    rounds: Database,
    /// The same, for deleting many expired rows. It does not wait for the disk: lost deletions are repeated.
    purges: Database,
}

// === impl Storage ===

impl Storage {
    /// Takes the only connection of a database in memory: reads and writes wait until it is dropped.
    #[cfg(test)]
    pub(crate) async fn stall(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Any>, StorageError> {
        Ok(self.database.pool.acquire().await?)
    }

    /// Flushes and closes the database.
    pub async fn close(&self) {
        self.purges.pool.close().await;
        self.rounds.pool.close().await;
        self.mcp_sessions.pool.close().await;
        self.database.pool.close().await;
    }

    /// The same, for queries every second or so.
    #[must_use]
    pub fn for_rounds(&self) -> Self {
        Self { database: self.rounds.clone(), ..self.clone() }
    }

    /// The same, for deleting many expired rows.
    #[must_use]
    pub fn for_purges(&self) -> Self {
        Self { database: self.purges.clone(), ..self.clone() }
    }

    /// True if several gateways may use the database.
    pub fn is_shared(&self) -> bool {
        self.database.engine == Engine::PostgreSql
    }

    /// The revocations from here on.
    pub async fn revocation_feed(&self) -> Result<RevocationFeed, StorageError> {
        RevocationFeed::open(self.database.clone()).await
    }

    /// Notices of new revocations.
    pub fn revocation_notices(&self) -> RevocationNotices {
        RevocationNotices::new(self.database.clone())
    }

    /// Accepted client assertions.
    pub const fn assertions(&self) -> AssertionTable<'_> {
        AssertionTable(&self.database)
    }

    /// Devices waiting for a person.
    pub const fn device_authorizations(&self) -> DeviceAuthorizationTable<'_> {
        DeviceAuthorizationTable(&self.database)
    }

    /// Tokens that let clients register.
    pub const fn initial_access_tokens(&self) -> InitialAccessTokenTable<'_> {
        InitialAccessTokenTable(&self.database)
    }

    /// Invitations.
    pub const fn invitations(&self) -> InvitationTable<'_> {
        InvitationTable(&self.database)
    }

    /// Gateways that share the database.
    pub const fn replicas(&self) -> ReplicaTable<'_> {
        ReplicaTable(&self.database)
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

    /// Last lists of servers.
    pub const fn server_lists(&self) -> ServerListTable<'_> {
        ServerListTable(&self.database)
    }

    /// Browser sessions.
    pub const fn browser_sessions(&self) -> BrowserSessionTable<'_> {
        BrowserSessionTable(&self.database)
    }

    /// Expiry of clients.
    pub fn client_expiry(&self) -> ClientExpiry<'_> {
        ClientExpiry(&self.database)
    }

    /// Counts of rate limits.
    pub const fn limit_counts(&self) -> LimitCountTable<'_> {
        LimitCountTable(&self.database)
    }

    /// Clients described by a metadata document.
    pub fn client_documents(&self) -> ClientDocumentTable<'_> {
        ClientDocumentTable(&self.database)
    }

    /// OAuth clients.
    pub const fn clients(&self) -> ClientTable<'_> {
        ClientTable(&self.database)
    }

    /// Certificates toward clients, and orders for them.
    pub const fn certificates(&self) -> CertificateTable<'_> {
        CertificateTable(&self.database)
    }

    /// Authorization codes.
    pub const fn codes(&self) -> CodeTable<'_> {
        CodeTable(&self.database)
    }

    /// Data keys of users.
    pub const fn data_keys(&self) -> DataKeyTable<'_> {
        DataKeyTable(&self.database)
    }

    /// Values sealed under the master key.
    pub const fn master_sealed(&self) -> MasterSealedValues<'_> {
        MasterSealedValues(&self.database)
    }

    /// Expired rows of the authorization server.
    pub const fn expired_rows(&self) -> ExpiredRows<'_> {
        ExpiredRows(&self.purges)
    }

    /// Free pages of a file.
    pub const fn free_pages(&self) -> FreePages<'_> {
        FreePages(&self.database)
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
        McpSessionTable { relaxed: &self.mcp_sessions, durable: &self.database }
    }

    /// Signing keys.
    pub const fn signing_keys(&self) -> SigningKeyTable<'_> {
        SigningKeyTable(&self.database)
    }

    /// Owners of tasks at servers.
    pub const fn task_owners(&self) -> TaskOwnerTable<'_> {
        TaskOwnerTable(&self.database)
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
