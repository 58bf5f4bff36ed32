//! The table of pending authorization requests, after the login. Knows nothing of their content.

use super::database::{Database, StorageError, moment};
use crate::{
    model::UserId,
    support::{Digest, Timestamp},
};

/// Maximum number of requests of one browser session, decided ones included until they expire.
const MAX_PER_BROWSER: i64 = 16;

/// Maximum number of requests of one user in all browsers.
const MAX_PER_USER: i64 = 64;

/// A pending authorization request.
#[derive(Debug)]
pub struct TransactionRow {
    /// Digest of its id.
    pub id: Digest,
    /// The browser session that may decide it.
    pub browser: Digest,
    /// User who is logged in there.
    pub user: UserId,
    /// The request, as text.
    pub request: String,
    /// Expiry.
    pub expires: Timestamp,
}

/// Pending authorization requests.
#[derive(Debug, Clone, Copy)]
pub struct TransactionTable<'a>(pub(super) &'a Database);

impl TransactionTable<'_> {
    /// Adds a request, or moves an undecided one of the same user to another browser session. Deletes the oldest of
    /// more than 16 requests of this browser session, and of more than 64 of this user. Returns false, without changes,
    /// if the request is already decided or another user added it.
    pub async fn add(&self, row: &TransactionRow) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let insert = "INSERT INTO transactions (id, browser, user_id, request, expires) VALUES ($1, $2, $3, $4, $5)
                      ON CONFLICT (id) DO UPDATE SET browser = excluded.browser
                      WHERE transactions.user_id = excluded.user_id AND transactions.decided IS NULL";
        let done = sqlx::query(insert)
            .bind(row.id.as_bytes().as_slice())
            .bind(row.browser.as_bytes().as_slice())
            .bind(row.user.as_str())
            .bind(&row.request)
            .bind(row.expires.as_millis())
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query(
            "DELETE FROM transactions WHERE id IN (
                SELECT id FROM transactions WHERE browser = $1
                ORDER BY expires DESC, rowid DESC LIMIT 9223372036854775807 OFFSET $2)",
        )
        .bind(row.browser.as_bytes().as_slice())
        .bind(MAX_PER_BROWSER)
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "DELETE FROM transactions WHERE id IN (
                SELECT id FROM transactions WHERE user_id = $1
                ORDER BY expires DESC, rowid DESC LIMIT 9223372036854775807 OFFSET $2)",
        )
        .bind(row.user.as_str())
        .bind(MAX_PER_USER)
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(true)
    }

    /// The undecided request of this id and browser session, and its expiry.
    pub async fn lookup(&self, id: &Digest, browser: &Digest) -> Result<Option<(String, Timestamp)>, StorageError> {
        let select = "SELECT request, expires FROM transactions WHERE id = $1 AND browser = $2 AND decided IS NULL";
        let row: Option<(String, i64)> = sqlx::query_as(select)
            .bind(id.as_bytes().as_slice())
            .bind(browser.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(row.map(|(request, expires)| (request, moment(expires))))
    }

    /// True if a request of this id was decided.
    pub async fn is_decided(&self, id: &Digest) -> Result<bool, StorageError> {
        let select = "SELECT COUNT(*) FROM transactions WHERE id = $1 AND decided IS NOT NULL";
        let decided: i64 = sqlx::query_scalar(select).bind(id.as_bytes().as_slice()).fetch_one(&self.0.pool).await?;
        Ok(decided > 0)
    }

    /// Marks the request of this id and browser session as decided, and returns it with its expiry. Only the first of
    /// several concurrent calls gets it.
    pub async fn decide(
        &self,
        id: &Digest,
        browser: &Digest,
        now: Timestamp,
    ) -> Result<Option<(String, Timestamp)>, StorageError> {
        let update = "UPDATE transactions SET decided = $1 WHERE id = $2 AND browser = $3 AND decided IS NULL
                      RETURNING request, expires";
        let row: Option<(String, i64)> = sqlx::query_as(update)
            .bind(now.as_millis())
            .bind(id.as_bytes().as_slice())
            .bind(browser.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(row.map(|(request, expires)| (request, moment(expires))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::Storage;

    const START: Timestamp = Timestamp::from_seconds(1000);

    fn row(name: &str, browser: &str, user: &str, age: u64) -> TransactionRow {
        TransactionRow {
            id: Digest::sha256(name),
            browser: Digest::sha256(browser),
            user: UserId::new(user),
            request: name.to_owned(),
            expires: START + Duration::from_secs(age),
        }
    }

    async fn waits(storage: &Storage, row: &TransactionRow) -> bool {
        storage.transactions().lookup(&row.id, &row.browser).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn the_oldest_requests_of_a_browser_session_and_of_a_user_are_deleted() {
        let storage = Storage::empty().await;
        let other = row("other", "elsewhere", "eve", 0);
        assert!(storage.transactions().add(&other).await.unwrap());
        let rows: Vec<_> = (0..100).map(|n| row(&format!("{n}"), &format!("browser {}", n / 20), "ada", n)).collect();
        for row in &rows {
            assert!(storage.transactions().add(row).await.unwrap());
        }
        let kept = futures_util::future::join_all(rows.iter().map(|row| waits(&storage, row))).await;
        let kept: Vec<usize> = kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(n, _)| n).collect();
        // five browser sessions keep their newest 16, of which the user keeps the newest 64
        let expected: Vec<usize> = (1..5).flat_map(|browser| browser * 20 + 4..browser * 20 + 20).collect();
        assert_eq!(kept, expected);
        assert!(waits(&storage, &other).await);
    }

    #[tokio::test]
    async fn a_request_is_decided_once_and_never_added_again() {
        let storage = Storage::empty().await;
        let (first, moved) = (row("a", "one", "ada", 9), row("a", "two", "ada", 9));
        assert!(storage.transactions().add(&first).await.unwrap());
        assert!(storage.transactions().add(&moved).await.unwrap(), "the same user, still undecided");
        assert!(!waits(&storage, &first).await && waits(&storage, &moved).await);
        assert!(!storage.transactions().add(&row("a", "one", "eve", 9)).await.unwrap(), "another user");
        assert!(storage.transactions().decide(&first.id, &first.browser, START).await.unwrap().is_none());
        assert!(storage.transactions().decide(&moved.id, &moved.browser, START).await.unwrap().is_some());
        assert!(storage.transactions().decide(&moved.id, &moved.browser, START).await.unwrap().is_none());
        assert!(!storage.transactions().add(&moved).await.unwrap());
        assert!(!waits(&storage, &moved).await);
    }
}
