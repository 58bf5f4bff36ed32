//! The tables of the gateway's registrations at authorization servers, and of the authorization requests that browsers
//! are sent there with. Knows nothing of their content, which is sealed.

use super::database::{Database, StorageError};
use crate::{
    model::{BackendId, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of open requests of one user.
const MAX_PER_USER: i64 = 16;

/// An authorization request that a browser was sent to an authorization server with.
#[derive(Debug)]
pub struct UpstreamRequestRow {
    /// Digest of `state`.
    pub state: Digest,
    /// The user.
    pub user: UserId,
    /// The server.
    pub backend: BackendId,
    /// Digest of the browser session.
    pub browser: Digest,
    /// The authorization server.
    pub issuer: String,
    /// The request.
    pub sealed: Vec<u8>,
    /// Expiry.
    pub expires: Timestamp,
}

/// Registrations and requests at authorization servers of servers.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamClientTable<'a>(pub(super) &'a Database);

impl UpstreamClientTable<'_> {
    /// The registration for a server at an issuer.
    pub async fn lookup(&self, backend: &BackendId, issuer: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let client = sqlx::query_scalar("SELECT sealed FROM upstream_clients WHERE backend = $1 AND issuer = $2");
        Ok(client.bind(backend.as_str()).bind(issuer).fetch_optional(&self.0.pool).await?)
    }

    /// Stores a registration.
    pub async fn set(
        &self,
        (backend, issuer): (&BackendId, &str),
        sealed: &[u8],
        now: Timestamp,
    ) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO upstream_clients (backend, issuer, sealed, created) VALUES ($1, $2, $3, $4)
             ON CONFLICT (backend, issuer) DO UPDATE SET sealed = excluded.sealed, created = excluded.created",
        )
        .bind(backend.as_str())
        .bind(issuer)
        .bind(sealed)
        .bind(now.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Deletes a registration.
    pub async fn delete(&self, backend: &BackendId, issuer: &str) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM upstream_clients WHERE backend = $1 AND issuer = $2")
            .bind(backend.as_str())
            .bind(issuer)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Adds a request. Deletes the oldest of more than 16 of this user.
    pub async fn add_request(&self, row: &UpstreamRequestRow) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        sqlx::query(
            "INSERT INTO upstream_requests (state, user_id, backend, browser, issuer, sealed, expires)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(row.state.as_bytes().as_slice())
        .bind(row.user.as_str())
        .bind(row.backend.as_str())
        .bind(row.browser.as_bytes().as_slice())
        .bind(&row.issuer)
        .bind(&row.sealed)
        .bind(row.expires.as_millis())
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "DELETE FROM upstream_requests WHERE state IN (
                SELECT state FROM upstream_requests WHERE user_id = $1
                ORDER BY expires DESC, rowid DESC LIMIT 9223372036854775807 OFFSET $2)",
        )
        .bind(row.user.as_str())
        .bind(MAX_PER_USER)
        .execute(&mut *change)
        .await?;
        Ok(change.commit().await?)
    }

    /// Takes a request: it can be taken once, by the browser session and for the user and server that it was added for.
    /// Returns its issuer and its content.
    pub async fn take_request(
        &self,
        state: &Digest,
        (user, backend, browser): (&UserId, &BackendId, &Digest),
        now: Timestamp,
    ) -> Result<Option<(String, Vec<u8>)>, StorageError> {
        Ok(sqlx::query_as(
            "DELETE FROM upstream_requests WHERE state = $1 AND user_id = $2 AND backend = $3 AND browser = $4 AND expires > $5
             RETURNING issuer, sealed",
        )
        .bind(state.as_bytes().as_slice())
        .bind(user.as_str())
        .bind(backend.as_str())
        .bind(browser.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?)
    }
}
