//! The tables of the gateway's registrations at authorization servers, and of the authorization requests that browsers
//! take there. Their content is sealed.

use super::database::{Database, NO_LIMIT, StorageError};
use crate::{
    model::{BackendId, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of open requests of one user.
const MAX_PER_USER: i64 = 16;

/// An authorization request that a browser took to an authorization server.
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

/// Browser session, user and server that alone may use a request.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamRequestBinding<'a> {
    pub user: &'a UserId,
    pub backend: &'a BackendId,
    /// Digest of the browser session.
    pub browser: Digest,
}

/// The form that began a request.
#[derive(Debug)]
pub struct UpstreamForm {
    /// Digest of its token.
    pub digest: Digest,
    /// Address that the browser was sent to, sealed under a key derived from the token.
    pub location: Vec<u8>,
}

/// A request begun by a form.
#[derive(Debug)]
pub struct BegunUpstreamRequest {
    /// Address that the browser was sent to, sealed.
    pub location: Vec<u8>,
    /// True if its response came.
    pub is_taken: bool,
}

/// A request whose response already came.
#[derive(Debug)]
pub struct TakenUpstreamRequest {
    /// Its outcome; `None` while unknown.
    pub outcome: Option<String>,
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
        backend: &BackendId,
        issuer: &str,
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

    /// Adds a request that a form begins. Deletes the oldest of more than 16 of this user. Returns false, without
    /// changes, if the form has already begun one.
    pub async fn add_request(&self, row: &UpstreamRequestRow, form: &UpstreamForm) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let added = sqlx::query(
            "INSERT INTO upstream_requests (state, user_id, backend, browser, issuer, sealed, expires, form, location)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (form) DO NOTHING",
        )
        .bind(row.state.as_bytes().as_slice())
        .bind(row.user.as_str())
        .bind(row.backend.as_str())
        .bind(row.browser.as_bytes().as_slice())
        .bind(&row.issuer)
        .bind(&row.sealed)
        .bind(row.expires.as_millis())
        .bind(form.digest.as_bytes().as_slice())
        .bind(&form.location)
        .execute(&mut *change)
        .await?;
        if added.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query(
            "DELETE FROM upstream_requests WHERE state IN (
                SELECT state FROM upstream_requests WHERE user_id = $1
                ORDER BY expires DESC, rowid DESC LIMIT $3 OFFSET $2)",
        )
        .bind(row.user.as_str())
        .bind(MAX_PER_USER)
        .bind(NO_LIMIT)
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(true)
    }

    /// The request begun by a form, if it has this binding.
    pub async fn begun_by(
        &self,
        form: &Digest,
        binding: UpstreamRequestBinding<'_>,
        now: Timestamp,
    ) -> Result<Option<BegunUpstreamRequest>, StorageError> {
        let row: Option<(Vec<u8>, Option<i64>)> = sqlx::query_as(
            "SELECT location, taken FROM upstream_requests
             WHERE form = $1 AND user_id = $2 AND backend = $3 AND browser = $4 AND expires > $5",
        )
        .bind(form.as_bytes().as_slice())
        .bind(binding.user.as_str())
        .bind(binding.backend.as_str())
        .bind(binding.browser.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|(location, taken)| BegunUpstreamRequest { location, is_taken: taken.is_some() }))
    }

    /// Takes a request, once, for the browser session, user and server that it was added for. It stays known until it
    /// expires. Returns its issuer and its content.
    pub async fn take_request(
        &self,
        state: &Digest,
        binding: UpstreamRequestBinding<'_>,
        now: Timestamp,
    ) -> Result<Option<(String, Vec<u8>)>, StorageError> {
        Ok(sqlx::query_as(
            "UPDATE upstream_requests SET taken = $5
             WHERE state = $1 AND user_id = $2 AND backend = $3 AND browser = $4 AND expires > $5 AND taken IS NULL
             RETURNING issuer, sealed",
        )
        .bind(state.as_bytes().as_slice())
        .bind(binding.user.as_str())
        .bind(binding.backend.as_str())
        .bind(binding.browser.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?)
    }

    /// A request that was already taken, for the same browser session, user and server.
    pub async fn taken_request(
        &self,
        state: &Digest,
        binding: UpstreamRequestBinding<'_>,
        now: Timestamp,
    ) -> Result<Option<TakenUpstreamRequest>, StorageError> {
        let outcome: Option<(Option<String>,)> = sqlx::query_as(
            "SELECT outcome FROM upstream_requests
             WHERE state = $1 AND user_id = $2 AND backend = $3 AND browser = $4 AND expires > $5 AND taken IS NOT NULL",
        )
        .bind(state.as_bytes().as_slice())
        .bind(binding.user.as_str())
        .bind(binding.backend.as_str())
        .bind(binding.browser.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(outcome.map(|(outcome,)| TakenUpstreamRequest { outcome }))
    }

    /// Notes the outcome of a taken request. Its content is no longer needed.
    pub async fn end_request(&self, state: &Digest, outcome: &str) -> Result<(), StorageError> {
        let nothing: &[u8] = &[];
        sqlx::query("UPDATE upstream_requests SET outcome = $1, sealed = $2 WHERE state = $3")
            .bind(outcome)
            .bind(nothing)
            .bind(state.as_bytes().as_slice())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }
}
