//! Limits on how many rows and log lines one person, all strangers, or a crowd can cause.

use std::{collections::HashMap, time::Duration};

use super::line::AuditLine;
use crate::support::Timestamp;

/// Rows that strangers can cause with one kind of event.
const STRANGERS: Allowance = Allowance { burst: 100, every: Duration::from_secs(90) };
/// Rows that one user can cause with one kind of event.
const USER: Allowance = Allowance { burst: 1_000, every: Duration::from_secs(10) };
/// Rows that all users beyond [`MAX_BUDGETS`] together can cause with one kind of event.
const CROWD: Allowance = Allowance { burst: 10_000, every: Duration::from_millis(100) };
/// Maximum number of remembered user budgets. A budget that is full again is forgotten: a new one allows the same.
const MAX_BUDGETS: usize = 4_096;
/// Minimum time between two searches for budgets to forget.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(1);
/// Interval between rows that count events without a row of their own.
const SUMMARY_EVERY: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    Row,
    Counted,
}

/// The budgets, by kind of event and user.
#[derive(Default)]
pub(super) struct Budgets {
    by_user: HashMap<(&'static str, String), Budget>,
    of_strangers: HashMap<&'static str, Budget>,
    of_crowd: HashMap<&'static str, Budget>,
    forgot: Option<Timestamp>,
    summarised: Option<Timestamp>,
}

/// Allowed rows: `burst` at once, then one every `every`.
struct Allowance {
    burst: u32,
    every: Duration,
}

struct Budget {
    left: u32,
    /// Time of the last refill.
    filled: Timestamp,
}

// === impl Budgets ===

impl Budgets {
    /// Takes the cost of a row from the budgets.
    pub(super) fn take(&mut self, line: &AuditLine, now: Timestamp) -> Cost {
        let Some(user) = line.cause() else {
            return self
                .of_strangers
                .entry(line.event)
                .or_insert_with(|| Budget::full(&STRANGERS, now))
                .take(&STRANGERS, now);
        };
        let key = (line.event, user.to_owned());
        if let Some(budget) = self.by_user.get_mut(&key) {
            return budget.take(&USER, now);
        }
        if self.by_user.len() >= MAX_BUDGETS && self.forgot.is_none_or(|last| now.since(last) >= FORGOTTEN_EVERY) {
            self.forgot = Some(now);
            self.by_user.retain(|_, budget| !budget.is_full(&USER, now));
        }
        if self.by_user.len() >= MAX_BUDGETS {
            return self.of_crowd.entry(line.event).or_insert_with(|| Budget::full(&CROWD, now)).take(&CROWD, now);
        }
        self.by_user.entry(key).or_insert_with(|| Budget::full(&USER, now)).take(&USER, now)
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

// === impl Budget ===

impl Budget {
    const fn full(allowance: &Allowance, now: Timestamp) -> Self {
        Self { left: allowance.burst, filled: now }
    }

    fn take(&mut self, allowance: &Allowance, now: Timestamp) -> Cost {
        let earned = self.earned(allowance, now);
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(allowance.burst);
            self.filled = self.filled + allowance.every * earned;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Cost::Row
            }
            None => Cost::Counted,
        }
    }

    /// True if it allows as much as a new one.
    fn is_full(&self, allowance: &Allowance, now: Timestamp) -> bool {
        self.left.saturating_add(self.earned(allowance, now)) >= allowance.burst
    }

    fn earned(&self, allowance: &Allowance, now: Timestamp) -> u32 {
        u32::try_from(now.since(self.filled).as_millis() / allowance.every.as_millis()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_000_000);

    fn rows(budgets: &mut Budgets, user: &str, now: Timestamp) -> bool {
        budgets.take(&AuditLine::new("login", "login").with("user", user), now) == Cost::Row
    }

    #[test]
    fn a_crowd_beyond_the_remembered_budgets_shares_one_and_a_full_budget_is_forgotten() {
        let mut budgets = Budgets::default();
        let crowd = usize::try_from(CROWD.burst).unwrap() + MAX_BUDGETS;
        let told = |budgets: &mut Budgets, first: usize, now| {
            (first..first + crowd + 500).filter(|user| rows(budgets, &format!("user {user}"), now)).count()
        };
        assert_eq!(told(&mut budgets, 0, START), crowd);
        assert!(rows(&mut budgets, "user 7", START), "who has a budget uses that");
        assert_eq!(budgets.by_user.len(), MAX_BUDGETS);
        // each has used one row of a thousand: ten seconds later the budgets are as new ones
        let later = START + USER.every + FORGOTTEN_EVERY;
        assert!(rows(&mut budgets, "somebody", later));
        assert_eq!(budgets.by_user.len(), 2, "of those who came once, nobody; one came twice");
    }

    #[test]
    fn an_operator_is_no_stranger() {
        let mut budgets = Budgets::default();
        let mut rows = |line: &AuditLine| (0..500).filter(|_| budgets.take(line, START) == Cost::Row).count();
        let read = || AuditLine::new("output_read", "output of a server read");
        assert_eq!(rows(&read()), 100);
        assert_eq!(rows(&read().by_operator(&"root".to_owned())), 500, "each use has its row");
    }

    #[test]
    fn a_stranger_with_an_old_key_takes_nothing_from_its_user() {
        let mut budgets = Budgets::default();
        let refused = || AuditLine::new("key_refused", "refused").with("user", "ann").of_stranger();
        assert_eq!((0..500).filter(|_| budgets.take(&refused(), START) == Cost::Row).count(), 100);
        let spent = (0..2_000).filter(|_| rows(&mut budgets, "ann", START)).count();
        assert_eq!(spent, 1_000, "her own allowance is whole");
    }

    #[test]
    fn a_budget_earns_one_row_in_each_period_and_keeps_the_rest_of_a_period() {
        let mut budgets = Budgets::default();
        let spent = (0..2_000).filter(|_| rows(&mut budgets, "eve", START)).count();
        assert_eq!(spent, 1_000);
        let at = |seconds| START + Duration::from_secs(seconds);
        assert!(!rows(&mut budgets, "eve", at(9)));
        assert!(rows(&mut budgets, "eve", at(19)) && !rows(&mut budgets, "eve", at(19)));
        assert!(rows(&mut budgets, "eve", at(20)), "nine seconds of the second period were over");
    }
}
