//! The table of refresh tokens: families with their successor links. Knows nothing of when reuse is forgiven.

use std::time::Duration;

use sqlx::SqliteConnection;

use super::{
    database::{Database, Error, moment},
    grants,
};
use crate::{
    model::GrantId,
    support::{Digest, Timestamp},
};

/// How many refresh tokens of one grant are kept, the newest. Reuse of an older one is refused, and no longer tells that
/// it was reused.
const MAX_FAMILY: i64 = 1000;
/// How long a withdrawn token is kept at least: as long as the longest access token beside it may live.
const WITHDRAWN_KEPT: Duration = Duration::from_hours(24);

/// A refresh token, found by its digest.
#[derive(Debug, Clone)]
pub struct RefreshTokenRow {
    /// The grant it rests on.
    pub grant: GrantId,
    /// What the ids of the access tokens issued beside it begin with.
    pub generation: String,
    /// When it lapses unused.
    pub expires: Timestamp,
    /// When it, or an access token beside it, was first used.
    pub used: Option<Timestamp>,
    /// When it was replaced.
    pub rotated: Option<Timestamp>,
    /// The digest of what replaced it, and that token under a key derived from this one.
    pub successor: Option<(Digest, Vec<u8>)>,
    /// When it was itself replaced as a successor that nobody had received.
    pub withdrawn: Option<Timestamp>,
}

/// A refresh token to be added.
#[derive(Debug, Clone)]
pub struct NewRefreshToken {
    /// Its digest.
    pub digest: Digest,
    /// What the ids of the access tokens issued beside it begin with.
    pub generation: String,
    /// When it lapses unused.
    pub expires: Timestamp,
}

/// The replacement of one refresh token by another.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The grant that both rest on.
    pub grant: GrantId,
    /// The digest of the token that is replaced.
    pub old: Digest,
    /// What replaces it.
    pub new: NewRefreshToken,
    /// The new token itself, under a key derived from the old one.
    pub sealed: Vec<u8>,
}

#[derive(sqlx::FromRow)]
struct Row {
    grant_id: String,
    generation: String,
    expires: i64,
    used: Option<i64>,
    rotated: Option<i64>,
    successor: Option<Vec<u8>>,
    sealed: Option<Vec<u8>>,
    withdrawn: Option<i64>,
}

/// Refresh tokens.
#[derive(Debug, Clone, Copy)]
pub struct RefreshTokenTable<'a>(pub(super) &'a Database);

impl RefreshTokenTable<'_> {
    /// The refresh token with this digest, rotated and lapsed ones too.
    pub async fn lookup(&self, digest: &Digest) -> Result<Option<RefreshTokenRow>, Error> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM refresh_tokens WHERE digest = ?")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        row.map(Row::read).transpose()
    }

    /// Replaces a token, where nobody replaced it before and the grant lives; false, and nothing done, otherwise.
    pub async fn rotate(&self, rotation: &Rotation, now: Timestamp) -> Result<bool, Error> {
        let mut change = self.0.change().await?;
        let rotated = sqlx::query(
            "UPDATE refresh_tokens SET rotated = ?1, used = coalesce(used, ?1), successor = ?2, sealed = ?3
             WHERE digest = ?4 AND rotated IS NULL AND withdrawn IS NULL",
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

    /// Replaces a token once more, whose successor `lost` nobody has used (`OA-91`). The successor is withdrawn, and with
    /// it the access tokens of its generation, which is announced and returned. `None`, and nothing done, where it was
    /// used after all or the grant is dead.
    pub async fn replace_successor(
        &self,
        rotation: &Rotation,
        lost: &Digest,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let mut change = self.0.change().await?;
        let withdrawn: Option<String> = sqlx::query_scalar(
            "UPDATE refresh_tokens SET withdrawn = ?
             WHERE digest = ? AND used IS NULL AND rotated IS NULL AND withdrawn IS NULL RETURNING generation",
        )
        .bind(now.as_millis())
        .bind(lost.as_bytes().as_slice())
        .fetch_optional(&mut *change)
        .await?;
        let Some(generation) = withdrawn else { return Ok(None) };
        if !touch(&mut change, &rotation.grant, now).await? {
            return Ok(None);
        }
        grants::announce(&mut change, "generation", &generation, now).await?;
        sqlx::query("UPDATE refresh_tokens SET rotated = ?, successor = ?, sealed = ? WHERE digest = ?")
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

    /// Notes that an access token of this generation was used.
    pub async fn touch_generation(&self, generation: &str, now: Timestamp) -> Result<(), Error> {
        sqlx::query("UPDATE refresh_tokens SET used = ? WHERE generation = ? AND used IS NULL")
            .bind(now.as_millis())
            .bind(generation)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }
}

pub(super) async fn insert(change: &mut SqliteConnection, grant: &GrantId, new: &NewRefreshToken) -> Result<(), Error> {
    sqlx::query("INSERT INTO refresh_tokens (digest, generation, grant_id, expires) VALUES (?, ?, ?, ?)")
        .bind(new.digest.as_bytes().as_slice())
        .bind(&new.generation)
        .bind(grant.as_str())
        .bind(new.expires.as_millis())
        .execute(change)
        .await?;
    Ok(())
}

/// Deletes what a grant has beyond its newest tokens, but for the one that can be used.
async fn prune(change: &mut SqliteConnection, grant: &GrantId, now: Timestamp) -> Result<(), Error> {
    sqlx::query(
        "DELETE FROM refresh_tokens WHERE rowid IN (
             SELECT rowid FROM refresh_tokens WHERE grant_id = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?
         ) AND (rotated IS NOT NULL OR withdrawn < ?)",
    )
    .bind(grant.as_str())
    .bind(MAX_FAMILY)
    .bind((now - WITHDRAWN_KEPT).as_millis())
    .execute(change)
    .await?;
    Ok(())
}

/// Notes that the grant was used; false where it was revoked.
async fn touch(change: &mut SqliteConnection, grant: &GrantId, now: Timestamp) -> Result<bool, Error> {
    let done = sqlx::query("UPDATE grants SET last_used = ? WHERE id = ? AND revoked IS NULL")
        .bind(now.as_millis())
        .bind(grant.as_str())
        .execute(change)
        .await?;
    Ok(done.rows_affected() > 0)
}

impl Row {
    fn read(self) -> Result<RefreshTokenRow, Error> {
        let inconsistent = || Error::Inconsistent { table: "refresh_tokens", column: "successor" };
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
