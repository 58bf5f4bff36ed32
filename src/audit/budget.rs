//! Bounds on the rows, and the lines of the log, that one person, or all strangers, can cause. Know nothing of what is
//! recorded.

use std::{collections::HashMap, time::Duration};

use super::line::AuditLine;
use crate::support::Timestamp;

/// Rows that strangers cause at once with one kind of event; then one in each [`STRANGERS_EVERY`].
const STRANGERS_BURST: u32 = 100;
/// A thousand rows of a kind in a day.
const STRANGERS_EVERY: Duration = Duration::from_secs(90);
/// Rows that one user causes at once with one kind of event; then one in each [`USER_EVERY`].
const USER_BURST: u32 = 1_000;
/// Nine thousand rows of a kind in a day.
const USER_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of remembered budgets; if there are more, those that are full again are forgotten.
const MAX_BUDGETS: usize = 4_096;
/// Interval between rows that count what has no row of its own.
const SUMMARY_EVERY: Duration = Duration::from_mins(10);

/// Cost of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// A row and a line of its own.
    Row,
    /// It is only counted.
    Counted,
}

/// The budgets, by kind of event and user.
#[derive(Default)]
pub(super) struct Budgets {
    by_cause: HashMap<(&'static str, Option<String>), Budget>,
    summarised: Option<Timestamp>,
}

struct Budget {
    left: u32,
    filled: Timestamp,
}

// === impl Budgets ===

impl Budgets {
    /// Takes the cost of a row.
    pub(super) fn take(&mut self, line: &AuditLine, now: Timestamp) -> Cost {
        let user = line.user().map(str::to_owned);
        let (burst, every) = if user.is_some() { (USER_BURST, USER_EVERY) } else { (STRANGERS_BURST, STRANGERS_EVERY) };
        if self.by_cause.len() >= MAX_BUDGETS {
            self.by_cause.retain(|_, budget| now.since(budget.filled) < USER_EVERY * USER_BURST);
        }
        if self.by_cause.len() >= MAX_BUDGETS && !self.by_cause.contains_key(&(line.event, user.clone())) {
            return Cost::Counted;
        }
        let budget = self.by_cause.entry((line.event, user)).or_insert(Budget { left: burst, filled: now });
        let earned = u32::try_from(now.since(budget.filled).as_millis() / every.as_millis()).unwrap_or(u32::MAX);
        if earned > 0 {
            budget.left = budget.left.saturating_add(earned).min(burst);
            budget.filled = now;
        }
        match budget.left.checked_sub(1) {
            Some(left) => {
                budget.left = left;
                Cost::Row
            }
            None => Cost::Counted,
        }
    }

    /// True once in each interval.
    pub(super) fn is_summary_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.summarised.is_none_or(|last| now.since(last) >= SUMMARY_EVERY);
        if is_due {
            self.summarised = Some(now);
        }
        is_due
    }
}
