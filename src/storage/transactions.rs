//! The table of authorization requests that wait for a person. Knows nothing of what they ask.

use super::{Error, Storage, moment};
use crate::support::{Digest, Timestamp};

/// How many requests may wait: strangers make them, so they are bounded.
const MOST_TRANSACTIONS: i64 = 10_000;

impl Storage {
    /// Adds a request, as text, bound to a browser. False, and nothing done, where 10,000 wait already.
    pub async fn add_transaction(
        &self,
        id: &Digest,
        browser: &Digest,
        request: &str,
        expires: Timestamp,
    ) -> Result<bool, Error> {
        let insert = "INSERT INTO transactions (id, browser, request, expires) SELECT ?, ?, ?, ?
                      WHERE (SELECT COUNT(*) FROM transactions) < ?";
        let done = sqlx::query(insert)
            .bind(id.as_bytes().as_slice())
            .bind(browser.as_bytes().as_slice())
            .bind(request)
            .bind(expires.as_millis())
            .bind(MOST_TRANSACTIONS)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The request of this id and browser, and when it lapses.
    pub async fn lookup_transaction(
        &self,
        id: &Digest,
        browser: &Digest,
    ) -> Result<Option<(String, Timestamp)>, Error> {
        let row: Option<(String, i64)> =
            sqlx::query_as("SELECT request, expires FROM transactions WHERE id = ? AND browser = ?")
                .bind(id.as_bytes().as_slice())
                .bind(browser.as_bytes().as_slice())
                .fetch_optional(&self.pool)
                .await?;
        Ok(row.map(|(request, expires)| (request, moment(expires))))
    }

    /// Takes the request of this id and browser out: of two that ask, one gets it.
    pub async fn take_transaction(&self, id: &Digest, browser: &Digest) -> Result<Option<(String, Timestamp)>, Error> {
        let row: Option<(String, i64)> =
            sqlx::query_as("DELETE FROM transactions WHERE id = ? AND browser = ? RETURNING request, expires")
                .bind(id.as_bytes().as_slice())
                .bind(browser.as_bytes().as_slice())
                .fetch_optional(&self.pool)
                .await?;
        Ok(row.map(|(request, expires)| (request, moment(expires))))
    }

    /// Binds the requests of one browser to another.
    pub async fn rebind_transactions(&self, from: &Digest, to: &Digest) -> Result<(), Error> {
        sqlx::query("UPDATE transactions SET browser = ? WHERE browser = ?")
            .bind(to.as_bytes().as_slice())
            .bind(from.as_bytes().as_slice())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Deletes what lapsed before `now` and can be of no use: requests, codes, and revocations of single tokens.
    pub async fn purge_authorization(&self, now: Timestamp) -> Result<(), Error> {
        let mut change = self.change().await?;
        for statement in [
            "DELETE FROM transactions WHERE expires < ?",
            // a code that is used again within its grant's life must still be known (OA-85); an hour is far beyond any
            "DELETE FROM codes WHERE expires < ? - 3600000",
            "DELETE FROM revoked_tokens WHERE expires < ?",
            "DELETE FROM revocations WHERE at < ? - 86400000",
            // whole families alone, so that reuse stays detectable until the end of the grant (OA-136)
            "DELETE FROM grants WHERE expires < ?",
            // approved, and the code never redeemed
            "DELETE FROM grants WHERE last_used IS NULL AND created < ? - 3600000",
            // nobody ever consented; a client that comes back after 90 days registers again
            "DELETE FROM clients WHERE consented IS NULL AND created < ? - 7776000000",
        ] {
            sqlx::query(statement).bind(now.as_millis()).execute(&mut *change).await?;
        }
        Ok(change.commit().await?)
    }
}
