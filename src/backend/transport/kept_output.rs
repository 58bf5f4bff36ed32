//! Lines that the programs of one backend printed outside of their messages, kept for the operator across restarts. If
//! there are too many, the owner with the most loses the oldest.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use crate::{
    model::{
        UserId,
        status::{KeptLine, OutputLine},
    },
    support::{Account, Clock, Timestamp, memory::Charge},
};

/// Maximum number of lines for one backend.
const MAX_KEPT: usize = 1_000;
/// Maximum size of all lines of one backend, in bytes.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// Bytes charged for a line in addition to its text.
const OVERHEAD: usize = 80;

/// Lines of one backend. Clones share them.
#[derive(Clone)]
pub(crate) struct KeptOutput(Arc<KeptState>);

struct KeptState {
    lines: Mutex<KeptLines>,
    /// Number of the last line.
    last: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
}

struct KeptLines {
    lines: VecDeque<StoredLine>,
    /// Bytes by user; `None` for processes that users share.
    held: HashMap<Option<UserId>, usize>,
    charge: Charge,
}

struct StoredLine {
    number: u64,
    at: Timestamp,
    owner: Option<UserId>,
    line: OutputLine,
}

// === impl KeptOutput ===

impl KeptOutput {
    pub(crate) fn new(account: Account, clock: &Arc<dyn Clock>) -> Self {
        let lines = KeptLines { lines: VecDeque::new(), held: HashMap::new(), charge: Charge::nothing(account) };
        Self(Arc::new(KeptState { lines: Mutex::new(lines), last: watch::Sender::new(0), clock: Arc::clone(clock) }))
    }

    /// Keeps a line from a process of `owner`, or of several users (`None`). Without memory for it, the line is lost.
    pub(crate) fn push(&self, owner: Option<&UserId>, line: OutputLine) {
        let mut kept = self.0.lines.lock();
        if kept.makes_room(size(&line)) {
            let number = *self.0.last.borrow() + 1;
            kept.add(StoredLine { number, at: self.0.clock.now(), owner: owner.cloned(), line });
            // under the lock, so that numbers are in order
            self.0.last.send_replace(number);
        }
    }

    /// Removes the lines of a user who has left.
    pub(crate) fn forget(&self, user: &UserId) {
        let mut kept = self.0.lines.lock();
        while let Some(at) = kept.lines.iter().position(|line| line.owner.as_ref() == Some(user)) {
            kept.remove(at);
        }
    }

    /// Lines after the number `number`, oldest first. If there are none, waits for the next line, for at most
    /// `patience`.
    pub(crate) async fn after(&self, number: u64, patience: Duration) -> Vec<KeptLine> {
        let mut last = self.0.last.subscribe();
        // the number is from before the server was replaced
        let number = if number > *last.borrow() { 0 } else { number };
        let _ = timeout(patience, last.wait_for(|last| *last > number)).await;
        let kept = self.0.lines.lock();
        let later = kept.lines.iter().filter(|line| line.number > number);
        later.map(StoredLine::shown).collect()
    }
}

fn size(line: &OutputLine) -> usize {
    line.text.len() + OVERHEAD
}

// === impl KeptLines ===

impl KeptLines {
    /// Makes room for a line; false if there is no memory for it.
    fn makes_room(&mut self, size: usize) -> bool {
        while self.lines.len() >= MAX_KEPT || self.charge.bytes() + size > MAX_KEPT_BYTES {
            self.drop_oldest();
        }
        if self.charge.grow(size).is_ok() {
            return true;
        }
        // memory is short, so drop all lines
        self.lines.clear();
        self.held.clear();
        self.charge.clear();
        self.charge.grow(size).is_ok()
    }

    /// Adds a line that is already charged.
    fn add(&mut self, line: StoredLine) {
        *self.held.entry(line.owner.clone()).or_default() += size(&line.line);
        self.lines.push_back(line);
    }

    /// Removes the oldest line of the owner with the most bytes.
    fn drop_oldest(&mut self) {
        let most = self.held.iter().max_by_key(|(_, held)| **held).map(|(owner, _)| owner.clone());
        let at = most.and_then(|owner| self.lines.iter().position(|line| line.owner == owner));
        self.remove(at.unwrap_or_default());
    }

    fn remove(&mut self, at: usize) {
        let Some(line) = self.lines.remove(at) else { return };
        let size = size(&line.line);
        self.charge.shrink(size);
        if let Some(held) = self.held.get_mut(&line.owner) {
            *held -= size;
            if *held == 0 {
                self.held.remove(&line.owner);
            }
        }
    }
}

// === impl StoredLine ===

impl StoredLine {
    fn shown(&self) -> KeptLine {
        let user = self.owner.as_ref().map(ToString::to_string);
        KeptLine { number: self.number, at: self.at.to_string(), user, line: self.line.clone() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        model::status::OutputStream,
        support::{ManualClock, MemoryBudget},
    };

    fn kept(account: Account) -> KeptOutput {
        KeptOutput::new(account, &(Arc::new(ManualClock::new(Timestamp::from_seconds(0))) as Arc<dyn Clock>))
    }

    fn line(text: &str) -> OutputLine {
        OutputLine { stream: OutputStream::Stderr, text: text.to_owned() }
    }

    async fn texts(kept: &KeptOutput, after: u64) -> Vec<String> {
        kept.after(after, Duration::ZERO).await.into_iter().map(|kept| kept.line.text).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_whose_programs_print_much_displaces_no_line_of_another() {
        let kept = kept(Account::unbounded());
        let [ann, hostile] = ["ann", "hostile"].map(UserId::new);
        kept.push(Some(&ann), line("ann's"));
        for number in 0..2 * MAX_KEPT {
            kept.push(Some(&hostile), line(&format!("{number}")));
        }
        let lines = texts(&kept, 0).await;
        assert_eq!((lines.len(), lines[0].as_str()), (MAX_KEPT, "ann's"));
        assert_eq!(lines.last().unwrap(), &format!("{}", 2 * MAX_KEPT - 1));
        for _ in 0..MAX_KEPT {
            kept.push(Some(&hostile), line(&"x".repeat(1024)));
        }
        let lines = texts(&kept, 0).await;
        assert!(lines.iter().map(String::len).sum::<usize>() < MAX_KEPT_BYTES && lines[0] == "ann's");
        kept.forget(&hostile);
        assert_eq!(texts(&kept, 0).await, ["ann's"]);
        kept.forget(&ann);
        assert_eq!(kept.0.lines.lock().charge.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_follows_gets_the_next_line_at_once() {
        let kept = kept(Account::unbounded());
        kept.push(None, line("one"));
        kept.push(None, line("two"));
        assert_eq!(texts(&kept, 1).await, ["two"]);
        let mut next = Box::pin(kept.after(2, Duration::from_mins(1)));
        assert!(next.as_mut().now_or_never().is_none());
        kept.push(None, line("three"));
        let next = next.now_or_never().unwrap();
        assert_eq!((next[0].number, next[0].line.text.as_str()), (3, "three"));
        // as after the server was replaced
        assert_eq!(texts(&kept, 99).await, ["one", "two", "three"]);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_charged_and_the_earlier_ones_go_where_memory_is_short() {
        let budget = MemoryBudget::new(64 << 10);
        let kept = kept(budget.server("git"));
        for _ in 0..100 {
            kept.push(None, line(&"x".repeat(1000)));
        }
        assert!(budget.in_use().held > 0 && budget.in_use().held <= 64 << 10);
        kept.push(None, line("the last"));
        assert_eq!(texts(&kept, 100).await, ["the last"]);
    }
}
