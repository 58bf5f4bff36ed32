//! Changes of keys and accounts: rights, expiry, the confirmation of an account by its provider, revocation.

use sqlx::AnyConnection;

use super::{
    api_keys::{self, KeyTable},
    database::StorageError,
    grants, invitations, revocations,
};
use crate::{
    model::{GrantId, KeyChange, KeyEnd, KeyId, Rights, Scope, Scopes, UserId},
    support::Timestamp,
};

/// A key that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedKey {
    pub key: KeyId,
    pub user: UserId,
    /// Its rights after the change.
    pub rights: Rights,
}

/// The rights and the end of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyTerms {
    rights: Rights,
    expires: Option<i64>,
}

impl KeyTable<'_> {
    /// Revokes a key, the keys that it replaced, and all their grants, and announces each. Returns its user;
    /// `None` if no unrevoked key has this id.
    pub async fn revoke(&self, id: &KeyId, now: Timestamp) -> Result<Option<UserId>, StorageError> {
        let mut change = self.0.change().await?;
        let user: Option<String> =
            sqlx::query_scalar("UPDATE api_keys SET revoked = $1 WHERE id = $2 AND revoked IS NULL RETURNING user_id")
                .bind(now.as_millis())
                .bind(id.as_str())
                .fetch_optional(&mut *change)
                .await?;
        let Some(user) = user.map(UserId::new) else { return Ok(None) };
        let replaced: Vec<String> = sqlx::query_scalar(
            "UPDATE api_keys SET revoked = $1 WHERE successor = $2 AND revoked IS NULL RETURNING id",
        )
        .bind(now.as_millis())
        .bind(id.as_str())
        .fetch_all(&mut *change)
        .await?;
        for key in std::iter::once(id.as_str()).chain(replaced.iter().map(String::as_str)) {
            revocations::announce(&mut change, "key", key, now).await?;
        }
        grants::revoke_of_key(&mut change, id, now).await?;
        invitations::end_beyond(&mut change, &user, now).await?;
        change.commit().await?;
        Ok(Some(user))
    }

    /// Changes a live key and, in a rotation, the other key with it. Everything with more rights than it has now ends:
    /// it is announced, so that every process ends its open connections; credentials with new rights are verified
    /// again. Returns the changed keys.
    pub async fn change(
        &self,
        id: &KeyId,
        wanted: &KeyChange,
        by: &str,
        now: Timestamp,
    ) -> Result<Vec<ChangedKey>, StorageError> {
        let mut change = self.0.change().await?;
        let newest: Option<String> = sqlx::query_scalar("SELECT coalesce(successor, id) FROM api_keys WHERE id = $1")
            .bind(id.as_str())
            .fetch_optional(&mut *change)
            .await?;
        let Some(newest) = newest else { return Ok(Vec::new()) };
        let rows: Vec<(String, String, String, Option<i64>)> = sqlx::query_as(
            "SELECT id, user_id, rights, expires FROM api_keys WHERE (id = $1 OR successor = $1) AND revoked IS NULL",
        )
        .bind(newest)
        .fetch_all(&mut *change)
        .await?;
        let mut changed = Vec::new();
        for (key, user, rights, expires) in rows {
            let (key, user) = (KeyId::new(key), UserId::new(user));
            let before = KeyTerms { rights: api_keys::rights(&rights)?, expires };
            let after = before.with(wanted);
            if set(&mut change, &key, &before, &after, by, now).await? {
                invitations::end_beyond(&mut change, &user, now).await?;
                changed.push(ChangedKey { key, user, rights: after.rights });
            }
        }
        change.commit().await?;
        Ok(changed)
    }

    /// Replaces the rights of one key or account, likewise. `None` if they stay the same.
    pub async fn set_rights(
        &self,
        id: &KeyId,
        rights: &Rights,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<ChangedKey>, StorageError> {
        let select = "SELECT user_id, rights, expires FROM api_keys WHERE id = $1";
        let found: Option<(String, String, Option<i64>)> =
            sqlx::query_as(select).bind(id.as_str()).fetch_optional(&self.0.pool).await?;
        if found.is_none_or(|(_, present, _)| api_keys::rights(&present).is_ok_and(|present| present == *rights)) {
            return Ok(None);
        }
        let mut change = self.0.change().await?;
        let found: Option<(String, String, Option<i64>)> =
            sqlx::query_as(select).bind(id.as_str()).fetch_optional(&mut *change).await?;
        let Some((user, present, expires)) = found else { return Ok(None) };
        let before = KeyTerms { rights: api_keys::rights(&present)?, expires };
        let after = KeyTerms { rights: rights.clone(), expires };
        let is_changed = set(&mut change, id, &before, &after, by, now).await?;
        let user = UserId::new(user);
        invitations::end_beyond(&mut change, &user, now).await?;
        change.commit().await?;
        Ok(is_changed.then(|| ChangedKey { key: id.clone(), user, rights: after.rights }))
    }

    /// Notes that the provider of an account vouches for its holder.
    pub async fn confirm(&self, id: &KeyId, now: Timestamp) -> Result<(), StorageError> {
        let statement = "UPDATE api_keys SET confirmed = $1 WHERE id = $2 AND (confirmed IS NULL OR confirmed < $1)";
        sqlx::query(statement).bind(now.as_millis()).bind(id.as_str()).execute(&self.0.pool).await?;
        Ok(())
    }
}

/// Writes new terms of a key, and ends what they no longer cover. Returns false if they are the same.
async fn set(
    change: &mut AnyConnection,
    key: &KeyId,
    before: &KeyTerms,
    after: &KeyTerms,
    by: &str,
    now: Timestamp,
) -> Result<bool, StorageError> {
    if before == after {
        return Ok(false);
    }
    sqlx::query("UPDATE api_keys SET rights = $1, expires = $2, changed = $3, changed_by = $4 WHERE id = $5")
        .bind(serde_json::to_string(&after.rights).map_err(|_| api_keys::inconsistent("rights"))?)
        .bind(after.expires)
        .bind(now.as_millis())
        .bind(by)
        .bind(key.as_str())
        .execute(&mut *change)
        .await?;
    if let Some(end) = after.expires {
        sqlx::query("UPDATE grants SET expires = $1 WHERE api_key = $2 AND revoked IS NULL AND expires > $1")
            .bind(end)
            .bind(key.as_str())
            .execute(&mut *change)
            .await?;
    }
    if before.rights.admin && !after.rights.admin {
        end_administration(change, key, now).await?;
    }
    if after.covers(before) {
        revocations::announce(change, "rights", key.as_str(), now).await?;
        return Ok(true);
    }
    revocations::announce(change, "key", key.as_str(), now).await?;
    let grants: Vec<String> = sqlx::query_scalar("SELECT id FROM grants WHERE api_key = $1 AND revoked IS NULL")
        .bind(key.as_str())
        .fetch_all(&mut *change)
        .await?;
    for grant in grants {
        revocations::announce(change, "grant", &grant, now).await?;
    }
    Ok(true)
}

/// Ends the browser sessions of a key, and its grants with administration: if the right comes back later, these do not
/// regain it.
async fn end_administration(change: &mut AnyConnection, key: &KeyId, now: Timestamp) -> Result<(), StorageError> {
    sqlx::query("DELETE FROM browser_sessions WHERE key_id = $1").bind(key.as_str()).execute(&mut *change).await?;
    let grants: Vec<(String, String)> =
        sqlx::query_as("SELECT id, scopes FROM grants WHERE api_key = $1 AND revoked IS NULL")
            .bind(key.as_str())
            .fetch_all(&mut *change)
            .await?;
    for (grant, scopes) in grants {
        if Scopes::parse(&scopes).is_ok_and(|scopes| scopes.contains(&Scope::Admin)) {
            grants::revoke(change, &GrantId::new(grant), now).await?;
        }
    }
    Ok(())
}

// === impl KeyTerms ===

impl KeyTerms {
    fn with(&self, change: &KeyChange) -> Self {
        let backends = change.backends.clone().unwrap_or_else(|| self.rights.backends.clone());
        let rights = Rights { backends, admin: change.admin.unwrap_or(self.rights.admin) };
        let expires = match change.expires {
            None => self.expires,
            Some(KeyEnd::Never) => None,
            Some(KeyEnd::At(end)) => Some(end.as_millis()),
        };
        Self { rights, expires }
    }

    /// True if these allow everything that the others allow, for as long.
    fn covers(&self, other: &Self) -> bool {
        let lasts = self.expires.is_none_or(|end| other.expires.is_some_and(|other| other <= end));
        lasts && other.rights.is_within(&self.rights)
    }
}
