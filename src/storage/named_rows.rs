//! Statements about many rows that are named. Knows no table.

use sqlx::AssertSqlSafe;

use super::database::{Database, StorageError};
use crate::support::Timestamp;

/// Maximum number of rows that one statement names.
pub(super) const AT_ONCE: usize = 1_000;

/// So many places for values, from `$first` on.
pub(super) fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

// === impl Database ===

impl Database {
    /// Runs a statement about the rows with these names, once for each thousand of them: `statement` makes it of the places of
    /// the names, and the time is `$1`.
    pub(super) async fn run_for_named(
        &self,
        statement: impl Fn(&str) -> String,
        names: &[&str],
        now: Timestamp,
    ) -> Result<(), StorageError> {
        for names in names.chunks(AT_ONCE) {
            let text = AssertSqlSafe(statement(&places(2, names.len())));
            let query = sqlx::query(text).persistent(false).bind(now.as_millis());
            names.iter().fold(query, |query, name| query.bind(*name)).execute(&self.pool).await?;
        }
        Ok(())
    }
}
