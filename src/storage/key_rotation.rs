//! Rotation of API keys.

use super::{api_keys, api_keys::KeyTable, database::StorageError, revocations};
use crate::{
    model::{ApiKey, KeyId},
    support::{Digest, Timestamp},
};

impl KeyTable<'_> {
    /// Replaces the key `old`, which ends at `until`, by `new`, and moves the grants. If their user or end changes,
    /// they are announced, to invalidate cached copies. Returns false, without changes, if `old` is not live at `now`
    /// or was already rotated.
    pub async fn rotate(
        &self,
        old: &KeyId,
        new: &ApiKey,
        mac: &Digest,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        api_keys::insert(&mut change, new, Some(mac)).await?;
        let ends_now = until <= now;
        let former: Option<(String, Option<i64>)> = sqlx::query_as(
            "UPDATE api_keys SET successor = $1, retires = $2, revoked = $3
             WHERE id = $4 AND revoked IS NULL AND successor IS NULL AND (expires IS NULL OR expires > $5)
             RETURNING user_id, expires",
        )
        .bind(new.id.as_str())
        .bind(until.as_millis())
        .bind(ends_now.then(|| now.as_millis()))
        .bind(old.as_str())
        .bind(now.as_millis())
        .fetch_optional(&mut *change)
        .await?;
        let Some((user, expires)) = former else { return Ok(false) };
        // so that one step always leads to the newest key
        sqlx::query("UPDATE api_keys SET successor = $1 WHERE successor = $2")
            .bind(new.id.as_str())
            .bind(old.as_str())
            .execute(&mut *change)
            .await?;
        let moved: Vec<String> = sqlx::query_scalar(
            "UPDATE grants SET api_key = $1, user_id = $2, expires = CASE WHEN $3 < expires THEN $3 ELSE expires END
             WHERE api_key = $4 AND revoked IS NULL RETURNING id",
        )
        .bind(new.id.as_str())
        .bind(new.user.as_str())
        .bind(new.expires.map(Timestamp::as_millis))
        .bind(old.as_str())
        .fetch_all(&mut *change)
        .await?;
        if ends_now {
            revocations::announce(&mut change, "key", old.as_str(), now).await?;
        }
        if user != new.user.as_str() || expires != new.expires.map(Timestamp::as_millis) {
            for grant in &moved {
                revocations::announce(&mut change, "grant", grant, now).await?;
            }
        }
        change.commit().await?;
        Ok(true)
    }

    /// Revokes and announces rotated keys whose overlap is over at `now`.
    pub async fn retire(&self, now: Timestamp) -> Result<(), StorageError> {
        let due = "SELECT count(*) FROM api_keys WHERE retires <= $1 AND revoked IS NULL";
        if sqlx::query_scalar::<_, i64>(due).bind(now.as_millis()).fetch_one(&self.0.pool).await? == 0 {
            return Ok(());
        }
        let mut change = self.0.change().await?;
        let retired: Vec<String> =
            sqlx::query_scalar("UPDATE api_keys SET revoked = $1 WHERE retires <= $1 AND revoked IS NULL RETURNING id")
                .bind(now.as_millis())
                .fetch_all(&mut *change)
                .await?;
        for key in retired {
            revocations::announce(&mut change, "key", &key, now).await?;
        }
        Ok(change.commit().await?)
    }
}
