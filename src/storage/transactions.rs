//! The table of authorization requests after the login: pending ones and, until they expire, decided ones.

use sqlx::AnyConnection;

use super::{
    columns::columns,
    database::{Database, NO_LIMIT, StorageError, moment},
    grants,
};
use crate::{
    model::{Grant, UserId},
    support::{Digest, Timestamp},
};

/// Maximum number of requests of one browser session, including decided ones until they expire.
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
    /// The user logged in there.
    pub user: UserId,
    /// The request, as text.
    pub request: String,
    /// Expiry.
    pub expires: Timestamp,
}

/// A waiting or decided request.
#[derive(Debug)]
pub struct FoundTransaction {
    /// The request, as text.
    pub request: String,
    /// Expiry.
    pub expires: Timestamp,
    /// The decision, if any.
    pub decided: Option<StoredDecision>,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// Its time.
    pub at: Timestamp,
    /// A word for it.
    pub decision: String,
    /// Answer to its form, sealed.
    pub outcome: Vec<u8>,
}

/// The code of a grant given by a decision.
#[derive(Debug)]
pub struct NewCode {
    /// Its digest.
    pub digest: Digest,
    /// The S256 challenge (RFC 7636).
    pub challenge: String,
    /// Expiry.
    pub expires: Timestamp,
}

/// The outcome of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestApproval {
    /// The request is not waiting (any more); nothing has changed.
    NotWaiting,
    /// There is a grant.
    Approved {
        /// The network of the client's registration, if this is the first consent to it.
        consented_first: Option<Digest>,
    },
}

columns! {
    struct TransactionColumns {
        request: String,
        expires: i64,
        decided: Option<i64>,
        decision: Option<String>,
        outcome: Option<Vec<u8>>,
    }
}

/// Pending authorization requests.
#[derive(Debug, Clone, Copy)]
pub struct TransactionTable<'a>(pub(super) &'a Database);

impl TransactionTable<'_> {
    /// Adds a request, or moves an undecided one of the same user to another browser session. Deletes the oldest of
    /// more than 16 requests of this browser session, and of more than 64 of this user. Returns false, without changes,
    /// if the request is already decided or another user's.
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
        // `rowid` is a column at PostgreSQL
        sqlx::query(
            "DELETE FROM transactions WHERE id IN (
                SELECT id FROM transactions WHERE browser = $1
                ORDER BY expires DESC, rowid DESC LIMIT $3 OFFSET $2)",
        )
        .bind(row.browser.as_bytes().as_slice())
        .bind(MAX_PER_BROWSER)
        .bind(NO_LIMIT)
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "DELETE FROM transactions WHERE id IN (
                SELECT id FROM transactions WHERE user_id = $1
                ORDER BY expires DESC, rowid DESC LIMIT $3 OFFSET $2)",
        )
        .bind(row.user.as_str())
        .bind(MAX_PER_USER)
        .bind(NO_LIMIT)
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(true)
    }

    /// The request with this id and browser session, decided or not.
    pub async fn find(&self, id: &Digest, browser: &Digest) -> Result<Option<FoundTransaction>, StorageError> {
        let select =
            "SELECT request, expires, decided, decision, outcome FROM transactions WHERE id = $1 AND browser = $2";
        let row: Option<TransactionColumns> = sqlx::query_as(select)
            .bind(id.as_bytes().as_slice())
            .bind(browser.as_bytes().as_slice())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(row.map(TransactionColumns::read))
    }

    /// The user of the request with this id.
    pub async fn user(&self, id: &Digest) -> Result<Option<UserId>, StorageError> {
        let select = "SELECT user_id FROM transactions WHERE id = $1";
        let user: Option<String> =
            sqlx::query_scalar(select).bind(id.as_bytes().as_slice()).fetch_optional(&self.0.pool).await?;
        Ok(user.map(UserId::new))
    }

    /// True if the request with this id was decided.
    pub async fn is_decided(&self, id: &Digest) -> Result<bool, StorageError> {
        let select = "SELECT COUNT(*) FROM transactions WHERE id = $1 AND decided IS NOT NULL";
        let decided: i64 = sqlx::query_scalar(select).bind(id.as_bytes().as_slice()).fetch_one(&self.0.pool).await?;
        Ok(decided > 0)
    }

    /// Notes a decision that grants nothing. Returns false, without changes, if the request with this id and browser
    /// session is not waiting: only the first of several concurrent calls decides.
    pub async fn decide(&self, id: &Digest, browser: &Digest, decision: &StoredDecision) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let is_first = decide(&mut change, id, browser, decision).await?;
        change.commit().await?;
        Ok(is_first)
    }

    /// Notes an approval, and adds the grant with its code: all of it or nothing.
    pub async fn approve(
        &self,
        id: &Digest,
        browser: &Digest,
        decision: &StoredDecision,
        grant: &Grant,
        code: &NewCode,
    ) -> Result<RequestApproval, StorageError> {
        let mut change = self.0.change().await?;
        if !decide(&mut change, id, browser, decision).await? {
            return Ok(RequestApproval::NotWaiting);
        }
        let network = grants::insert(&mut change, grant).await?;
        sqlx::query("INSERT INTO codes (digest, grant_id, challenge, expires) VALUES ($1, $2, $3, $4)")
            .bind(code.digest.as_bytes().as_slice())
            .bind(grant.id.as_str())
            .bind(&code.challenge)
            .bind(code.expires.as_millis())
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(RequestApproval::Approved { consented_first: network })
    }
}

/// Notes a decision; returns false if there already is one.
async fn decide(
    change: &mut AnyConnection,
    id: &Digest,
    browser: &Digest,
    decision: &StoredDecision,
) -> Result<bool, StorageError> {
    let update = "UPDATE transactions SET decided = $1, decision = $2, outcome = $3
                  WHERE id = $4 AND browser = $5 AND decided IS NULL AND expires > $1";
    let done = sqlx::query(update)
        .bind(decision.at.as_millis())
        .bind(&decision.decision)
        .bind(&decision.outcome)
        .bind(id.as_bytes().as_slice())
        .bind(browser.as_bytes().as_slice())
        .execute(change)
        .await?;
    Ok(done.rows_affected() > 0)
}

impl TransactionColumns {
    fn read(self) -> FoundTransaction {
        let decided = self.decided.map(|at| StoredDecision {
            at: moment(at),
            decision: self.decision.unwrap_or_default(),
            outcome: self.outcome.unwrap_or_default(),
        });
        FoundTransaction { request: self.request, expires: moment(self.expires), decided }
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
        storage.transactions().find(&row.id, &row.browser).await.unwrap().is_some_and(|found| found.decided.is_none())
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
        let decision = StoredDecision { at: START, decision: "denied".to_owned(), outcome: b"sealed".to_vec() };
        assert!(!storage.transactions().decide(&first.id, &first.browser, &decision).await.unwrap());
        assert!(storage.transactions().decide(&moved.id, &moved.browser, &decision).await.unwrap());
        let other = StoredDecision { decision: "approved".to_owned(), ..decision.clone() };
        assert!(!storage.transactions().decide(&moved.id, &moved.browser, &other).await.unwrap());
        let found = storage.transactions().find(&moved.id, &moved.browser).await.unwrap().unwrap();
        assert_eq!(found.decided, Some(decision), "the first decision stays");
        assert!(!storage.transactions().add(&moved).await.unwrap());
        assert!(!waits(&storage, &moved).await);
    }
}
