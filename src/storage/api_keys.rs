//! The tables of users and API keys.

use sqlx::AnyConnection;

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
};
use crate::{
    model::{ApiKey, Direct, KeyAccount, KeyHistory, KeyId, KeyKind, Rights, Rotated, UserId},
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
        given_by: Option<String>,
        changed: Option<i64>,
        changed_by: Option<String>,
    }
}

/// API keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyTable<'a>(pub(super) &'a Database);

impl KeyTable<'_> {
    /// Adds a key and, if the name is new, its user. Only a key with a secret has a MAC.
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

    /// The key of this account, even if revoked or expired: preferably one that is not revoked, and then the newest.
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
}

/// Adds a key and, if the name is new, its user.
pub(super) async fn insert(change: &mut AnyConnection, key: &ApiKey, mac: Option<&Digest>) -> Result<(), StorageError> {
    let account = match &key.kind {
        KeyKind::Secret(_) => None,
        KeyKind::Account(account) => Some(account.columns()),
    };
    let is_of_provider = matches!(key.kind, KeyKind::Account(KeyAccount::Provider { .. }));
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
                               networks, given_by, changed, changed_by, confirmed)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
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
    .bind(key.history.given_by.as_deref())
    .bind(key.history.changed.map(Timestamp::as_millis))
    .bind(key.history.changed_by.as_deref())
    .bind(is_of_provider.then(|| key.created.as_millis()))
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
            rights: rights(&self.rights)?,
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
            history: KeyHistory {
                given_by: self.given_by,
                changed: self.changed.map(moment),
                changed_by: self.changed_by,
            },
        };
        Ok((key, mac))
    }
}

/// Rights, as stored in a row.
pub(super) fn rights(text: &str) -> Result<Rights, StorageError> {
    serde_json::from_str(text).map_err(|_| inconsistent("rights"))
}

pub(super) const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "api_keys", column }
}
