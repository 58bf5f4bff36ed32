//! Replicas and their leases. All times are the database's, so that no two machines compare their clocks.

use std::time::Duration;

use sqlx::{Row as _, any::AnyRow};

use super::database::{Database, Engine, StorageError};
use crate::model::{ReplicaAddress, ReplicaNumber};

/// A replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRow {
    /// Number.
    pub number: ReplicaNumber,
    /// Address for the other replicas; `None` if the column holds something else.
    pub address: Option<ReplicaAddress>,
    /// The key with which it proves itself, as a `SubjectPublicKeyInfo` (RFC 5280 4.1.2.7) in DER.
    pub public_key: Vec<u8>,
    /// What is left of its lease; zero if that is over, and nobody has deposed the replica yet.
    pub lease: Duration,
    /// True for the one at which the servers run that all share.
    pub is_home: bool,
}

/// Replicas. A row exists until its replica leaves or is deposed: what belongs to a number without a row has no owner.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaTable<'a>(pub(super) &'a Database);

impl ReplicaTable<'_> {
    /// Adds a replica, and returns its number.
    pub async fn join(
        &self,
        address: &ReplicaAddress,
        public_key: &[u8],
        lease: Duration,
    ) -> Result<ReplicaNumber, StorageError> {
        let now = now(self.0.engine);
        let text = format!(
            "INSERT INTO replicas (address, public_key, lease_until) VALUES ($1, $2, {now} + $3) RETURNING number"
        );
        let added = sqlx::query_scalar(sqlx::AssertSqlSafe(text));
        let number = added.bind(address.as_str()).bind(public_key).bind(millis(lease)).fetch_one(&self.0.pool).await?;
        Ok(ReplicaNumber::new(number))
    }

    /// Renews the lease of a replica, over or not; `false` if the replica was deposed.
    pub async fn renew(&self, number: ReplicaNumber, lease: Duration) -> Result<bool, StorageError> {
        let text = format!("UPDATE replicas SET lease_until = {} + $1 WHERE number = $2", now(self.0.engine));
        let renewed = sqlx::query(sqlx::AssertSqlSafe(text)).bind(millis(lease)).bind(number.get());
        Ok(renewed.execute(&self.0.pool).await?.rows_affected() > 0)
    }

    /// All replicas.
    pub async fn list(&self) -> Result<Vec<ReplicaRow>, StorageError> {
        let now = now(self.0.engine);
        let text = format!(
            "SELECT number, address, public_key, lease_until - {now} AS lease, is_home FROM replicas ORDER BY number"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(&self.0.pool).await?;
        rows.iter().map(read).collect()
    }

    /// Makes a replica the home of the servers that all share; `false` if another is, or this one was deposed.
    pub async fn take_home(&self, number: ReplicaNumber) -> Result<bool, StorageError> {
        let text = "UPDATE replicas SET is_home = 1 WHERE number = $1 \
                    AND NOT EXISTS (SELECT 1 FROM replicas WHERE is_home = 1 AND number <> $1)";
        match sqlx::query(text).bind(number.get()).execute(&self.0.pool).await {
            Ok(taken) => Ok(taken.rows_affected() > 0),
            // two at once
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a replica whose lease is over; `false` if it has renewed the lease, or is gone already.
    pub async fn depose(&self, number: ReplicaNumber) -> Result<bool, StorageError> {
        let text = format!("DELETE FROM replicas WHERE number = $1 AND lease_until <= {}", now(self.0.engine));
        let deposed = sqlx::query(sqlx::AssertSqlSafe(text)).bind(number.get()).execute(&self.0.pool).await?;
        Ok(deposed.rows_affected() > 0)
    }

    /// Removes a replica that ends.
    pub async fn leave(&self, number: ReplicaNumber) -> Result<(), StorageError> {
        let left = sqlx::query("DELETE FROM replicas WHERE number = $1").bind(number.get());
        left.execute(&self.0.pool).await?;
        Ok(())
    }
}

/// The present time of the database, in milliseconds since the epoch, in its dialect.
fn now(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        // that of the statement and not of the transaction
        Engine::PostgreSql => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn read(row: &AnyRow) -> Result<ReplicaRow, StorageError> {
    let address: String = row.try_get("address")?;
    Ok(ReplicaRow {
        number: ReplicaNumber::new(row.try_get("number")?),
        address: ReplicaAddress::parse(&address).ok(),
        public_key: row.try_get("public_key")?,
        lease: Duration::from_millis(u64::try_from(row.try_get::<i64, _>("lease")?).unwrap_or(0)),
        is_home: row.try_get::<i64, _>("is_home")? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    const LONG: Duration = Duration::from_mins(10);

    #[tokio::test]
    async fn a_replica_is_deposed_only_when_its_lease_is_over() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let one = table.join(&address, b"key", LONG).await.unwrap();
        let two = table.join(&address, b"other", Duration::ZERO).await.unwrap();
        assert!(one < two);
        let leases = table.list().await.unwrap().into_iter().map(|row| (row.number, row.lease.is_zero()));
        assert_eq!(leases.collect::<Vec<_>>(), [(one, false), (two, true)]);
        assert!(!table.depose(one).await.unwrap());
        assert!(table.depose(two).await.unwrap());
        assert!(!table.depose(two).await.unwrap(), "one of several deposes it");
        assert!(!table.renew(two, LONG).await.unwrap(), "and it learns so");
        let three = table.join(&address, b"third", LONG).await.unwrap();
        assert!(two < three, "a number is never used again");
    }

    #[tokio::test]
    async fn a_lease_that_is_over_may_be_renewed_while_nobody_has_deposed_the_replica() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let address = ReplicaAddress::parse("[fd00::5]:8701").unwrap();
        let number = table.join(&address, b"key", Duration::ZERO).await.unwrap();
        assert!(table.renew(number, LONG).await.unwrap());
        assert!(!table.depose(number).await.unwrap());
        let [row] = table.list().await.unwrap().try_into().unwrap();
        assert!(row.lease <= LONG && row.lease > LONG / 2);
        assert_eq!(
            row,
            ReplicaRow {
                number,
                address: Some(address),
                public_key: b"key".to_vec(),
                lease: row.lease,
                is_home: false
            }
        );
        table.leave(number).await.unwrap();
        assert!(table.list().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn one_replica_is_the_home_until_it_leaves() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let one = table.join(&address, b"key", LONG).await.unwrap();
        let two = table.join(&address, b"other", LONG).await.unwrap();
        let taken = tokio::join!(table.take_home(one), table.take_home(two));
        let (home, other) = if taken.0.unwrap() { (one, two) } else { (two, one) };
        assert_eq!(home == one, !taken.1.unwrap(), "one of two that want it at once has it");
        assert!(table.take_home(home).await.unwrap() && !table.take_home(other).await.unwrap());
        let homes =
            || async { table.list().await.unwrap().into_iter().filter(|row| row.is_home).map(|row| row.number) };
        assert_eq!(homes().await.collect::<Vec<_>>(), [home]);
        table.leave(home).await.unwrap();
        assert!(table.take_home(other).await.unwrap());
        assert!(!table.take_home(home).await.unwrap(), "one that is gone has nothing");
        assert_eq!(homes().await.collect::<Vec<_>>(), [other]);
    }
}
