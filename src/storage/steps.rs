//! Work on many rows in small steps: each holds the lock of the database for a moment, and then others have it for longer. Knows
//! no table.

use std::time::Duration;

use sqlx::SqlSafeStr;
use tokio::time::{Instant, sleep};

use super::database::{Database, StorageError};

/// Maximum number of rows that one step changes.
pub(super) const STEP: i64 = 200;
/// After a step others have the database this many times as long as the step took.
const OTHERS: u32 = 3;
/// Shortest and longest pause after a step.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pauses between steps.
pub(super) struct Steps {
    since: Instant,
}

// === impl Steps ===

impl Steps {
    /// The first step begins.
    pub(super) fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// Lets others have the database; the next step begins.
    pub(super) async fn pause(&mut self) {
        sleep((self.since.elapsed() * OTHERS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        self.since = Instant::now();
    }

    /// The same after a step that changed `rows`; false if it was the last one, since it found fewer than it may change.
    pub(super) async fn go_on(&mut self, rows: u64) -> bool {
        let goes_on = rows >= STEP.unsigned_abs();
        if goes_on {
            self.pause().await;
        }
        goes_on
    }
}

// === impl Database ===

impl Database {
    /// Runs a statement until it finds nothing more; its last parameter is the number of rows that it may change. Returns the
    /// number of all.
    pub(super) async fn run_in_steps(
        &self,
        statement: impl SqlSafeStr,
        arguments: &[i64],
    ) -> Result<u64, StorageError> {
        let statement = statement.into_sql_str();
        let (mut steps, mut all) = (Steps::begin(), 0);
        loop {
            let query = arguments.iter().fold(sqlx::query(statement.clone()), |query, argument| query.bind(*argument));
            let rows = query.bind(STEP).execute(&self.pool).await?.rows_affected();
            all += rows;
            if !steps.go_on(rows).await {
                return Ok(all);
            }
        }
    }
}
