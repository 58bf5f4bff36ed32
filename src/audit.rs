//! The audit trail (`OA-141`): what people, clients and the operator did, and what was refused. Knows nothing of HTTP.
//!
//! The one place that writes lines with the target `audit` and the rows of the table. Rows are written in batches, off
//! the path of calls; what a person or a stranger can cause is bounded, and the rest counted.

mod budget;
mod event;
mod line;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

pub use self::event::{
    AuditEvent, ClientEvent, GrantEvent, GrantParties, KeyEvent, LoginEvent, RefusalEvent, Revoker, ServerEvent,
    UserChange, UserEvent,
};
use self::{
    budget::{Budgets, Cost},
    line::AuditLine,
};
use crate::{
    storage::{AuditRow, AuditSearch, Storage, StorageError, StoredAuditRow},
    support::{Clock, log_context},
};

/// Maximum number of rows that wait to be written; further ones are counted.
const MAX_WAITING: usize = 10_000;
/// Maximum number of rows in the table; the oldest are deleted first.
const MAX_ROWS: u64 = 1_000_000;

/// The audit trail. Cheap to clone.
#[derive(Clone)]
pub struct Audit(Arc<Trail>);

struct Trail {
    storage: Storage,
    clock: Arc<dyn Clock>,
    state: Mutex<TrailState>,
}

#[derive(Default)]
struct TrailState {
    waiting: Vec<AuditRow>,
    budgets: Budgets,
    /// Events without a row of their own, by name, since they were counted last.
    counted: HashMap<&'static str, i64>,
}

// === impl Audit ===

impl Audit {
    /// The trail in this store.
    pub fn new(storage: Storage, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Trail { storage, clock, state: Mutex::default() }))
    }

    /// Records an event: a line in the log at once, and a row with the next [`Audit::write`]; or counts it.
    pub fn record(&self, event: impl Into<AuditEvent>) {
        let line = event.into().line();
        if self.add_row(&line) == Cost::Row {
            line.log();
        } else {
            metrics::counter!("lockkeeper_audit_events_counted_total", "event" => line.event).increment(1);
        }
    }

    fn add_row(&self, line: &AuditLine) -> Cost {
        let now = self.0.clock.now();
        let mut state = self.0.state.lock();
        let cost = state.budgets.take(line, now);
        if cost == Cost::Counted || state.waiting.len() >= MAX_WAITING {
            *state.counted.entry(line.event).or_default() += 1;
        } else {
            let request = log_context::current_request();
            state.waiting.push(line.row(now, request));
        }
        cost
    }

    /// Writes the rows that wait, and from time to time one row and one line for each kind of event that was counted.
    pub async fn write(&self) -> Result<(), StorageError> {
        let now = self.0.clock.now();
        let (mut rows, counted) = {
            let mut state = self.0.state.lock();
            let is_due = state.budgets.is_summary_due(now);
            let counted = if is_due { std::mem::take(&mut state.counted) } else { HashMap::new() };
            (std::mem::take(&mut state.waiting), counted)
        };
        for (event, count) in counted {
            AuditLine::summary(event).with("count", &count).log();
            rows.push(AuditLine::summary(event).counted(now, count));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.0.storage.audit().add(&rows).await;
        if written.is_err() {
            // tried again; what is recorded meanwhile comes after it
            let mut state = self.0.state.lock();
            let later = std::mem::replace(&mut state.waiting, rows);
            state.waiting.extend(later);
            state.waiting.truncate(MAX_WAITING);
        }
        written
    }

    /// Deletes the rows that are older than `retention`, and the oldest if there are too many.
    pub async fn purge(&self, retention: Duration) -> Result<(), StorageError> {
        self.0.storage.audit().purge(self.0.clock.now() - retention, MAX_ROWS).await
    }

    /// The rows that this search finds, oldest first.
    pub async fn find(&self, search: &AuditSearch) -> Result<Vec<StoredAuditRow>, StorageError> {
        self.0.storage.audit().find(search).await
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit(…)")
    }
}
