//! Certificates toward clients, with the state of their orders.
//!
//! One process works on an order at a time: it holds the row for a limited time, and all its writes are void once
//! another process has the row.

use std::time::Duration;

use super::{
    columns::columns,
    database::{Database, StorageError, moment},
};
use crate::support::Timestamp;

/// The certificate of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRow {
    /// The last certificate, if there was one.
    pub issued: Option<IssuedCertificate>,
    /// The time of the next order.
    pub due: Timestamp,
    /// The order in progress: its URL, and its sealed key.
    pub order: Option<(String, Vec<u8>)>,
    /// The failed orders since the last certificate.
    pub failures: u32,
    /// The last failure, and its reason.
    pub failure: Option<(Timestamp, String)>,
    /// True while a process works on an order.
    pub is_held: bool,
}

/// A stored certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// PEM, with the certificates up to the authority.
    pub chain: String,
    /// Its key, sealed.
    pub sealed: Vec<u8>,
}

/// The answer for an authority that checks a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeRow {
    /// The authority's token.
    pub token: String,
    /// The name.
    pub name: String,
    /// The token and the account's thumbprint (RFC 8555 8.1).
    pub key_authorization: String,
}

/// A process that holds the row of a place.
#[derive(Debug, Clone, Copy)]
pub struct CertificateHold<'a> {
    pub place: &'a str,
    pub holder: &'a str,
}

columns! {
    struct StoredCertificate {
        chain: Option<String>,
        sealed: Option<Vec<u8>>,
        due: i64,
        order_url: Option<String>,
        order_key: Option<Vec<u8>>,
        held_until: Option<i64>,
        failures: i64,
        failed: Option<i64>,
        failure: Option<String>,
    }
}

/// Certificates, accounts and challenges.
#[derive(Debug, Clone, Copy)]
pub struct CertificateTable<'a>(pub(super) &'a Database);

impl CertificateTable<'_> {
    /// The row of a place; if there is none, adds one that is due at once.
    pub async fn get_or_add(&self, place: &str, now: Timestamp) -> Result<CertificateRow, StorageError> {
        let found =
            "SELECT chain, sealed, due, order_url, order_key, held_until, failures, failed, failure FROM certificates
             WHERE place = $1";
        let lookup = || sqlx::query_as::<_, StoredCertificate>(found).bind(place).fetch_optional(&self.0.pool);
        let row = if let Some(row) = lookup().await? {
            row
        } else {
            sqlx::query("INSERT INTO certificates (place, due) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(place)
                .bind(now.as_millis())
                .execute(&self.0.pool)
                .await?;
            lookup().await?.ok_or(StorageError::Inconsistent { table: "certificates", column: "place" })?
        };
        Ok(CertificateRow {
            issued: row.chain.zip(row.sealed).map(|(chain, sealed)| IssuedCertificate { chain, sealed }),
            due: moment(row.due),
            order: row.order_url.zip(row.order_key),
            failures: u32::try_from(row.failures).unwrap_or(u32::MAX),
            failure: row.failed.map(moment).zip(row.failure),
            is_held: row.held_until.is_some_and(|until| until > now.as_millis()),
        })
    }

    /// Holds the row for `lease`, or extends the hold. False if another process holds it.
    pub async fn hold(
        &self,
        CertificateHold { place, holder }: CertificateHold<'_>,
        now: Timestamp,
        lease: Duration,
    ) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE certificates SET holder = $1, held_until = $2
             WHERE place = $3 AND (holder IS NULL OR holder = $1 OR held_until <= $4)",
        )
        .bind(holder)
        .bind((now + lease).as_millis())
        .bind(place)
        .bind(now.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Notes the order in progress, or that there is none.
    pub async fn set_order(
        &self,
        CertificateHold { place, holder }: CertificateHold<'_>,
        order: Option<(&str, &[u8])>,
    ) -> Result<(), StorageError> {
        sqlx::query("UPDATE certificates SET order_url = $1, order_key = $2 WHERE place = $3 AND holder = $4")
            .bind(order.map(|(url, _)| url))
            .bind(order.map(|(_, key)| key))
            .bind(place)
            .bind(holder)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Stores a certificate, and ends the hold and the order. False if another process has taken the row.
    pub async fn succeed(
        &self,
        CertificateHold { place, holder }: CertificateHold<'_>,
        issued: &IssuedCertificate,
        due: Timestamp,
    ) -> Result<bool, StorageError> {
        let done = sqlx::query(
            "UPDATE certificates SET chain = $1, sealed = $2, due = $3, order_url = NULL, order_key = NULL, holder = NULL,
                 held_until = NULL, failures = 0, failed = NULL, failure = NULL
             WHERE place = $4 AND holder = $5",
        )
        .bind(&issued.chain)
        .bind(&issued.sealed)
        .bind(due.as_millis())
        .bind(place)
        .bind(holder)
        .execute(&self.0.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Notes a failure, and ends the hold. The next order is due at `due`.
    pub async fn fail(
        &self,
        CertificateHold { place, holder }: CertificateHold<'_>,
        failure: &str,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<(), StorageError> {
        sqlx::query(
            "UPDATE certificates SET due = $1, failures = failures + 1, failed = $2, failure = $3, holder = NULL,
                 held_until = NULL
             WHERE place = $4 AND holder = $5",
        )
        .bind(due.as_millis())
        .bind(now.as_millis())
        .bind(failure)
        .bind(place)
        .bind(holder)
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Ends the hold without an outcome: the next process continues.
    pub async fn release(&self, CertificateHold { place, holder }: CertificateHold<'_>) -> Result<(), StorageError> {
        sqlx::query("UPDATE certificates SET holder = NULL, held_until = NULL WHERE place = $1 AND holder = $2")
            .bind(place)
            .bind(holder)
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Moves the next order, unless another process has moved it from `from` already, or works on it.
    pub async fn reschedule(&self, place: &str, from: Timestamp, to: Timestamp) -> Result<(), StorageError> {
        sqlx::query("UPDATE certificates SET due = $1 WHERE place = $2 AND due = $3 AND holder IS NULL")
            .bind(to.as_millis())
            .bind(place)
            .bind(from.as_millis())
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// The account at an authority, sealed.
    pub async fn account(&self, directory: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let account = sqlx::query_scalar("SELECT sealed FROM acme_accounts WHERE directory = $1").bind(directory);
        Ok(account.fetch_optional(&self.0.pool).await?)
    }

    /// Replaces the account at an authority.
    pub async fn set_account(&self, directory: &str, sealed: &[u8]) -> Result<(), StorageError> {
        sqlx::query(
            "INSERT INTO acme_accounts (directory, sealed) VALUES ($1, $2)
             ON CONFLICT (directory) DO UPDATE SET sealed = excluded.sealed",
        )
        .bind(directory)
        .bind(sealed)
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Forgets the account at an authority.
    pub async fn forget_account(&self, directory: &str) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM acme_accounts WHERE directory = $1").bind(directory).execute(&self.0.pool).await?;
        Ok(())
    }

    /// The challenges that every gateway answers now.
    pub async fn challenges(&self, now: Timestamp) -> Result<Vec<ChallengeRow>, StorageError> {
        let rows: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT token, name, key_authorization FROM acme_challenges WHERE expires > $1 ORDER BY token",
        )
        .bind(now.as_millis())
        .fetch_all(&self.0.pool)
        .await?;
        let row = |(token, name, key_authorization)| ChallengeRow { token, name, key_authorization };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Adds a challenge until `expires`, and deletes expired ones.
    pub async fn add_challenge(
        &self,
        challenge: &ChallengeRow,
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<(), StorageError> {
        let old = sqlx::query("DELETE FROM acme_challenges WHERE expires <= $1").bind(now.as_millis());
        old.execute(&self.0.pool).await?;
        sqlx::query(
            "INSERT INTO acme_challenges (token, name, key_authorization, expires) VALUES ($1, $2, $3, $4)
             ON CONFLICT (token) DO UPDATE SET name = excluded.name, key_authorization = excluded.key_authorization,
                 expires = excluded.expires",
        )
        .bind(&challenge.token)
        .bind(&challenge.name)
        .bind(&challenge.key_authorization)
        .bind(expires.as_millis())
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Deletes a challenge.
    pub async fn delete_challenge(&self, token: &str) -> Result<(), StorageError> {
        sqlx::query("DELETE FROM acme_challenges WHERE token = $1").bind(token).execute(&self.0.pool).await?;
        Ok(())
    }
}
