//! The tables of users' tokens at protected servers, and of deleted tokens still to be revoked there. Their content is
//! sealed.

use super::{
    database::{Database, StorageError, moment},
    steps::Steps,
};
use crate::{
    model::{BackendId, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of attempts to revoke tokens.
const MAX_ATTEMPTS: i64 = 5;
/// Number of attempts that marks tokens which an earlier version did not want to be revoked.
const ENDED_ELSEWHERE: i64 = MAX_ATTEMPTS + 1;

/// Tokens of a user at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTokenRow {
    /// The user.
    pub user: UserId,
    /// The server.
    pub backend: BackendId,
    /// Digest of the server's address.
    pub server: Digest,
    /// The authorization server.
    pub issuer: String,
    /// The protected resource, if the server names one.
    pub resource: Option<String>,
    /// The granted scopes, separated by spaces.
    pub scope: Option<String>,
    /// The tokens.
    pub sealed: Vec<u8>,
    /// Time of the login.
    pub connected: Timestamp,
    /// Grows with each change.
    pub version: i64,
}

/// Deleted tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithdrawnTokenRow {
    /// Its number.
    pub id: i64,
    /// The user.
    pub user: UserId,
    /// The server.
    pub backend: BackendId,
    /// The authorization server.
    pub issuer: String,
    /// The tokens.
    pub sealed: Vec<u8>,
    /// Number of attempts to revoke them.
    pub attempts: i64,
}

type StoredTokens = (String, String, Vec<u8>, String, Option<String>, Option<String>, Vec<u8>, i64, i64);

/// Tokens at protected servers.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamTokenTable<'a>(pub(super) &'a Database);

impl UpstreamTokenTable<'_> {
    /// The tokens of a user at a server.
    pub async fn lookup(&self, user: &UserId, backend: &BackendId) -> Result<Option<UpstreamTokenRow>, StorageError> {
        let row: Option<StoredTokens> = sqlx::query_as(
            "SELECT user_id, backend, server, issuer, resource, scope, sealed, connected, version
             FROM upstream_tokens WHERE user_id = $1 AND backend = $2",
        )
        .bind(user.as_str())
        .bind(backend.as_str())
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(read).transpose()
    }

    /// All tokens, of this user or of all, by user and server.
    pub async fn list(&self, user: Option<&UserId>) -> Result<Vec<UpstreamTokenRow>, StorageError> {
        let of_all = "SELECT user_id, backend, server, issuer, resource, scope, sealed, connected, version
             FROM upstream_tokens ORDER BY user_id, backend";
        let of_user = "SELECT user_id, backend, server, issuer, resource, scope, sealed, connected, version
             FROM upstream_tokens WHERE user_id = $1 ORDER BY backend";
        let query = match user {
            Some(user) => sqlx::query_as(of_user).bind(user.as_str()),
            None => sqlx::query_as(of_all),
        };
        let rows: Vec<StoredTokens> = query.fetch_all(&self.0.pool).await?;
        rows.into_iter().map(read).collect()
    }

    /// Stores the tokens of a login, in place of earlier ones.
    pub async fn set(&self, row: &UpstreamTokenRow) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO upstream_tokens (user_id, backend, server, issuer, resource, scope, sealed, connected, version)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (user_id, backend) DO UPDATE SET server = excluded.server, issuer = excluded.issuer,
                resource = excluded.resource, scope = excluded.scope, sealed = excluded.sealed,
                connected = excluded.connected, version = upstream_tokens.version + 1",
        )
        .bind(row.user.as_str())
        .bind(row.backend.as_str())
        .bind(row.server.as_bytes().as_slice())
        .bind(&row.issuer)
        .bind(&row.resource)
        .bind(&row.scope)
        .bind(&row.sealed)
        .bind(row.connected.as_millis())
        .bind(row.version)
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Replaces refreshed tokens. Returns false, without changes, if they were replaced or deleted in the meantime.
    pub async fn replace(&self, row: &UpstreamTokenRow) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE upstream_tokens SET scope = $1, sealed = $2, version = version + 1
             WHERE user_id = $3 AND backend = $4 AND version = $5",
        )
        .bind(&row.scope)
        .bind(&row.sealed)
        .bind(row.user.as_str())
        .bind(row.backend.as_str())
        .bind(row.version)
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes tokens, which are then revoked. Returns false if there are none.
    pub async fn delete(&self, user: &UserId, backend: &BackendId) -> Result<bool, StorageError> {
        let done = sqlx::query("DELETE FROM upstream_tokens WHERE user_id = $1 AND backend = $2")
            .bind(user.as_str())
            .bind(backend.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes the tokens for servers other than these, and the gateway's registrations for them. Each server is a name
    /// with the digest of its address.
    pub async fn retain(&self, servers: &[(BackendId, Digest)]) -> Result<(), StorageError> {
        let kept: Vec<(String, Vec<u8>)> =
            sqlx::query_as("SELECT DISTINCT backend, server FROM upstream_tokens").fetch_all(&self.0.pool).await?;
        let is_known = |backend: &str, server: &[u8]| {
            servers.iter().any(|(id, digest)| id.as_str() == backend && digest.as_bytes().as_slice() == server)
        };
        for (backend, server) in kept.iter().filter(|(backend, server)| !is_known(backend, server)) {
            self.delete_of(backend, server).await?;
        }
        let registered: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT backend FROM upstream_clients").fetch_all(&self.0.pool).await?;
        for backend in registered {
            let moved = kept.iter().any(|(other, server)| *other == backend && !is_known(other, server));
            if moved || servers.iter().all(|(id, _)| id.as_str() != backend) {
                sqlx::query("DELETE FROM upstream_clients WHERE backend = $1")
                    .bind(&backend)
                    .execute(&self.0.pool)
                    .await?;
            }
        }
        Ok(())
    }

    /// Deletes the tokens of all users for a server.
    async fn delete_of(&self, backend: &str, server: &[u8]) -> Result<(), StorageError> {
        let mut steps = Steps::begin(self.0.engine);
        loop {
            let done = sqlx::query(
                "DELETE FROM upstream_tokens WHERE (user_id, backend) IN (
                     SELECT user_id, backend FROM upstream_tokens WHERE backend = $1 AND server = $2 LIMIT $3)",
            )
            .bind(backend)
            .bind(server)
            .bind(steps.rows())
            .execute(&self.0.pool)
            .await?;
            if !steps.go_on(done.rows_affected()).await {
                return Ok(());
            }
        }
    }

    /// Adds tokens to be revoked.
    pub async fn withdraw(&self, row: &UpstreamTokenRow) -> Result<(), StorageError> {
        sqlx::query("INSERT INTO upstream_withdrawn (user_id, backend, issuer, sealed) VALUES ($1, $2, $3, $4)")
            .bind(row.user.as_str())
            .bind(row.backend.as_str())
            .bind(&row.issuer)
            .bind(&row.sealed)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deleted tokens, oldest first; at most 100.
    pub async fn withdrawn(&self) -> Result<Vec<WithdrawnTokenRow>, StorageError> {
        let rows: Vec<(i64, String, String, String, Vec<u8>, i64)> = sqlx::query_as(
            "SELECT id, user_id, backend, issuer, sealed, attempts FROM upstream_withdrawn ORDER BY id LIMIT 100",
        )
        .fetch_all(&self.0.pool)
        .await?;
        let row = |(id, user, backend, issuer, sealed, attempts): (i64, String, String, String, Vec<u8>, i64)| {
            let backend = name(&backend, "upstream_withdrawn")?;
            Ok(WithdrawnTokenRow { id, user: UserId::new(user), backend, issuer, sealed, attempts })
        };
        rows.into_iter().map(row).collect()
    }

    /// Counts an attempt to revoke deleted tokens; after the last one, they are given up.
    pub async fn count_attempt(&self, id: i64) -> Result<(), StorageError> {
        sqlx::query("UPDATE upstream_withdrawn SET attempts = attempts + 1 WHERE id = $1")
            .bind(id)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deletes tokens that are revoked or given up.
    pub async fn delete_withdrawn(&self, id: i64) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM upstream_withdrawn WHERE id = $1").bind(id).execute(&self.0.pool).await?;
        Ok(())
    }
}

// === impl WithdrawnTokenRow ===

impl WithdrawnTokenRow {
    /// True if they were not examined yet.
    pub const fn is_new(&self) -> bool {
        self.attempts == 0 || self.attempts == ENDED_ELSEWHERE
    }

    /// True if they will not be revoked, or no longer.
    pub const fn is_given_up(&self) -> bool {
        self.attempts >= MAX_ATTEMPTS
    }
}

fn read(row: StoredTokens) -> Result<UpstreamTokenRow, StorageError> {
    let (user, backend, server, issuer, resource, scope, sealed, connected, version) = row;
    let inconsistent = || StorageError::Inconsistent { table: "upstream_tokens", column: "server" };
    Ok(UpstreamTokenRow {
        user: UserId::new(user),
        backend: name(&backend, "upstream_tokens")?,
        server: Digest::from_slice(&server).ok_or_else(inconsistent)?,
        issuer,
        resource,
        scope,
        sealed,
        connected: moment(connected),
        version,
    })
}

fn name(text: &str, table: &'static str) -> Result<BackendId, StorageError> {
    BackendId::parse(text).map_err(|_| StorageError::Inconsistent { table, column: "backend" })
}
