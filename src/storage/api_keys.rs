//! The tables of users and API keys. Knows nothing of the text form of keys.

use sqlx::AnyConnection;

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
    revocations,
};
use crate::{
    model::{ApiKey, Direct, KeyAccount, KeyId, KeyKind, Rights, Rotated, UserId},
    support::{Digest, Timestamp},
};

/// Kind of a key with a secret.
const SECRET: &str = "secret";

columns! {
    struct ApiKeyRow {
        id: String,
        user_id: String,
        name: String,
        mac: Vec<u8>,
        rights: String,
        direct: i64,
        created: i64,
        expires: Option<i64>,
        last_used: Option<i64>,
        revoked: Option<i64>,
        successor: Option<String>,
        retires: Option<i64>,
        kind: String,
        issuer: Option<String>,
        subject: Option<String>,
        disabled: Option<i64>,
        networks: Option<String>,
    }
}

/// API keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyTable<'a>(pub(super) &'a Database);

impl KeyTable<'_> {
    /// Adds a key and, if there is none of this name, its user. Only a key with a secret has a MAC.
    pub async fn add(&self, key: &ApiKey, mac: Option<&Digest>) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        insert(&mut change, key, mac).await?;
        Ok(change.commit().await?)
    }

    /// The key of this id with the MAC of its secret, if it has one, even if revoked or expired.
    pub async fn lookup(&self, id: &KeyId) -> Result<Option<(ApiKey, Option<Digest>)>, StorageError> {
        let row: Option<ApiKeyRow> = sqlx::query_as(
            "SELECT api_keys.*, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id
             WHERE api_keys.id = $1",
        )
        .bind(id.as_str())
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(ApiKeyRow::read).transpose()
    }

    /// The key of this account, even if revoked or expired: of several the newest, and one that is not revoked first.
    pub async fn find_by_account(&self, account: &KeyAccount) -> Result<Option<ApiKey>, StorageError> {
        let [kind, issuer, subject] = account.columns();
        let row: Option<ApiKeyRow> = sqlx::query_as(
            "SELECT api_keys.*, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id
             WHERE kind = $1 AND issuer = $2 AND subject = $3
             ORDER BY revoked IS NULL DESC, api_keys.created DESC, api_keys.rowid DESC LIMIT 1",
        )
        .bind(kind)
        .bind(issuer)
        .bind(subject)
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(|row| Ok(row.read()?.0)).transpose()
    }

    /// Replaces the rights of a key. If they change, its grants are announced, so that cached copies become invalid.
    /// Returns false if they stay.
    pub async fn set_rights(&self, id: &KeyId, rights: &Rights, now: Timestamp) -> Result<bool, StorageError> {
        let text = serde_json::to_string(rights).map_err(|_| inconsistent("rights"))?;
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE api_keys SET rights = $1 WHERE id = $2 AND rights <> $1")
            .bind(text)
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        let grants: Vec<String> =
            sqlx::query_scalar("SELECT id FROM grants WHERE api_key = $1 AND revoked IS NULL AND expires > $2")
                .bind(id.as_str())
                .bind(now.as_millis())
                .fetch_all(&mut *change)
                .await?;
        for grant in grants {
            revocations::announce(&mut change, "grant", &grant, now).await?;
        }
        change.commit().await?;
        Ok(true)
    }

    /// Every key, oldest first.
    pub async fn list(&self) -> Result<Vec<ApiKey>, StorageError> {
        let rows: Vec<ApiKeyRow> = sqlx::query_as(
            "SELECT api_keys.*, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id
             ORDER BY api_keys.created, api_keys.rowid",
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(|row| Ok(row.read()?.0)).collect()
    }

    /// Number of keys ever created.
    pub async fn count(&self) -> Result<i64, StorageError> {
        Ok(sqlx::query_scalar("SELECT COUNT(*) FROM api_keys").fetch_one(&self.0.pool).await?)
    }

    /// Records a use of each.
    pub async fn touch(&self, ids: &[KeyId], now: Timestamp) -> Result<(), StorageError> {
        let ids: Vec<&str> = ids.iter().map(KeyId::as_str).collect();
        let statement = |places: &str| format!("UPDATE api_keys SET last_used = $1 WHERE id IN ({places})");
        self.0.run_for_named(statement, &ids, now).await
    }

    /// Revokes a key, the keys that it replaced, and every grant of them, and announces each. Returns false if no
    /// unrevoked key has this id.
    pub async fn revoke(&self, id: &KeyId, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE api_keys SET revoked = $1 WHERE id = $2 AND revoked IS NULL")
            .bind(now.as_millis())
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        let replaced: Vec<String> = sqlx::query_scalar(
            "UPDATE api_keys SET revoked = $1 WHERE successor = $2 AND revoked IS NULL RETURNING id",
        )
        .bind(now.as_millis())
        .bind(id.as_str())
        .fetch_all(&mut *change)
        .await?;
        let grants: Vec<String> =
            sqlx::query_scalar("UPDATE grants SET revoked = $1 WHERE api_key = $2 AND revoked IS NULL RETURNING id")
                .bind(now.as_millis())
                .bind(id.as_str())
                .fetch_all(&mut *change)
                .await?;
        for key in std::iter::once(id.as_str()).chain(replaced.iter().map(String::as_str)) {
            revocations::announce(&mut change, "key", key, now).await?;
        }
        for grant in grants {
            revocations::announce(&mut change, "grant", &grant, now).await?;
        }
        change.commit().await?;
        Ok(true)
    }
}

/// Adds a key and, if there is none of this name, its user.
pub(super) async fn insert(change: &mut AnyConnection, key: &ApiKey, mac: Option<&Digest>) -> Result<(), StorageError> {
    let account = match &key.kind {
        KeyKind::Secret(_) => None,
        KeyKind::Account(account) => Some(account.columns()),
    };
    let rights = serde_json::to_string(&key.rights).map_err(|_| inconsistent("rights"))?;
    sqlx::query(
        "INSERT INTO users (id, created) VALUES ($1, $2)
         ON CONFLICT (id) DO UPDATE SET created = excluded.created, disabled = NULL, deleted = NULL
         WHERE users.deleted IS NOT NULL",
    )
    .bind(key.user.as_str())
    .bind(key.created.as_millis())
    .execute(&mut *change)
    .await?;
    sqlx::query(
        "INSERT INTO api_keys (id, user_id, name, mac, rights, direct, created, expires, kind, issuer, subject,
                               networks)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(key.id.as_str())
    .bind(key.user.as_str())
    .bind(&key.name)
    .bind(mac.map_or(&[][..], |mac| mac.as_bytes()))
    .bind(rights)
    .bind(i64::from(key.kind.direct() == Direct::Allowed))
    .bind(key.created.as_millis())
    .bind(key.expires.map(Timestamp::as_millis))
    .bind(account.map_or(SECRET, |[kind, ..]| kind))
    .bind(account.map(|[_, issuer, _]| issuer))
    .bind(account.map(|[.., subject]| subject))
    .bind(key.networks.listed().map(|_| key.networks.to_string()))
    .execute(&mut *change)
    .await?;
    Ok(())
}

impl ApiKeyRow {
    fn read(self) -> Result<(ApiKey, Option<Digest>), StorageError> {
        let (kind, mac) = match (self.kind.as_str(), self.issuer.zip(self.subject)) {
            (SECRET, None) => {
                let direct = if self.direct != 0 { Direct::Allowed } else { Direct::Refused };
                let mac = Digest::from_slice(&self.mac).ok_or_else(|| inconsistent("mac"))?;
                (KeyKind::Secret(direct), Some(mac))
            }
            (kind, Some((issuer, subject))) => {
                let account = KeyAccount::from_columns(kind, issuer, subject).ok_or_else(|| inconsistent("kind"))?;
                (KeyKind::Account(account), None)
            }
            _ => return Err(inconsistent("kind")),
        };
        let key = ApiKey {
            id: KeyId::new(self.id),
            name: self.name,
            user: UserId::new(self.user_id),
            rights: serde_json::from_str(&self.rights).map_err(|_| inconsistent("rights"))?,
            kind,
            created: moment(self.created),
            expires: self.expires.map(moment),
            networks: self.networks.unwrap_or_default().parse().map_err(|_| inconsistent("networks"))?,
            last_used: self.last_used.map(moment),
            revoked: self.revoked.map(moment),
            disabled: self.disabled.map(moment),
            rotated: self
                .successor
                .zip(self.retires)
                .map(|(successor, until)| Rotated { successor: KeyId::new(successor), until: moment(until) }),
        };
        Ok((key, mac))
    }
}

const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "api_keys", column }
}
