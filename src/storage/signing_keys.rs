//! The table of signing keys (`OA-101`). Knows nothing of cryptography.

use super::database::{Database, StorageError};
use crate::support::Timestamp;

/// Use of a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Published, so that verifiers know it before it signs.
    Next,
    /// Signs.
    Active,
    /// Only verifies.
    Retired,
}

/// One signing key.
#[derive(Debug, Clone)]
pub struct SigningKeyRow {
    /// Its RFC 7638 thumbprint.
    pub kid: String,
    /// Use.
    pub state: KeyState,
    /// The first coordinate of its public point, base64url.
    pub x: String,
    /// The second coordinate.
    pub y: String,
    /// PKCS#8 under the master key.
    pub sealed: Vec<u8>,
}

/// Signing keys.
#[derive(Debug, Clone, Copy)]
pub struct SigningKeyTable<'a>(pub(super) &'a Database);

impl SigningKeyTable<'_> {
    /// Every signing key that may still verify, the active one first.
    pub async fn list(&self) -> Result<Vec<SigningKeyRow>, StorageError> {
        let rows: Vec<(String, String, String, String, Vec<u8>)> =
            sqlx::query_as("SELECT kid, state, x, y, sealed FROM signing_keys ORDER BY state, created DESC")
                .fetch_all(&self.0.pool)
                .await?;
        rows.into_iter()
            .map(|(kid, state, x, y, sealed)| {
                let state = match state.as_str() {
                    "next" => KeyState::Next,
                    "active" => KeyState::Active,
                    "retired" => KeyState::Retired,
                    _ => return Err(StorageError::Inconsistent { table: "signing_keys", column: "state" }),
                };
                Ok(SigningKeyRow { kid, state, x, y, sealed })
            })
            .collect()
    }

    /// Adds the first active key; does nothing if another process did so first.
    pub async fn add_active(&self, key: &SigningKeyRow, now: Timestamp) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO signing_keys (kid, state, x, y, sealed, created) VALUES (?, 'active', ?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(&key.kid)
        .bind(&key.x)
        .bind(&key.y)
        .bind(&key.sealed)
        .bind(now.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }
}
