//! The table of grants. Knows nothing of tokens.

use sqlx::SqliteConnection;

use super::{Error, Storage, moment};
use crate::{
    model::{ClientId, Endpoint, Grant, GrantId, KeyId, Scopes, UserId},
    support::{Digest, Timestamp},
};

/// How many live grants one user may have given to one client.
const MOST_LIVE: i64 = 20;

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    user: String,
    api_key: String,
    client: String,
    endpoint: String,
    scopes: String,
    redirect_uri: String,
    created: i64,
    expires: i64,
    last_used: Option<i64>,
    revoked: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct NamedRow {
    #[sqlx(flatten)]
    grant: Row,
    client_name: String,
}

impl Storage {
    /// Adds a grant with the code that redeems it, and notes that its client was consented to. Of more than 20 live
    /// grants of this user to this client those that lay longest unused are revoked (`OA-135`).
    pub async fn add_grant(
        &self,
        grant: &Grant,
        code: &Digest,
        challenge: &str,
        code_expires: Timestamp,
    ) -> Result<(), Error> {
        let mut change = self.change().await?;
        sqlx::query(
            "INSERT INTO grants (id, user, api_key, client, endpoint, scopes, redirect_uri, created, expires)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(grant.id.as_str())
        .bind(grant.user.as_str())
        .bind(grant.key.as_str())
        .bind(grant.client.as_str())
        .bind(grant.endpoint.to_string())
        .bind(grant.scopes.to_string())
        .bind(&grant.redirect_uri)
        .bind(grant.created.as_millis())
        .bind(grant.expires.as_millis())
        .execute(&mut *change)
        .await?;
        sqlx::query("INSERT INTO codes (digest, grant_id, challenge, expires) VALUES (?, ?, ?, ?)")
            .bind(code.as_bytes().as_slice())
            .bind(grant.id.as_str())
            .bind(challenge)
            .bind(code_expires.as_millis())
            .execute(&mut *change)
            .await?;
        sqlx::query("UPDATE clients SET consented = coalesce(consented, ?) WHERE id = ?")
            .bind(grant.created.as_millis())
            .bind(grant.client.as_str())
            .execute(&mut *change)
            .await?;
        revoke_unused(&mut change, grant).await?;
        Ok(change.commit().await?)
    }

    /// The grant of this id, revoked and expired ones too.
    pub async fn lookup_grant(&self, id: &GrantId) -> Result<Option<Grant>, Error> {
        let row: Option<Row> =
            sqlx::query_as("SELECT * FROM grants WHERE id = ?").bind(id.as_str()).fetch_optional(&self.pool).await?;
        row.map(Row::read).transpose()
    }

    /// The live grants of one user, or of everybody, newest first, each with its client's name. A grant counts once its
    /// code was redeemed.
    pub async fn list_grants(&self, user: Option<&UserId>, now: Timestamp) -> Result<Vec<(Grant, String)>, Error> {
        let rows: Vec<NamedRow> = sqlx::query_as(
            "SELECT grants.*, clients.name AS client_name FROM grants JOIN clients ON clients.id = grants.client
             WHERE grants.revoked IS NULL AND grants.last_used IS NOT NULL AND grants.expires > ?1
             AND (?2 IS NULL OR grants.user = ?2)
             ORDER BY grants.created DESC, grants.rowid DESC",
        )
        .bind(now.as_millis())
        .bind(user.map(UserId::as_str))
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter().map(|row| Ok((row.grant.read()?, row.client_name))).collect()
    }

    /// Notes that a token of the grant was used.
    pub async fn touch_grant(&self, id: &GrantId, now: Timestamp) -> Result<(), Error> {
        sqlx::query("UPDATE grants SET last_used = ? WHERE id = ?")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Revokes a grant and announces it. False where there is no such live one.
    pub async fn revoke_grant(&self, id: &GrantId, now: Timestamp) -> Result<bool, Error> {
        let mut change = self.change().await?;
        let done = sqlx::query("UPDATE grants SET revoked = ? WHERE id = ? AND revoked IS NULL")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() > 0 {
            announce(&mut change, "grant", id.as_str(), now).await?;
        }
        change.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Revokes every grant of a user and announces each; says how many there were.
    pub async fn revoke_grants_of(&self, user: &UserId, now: Timestamp) -> Result<u64, Error> {
        let mut change = self.change().await?;
        let revoked: Vec<String> =
            sqlx::query_scalar("UPDATE grants SET revoked = ? WHERE user = ? AND revoked IS NULL RETURNING id")
                .bind(now.as_millis())
                .bind(user.as_str())
                .fetch_all(&mut *change)
                .await?;
        for grant in &revoked {
            announce(&mut change, "grant", grant, now).await?;
        }
        change.commit().await?;
        Ok(u64::try_from(revoked.len()).unwrap_or(u64::MAX))
    }
}

async fn revoke_unused(change: &mut SqliteConnection, newest: &Grant) -> Result<(), Error> {
    let revoked: Vec<String> = sqlx::query_scalar(
        "UPDATE grants SET revoked = ?1 WHERE id IN (
             SELECT id FROM grants WHERE user = ?2 AND client = ?3 AND revoked IS NULL
             ORDER BY coalesce(last_used, created) DESC, rowid DESC LIMIT -1 OFFSET ?4
         ) RETURNING id",
    )
    .bind(newest.created.as_millis())
    .bind(newest.user.as_str())
    .bind(newest.client.as_str())
    .bind(MOST_LIVE)
    .fetch_all(&mut *change)
    .await?;
    for grant in revoked {
        announce(change, "grant", &grant, newest.created).await?;
    }
    Ok(())
}

/// Tells every process that something was revoked, as part of the change that revokes it.
pub(super) async fn announce(
    change: &mut SqliteConnection,
    kind: &'static str,
    subject: &str,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO revocations (kind, subject, at) VALUES (?, ?, ?)")
        .bind(kind)
        .bind(subject)
        .bind(now.as_millis())
        .execute(change)
        .await?;
    Ok(())
}

impl Row {
    fn read(self) -> Result<Grant, Error> {
        Ok(Grant {
            id: GrantId::new(self.id),
            user: UserId::new(self.user),
            key: KeyId::new(self.api_key),
            client: ClientId::new(self.client),
            endpoint: Endpoint::from_path(&self.endpoint).ok_or_else(|| inconsistent("endpoint"))?,
            scopes: Scopes::parse(&self.scopes).map_err(|_| inconsistent("scopes"))?,
            redirect_uri: self.redirect_uri,
            created: moment(self.created),
            expires: moment(self.expires),
            last_used: self.last_used.map(moment),
            revoked: self.revoked.map(moment),
        })
    }
}

const fn inconsistent(column: &'static str) -> Error {
    Error::Inconsistent { table: "grants", column }
}
