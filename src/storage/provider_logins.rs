//! The tables of logins through OpenID providers (`UP-14`).

use sqlx::AnyConnection;

use super::{
    database::{Database, NO_LIMIT, StorageError, moment},
    grants,
};
use crate::{
    model::KeyId,
    support::{Digest, Timestamp},
};

/// Maximum number of remembered sessions at a provider for one account.
const MAX_SESSIONS: i64 = 64;

/// Maximum number of remembered logout reports.
const MAX_REPORTS: i64 = 100_000;

/// A login that lasts as long as the provider confirms it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundLogin {
    pub key: KeyId,
    /// Issuer of the provider.
    pub issuer: String,
    /// The provider's refresh token, sealed.
    pub refresh_token: Vec<u8>,
    /// Time to ask the provider next.
    pub due: Timestamp,
}

/// Logins through providers.
#[derive(Debug, Clone, Copy)]
pub struct ProviderLoginTable<'a>(pub(super) &'a Database);

impl ProviderLoginTable<'_> {
    /// Remembers the account of a session at a provider. The oldest of more than 64 of an account are forgotten.
    pub async fn add_session(&self, session: &Digest, key: &KeyId, now: Timestamp) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        sqlx::query(
            "INSERT INTO provider_sessions (session, key_id, created) VALUES ($1, $2, $3)
             ON CONFLICT (session) DO UPDATE SET key_id = excluded.key_id, created = excluded.created",
        )
        .bind(session.as_bytes().as_slice())
        .bind(key.as_str())
        .bind(now.as_millis())
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "DELETE FROM provider_sessions WHERE session IN (
                SELECT session FROM provider_sessions WHERE key_id = $1 AND session <> $2
                ORDER BY created DESC LIMIT $4 OFFSET $3 - 1)",
        )
        .bind(key.as_str())
        .bind(session.as_bytes().as_slice())
        .bind(MAX_SESSIONS)
        .bind(NO_LIMIT)
        .execute(&mut *change)
        .await?;
        Ok(change.commit().await?)
    }

    /// The account that logged in with this session.
    pub async fn find_by_session(&self, session: &Digest) -> Result<Option<KeyId>, StorageError> {
        let key: Option<String> = sqlx::query_scalar("SELECT key_id FROM provider_sessions WHERE session = $1")
            .bind(session.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(key.map(KeyId::new))
    }

    /// Notes a logout report. Returns false if it was noted before, or there are too many.
    pub async fn add_report(&self, report: &Digest, expires: Timestamp, now: Timestamp) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "INSERT INTO provider_logouts (report, expires)
             SELECT $1, $2 WHERE (SELECT COUNT(*) FROM provider_logouts WHERE expires > $3) < $4
             ON CONFLICT (report) DO UPDATE SET expires = excluded.expires WHERE provider_logouts.expires <= $3",
        )
        .bind(report.as_bytes().as_slice())
        .bind(expires.as_millis())
        .bind(now.as_millis())
        .bind(MAX_REPORTS)
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Adds the bound login of an account, in place of an earlier one.
    pub async fn bind(&self, login: &BoundLogin) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO bound_logins (key_id, issuer, refresh_token, due) VALUES ($1, $2, $3, $4)
             ON CONFLICT (key_id) DO UPDATE SET
                issuer = excluded.issuer, refresh_token = excluded.refresh_token, due = excluded.due",
        )
        .bind(login.key.as_str())
        .bind(&login.issuer)
        .bind(&login.refresh_token)
        .bind(login.due.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Takes up to `limit` due bound logins, and sets the next time for each to `next`: of several processes, one gets
    /// each.
    pub async fn take_due(&self, now: Timestamp, next: Timestamp, limit: u32) -> Result<Vec<BoundLogin>, StorageError> {
        let rows: Vec<(String, String, Vec<u8>)> = sqlx::query_as(
            "UPDATE bound_logins SET due = $1 WHERE key_id IN (
                SELECT key_id FROM bound_logins WHERE due <= $2 ORDER BY due LIMIT $3)
             RETURNING key_id, issuer, refresh_token",
        )
        .bind(next.as_millis())
        .bind(now.as_millis())
        .bind(i64::from(limit))
        .fetch_all(&self.0.pool)
        .await?;
        let read = |(key, issuer, refresh_token): (String, String, Vec<u8>)| BoundLogin {
            key: KeyId::new(key),
            issuer,
            refresh_token,
            due: moment(next.as_millis()),
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Replaces the refresh token of a bound login, and the time of the next check, unless another login has replaced
    /// it.
    pub async fn replace_token(
        &self,
        login: &BoundLogin,
        refresh_token: &[u8],
        due: Timestamp,
    ) -> Result<(), StorageError> {
        sqlx::query("UPDATE bound_logins SET refresh_token = $1, due = $2 WHERE key_id = $3 AND refresh_token = $4")
            .bind(refresh_token)
            .bind(due.as_millis())
            .bind(login.key.as_str())
            .bind(&login.refresh_token)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Deletes a bound login. Returns false if another login has replaced it.
    pub async fn unbind(&self, login: &BoundLogin) -> Result<bool, StorageError> {
        let done = sqlx::query("DELETE FROM bound_logins WHERE key_id = $1 AND refresh_token = $2")
            .bind(login.key.as_str())
            .bind(&login.refresh_token)
            .execute(&self.0.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Ends the browser sessions, the grants and the bound login of an account; returns the number of the grants.
    pub async fn log_out(&self, key: &KeyId, now: Timestamp) -> Result<u64, StorageError> {
        let mut change = self.0.change().await?;
        let count = log_out(&mut change, key, now).await?;
        change.commit().await?;
        Ok(count)
    }

    /// The issuers of confirmed accounts.
    pub async fn issuers(&self) -> Result<Vec<String>, StorageError> {
        let issuers = "SELECT DISTINCT issuer FROM api_keys WHERE confirmed IS NOT NULL AND issuer IS NOT NULL";
        Ok(sqlx::query_scalar(issuers).fetch_all(&self.0.pool).await?)
    }

    /// Up to `limit` accounts of an issuer, last confirmed at `confirmed` or before.
    pub async fn unconfirmed(
        &self,
        issuer: &str,
        confirmed: Timestamp,
        limit: u32,
    ) -> Result<Vec<KeyId>, StorageError> {
        let due = "SELECT id FROM api_keys WHERE issuer = $1 AND confirmed <= $2 ORDER BY confirmed LIMIT $3";
        let due: Vec<String> = sqlx::query_scalar(due)
            .bind(issuer)
            .bind(confirmed.as_millis())
            .bind(i64::from(limit))
            .fetch_all(&self.0.pool)
            .await?;
        Ok(due.into_iter().map(KeyId::new).collect())
    }

    /// Logs out an account last confirmed at `confirmed` or before, until its next login; returns the number of its
    /// grants. `None`, without changes, if it was confirmed since.
    pub async fn end_unconfirmed(
        &self,
        key: &KeyId,
        confirmed: Timestamp,
        now: Timestamp,
    ) -> Result<Option<u64>, StorageError> {
        let mut change = self.0.change().await?;
        let done = sqlx::query("UPDATE api_keys SET confirmed = NULL WHERE id = $1 AND confirmed <= $2")
            .bind(key.as_str())
            .bind(confirmed.as_millis())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        let count = log_out(&mut change, key, now).await?;
        change.commit().await?;
        Ok(Some(count))
    }
}

/// Ends everything based on the logins of an account: browser sessions, grants, and remembered sessions at providers.
pub(super) async fn log_out(change: &mut AnyConnection, key: &KeyId, now: Timestamp) -> Result<u64, StorageError> {
    for statement in [
        "DELETE FROM browser_sessions WHERE key_id = $1",
        "DELETE FROM provider_sessions WHERE key_id = $1",
        "DELETE FROM bound_logins WHERE key_id = $1",
    ] {
        sqlx::query(statement).bind(key.as_str()).execute(&mut *change).await?;
    }
    grants::revoke_of_key(change, key, now).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        model::{AllowedNetworks, ApiKey, Direct, KeyHistory, KeyKind, Rights, UserId},
        storage::Storage,
    };

    const NOW: Timestamp = Timestamp::from_seconds(1000);

    async fn with_keys(ids: &[&str]) -> Storage {
        let storage = Storage::empty().await;
        for id in ids {
            let key = ApiKey {
                id: KeyId::new(*id),
                name: "a".to_owned(),
                user: UserId::of_key(&KeyId::new(*id)),
                rights: Rights::none(),
                kind: KeyKind::Secret(Direct::Refused),
                created: NOW,
                expires: None,
                networks: AllowedNetworks::default(),
                last_used: None,
                revoked: None,
                disabled: None,
                rotated: None,
                history: KeyHistory::default(),
            };
            storage.keys().add(&key, Some(&Digest::sha256("mac"))).await.unwrap();
        }
        storage
    }

    #[tokio::test]
    async fn a_report_counts_once_until_it_ends() {
        let storage = with_keys(&[]).await;
        let (table, report) = (storage.provider_logins(), Digest::sha256("j"));
        let end = NOW + Duration::from_mins(1);
        assert!(table.add_report(&report, end, NOW).await.unwrap());
        assert!(!table.add_report(&report, end, NOW).await.unwrap());
        assert!(table.add_report(&report, end, end).await.unwrap());
    }

    #[tokio::test]
    async fn one_account_has_a_bounded_number_of_sessions() {
        let storage = with_keys(&["a", "b"]).await;
        let (table, name) = (storage.provider_logins(), |number: u64| Digest::sha256(number.to_string()));
        table.add_session(&Digest::sha256("other"), &KeyId::new("b"), NOW).await.unwrap();
        for number in 0..70 {
            table.add_session(&name(number), &KeyId::new("a"), NOW + Duration::from_secs(number)).await.unwrap();
        }
        assert_eq!(table.find_by_session(&name(5)).await.unwrap(), None);
        assert_eq!(table.find_by_session(&name(6)).await.unwrap(), Some(KeyId::new("a")));
        table.log_out(&KeyId::new("a"), NOW).await.unwrap();
        assert_eq!(table.find_by_session(&name(69)).await.unwrap(), None);
        assert_eq!(table.find_by_session(&Digest::sha256("other")).await.unwrap(), Some(KeyId::new("b")));
    }

    #[tokio::test]
    async fn a_bound_login_is_taken_once_when_it_is_due_and_an_old_token_changes_nothing() {
        let storage = with_keys(&["a"]).await;
        let table = storage.provider_logins();
        let login = |token: &str| BoundLogin {
            key: KeyId::new("a"),
            issuer: "i".to_owned(),
            refresh_token: token.as_bytes().to_vec(),
            due: NOW,
        };
        table.bind(&login("1")).await.unwrap();
        let next = NOW + Duration::from_mins(5);
        assert_eq!(table.take_due(NOW - Duration::from_secs(1), next, 9).await.unwrap(), []);
        let taken = table.take_due(NOW, next, 9).await.unwrap();
        assert_eq!(taken, [BoundLogin { due: next, ..login("1") }]);
        assert_eq!(table.take_due(NOW, next, 9).await.unwrap(), []);
        table.replace_token(&taken[0], b"2", next).await.unwrap();
        assert!(!table.unbind(&taken[0]).await.unwrap(), "another token is there");
        assert!(table.unbind(&login("2")).await.unwrap());
        assert_eq!(table.take_due(next, next, 9).await.unwrap(), []);
    }
}
