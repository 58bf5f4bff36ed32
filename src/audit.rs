//! The audit trail (`OA-141`): what people, clients and the operator did, and what was refused.
//!
//! The only place that writes log lines with the target `audit` and rows of the table. Rows are written in batches, off
//! the call path. The number of rows that a person or a stranger can cause is limited, and the rest is counted.

mod budget;
mod event;
mod line;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

pub use self::event::{
    AuditEvent, ClientEvent, GrantEvent, GrantParties, InvitationEvent, KeyEvent, LoginEvent, OperationEvent,
    RefusalEvent, Revoker, ServerEvent, UserChange, UserEvent,
};
use self::{
    budget::{Budgets, Cost},
    line::AuditLine,
};
use crate::{
    storage::{AuditRow, AuditSearch, Storage, StorageError, StoredAuditRow},
    support::{Clock, log_context},
};

/// Maximum number of rows waiting to be written; further ones are counted.
const MAX_WAITING: usize = 10_000;
/// Maximum number of rows added by one transaction.
const WRITTEN_AT_ONCE: usize = 500;
/// Maximum number of rows in the table; the oldest are deleted first.
const MAX_ROWS: u64 = 1_000_000;

/// The audit trail. Cheap to clone.
#[derive(Clone)]
pub struct Audit(Arc<Trail>);

struct Trail {
    storage: Storage,
    clock: Arc<dyn Clock>,
    /// The operating system user who runs a command, recorded as the author of all its events.
    operator: Option<String>,
    state: Mutex<TrailState>,
}

#[derive(Default)]
struct TrailState {
    waiting: VecDeque<AuditRow>,
    /// Number of rows being written; they count as waiting.
    taken: usize,
    budgets: Budgets,
    /// Number of events without a row of their own, by name, since the last summary.
    counted: HashMap<&'static str, i64>,
}

/// Rows being written. If it is dropped, the remaining rows go back to the front of the queue. An interrupted write may
/// have stored them, but storing a row twice is better than losing it.
struct TakenRows<'a> {
    state: &'a Mutex<TrailState>,
    rows: Vec<AuditRow>,
}

// === impl Audit ===

impl Audit {
    /// The trail in this store.
    pub fn new(storage: Storage, clock: Arc<dyn Clock>) -> Self {
        Self::of_command(storage, clock, None)
    }

    /// The same for a command run by this operating system user.
    pub fn of_command(storage: Storage, clock: Arc<dyn Clock>, operator: Option<String>) -> Self {
        Self(Arc::new(Trail { storage, clock, operator, state: Mutex::default() }))
    }

    /// Records an event: as a line in the log at once, and as a row with the next [`Audit::write`]; or counts it, in
    /// both.
    pub fn record(&self, event: impl Into<AuditEvent>) {
        let line = event.into().line();
        let line = self.0.operator.iter().fold(line, AuditLine::by_operator);
        if self.add_row(&line) == Cost::Row {
            line.log();
        } else {
            metrics::counter!("lockkeeper_audit_events_counted_total", "event" => line.event).increment(1);
        }
    }

    fn add_row(&self, line: &AuditLine) -> Cost {
        let now = self.0.clock.now();
        let mut state = self.0.state.lock();
        let is_full = state.waiting.len() + state.taken >= MAX_WAITING;
        if is_full || state.budgets.take(line, now) == Cost::Counted {
            *state.counted.entry(line.event).or_default() += 1;
            return Cost::Counted;
        }
        state.waiting.push_back(line.row(now, log_context::current_request().as_deref()));
        Cost::Row
    }

    /// Writes the waiting rows, and from time to time one row and one line for each kind of counted event.
    pub async fn write(&self) -> Result<(), StorageError> {
        self.count_up();
        while let Some(taken) = self.take() {
            taken.write(&self.0.storage).await?;
        }
        Ok(())
    }

    /// Adds a row and a line for the counted events, if that is due.
    fn count_up(&self) {
        let now = self.0.clock.now();
        let counted = {
            let mut state = self.0.state.lock();
            if state.budgets.is_summary_due(now) { std::mem::take(&mut state.counted) } else { HashMap::new() }
        };
        for (event, count) in counted {
            AuditLine::summary(event).with("count", &count).log();
            self.0.state.lock().waiting.push_back(AuditLine::summary(event).counted(now, count));
        }
    }

    fn take(&self) -> Option<TakenRows<'_>> {
        let mut state = self.0.state.lock();
        let count = state.waiting.len().min(WRITTEN_AT_ONCE);
        let rows: Vec<AuditRow> = state.waiting.drain(..count).collect();
        state.taken += rows.len();
        drop(state);
        (!rows.is_empty()).then_some(TakenRows { state: &self.0.state, rows })
    }

    /// Deletes rows older than `retention`, and the oldest ones if there are too many.
    pub async fn purge(&self, retention: Duration) -> Result<(), StorageError> {
        self.0.storage.for_purges().audit().purge(self.0.clock.now() - retention, MAX_ROWS).await
    }

    /// The rows that match this search, oldest first.
    pub async fn find(&self, search: &AuditSearch) -> Result<Vec<StoredAuditRow>, StorageError> {
        self.0.storage.audit().find(search).await
    }
}

// === impl TakenRows ===

impl TakenRows<'_> {
    async fn write(mut self, storage: &Storage) -> Result<(), StorageError> {
        storage.audit().add(&self.rows).await?;
        let mut state = self.state.lock();
        state.taken -= std::mem::take(&mut self.rows).len();
        Ok(())
    }
}

impl Drop for TakenRows<'_> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.taken -= self.rows.len();
        self.rows.drain(..).rev().for_each(|row| state.waiting.push_front(row));
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit(…)")
    }
}
