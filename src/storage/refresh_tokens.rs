//! The table of refresh tokens: families with successor links.

use std::time::Duration;

use sqlx::AnyConnection;

use super::{
    columns::columns,
    database::{Database, NO_LIMIT, StorageError, moment},
    revocations,
};
use crate::{
    model::GrantId,
    support::{Digest, Timestamp},
};

/// Number of refresh tokens kept for one grant, the newest. Reuse of an older one is refused, but not detected as
/// reuse.
const MAX_FAMILY: i64 = 1000;
/// A withdrawn token is kept for this long: the maximum life of an access token issued with it.
const WITHDRAWN_KEPT: Duration = Duration::from_hours(24);

/// A refresh token, found by its digest.
#[derive(Debug, Clone)]
pub struct RefreshTokenRow {
    pub grant: GrantId,
    /// Prefix of the ids of access tokens issued with it.
    pub generation: String,
    /// Expiry if unused.
    pub expires: Timestamp,
    /// First use of it, or of an access token issued with it.
    pub used: Option<Timestamp>,
    /// Time of replacement.
    pub rotated: Option<Timestamp>,
    /// Digest of its successor, and the successor sealed under a key derived from this token.
    pub successor: Option<(Digest, Vec<u8>)>,
    /// Time when it was replaced because the client never received its successor.
    pub withdrawn: Option<Timestamp>,
}

/// A refresh token to add.
#[derive(Debug, Clone)]
pub struct NewRefreshToken {
    /// Its digest.
    pub digest: Digest,
    /// Prefix of the ids of access tokens issued with it.
    pub generation: String,
    /// Expiry if unused.
    pub expires: Timestamp,
}

/// The replacement of one refresh token by another.
#[derive(Debug, Clone)]
pub struct Rotation {
    pub grant: GrantId,
    /// Digest of the replaced token.
    pub old: Digest,
    /// New token.
    pub new: NewRefreshToken,
    /// The new token, sealed under a key derived from the old one.
    pub sealed: Vec<u8>,
}

columns! {
    struct RefreshTokenColumns {
        grant_id: String,
        generation: String,
        expires: i64,
        used: Option<i64>,
        rotated: Option<i64>,
        successor: Option<Vec<u8>>,
        sealed: Option<Vec<u8>>,
        withdrawn: Option<i64>,
    }
}

/// Refresh tokens.
#[derive(Debug, Clone, Copy)]
pub struct RefreshTokenTable<'a>(pub(super) &'a Database);

impl RefreshTokenTable<'_> {
    /// The refresh token with this digest, even if rotated or expired.
    pub async fn lookup(&self, digest: &Digest) -> Result<Option<RefreshTokenRow>, StorageError> {
        let row: Option<RefreshTokenColumns> = sqlx::query_as("SELECT * FROM refresh_tokens WHERE digest = $1")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        row.map(RefreshTokenColumns::read).transpose()
    }

    /// Replaces a token. Returns false, without changes, if it is already replaced or the grant is revoked.
    pub async fn rotate(&self, rotation: &Rotation, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let rotated = sqlx::query(
            "UPDATE refresh_tokens SET rotated = $1, used = coalesce(used, $1), successor = $2, sealed = $3
             WHERE digest = $4 AND rotated IS NULL AND withdrawn IS NULL",
        )
        .bind(now.as_millis())
        .bind(rotation.new.digest.as_bytes().as_slice())
        .bind(&rotation.sealed)
        .bind(rotation.old.as_bytes().as_slice())
        .execute(&mut *change)
        .await?;
        if rotated.rows_affected() == 0 || !touch(&mut change, &rotation.grant, now).await? {
            return Ok(false);
        }
        insert(&mut change, &rotation.grant, &rotation.new).await?;
        prune(&mut change, &rotation.grant, now).await?;
        change.commit().await?;
        Ok(true)
    }

    /// Replaces a token again whose successor `lost` is unused (`OA-91`). The successor is withdrawn with the access
    /// tokens of its generation, which is announced and returned. `None`, without changes, if the successor was used or
    /// the grant is revoked.
    pub async fn replace_successor(
        &self,
        rotation: &Rotation,
        lost: &Digest,
        now: Timestamp,
    ) -> Result<Option<String>, StorageError> {
        let mut change = self.0.change().await?;
        let withdrawn: Option<String> = sqlx::query_scalar(
            "UPDATE refresh_tokens SET withdrawn = $1
             WHERE digest = $2 AND used IS NULL AND rotated IS NULL AND withdrawn IS NULL RETURNING generation",
        )
        .bind(now.as_millis())
        .bind(lost.as_bytes().as_slice())
        .fetch_optional(&mut *change)
        .await?;
        let Some(generation) = withdrawn else { return Ok(None) };
        if !touch(&mut change, &rotation.grant, now).await? {
            return Ok(None);
        }
        revocations::announce(&mut change, "generation", &generation, now).await?;
        sqlx::query("UPDATE refresh_tokens SET rotated = $1, successor = $2, sealed = $3 WHERE digest = $4")
            .bind(now.as_millis())
            .bind(rotation.new.digest.as_bytes().as_slice())
            .bind(&rotation.sealed)
            .bind(rotation.old.as_bytes().as_slice())
            .execute(&mut *change)
            .await?;
        insert(&mut change, &rotation.grant, &rotation.new).await?;
        prune(&mut change, &rotation.grant, now).await?;
        change.commit().await?;
        Ok(Some(generation))
    }

    /// Records the use of an access token of each of these generations.
    pub async fn touch_generations(&self, generations: &[String], now: Timestamp) -> Result<(), StorageError> {
        let generations: Vec<&str> = generations.iter().map(String::as_str).collect();
        let statement = |places: &str| {
            format!("UPDATE refresh_tokens SET used = $1 WHERE used IS NULL AND generation IN ({places})")
        };
        self.0.run_for_named(statement, &generations, now).await
    }
}

pub(super) async fn insert(
    change: &mut AnyConnection,
    grant: &GrantId,
    new: &NewRefreshToken,
) -> Result<(), StorageError> {
    sqlx::query("INSERT INTO refresh_tokens (digest, generation, grant_id, expires) VALUES ($1, $2, $3, $4)")
        .bind(new.digest.as_bytes().as_slice())
        .bind(&new.generation)
        .bind(grant.as_str())
        .bind(new.expires.as_millis())
        .execute(change)
        .await?;
    Ok(())
}

/// Deletes the oldest tokens of a grant, except for the current one.
async fn prune(change: &mut AnyConnection, grant: &GrantId, now: Timestamp) -> Result<(), StorageError> {
    sqlx::query(
        "DELETE FROM refresh_tokens WHERE digest IN (
             SELECT digest FROM refresh_tokens WHERE grant_id = $1
             ORDER BY rowid DESC LIMIT $4 OFFSET $2
         ) AND (rotated IS NOT NULL OR withdrawn < $3)",
    )
    .bind(grant.as_str())
    .bind(MAX_FAMILY)
    .bind((now - WITHDRAWN_KEPT).as_millis())
    .bind(NO_LIMIT)
    .execute(change)
    .await?;
    Ok(())
}

/// Records the use of the grant; returns false if it is revoked.
pub(super) async fn touch(change: &mut AnyConnection, grant: &GrantId, now: Timestamp) -> Result<bool, StorageError> {
    let done = sqlx::query("UPDATE grants SET last_used = $1 WHERE id = $2 AND revoked IS NULL")
        .bind(now.as_millis())
        .bind(grant.as_str())
        .execute(change)
        .await?;
    Ok(done.rows_affected() > 0)
}

impl RefreshTokenColumns {
    fn read(self) -> Result<RefreshTokenRow, StorageError> {
        let inconsistent = || StorageError::Inconsistent { table: "refresh_tokens", column: "successor" };
        let successor = match (self.successor, self.sealed) {
            (Some(digest), Some(sealed)) => Some((Digest::from_slice(&digest).ok_or_else(inconsistent)?, sealed)),
            (None, None) => None,
            _ => return Err(inconsistent()),
        };
        Ok(RefreshTokenRow {
            grant: GrantId::new(self.grant_id),
            generation: self.generation,
            expires: moment(self.expires),
            used: self.used.map(moment),
            rotated: self.rotated.map(moment),
            successor,
            withdrawn: self.withdrawn.map(moment),
        })
    }
}
