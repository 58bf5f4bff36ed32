//! The table of initial access tokens.

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
};
use crate::{
    model::{InitialAccessToken, InitialAccessTokenId},
    support::{Digest, Timestamp},
};

columns! {
    struct InitialAccessTokenRow {
        id: String,
        name: String,
        created: i64,
        expires: i64,
        uses: i64,
        used: i64,
        revoked: Option<i64>,
    }
}

/// Initial access tokens.
#[derive(Debug, Clone, Copy)]
pub struct InitialAccessTokenTable<'a>(pub(super) &'a Database);

impl InitialAccessTokenTable<'_> {
    /// Adds a token. Only its digest is stored.
    pub async fn add(&self, token: &InitialAccessToken, digest: &Digest) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO initial_access_tokens (id, name, digest, created, expires, uses) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(token.id.as_str())
        .bind(&token.name)
        .bind(digest.as_bytes().as_slice())
        .bind(token.created.as_millis())
        .bind(token.expires.as_millis())
        .bind(i64::from(token.uses))
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Takes one use of the token with this digest, in one step; `None` if it is not live.
    pub async fn take(&self, digest: &Digest, now: Timestamp) -> Result<Option<InitialAccessTokenId>, StorageError> {
        let id: Option<String> = sqlx::query_scalar(
            "UPDATE initial_access_tokens SET used = used + 1
             WHERE digest = $1 AND revoked IS NULL AND expires > $2 AND used < uses RETURNING id",
        )
        .bind(digest.as_bytes().as_slice())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(id.map(InitialAccessTokenId::new))
    }

    /// Gives back a use that did not add a client.
    pub async fn give_back(&self, id: &InitialAccessTokenId) -> Result<(), StorageError> {
        sqlx::query("UPDATE initial_access_tokens SET used = used - 1 WHERE id = $1 AND used > 0")
            .bind(id.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Every token, newest first.
    pub async fn list(&self) -> Result<Vec<InitialAccessToken>, StorageError> {
        let rows: Vec<InitialAccessTokenRow> =
            sqlx::query_as("SELECT * FROM initial_access_tokens ORDER BY created DESC, id")
                .fetch_all(&self.0.pool)
                .await?;
        Ok(rows.into_iter().map(InitialAccessTokenRow::read).collect())
    }

    /// Revokes a token; the clients that registered with it stay. Returns false if no unrevoked token has this id.
    pub async fn revoke(&self, id: &InitialAccessTokenId, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query("UPDATE initial_access_tokens SET revoked = $1 WHERE id = $2 AND revoked IS NULL")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}

impl InitialAccessTokenRow {
    fn read(self) -> InitialAccessToken {
        InitialAccessToken {
            id: InitialAccessTokenId::new(self.id),
            name: self.name,
            created: moment(self.created),
            expires: moment(self.expires),
            uses: count(self.uses),
            used: count(self.used),
            revoked: self.revoked.map(moment),
        }
    }
}

/// The command line limits the number.
fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
