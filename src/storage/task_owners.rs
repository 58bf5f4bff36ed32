//! Owners of tasks at servers, so that they survive a restart and are known to every gateway on the database.

use sqlx::AssertSqlSafe;

use super::{
    database::{Database, StorageError},
    named_rows::places,
};
use crate::{
    model::{ClientId, FoundTask, KeyId, OwnedTask, Owner, TaskHolder},
    support::{Digest, Timestamp},
};

/// Maximum number of tasks in one statement.
const BATCH: usize = 100;

/// Owners of tasks.
#[derive(Debug, Clone, Copy)]
pub struct TaskOwnerTable<'a>(pub(super) &'a Database);

impl TaskOwnerTable<'_> {
    /// Adds a task. If its owner then has more than `max` at the server, the oldest ended one is deleted; if none has
    /// ended, returns false without changes.
    pub async fn add(&self, row: &OwnedTask, max: i64, now: Timestamp) -> Result<bool, StorageError> {
        let OwnedTask { task, scope, owner, expires, has_ended } = row;
        let (task, holder, server) = (bytes(task), owner.digest(), bytes(&scope.server));
        let holder = bytes(&holder);
        let mut change = self.0.batch().await?;
        if !scope.tells_callers_apart {
            // task ids of such a server are unique: it has reused an old id, for instance after a restart
            sqlx::query("DELETE FROM task_owners WHERE task = $1 AND owner <> $2")
                .bind(task)
                .bind(holder)
                .execute(&mut *change)
                .await?;
        }
        sqlx::query(
            "INSERT INTO task_owners (task, owner, server, user_id, client, api_key, expires, ended)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (task, owner) DO UPDATE SET expires = excluded.expires, ended = excluded.ended",
        )
        .bind(task)
        .bind(holder)
        .bind(server)
        .bind(owner.user().as_str())
        .bind(owner.client().map(ClientId::as_str))
        .bind(owner.key().map(KeyId::as_str))
        .bind(expires.as_millis())
        .bind(i64::from(*has_ended))
        .execute(&mut *change)
        .await?;
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM task_owners WHERE owner = $1 AND server = $2 AND expires > $3")
                .bind(holder)
                .bind(server)
                .bind(now.as_millis())
                .fetch_one(&mut *change)
                .await?;
        if count > max {
            let left = sqlx::query(
                "DELETE FROM task_owners WHERE owner = $1 AND task = (
                     SELECT task FROM task_owners WHERE owner = $1 AND server = $2 AND expires > $3 AND ended = 1
                     AND task <> $4 ORDER BY expires LIMIT 1)",
            )
            .bind(holder)
            .bind(server)
            .bind(now.as_millis())
            .bind(task)
            .execute(&mut *change)
            .await?;
            if left.rows_affected() == 0 {
                return Ok(false);
            }
        }
        change.commit().await?;
        Ok(true)
    }

    /// The stored ones of `tasks`, as `owner` may know them.
    pub async fn find(&self, tasks: &[Digest], owner: &Owner, now: Timestamp) -> Result<Vec<FoundTask>, StorageError> {
        let (mut found, asker) = (Vec::new(), owner.digest());
        for tasks in tasks.chunks(BATCH) {
            let places = places(3, tasks.len());
            let text = format!(
                "SELECT task, max(CASE WHEN owner = $1 THEN 1 ELSE 0 END),
                     max(CASE WHEN owner = $1 THEN expires ELSE 0 END), max(CASE WHEN owner = $1 THEN ended ELSE 0 END)
                 FROM task_owners WHERE expires > $2 AND task IN ({places}) GROUP BY task"
            );
            let mut query = sqlx::query_as(AssertSqlSafe(text)).bind(bytes(&asker)).bind(now.as_millis());
            for task in tasks {
                query = query.bind(bytes(task));
            }
            let rows: Vec<(Vec<u8>, i64, i64, i64)> = query.fetch_all(&self.0.pool).await?;
            for (task, is_own, expires, ended) in rows {
                let task = Digest::from_slice(&task);
                let task = task.ok_or(StorageError::Inconsistent { table: "task_owners", column: "task" })?;
                let expires = Timestamp::from_millis(expires);
                let own = TaskHolder::Asker { expires, has_ended: ended != 0 };
                found.push(FoundTask { task, holder: if is_own == 0 { TaskHolder::Others } else { own } });
            }
        }
        Ok(found)
    }

    /// Marks a task of this owner as ended.
    pub async fn set_ended(&self, task: &Digest, owner: &Owner) -> Result<(), StorageError> {
        sqlx::query("UPDATE task_owners SET ended = 1 WHERE task = $1 AND owner = $2")
            .bind(bytes(task))
            .bind(bytes(&owner.digest()))
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deletes a task of this owner.
    pub async fn delete(&self, task: &Digest, owner: &Owner) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM task_owners WHERE task = $1 AND owner = $2")
            .bind(bytes(task))
            .bind(bytes(&owner.digest()))
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }
}

fn bytes(digest: &Digest) -> &[u8] {
    digest.as_bytes().as_slice()
}
