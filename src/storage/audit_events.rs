//! The audit trail.

use sqlx::{AssertSqlSafe, Row as _, any::AnyRow};

use super::{
    database::{Database, StorageError, moment},
    named_rows::places,
    steps::Steps,
};
use crate::support::Timestamp;

/// Age from which a row can be deleted: a trigger refuses earlier deletions.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;
/// Number of rows added by one statement.
const ADDED_AT_ONCE: usize = 100;

/// The audit trail. Rows are added, and the oldest ones deleted; triggers refuse everything else.
#[derive(Debug, Clone, Copy)]
pub struct AuditTable<'a>(pub(super) &'a Database);

/// A new row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub at: Timestamp,
    /// The name of the event.
    pub event: String,
    pub user: Option<String>,
    pub client: Option<String>,
    /// The correlation id of the request.
    pub request: Option<String>,
    /// Further names and texts, as a JSON object.
    pub fields: String,
    /// The number of events that it counts for.
    pub count: i64,
}

/// A row, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAuditRow {
    /// Its number: later rows have greater ones.
    pub sequence: i64,
    pub row: AuditRow,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSearch {
    /// Only rows after this number.
    pub after: i64,
    /// Only rows from this moment on.
    pub since: Option<Timestamp>,
    /// Only events of this user.
    pub user: Option<String>,
    /// Only events of this client.
    pub client: Option<String>,
    /// Only this kind of event.
    pub event: Option<String>,
    /// Only events of the request with this correlation id.
    pub request: Option<String>,
    /// The newest of them, at most this many.
    pub limit: u32,
}

impl AuditTable<'_> {
    /// Adds rows, in order.
    pub async fn add(&self, rows: &[AuditRow]) -> Result<(), StorageError> {
        let mut change = self.0.change().await?;
        for rows in rows.chunks(ADDED_AT_ONCE) {
            let values: Vec<String> = (0..rows.len()).map(|row| format!("({})", places(row * 7 + 1, 7))).collect();
            let text = format!(
                "INSERT INTO audit_events (at, event, user_id, client, request, fields, count) VALUES {}",
                values.join(", ")
            );
            let mut query = sqlx::query(AssertSqlSafe(text)).persistent(false);
            for row in rows {
                query = query
                    .bind(row.at.as_millis())
                    .bind(&row.event)
                    .bind(&row.user)
                    .bind(&row.client)
                    .bind(&row.request)
                    .bind(&row.fields)
                    .bind(row.count);
            }
            query.execute(&mut *change).await?;
        }
        Ok(change.commit().await?)
    }

    /// The newest rows of a search, oldest first.
    pub async fn find(&self, search: &AuditSearch) -> Result<Vec<StoredAuditRow>, StorageError> {
        let named = [
            ("user_id", &search.user),
            ("client", &search.client),
            ("event", &search.event),
            ("request", &search.request),
        ];
        let given = named.into_iter().filter_map(|(column, value)| Some((column, value.as_deref()?)));
        let given: Vec<(&str, &str)> = given.collect();
        let mut text = "SELECT sequence, at, event, user_id, client, request, fields, count FROM audit_events
                        WHERE sequence > $1 AND at >= $2"
            .to_owned();
        for (number, (column, _)) in (4_usize..).zip(&given) {
            text.extend([" AND ", column, " = $", &number.to_string()]);
        }
        text.push_str(" ORDER BY sequence DESC LIMIT $3");
        let since = search.since.map_or(i64::MIN, Timestamp::as_millis);
        // only the fixed texts: values are bound
        let query = sqlx::query(AssertSqlSafe(text)).bind(search.after).bind(since).bind(i64::from(search.limit));
        let query = given.iter().fold(query, |query, (_, value)| query.bind(*value));
        let mut rows: Vec<StoredAuditRow> =
            query.fetch_all(&self.0.pool).await?.iter().map(stored).collect::<Result<_, _>>()?;
        rows.reverse();
        Ok(rows)
    }

    /// Deletes the rows from before `until`, and the oldest ones beyond `most`, up to the first row that must be kept.
    /// Deletes a few at a time, and leaves the database to others in between.
    pub async fn purge(&self, until: Timestamp, most: u64) -> Result<(), StorageError> {
        let ends = "SELECT (SELECT max(at) FROM audit_events), (SELECT max(sequence) FROM audit_events)";
        let ends: (Option<i64>, Option<i64>) = sqlx::query_as(ends).fetch_one(&self.0.pool).await?;
        let (Some(newest), Some(last)) = ends else { return Ok(()) };
        let first_beyond: Option<i64> =
            sqlx::query_scalar("SELECT at FROM audit_events WHERE sequence <= $1 ORDER BY sequence DESC LIMIT 1")
                .bind(last.saturating_sub_unsigned(most))
                .fetch_optional(&self.0.pool)
                .await?;
        // including the one just beyond
        let until = first_beyond.map_or(until.as_millis(), |at| until.as_millis().max(at + 1)).min(newest - KEPT);
        let mut steps = Steps::begin(self.0.engine);
        loop {
            let oldest: Vec<(i64, i64)> =
                sqlx::query_as("SELECT sequence, at FROM audit_events ORDER BY sequence LIMIT $1")
                    .bind(steps.rows())
                    .fetch_all(&self.0.pool)
                    .await?;
            let Some((end, _)) = oldest.into_iter().take_while(|(_, at)| *at < until).last() else { return Ok(()) };
            let done = sqlx::query("DELETE FROM audit_events WHERE sequence <= $1").bind(end).execute(&self.0.pool);
            if !steps.go_on(done.await?.rows_affected()).await {
                return Ok(());
            }
        }
    }
}

fn stored(row: &AnyRow) -> Result<StoredAuditRow, sqlx::Error> {
    let at: i64 = row.try_get("at")?;
    Ok(StoredAuditRow {
        sequence: row.try_get("sequence")?,
        row: AuditRow {
            at: moment(at),
            event: row.try_get("event")?,
            user: row.try_get("user_id")?,
            client: row.try_get("client")?,
            request: row.try_get("request")?,
            fields: row.try_get("fields")?,
            count: row.try_get("count")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::{Storage, database::Engine};

    const DAY: Duration = Duration::from_hours(24);

    fn row(day: u32) -> AuditRow {
        let at = Timestamp::from_seconds(0) + DAY * day;
        let (user, client, request, fields) = (Some("ann".to_owned()), None, None, "{}".to_owned());
        AuditRow { at, event: "login".to_owned(), user, client, request, fields, count: 1 }
    }

    async fn days(storage: &Storage) -> Vec<i64> {
        let search = AuditSearch { limit: 1_000, ..AuditSearch::default() };
        let rows = storage.audit().find(&search).await.unwrap();
        rows.iter().map(|row| row.row.at.as_seconds() / 86_400).collect()
    }

    #[tokio::test]
    async fn oa_141_rows_are_neither_changed_nor_deleted_but_from_the_old_end() {
        let storage = Storage::empty().await;
        storage.audit().add(&[1, 2, 3, 20, 30].map(row)).await.unwrap();
        for wrong in [
            "UPDATE audit_events SET user_id = 'bob'",
            "DELETE FROM audit_events",
            "DELETE FROM audit_events WHERE sequence = 2",
            "DELETE FROM audit_events WHERE sequence = 5",
            "REPLACE INTO audit_events SELECT * FROM audit_events WHERE sequence = 2",
        ] {
            let refused = sqlx::query(wrong).execute(&storage.database.pool).await.unwrap_err().to_string();
            let unknown = storage.database.engine == Engine::PostgreSql && wrong.starts_with("REPLACE");
            assert!(unknown || refused.contains("append-only"), "{wrong}: {refused}");
        }
        assert_eq!(days(&storage).await, [1, 2, 3, 20, 30]);
    }

    #[tokio::test]
    async fn rows_end_by_age_and_by_number_and_the_last_week_stays() {
        let storage = Storage::empty().await;
        let purge = async |day: u32, most| {
            storage.audit().purge(Timestamp::from_seconds(0) + DAY * day, most).await.unwrap();
            days(&storage).await
        };
        assert_eq!(purge(9, 0).await, [0_i64; 0]);
        storage.audit().add(&[1, 2, 3, 20, 30, 31, 40].map(row)).await.unwrap();
        assert_eq!(purge(2, 100).await, [2, 3, 20, 30, 31, 40]);
        assert_eq!(purge(2, 4).await, [20, 30, 31, 40]);
        assert_eq!(purge(40, 0).await, [40]);
    }
}
