//! Replicas and their leases. The database's clock stamps each renewal; watchers measure a lease's length with their
//! own clock, so that no clock step ends a lease.

use std::time::Duration;

use sqlx::{Row as _, any::AnyRow};

use super::database::{Database, StorageError};
use crate::{
    model::{ClockDifference, ReplicaAddress, ReplicaNumber},
    support::Timestamp,
};

/// A replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRow {
    pub number: ReplicaNumber,
    /// Address for the other replicas; `None` if the column is unreadable.
    pub address: Option<ReplicaAddress>,
    /// The key that it proves to hold, as a `SubjectPublicKeyInfo` (RFC 5280 4.1.2.7) in DER.
    pub public_key: Vec<u8>,
    /// The last renewal of its lease.
    pub renewal: LeaseRenewal,
    /// Its clock at that renewal; `None` if it does not report one.
    pub clock: Option<ClockDifference>,
    /// True for the replica that runs the shared servers.
    pub is_home: bool,
}

/// One renewal of a lease, different from all others of the same replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRenewal(i64);

/// Replicas. A row exists until its replica leaves or is deposed: state under a number without a row has no owner.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaTable<'a>(pub(super) &'a Database);

impl ReplicaTable<'_> {
    /// The time of the database.
    pub async fn clock(&self) -> Result<Timestamp, StorageError> {
        let text = format!("SELECT {}", self.0.engine.now());
        let now = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_one(&self.0.pool).await?;
        Ok(Timestamp::from_millis(now))
    }

    /// Adds a replica whose clock shows `clock`, and returns its number.
    pub async fn join(
        &self,
        address: &ReplicaAddress,
        public_key: &[u8],
        lease: Duration,
        clock: Timestamp,
    ) -> Result<ReplicaNumber, StorageError> {
        let now = self.0.engine.now();
        let text = format!(
            "INSERT INTO replicas (address, public_key, lease_until, clock_ahead)
             VALUES ($1, $2, {now} + $3, $4 - {now}) RETURNING number"
        );
        let added = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).bind(address.as_str()).bind(public_key);
        let number = added.bind(millis(lease)).bind(clock.as_millis()).fetch_one(&self.0.pool).await?;
        Ok(ReplicaNumber::new(number))
    }

    /// Renews the lease of a replica whose clock shows `clock`, even if it is over. Returns how far that clock is ahead
    /// of the database's when the statement runs; `None` if the replica was deposed.
    pub async fn renew(
        &self,
        number: ReplicaNumber,
        lease: Duration,
        clock: Timestamp,
    ) -> Result<Option<ClockDifference>, StorageError> {
        let now = self.0.engine.now();
        let text = format!(
            "UPDATE replicas SET lease_until = {now} + $1, clock_ahead = $2 - {now} WHERE number = $3 RETURNING clock_ahead"
        );
        let renewed = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).bind(millis(lease)).bind(clock.as_millis());
        let ahead: Option<i64> = renewed.bind(number.get()).fetch_optional(&self.0.pool).await?;
        Ok(ahead.map(ClockDifference::from_millis))
    }

    /// True until a replica has left or was deposed.
    pub async fn is_there(&self, number: ReplicaNumber) -> Result<bool, StorageError> {
        let found = sqlx::query("SELECT 1 FROM replicas WHERE number = $1").bind(number.get());
        Ok(found.fetch_optional(&self.0.pool).await?.is_some())
    }

    /// All replicas.
    pub async fn list(&self) -> Result<Vec<ReplicaRow>, StorageError> {
        let text =
            "SELECT number, address, public_key, lease_until, clock_ahead, is_home FROM replicas ORDER BY number";
        sqlx::query(text).fetch_all(&self.0.pool).await?.iter().map(read).collect()
    }

    /// Makes a replica the home of the shared servers; `false` if another is, or this one was deposed.
    pub async fn take_home(&self, number: ReplicaNumber) -> Result<bool, StorageError> {
        let text = "UPDATE replicas SET is_home = 1 WHERE number = $1 \
                    AND NOT EXISTS (SELECT 1 FROM replicas WHERE is_home = 1 AND number <> $1)";
        match sqlx::query(text).bind(number.get()).execute(&self.0.pool).await {
            Ok(taken) => Ok(taken.rows_affected() > 0),
            // two replicas at once
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a replica whose lease is over, with this last renewal; `false` if it has renewed it since, or is already
    /// gone.
    pub async fn depose(&self, number: ReplicaNumber, last: LeaseRenewal) -> Result<bool, StorageError> {
        let deposed = sqlx::query("DELETE FROM replicas WHERE number = $1 AND lease_until = $2");
        let deposed = deposed.bind(number.get()).bind(last.0).execute(&self.0.pool).await?;
        Ok(deposed.rows_affected() > 0)
    }

    /// Removes a replica at its end.
    pub async fn leave(&self, number: ReplicaNumber) -> Result<(), StorageError> {
        let left = sqlx::query("DELETE FROM replicas WHERE number = $1").bind(number.get());
        left.execute(&self.0.pool).await?;
        Ok(())
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
        renewal: LeaseRenewal(row.try_get("lease_until")?),
        clock: row.try_get::<Option<i64>, _>("clock_ahead")?.map(ClockDifference::from_millis),
        is_home: row.try_get::<i64, _>("is_home")? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    const LONG: Duration = Duration::from_mins(10);

    const NOW: Timestamp = Timestamp::from_millis(0);

    async fn join(table: &ReplicaTable<'_>, address: &str) -> ReplicaNumber {
        let address = ReplicaAddress::parse(address).unwrap();
        table.join(&address, b"key", LONG, NOW).await.unwrap()
    }

    #[tokio::test]
    async fn a_replica_is_deposed_only_if_it_has_not_renewed_its_lease() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let one = join(&table, "10.0.0.5:8701").await;
        let two = join(&table, "[fd00::5]:8701").await;
        assert!(one < two);
        let [first, second] = table.list().await.unwrap().try_into().unwrap();
        assert_eq!(second.address.unwrap().as_str(), "[fd00::5]:8701");
        // the database counts milliseconds
        while table.list().await.unwrap()[0].renewal == first.renewal {
            assert!(table.renew(one, LONG, NOW).await.unwrap().is_some());
        }
        assert!(!table.depose(one, first.renewal).await.unwrap(), "it has renewed the lease");
        assert!(table.is_there(one).await.unwrap() && table.is_there(two).await.unwrap());
        assert!(table.depose(two, second.renewal).await.unwrap());
        assert!(!table.depose(two, second.renewal).await.unwrap(), "one of several deposes it");
        assert_eq!(table.renew(two, LONG, NOW).await.unwrap(), None, "and it learns so");
        assert!(!table.is_there(two).await.unwrap());
        let three = join(&table, "10.0.0.5:8701").await;
        assert!(two < three, "a number is never used again");
        table.leave(one).await.unwrap();
        table.leave(three).await.unwrap();
        assert!(table.list().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_replica_tells_how_far_its_clock_is_ahead() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let ahead = |seconds| async move { Ok::<_, StorageError>(table.clock().await? + Duration::from_secs(seconds)) };
        let address = ReplicaAddress::parse("10.0.0.5:8701").unwrap();
        let number = table.join(&address, b"key", LONG, ahead(100).await.unwrap()).await.unwrap();
        let told = table.list().await.unwrap()[0].clock.unwrap().as_millis();
        assert!((90_000..=100_000).contains(&told), "{told}");
        let renewed = table.renew(number, LONG, ahead(200).await.unwrap()).await.unwrap().unwrap();
        assert_eq!(table.list().await.unwrap()[0].clock, Some(renewed));
        assert!((190_000..=200_000).contains(&renewed.as_millis()), "{renewed:?}");
        storage.poison("UPDATE replicas SET clock_ahead = NULL").await;
        assert_eq!(table.list().await.unwrap()[0].clock, None, "one of an older version");
    }

    #[tokio::test]
    async fn one_replica_is_the_home_until_it_leaves() {
        let storage = Storage::empty().await;
        let table = storage.replicas();
        let one = join(&table, "10.0.0.5:8701").await;
        let two = join(&table, "10.0.0.6:8701").await;
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
