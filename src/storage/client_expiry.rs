//! Expiry of unused clients, in the table of clients (`OA-43`).
//!
//! An expired client keeps its row. Expired clients without a consent still count toward the limits of such clients,
//! which evict the oldest first.

use super::{
    database::{Database, StorageError},
    steps::Steps,
};
use crate::{model::ClientId, support::Timestamp};

/// Clients last active before these moments expire.
#[derive(Debug, Clone, Copy)]
pub struct IdleSince {
    /// Without a consent.
    pub unused: Timestamp,
    /// With a consent, but with no live grant since.
    pub idle: Timestamp,
    /// Expired without a consent: it is deleted.
    pub forgotten: Timestamp,
}

/// Expiry of clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientExpiry<'a>(pub(super) &'a Database);

impl ClientExpiry<'_> {
    /// Expires clients that were idle for too long, except the operator's, and deletes clients without a consent that
    /// expired long ago.
    pub async fn expire(&self, since: &IdleSince, now: Timestamp) -> Result<(), StorageError> {
        let unused = "UPDATE clients SET expired = $1 WHERE id IN (
                 SELECT id FROM clients WHERE consented IS NULL AND revoked IS NULL AND expired IS NULL
                     AND origin <> 'operator' AND registered < $2 ORDER BY registered LIMIT $3)
             AND consented IS NULL AND revoked IS NULL AND expired IS NULL AND registered < $2";
        self.0.run_in_steps(unused, &[now.as_millis(), since.unused.as_millis()]).await?;
        self.expire_idle(since.idle, now).await?;
        let forgotten = "DELETE FROM clients WHERE id IN (
                 SELECT id FROM clients WHERE consented IS NULL AND revoked IS NULL AND expired < $1
                 ORDER BY expired LIMIT $2)
             AND consented IS NULL AND revoked IS NULL AND expired < $1";
        self.0.run_in_steps(forgotten, &[since.forgotten.as_millis()]).await?;
        Ok(())
    }

    /// Expires clients with a consent. Most of the old ones are in use: the search does not lock the database, and
    /// looks at each once.
    async fn expire_idle(&self, idle: Timestamp, now: Timestamp) -> Result<(), StorageError> {
        let mut steps = Steps::begin(self.0.engine);
        let (mut registered, mut id) = (i64::MIN, String::new());
        loop {
            let found: Vec<(i64, String)> = sqlx::query_as(
                "SELECT registered, id FROM clients WHERE consented IS NOT NULL AND revoked IS NULL AND expired IS NULL
                     AND origin <> 'operator' AND registered < $1 AND (registered, id) > ($2, $3) AND (
                         SELECT 1 FROM grants WHERE client = clients.id
                         AND ((revoked IS NULL AND expires >= $1) OR coalesce(last_used, created) >= $1) LIMIT 1
                     ) IS NULL
                 ORDER BY registered, id LIMIT $4",
            )
            .bind(idle.as_millis())
            .bind(registered)
            .bind(&id)
            .bind(steps.rows())
            .fetch_all(&self.0.pool)
            .await?;
            let ids: Vec<&str> = found.iter().map(|(_, id)| id.as_str()).collect();
            // a grant given in the meantime counts as a registration
            let statement = |places: &str| {
                format!(
                    "UPDATE clients SET expired = $1 WHERE revoked IS NULL AND expired IS NULL
                         AND registered < $1 - 86400000 AND id IN ({places})"
                )
            };
            self.0.run_for_named(statement, &ids, now).await?;
            if !steps.go_on(u64::try_from(ids.len()).unwrap_or(0)).await {
                return Ok(());
            }
            if let Some(last) = found.into_iter().next_back() {
                (registered, id) = last;
            }
        }
    }

    /// Revives an expired client without a secret. Returns false if the id is unknown.
    pub async fn revive(&self, id: &ClientId, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE clients SET expired = NULL, registered = $1
             WHERE id = $2 AND expired IS NOT NULL AND revoked IS NULL AND auth = 'none'",
        )
        .bind(now.as_millis())
        .bind(id.as_str())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes every expired client; returns their number.
    pub async fn prune(&self) -> Result<u64, StorageError> {
        let statement = "DELETE FROM clients WHERE id IN (
                 SELECT id FROM clients WHERE expired IS NOT NULL AND revoked IS NULL
                     AND NOT EXISTS (SELECT 1 FROM grants WHERE client = clients.id)
                 ORDER BY expired LIMIT $1)
             AND expired IS NOT NULL AND revoked IS NULL";
        self.0.run_in_steps(statement, &[]).await
    }
}
