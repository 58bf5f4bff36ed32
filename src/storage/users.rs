//! Users: the owners of keys and grants, and whether the operator lets them in.

use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::{
    database::{Database, StorageError, moment},
    invitations, revocations,
    steps::Steps,
};
use crate::{
    model::{EndedUser, KeyId, UserId, UserOverview},
    support::Timestamp,
};

/// Users whose secrets one statement deletes.
const USERS_AT_ONCE: usize = 100;

/// Users.
#[derive(Debug, Clone, Copy)]
pub struct UserTable<'a>(pub(super) &'a Database);

impl UserTable<'_> {
    /// Every user with the number of live keys and grants, by name.
    pub async fn list(&self, now: Timestamp) -> Result<Vec<UserOverview>, StorageError> {
        let rows = sqlx::query(
            "SELECT id, created, disabled,
                 (SELECT count(*) FROM api_keys WHERE user_id = users.id AND revoked IS NULL
                     AND (expires IS NULL OR expires > $1)) AS keys,
                 (SELECT count(*) FROM grants WHERE user_id = users.id AND revoked IS NULL AND expires > $1) AS grants,
                 (SELECT max(last_used) FROM api_keys WHERE user_id = users.id) AS last_used
             FROM users WHERE deleted IS NULL ORDER BY id",
        )
        .bind(now.as_millis())
        .fetch_all(&self.0.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let time = |column: &str| row.try_get::<Option<i64>, _>(column).map(|millis| millis.map(moment));
                Ok(UserOverview {
                    user: UserId::new(row.try_get::<String, _>("id")?),
                    created: moment(row.try_get("created")?),
                    disabled: time("disabled")?,
                    keys: row.try_get("keys")?,
                    grants: row.try_get("grants")?,
                    last_used: time("last_used")?,
                })
            })
            .collect()
    }

    /// Locks a user out from now on, and announces each key and grant. Returns false if there is no such user.
    pub async fn disable(&self, user: &UserId, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE users SET disabled = coalesce(disabled, $1) WHERE id = $2 AND deleted IS NULL")
            .bind(now.as_millis())
            .bind(user.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        announce_all(&mut change, user, now).await?;
        invitations::end_of_user(&mut change, user, now).await?;
        change.commit().await?;
        Ok(true)
    }

    /// Lets a user in again. Returns false if there is no such user.
    pub async fn enable(&self, user: &UserId) -> Result<bool, StorageError> {
        let done = sqlx::query("UPDATE users SET disabled = NULL WHERE id = $1 AND deleted IS NULL")
            .bind(user.as_str())
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Ends everything of a user: keys, grants, logins in browsers, sessions, accounts at servers, invitations. Returns
    /// counts of these; `None` if there is no such user.
    pub async fn delete(&self, user: &UserId, now: Timestamp) -> Result<Option<EndedUser>, StorageError> {
        let mut change = self.0.change().await?;
        // first, so that the user gets nothing new in the meantime
        let done = sqlx::query("UPDATE users SET deleted = $1, disabled = $1 WHERE id = $2 AND deleted IS NULL")
            .bind(now.as_millis())
            .bind(user.as_str())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        let mut ended = read_what_ends(&mut change, user, now).await?;
        announce_all(&mut change, user, now).await?;
        let invitations = invitations::end_of_user(&mut change, user, now).await?;
        ended.invitations = i64::try_from(invitations).unwrap_or(i64::MAX);
        for statement in [
            "UPDATE api_keys SET revoked = $1 WHERE user_id = $2 AND revoked IS NULL",
            "UPDATE grants SET revoked = $1 WHERE user_id = $2 AND revoked IS NULL",
        ] {
            sqlx::query(statement).bind(now.as_millis()).bind(user.as_str()).execute(&mut *change).await?;
        }
        delete_rows(&mut change, user).await?;
        change.commit().await?;
        Ok(Some(ended))
    }

    /// Deletes rows added for a deleted user by work that was in progress.
    pub async fn delete_rest(&self, user: &UserId) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        let deleted: Option<i64> = sqlx::query_scalar("SELECT 1 FROM users WHERE id = $1 AND deleted IS NOT NULL")
            .bind(user.as_str())
            .fetch_optional(&mut *change)
            .await?;
        if deleted.is_some() {
            delete_rows(&mut change, user).await?;
        }
        Ok(change.commit().await?)
    }

    /// The time when a user was created; `None` for an unknown user.
    pub async fn created(&self, user: &UserId) -> Result<Option<Timestamp>, StorageError> {
        let created = "SELECT created FROM users WHERE id = $1 AND deleted IS NULL";
        let created: Option<i64> = sqlx::query_scalar(created).bind(user.as_str()).fetch_optional(&self.0.pool).await?;
        Ok(created.map(moment))
    }

    /// Deletes the sealed data of users whose API keys have all ended, at least one of them since then: tokens at
    /// servers, secrets, and lists of servers.
    pub async fn delete_sealed_of_ended(&self, since: Timestamp, now: Timestamp) -> Result<(), StorageError> {
        for table in ["upstream_tokens", "user_secrets", "server_lists"] {
            // a writing statement takes the lock of the database, even with nothing to write
            let ended = format!(
                "SELECT DISTINCT user_id FROM {table} WHERE user_id IN (
                     SELECT user_id FROM api_keys WHERE revoked > $1
                     UNION SELECT user_id FROM api_keys WHERE expires > $1 AND expires <= $2)
                 AND NOT EXISTS (SELECT 1 FROM api_keys WHERE api_keys.user_id = {table}.user_id AND revoked IS NULL
                     AND (expires IS NULL OR expires > $2))"
            );
            let ended = sqlx::query_scalar(AssertSqlSafe(ended)).bind(since.as_millis()).bind(now.as_millis());
            let ended: Vec<String> = ended.fetch_all(&self.0.pool).await?;
            let ended: Vec<&str> = ended.iter().map(String::as_str).collect();
            let mut steps = Steps::begin(self.0.engine);
            for ended in ended.chunks(USERS_AT_ONCE) {
                let statement = |places: &str| {
                    format!(
                        "DELETE FROM {table} WHERE user_id IN ({places}) AND NOT EXISTS (
                             SELECT 1 FROM api_keys WHERE api_keys.user_id = {table}.user_id AND revoked IS NULL
                                 AND (expires IS NULL OR expires > $1))"
                    )
                };
                self.0.run_for_named(statement, ended, now).await?;
                steps.pause().await;
            }
        }
        Ok(())
    }
}

/// Reads what ends with a user.
async fn read_what_ends(change: &mut AnyConnection, user: &UserId, now: Timestamp) -> Result<EndedUser, StorageError> {
    let keys: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, id FROM api_keys WHERE user_id = $1 AND revoked IS NULL AND (expires IS NULL OR expires > $2)",
    )
    .bind(user.as_str())
    .bind(now.as_millis())
    .fetch_all(&mut *change)
    .await?;
    let apps = sqlx::query_as(
        "SELECT coalesce(clients.name, grants.client), grants.endpoint FROM grants
         LEFT JOIN clients ON clients.id = grants.client
         WHERE grants.user_id = $1 AND grants.revoked IS NULL AND grants.last_used IS NOT NULL AND grants.expires > $2",
    )
    .bind(user.as_str())
    .bind(now.as_millis())
    .fetch_all(&mut *change)
    .await?;
    let mut names = Vec::new();
    for statement in [
        "SELECT backend FROM upstream_tokens WHERE user_id = $1 ORDER BY backend",
        "SELECT name FROM user_secrets WHERE user_id = $1 ORDER BY name",
    ] {
        names.push(sqlx::query_scalar(statement).bind(user.as_str()).fetch_all(&mut *change).await?);
    }
    let mut counts = Vec::new();
    for statement in [
        "SELECT COUNT(*) FROM mcp_sessions WHERE user_id = $1",
        "SELECT COUNT(*) FROM browser_sessions WHERE key_id IN (SELECT id FROM api_keys WHERE user_id = $1)",
        "SELECT COUNT(*) FROM task_owners WHERE user_id = $1 AND ended = 0",
        "SELECT COUNT(*) FROM device_authorizations WHERE redeemed IS NULL
             AND grant_id IN (SELECT id FROM grants WHERE user_id = $1 AND revoked IS NULL)",
    ] {
        counts.push(sqlx::query_scalar(statement).bind(user.as_str()).fetch_one(&mut *change).await?);
    }
    let [secrets, accounts] = [names.pop(), names.pop()].map(Option::unwrap_or_default);
    let [devices, tasks, browsers, sessions] =
        [counts.pop(), counts.pop(), counts.pop(), counts.pop()].map(Option::unwrap_or_default);
    let keys = keys.into_iter().map(|(name, id)| (name, KeyId::new(id))).collect();
    Ok(EndedUser { keys, apps, accounts, secrets, sessions, browsers, tasks, devices, invitations: 0 })
}

/// Deletes the rows held for a user.
async fn delete_rows(change: &mut AnyConnection, user: &UserId) -> Result<(), StorageError> {
    for statement in [
        "DELETE FROM browser_sessions WHERE key_id IN (SELECT id FROM api_keys WHERE user_id = $1)",
        "DELETE FROM provider_sessions WHERE key_id IN (SELECT id FROM api_keys WHERE user_id = $1)",
        "DELETE FROM bound_logins WHERE key_id IN (SELECT id FROM api_keys WHERE user_id = $1)",
        "DELETE FROM transactions WHERE user_id = $1",
        "DELETE FROM device_authorizations WHERE redeemed IS NULL
             AND grant_id IN (SELECT id FROM grants WHERE user_id = $1)",
        "DELETE FROM mcp_sessions WHERE user_id = $1",
        "DELETE FROM task_owners WHERE user_id = $1",
        "DELETE FROM server_lists WHERE user_id = $1",
        // a trigger queues the tokens for revocation at their issuers
        "DELETE FROM upstream_tokens WHERE user_id = $1",
        "DELETE FROM upstream_requests WHERE user_id = $1",
        // a trigger ends the connections that use them
        "DELETE FROM user_secrets WHERE user_id = $1",
    ] {
        sqlx::query(statement).bind(user.as_str()).execute(&mut *change).await?;
    }
    Ok(())
}

/// Announces a user with every key and grant, so that every process ends everything based on them.
async fn announce_all(change: &mut AnyConnection, user: &UserId, now: Timestamp) -> Result<(), StorageError> {
    for (kind, statement) in [
        ("key", "SELECT id FROM api_keys WHERE user_id = $1 AND revoked IS NULL"),
        ("grant", "SELECT id FROM grants WHERE user_id = $1 AND revoked IS NULL"),
    ] {
        let ids: Vec<String> = sqlx::query_scalar(statement).bind(user.as_str()).fetch_all(&mut *change).await?;
        for id in ids {
            revocations::announce(&mut *change, kind, &id, now).await?;
        }
    }
    // last: state held for the user ends when no more requests come for them
    revocations::announce(&mut *change, "user", user.as_str(), now).await
}
