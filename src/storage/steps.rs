//! Work on many rows in small steps: each holds the lock of the database for a moment, and then leaves it to others for
//! longer.

use std::time::Duration;

use sqlx::SqlSafeStr;
use tokio::time::{Instant, sleep};

use super::database::{Database, Engine, StorageError};

/// Number of rows that the first step may change.
const FIRST: i64 = 50;
/// Shortest and longest pause after a step.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The sizes of steps, and the pauses between them.
pub(super) struct Steps {
    bounds: StepBounds,
    since: Instant,
    rows: i64,
}

/// Bounds for the size of steps on an engine.
struct StepBounds {
    fewest: i64,
    most: i64,
    /// The target duration of a step.
    aim: Duration,
    /// After a step, others have the database for this many times its duration.
    others: u32,
}

/// Code waiting for the lock of the file retries after 1, 2, 5, 10 and more milliseconds, up to 100: it would meet
/// longer steps twice.
const SQLITE: StepBounds = StepBounds { fewest: 10, most: 400, aim: Duration::from_millis(4), others: 3 };

const POSTGRESQL: StepBounds = StepBounds { fewest: 100, most: 400, aim: Duration::from_millis(20), others: 1 };

// === impl Steps ===

impl Steps {
    /// The first step begins.
    pub(super) fn begin(engine: Engine) -> Self {
        let bounds = match engine {
            Engine::Sqlite => SQLITE,
            Engine::PostgreSql => POSTGRESQL,
        };
        Self { rows: FIRST.max(bounds.fewest), bounds, since: Instant::now() }
    }

    /// Maximum number of rows that the step changes.
    pub(super) const fn rows(&self) -> i64 {
        self.rows
    }

    /// Leaves the database to others, and begins the next step, larger or smaller depending on this one's duration.
    pub(super) async fn pause(&mut self) {
        let StepBounds { fewest, most, aim, others } = self.bounds;
        let took = self.since.elapsed();
        self.rows = match took {
            short if short < aim / 2 => self.rows * 2,
            long if long > aim * 2 => self.rows / 2,
            _ => self.rows,
        };
        self.rows = self.rows.clamp(fewest, most);
        sleep((took * others).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        self.since = Instant::now();
    }

    /// The same after a step that changed `rows`; false if it was the last one, since it found fewer rows than it may
    /// change.
    pub(super) async fn go_on(&mut self, rows: u64) -> bool {
        let goes_on = rows >= self.rows.unsigned_abs();
        if goes_on {
            self.pause().await;
        }
        goes_on
    }
}

// === impl Database ===

impl Database {
    /// Runs a statement until it finds no more rows; its last parameter is the number of rows it may change. Returns
    /// the total.
    pub(super) async fn run_in_steps(
        &self,
        statement: impl SqlSafeStr,
        arguments: &[i64],
    ) -> Result<u64, StorageError> {
        self.run_in(&mut Steps::begin(self.engine), statement, arguments).await
    }

    /// The same within longer work, whose steps continue after it.
    pub(super) async fn run_in(
        &self,
        steps: &mut Steps,
        statement: impl SqlSafeStr,
        arguments: &[i64],
    ) -> Result<u64, StorageError> {
        let (statement, mut all) = (statement.into_sql_str(), 0);
        loop {
            let query = arguments.iter().fold(sqlx::query(statement.clone()), |query, argument| query.bind(*argument));
            let rows = query.bind(steps.rows()).execute(&self.pool).await?.rows_affected();
            all += rows;
            if !steps.go_on(rows).await {
                return Ok(all);
            }
        }
    }
}
