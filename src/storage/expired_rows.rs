//! Deletion of expired rows in the tables of the authorization server. Clients and sessions delete their own rows.

use std::time::Duration;

use super::{
    database::{Database, StorageError},
    server_lists::ServerListTable,
    steps::Steps,
};
use crate::support::Timestamp;

/// Statements that delete rows, and how long each row is kept after its expiry. The condition is there twice, to check
/// a row again that another process changes in the meantime.
const EXPIRED: &[(&str, Duration)] = &[
    (
        "DELETE FROM transactions WHERE id IN (
             SELECT id FROM transactions WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM used_assertions WHERE digest IN (
             SELECT digest FROM used_assertions WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM device_authorizations WHERE device IN (
             SELECT device FROM device_authorizations WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        // a month is enough time to look up an outcome
        "DELETE FROM initial_access_tokens WHERE id IN (
             SELECT id FROM initial_access_tokens WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::from_hours(30 * 24),
    ),
    (
        "DELETE FROM invitations WHERE id IN (
             SELECT id FROM invitations WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::from_hours(30 * 24),
    ),
    (
        // the same browser can see the key again for this long
        "UPDATE invitations SET outcome = NULL WHERE id IN (
             SELECT id FROM invitations WHERE outcome IS NOT NULL AND accepted < $1 ORDER BY accepted LIMIT $2)",
        Duration::from_mins(10),
    ),
    (
        // a reused code must be recognised while its grant lives (OA-85); an hour covers any grant's
        "DELETE FROM codes WHERE digest IN (
             SELECT digest FROM codes WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::from_hours(1),
    ),
    (
        "DELETE FROM limit_counts WHERE (name, key) IN (
             SELECT name, key FROM limit_counts WHERE full_at < $1 ORDER BY full_at LIMIT $2) AND full_at < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM task_owners WHERE (task, owner) IN (
             SELECT task, owner FROM task_owners WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM server_lists WHERE (server, user_id, capabilities, method) IN (
             SELECT server, user_id, capabilities, method FROM server_lists WHERE stored < $1 ORDER BY stored LIMIT $2)
         AND stored < $1",
        ServerListTable::KEPT_FOR,
    ),
    (
        "DELETE FROM revoked_tokens WHERE jti IN (
             SELECT jti FROM revoked_tokens WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM revocations WHERE sequence IN (
             SELECT sequence FROM revocations WHERE at < $1 ORDER BY at LIMIT $2)",
        Duration::from_hours(24),
    ),
    (
        "DELETE FROM upstream_requests WHERE state IN (
             SELECT state FROM upstream_requests WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM provider_logouts WHERE report IN (
             SELECT report FROM provider_logouts WHERE expires < $1 ORDER BY expires LIMIT $2) AND expires < $1",
        Duration::ZERO,
    ),
    (
        // approved, but the code was never redeemed
        "DELETE FROM grants WHERE id IN (
             SELECT id FROM grants WHERE last_used IS NULL AND created < $1 ORDER BY created LIMIT $2)
         AND last_used IS NULL",
        Duration::from_hours(1),
    ),
];

/// Expired rows of the authorization server.
#[derive(Debug, Clone, Copy)]
pub struct ExpiredRows<'a>(pub(super) &'a Database);

impl ExpiredRows<'_> {
    /// Deletes expired rows that have no further use: requests, codes, revocations, counts, and grants with their
    /// tokens. Takes a few at a time, and leaves the database to others in between.
    pub async fn delete(&self, now: Timestamp) -> Result<(), StorageError> {
        for (statement, kept) in EXPIRED {
            self.0.run_in_steps(*statement, &[(now - *kept).as_millis()]).await?;
        }
        self.delete_grants(now).await
    }

    /// Deletes grants that have ended, with their tokens: only whole families, so that reuse is detected until the end
    /// of the grant (OA-136).
    async fn delete_grants(&self, now: Timestamp) -> Result<(), StorageError> {
        let mut steps = Steps::begin(self.0.engine);
        while self.has_ended_grants(now).await? {
            let tokens = "DELETE FROM refresh_tokens WHERE digest IN (
                SELECT digest FROM refresh_tokens WHERE grant_id IN (
                    SELECT id FROM grants WHERE expires < $1 ORDER BY expires, id LIMIT $2)
                LIMIT $3)";
            let grants = steps.rows();
            self.0.run_in(&mut steps, tokens, &[now.as_millis(), grants]).await?;
            steps.pause().await;
            self.delete_grants_without_tokens(now, grants).await?;
            steps.pause().await;
        }
        Ok(())
    }

    /// Does not take the lock of the database.
    async fn has_ended_grants(&self, now: Timestamp) -> Result<bool, StorageError> {
        let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM grants WHERE expires < $1 LIMIT 1")
            .bind(now.as_millis())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(found.is_some())
    }

    async fn delete_grants_without_tokens(&self, now: Timestamp, grants: i64) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        for statement in [
            // the end of a grant counts as activity of its client (OA-43)
            "UPDATE clients SET registered = $1 WHERE registered < $1 AND id IN (
                 SELECT client FROM (SELECT client FROM grants WHERE expires < $1 ORDER BY expires, id LIMIT $2) AS ended)",
            "DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE expires < $1 ORDER BY expires, id LIMIT $2)",
        ] {
            sqlx::query(statement).bind(now.as_millis()).bind(grants).execute(&mut *change).await?;
        }
        Ok(change.commit().await?)
    }
}
