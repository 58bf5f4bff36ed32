//! The table of grants.

use sqlx::{AnyConnection, FromRow, Row as _, any::AnyRow};

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
    revocations,
};
use crate::{
    model::{ClientId, Endpoint, Grant, GrantId, KeyId, Rights, Scopes, TokenDelivery, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of live grants of one user to one client at one redirect origin.
const MAX_LIVE: usize = 20;

/// A live grant with the names that people know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGrant {
    /// The grant.
    pub grant: Grant,
    /// Name claimed by the client.
    pub client_name: String,
    /// Name of the API key behind it.
    pub key_name: String,
    /// Rights of that key.
    pub key_rights: Rights,
}

columns! {
    struct GrantRow {
        id: String,
        user_id: String,
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
}

struct NamedGrantRow {
    grant: GrantRow,
    client_name: String,
    key_name: String,
    key_rights: String,
}

impl FromRow<'_, AnyRow> for NamedGrantRow {
    fn from_row(row: &AnyRow) -> sqlx::Result<Self> {
        Ok(Self {
            grant: GrantRow::from_row(row)?,
            client_name: row.try_get("client_name")?,
            key_name: row.try_get("key_name")?,
            key_rights: row.try_get("key_rights")?,
        })
    }
}

/// Grants.
#[derive(Debug, Clone, Copy)]
pub struct GrantTable<'a>(pub(super) &'a Database);

impl GrantTable<'_> {
    /// The grant of a client that needs no consent: a live grant with the same account, endpoint and scopes that lasts
    /// until `until`, else `grant`, which is added.
    pub async fn reuse_or_add(&self, grant: &Grant, until: Timestamp) -> Result<Grant, StorageError> {
        let mut change = self.0.change().await?;
        let found: Option<GrantRow> = sqlx::query_as(
            "UPDATE grants SET last_used = $1 WHERE id = (
                 SELECT id FROM grants WHERE api_key = $2 AND client = $3 AND endpoint = $4 AND scopes = $5
                     AND redirect_uri = $6 AND revoked IS NULL AND expires >= $7 LIMIT 1
             ) RETURNING *",
        )
        .bind(grant.created.as_millis())
        .bind(grant.key.as_str())
        .bind(grant.client.as_str())
        .bind(grant.endpoint.to_string())
        .bind(grant.scopes.to_string())
        .bind(grant.delivery.as_str())
        .bind(until.as_millis())
        .fetch_optional(&mut *change)
        .await?;
        let grant = if let Some(row) = found {
            row.read()?
        } else {
            insert(&mut change, grant).await?;
            sqlx::query("UPDATE grants SET last_used = created WHERE id = $1")
                .bind(grant.id.as_str())
                .execute(&mut *change)
                .await?;
            grant.clone()
        };
        change.commit().await?;
        Ok(grant)
    }

    /// The grant with this id, even if revoked or expired.
    pub async fn lookup(&self, id: &GrantId) -> Result<Option<Grant>, StorageError> {
        let row: Option<GrantRow> =
            sqlx::query_as("SELECT * FROM grants WHERE id = $1").bind(id.as_str()).fetch_optional(&self.0.pool).await?;
        row.map(GrantRow::read).transpose()
    }

    /// The user and the client of a grant, if the user has no live grant to this client.
    pub async fn last_of(&self, id: &GrantId, now: Timestamp) -> Result<Option<(UserId, ClientId)>, StorageError> {
        let row: Option<(String, String)> = sqlx::query_as(
            "SELECT user_id, client FROM grants WHERE id = $1 AND NOT EXISTS (
                 SELECT 1 FROM grants AS live WHERE live.user_id = grants.user_id AND live.client = grants.client
                     AND live.revoked IS NULL AND live.expires > $2)",
        )
        .bind(id.as_str())
        .bind(now.as_millis())
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|(user, client)| (UserId::new(user), ClientId::new(client))))
    }

    /// True if this user has a live grant to this client whose tokens go to the same origin.
    pub async fn has_consented(
        &self,
        user: &UserId,
        client: &ClientId,
        delivery: &TokenDelivery,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let uris: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT redirect_uri FROM grants
             WHERE user_id = $1 AND client = $2 AND revoked IS NULL AND expires > $3",
        )
        .bind(user.as_str())
        .bind(client.as_str())
        .bind(now.as_millis())
        .fetch_all(&self.0.pool)
        .await?;
        let origin = delivery.origin();
        Ok(uris.into_iter().any(|uri| TokenDelivery::from_text(uri).origin() == origin))
    }

    /// Live grants of one user, or of all users, newest first. A grant is listed after its code was redeemed.
    pub async fn list(&self, user: Option<&UserId>, now: Timestamp) -> Result<Vec<ListedGrant>, StorageError> {
        let of_all =
            "SELECT grants.*, clients.name AS client_name, api_keys.name AS key_name, api_keys.rights AS key_rights
             FROM grants JOIN clients ON clients.id = grants.client JOIN api_keys ON api_keys.id = grants.api_key
             WHERE grants.revoked IS NULL AND grants.last_used IS NOT NULL AND grants.expires > $1
             ORDER BY grants.created DESC, grants.rowid DESC";
        let of_user =
            "SELECT grants.*, clients.name AS client_name, api_keys.name AS key_name, api_keys.rights AS key_rights
             FROM grants JOIN clients ON clients.id = grants.client JOIN api_keys ON api_keys.id = grants.api_key
             WHERE grants.revoked IS NULL AND grants.last_used IS NOT NULL AND grants.expires > $1 AND grants.user_id = $2
             ORDER BY grants.created DESC, grants.rowid DESC";
        let query = match user {
            Some(user) => sqlx::query_as(of_user).bind(now.as_millis()).bind(user.as_str()),
            None => sqlx::query_as(of_all).bind(now.as_millis()),
        };
        let rows: Vec<NamedGrantRow> = query.fetch_all(&self.0.pool).await?;
        rows.into_iter().map(NamedGrantRow::read).collect()
    }

    /// Records the use of a token of each grant.
    pub async fn touch(&self, ids: &[GrantId], now: Timestamp) -> Result<(), StorageError> {
        let ids: Vec<&str> = ids.iter().map(GrantId::as_str).collect();
        let statement = |places: &str| format!("UPDATE grants SET last_used = $1 WHERE id IN ({places})");
        self.0.run_for_named(statement, &ids, now).await
    }

    /// Revokes a grant and announces it. Returns false if there is no such live grant.
    pub async fn revoke(&self, id: &GrantId, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE grants SET revoked = $1 WHERE id = $2 AND revoked IS NULL")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() > 0 {
            revocations::announce(&mut change, "grant", id.as_str(), now).await?;
        }
        change.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Revokes and announces the grants of a user that `chosen` selects, given the rights of each grant's key; returns
    /// their number.
    pub async fn revoke_of(
        &self,
        user: &UserId,
        chosen: impl Fn(&Grant, &Rights) -> bool,
        now: Timestamp,
    ) -> Result<u64, StorageError> {
        let mut change = self.0.change().await?;
        let rows: Vec<NamedGrantRow> = sqlx::query_as(
            "SELECT grants.*, '' AS client_name, '' AS key_name, api_keys.rights AS key_rights
             FROM grants JOIN api_keys ON api_keys.id = grants.api_key WHERE grants.user_id = $1 AND grants.revoked IS NULL",
        )
        .bind(user.as_str())
        .fetch_all(&mut *change)
        .await?;
        let mut count = 0;
        for row in rows {
            let listed = row.read()?;
            if chosen(&listed.grant, &listed.key_rights) {
                revoke(&mut change, &listed.grant.id, now).await?;
                count += 1;
            }
        }
        change.commit().await?;
        Ok(count)
    }
}

/// Revokes and announces the grants of a key; returns their number.
pub(super) async fn revoke_of_key(
    change: &mut AnyConnection,
    key: &KeyId,
    now: Timestamp,
) -> Result<u64, StorageError> {
    let revoked: Vec<String> =
        sqlx::query_scalar("UPDATE grants SET revoked = $1 WHERE api_key = $2 AND revoked IS NULL RETURNING id")
            .bind(now.as_millis())
            .bind(key.as_str())
            .fetch_all(&mut *change)
            .await?;
    for grant in &revoked {
        revocations::announce(change, "grant", grant, now).await?;
    }
    Ok(revoked.len() as u64)
}

/// Revokes and announces the grants of a client; returns their number.
pub(super) async fn revoke_of_client(
    change: &mut AnyConnection,
    client: &ClientId,
    now: Timestamp,
) -> Result<usize, StorageError> {
    let revoked: Vec<String> =
        sqlx::query_scalar("UPDATE grants SET revoked = $1 WHERE client = $2 AND revoked IS NULL RETURNING id")
            .bind(now.as_millis())
            .bind(client.as_str())
            .fetch_all(&mut *change)
            .await?;
    for grant in &revoked {
        revocations::announce(change, "grant", grant, now).await?;
    }
    Ok(revoked.len())
}

/// Adds a grant, records the consent to its client, and revokes grants beyond the limit. At the first consent to the
/// client, the network of its registration is returned and deleted.
///
/// # Errors
///
/// [`StorageError::Ended`] if the user or the key of the grant has ended in the meantime.
pub(super) async fn insert(change: &mut AnyConnection, grant: &Grant) -> Result<Option<Digest>, StorageError> {
    let grant = &for_newest_key(change, grant).await?;
    refuse_ended(change, grant).await?;
    sqlx::query(
        "INSERT INTO grants (id, user_id, api_key, client, endpoint, scopes, redirect_uri, created, expires)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(grant.id.as_str())
    .bind(grant.user.as_str())
    .bind(grant.key.as_str())
    .bind(grant.client.as_str())
    .bind(grant.endpoint.to_string())
    .bind(grant.scopes.to_string())
    .bind(grant.delivery.as_str())
    .bind(grant.created.as_millis())
    .bind(grant.expires.as_millis())
    .execute(&mut *change)
    .await?;
    let network: Option<Vec<u8>> =
        sqlx::query_scalar("SELECT network FROM clients WHERE id = $1 AND consented IS NULL AND network IS NOT NULL")
            .bind(grant.client.as_str())
            .fetch_optional(&mut *change)
            .await?;
    sqlx::query("UPDATE clients SET consented = $1, network = NULL WHERE id = $2 AND consented IS NULL")
        .bind(grant.created.as_millis())
        .bind(grant.client.as_str())
        .execute(&mut *change)
        .await?;
    sqlx::query("UPDATE clients SET registered = $1 WHERE id = $2 AND registered < $1")
        .bind(grant.created.as_millis())
        .bind(grant.client.as_str())
        .execute(&mut *change)
        .await?;
    revoke_unused(change, grant).await?;
    Ok(network.as_deref().and_then(Digest::from_slice))
}

/// Refuses a grant if its user or key has ended since the person was asked: a user who leaves gets nothing new.
async fn refuse_ended(change: &mut AnyConnection, grant: &Grant) -> Result<(), StorageError> {
    let live: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM api_keys JOIN users ON users.id = api_keys.user_id
         WHERE api_keys.id = $1 AND revoked IS NULL AND users.disabled IS NULL
             AND (kind <> 'provider' OR confirmed IS NOT NULL)",
    )
    .bind(grant.key.as_str())
    .fetch_optional(change)
    .await?;
    if live.is_some() { Ok(()) } else { Err(StorageError::Ended) }
}

/// The grant under the newest key, if its key was rotated while the person decided.
async fn for_newest_key(change: &mut AnyConnection, grant: &Grant) -> Result<Grant, StorageError> {
    let newest: Option<(String, String, Option<i64>)> = sqlx::query_as(
        "SELECT newest.id, newest.user_id, newest.expires FROM api_keys AS old
         JOIN api_keys AS newest ON newest.id = old.successor WHERE old.id = $1",
    )
    .bind(grant.key.as_str())
    .fetch_optional(&mut *change)
    .await?;
    let Some((key, user, expires)) = newest else { return Ok(grant.clone()) };
    let end = expires.map_or(grant.expires, |end| moment(end).min(grant.expires));
    Ok(Grant { key: KeyId::new(key), user: UserId::new(user), expires: end, ..grant.clone() })
}

/// Revokes old grants beyond the limit: first those whose code expired unredeemed, then the least recently used. The
/// newest grant stays.
async fn revoke_unused(change: &mut AnyConnection, newest: &Grant) -> Result<(), StorageError> {
    let rows: Vec<GrantRow> = sqlx::query_as(
        "SELECT * FROM grants WHERE user_id = $1 AND client = $2 AND revoked IS NULL AND expires > $3 AND id <> $4
         ORDER BY last_used IS NULL AND NOT EXISTS (SELECT 1 FROM codes WHERE grant_id = grants.id AND expires > $3),
         coalesce(last_used, created) DESC, rowid DESC",
    )
    .bind(newest.user.as_str())
    .bind(newest.client.as_str())
    .bind(newest.created.as_millis())
    .bind(newest.id.as_str())
    .fetch_all(&mut *change)
    .await?;
    let origin = newest.redirect_origin();
    let live: Vec<Grant> = rows.into_iter().map(GrantRow::read).collect::<Result<_, _>>()?;
    for grant in live.iter().filter(|grant| grant.redirect_origin() == origin).skip(MAX_LIVE - 1) {
        revoke(change, &grant.id, newest.created).await?;
    }
    Ok(())
}

pub(super) async fn revoke(change: &mut AnyConnection, grant: &GrantId, now: Timestamp) -> Result<(), StorageError> {
    sqlx::query("UPDATE grants SET revoked = $1 WHERE id = $2")
        .bind(now.as_millis())
        .bind(grant.as_str())
        .execute(&mut *change)
        .await?;
    revocations::announce(change, "grant", grant.as_str(), now).await
}

impl NamedGrantRow {
    fn read(self) -> Result<ListedGrant, StorageError> {
        let key_rights = serde_json::from_str(&self.key_rights)
            .map_err(|_| StorageError::Inconsistent { table: "api_keys", column: "rights" })?;
        let (client_name, key_name) = (self.client_name, self.key_name);
        Ok(ListedGrant { grant: self.grant.read()?, client_name, key_name, key_rights })
    }
}

impl GrantRow {
    fn read(self) -> Result<Grant, StorageError> {
        Ok(Grant {
            id: GrantId::new(self.id),
            user: UserId::new(self.user_id),
            key: KeyId::new(self.api_key),
            client: ClientId::new(self.client),
            endpoint: Endpoint::from_path(&self.endpoint).ok_or_else(|| inconsistent("endpoint"))?,
            scopes: Scopes::parse(&self.scopes).map_err(|_| inconsistent("scopes"))?,
            delivery: TokenDelivery::from_text(self.redirect_uri),
            created: moment(self.created),
            expires: moment(self.expires),
            last_used: self.last_used.map(moment),
            revoked: self.revoked.map(moment),
        })
    }
}

const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "grants", column }
}
