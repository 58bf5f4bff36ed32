//! Statements about many named rows.

use sqlx::AssertSqlSafe;

use super::database::{Database, StorageError};
use crate::support::Timestamp;

/// Maximum number of rows named in one statement.
pub(super) const AT_ONCE: usize = 1_000;

/// Placeholders for so many values, from `$first` on.
pub(super) fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

// === impl Database ===

impl Database {
    /// Runs a statement about the rows with these names, once for each thousand: `statement` builds it from the
    /// placeholders of the names, and the time is `$1`.
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
