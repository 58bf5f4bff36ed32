//! The table of signing keys (`OA-101`).

use super::{
    database::{Database, StorageError, moment},
    revocations,
};
use crate::support::Timestamp;

/// One signing key.
#[derive(Debug, Clone)]
pub struct SigningKeyRow {
    /// Its RFC 7638 thumbprint.
    pub kid: String,
    /// The first coordinate of its public point, base64url.
    pub x: String,
    pub y: String,
    /// PKCS#8 under the master key.
    pub sealed: Vec<u8>,
    /// Start of its use, until a newer key signs.
    pub signs_from: Timestamp,
    /// Time of its withdrawal, if so: it neither signs nor verifies after that.
    pub withdrawn: Option<Timestamp>,
}

/// The columns of a row, in the order of the fields of [`SigningKeyRow`].
type StoredKey = (String, String, String, Vec<u8>, i64, Option<i64>);

/// Signing keys.
#[derive(Debug, Clone, Copy)]
pub struct SigningKeyTable<'a>(pub(super) &'a Database);

impl SigningKeyTable<'_> {
    /// All signing keys, in signing order.
    pub async fn list(&self) -> Result<Vec<SigningKeyRow>, StorageError> {
        let rows: Vec<StoredKey> = sqlx::query_as(
            "SELECT kid, x, y, sealed, signs_from, withdrawn FROM signing_keys ORDER BY signs_from, created, kid",
        )
        .fetch_all(&self.0.pool)
        .await?;
        let row = |(kid, x, y, sealed, signs_from, withdrawn): StoredKey| SigningKeyRow {
            kid,
            x,
            y,
            sealed,
            signs_from: moment(signs_from),
            withdrawn: withdrawn.map(moment),
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Adds a key after the last one, which must have the id `last`. Returns false, and adds nothing, if another
    /// process added one first.
    pub async fn add_behind(
        &self,
        last: Option<&str>,
        key: &SigningKeyRow,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "INSERT INTO signing_keys (kid, x, y, sealed, created, signs_from) SELECT $1, $2, $3, $4, $5, $6
             WHERE (SELECT kid FROM signing_keys ORDER BY signs_from DESC, created DESC, kid DESC LIMIT 1)
                 IS NOT DISTINCT FROM $7",
        )
        .bind(&key.kid)
        .bind(&key.x)
        .bind(&key.y)
        .bind(&key.sealed)
        .bind(now.as_millis())
        .bind(key.signs_from.as_millis())
        .bind(last)
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Withdraws a key, and adds `other` if no key would sign then. Returns false if there is no such key, or it was
    /// already withdrawn.
    pub async fn withdraw(&self, kid: &str, other: &SigningKeyRow, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE signing_keys SET withdrawn = $1 WHERE kid = $2 AND withdrawn IS NULL")
            .bind(now.as_millis())
            .bind(kid)
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query(
            "INSERT INTO signing_keys (kid, x, y, sealed, created, signs_from) SELECT $1, $2, $3, $4, $5, $6
             WHERE NOT EXISTS (SELECT 1 FROM signing_keys WHERE withdrawn IS NULL AND signs_from <= $7)",
        )
        .bind(&other.kid)
        .bind(&other.x)
        .bind(&other.y)
        .bind(&other.sealed)
        .bind(now.as_millis())
        .bind(other.signs_from.as_millis())
        .bind(now.as_millis())
        .execute(&mut *change)
        .await?;
        revocations::announce(&mut change, "signing_key", kid, now).await?;
        change.commit().await?;
        Ok(true)
    }

    /// Deletes the keys with these ids.
    pub async fn delete(&self, kids: &[String]) -> Result<(), StorageError> {
        for kid in kids {
            sqlx::query("DELETE FROM signing_keys WHERE kid = $1").bind(kid).execute(&self.0.pool).await?;
        }
        Ok(())
    }
}
