//! What the gateway knows of the tasks that clients with sessions have at a server of 2026-07-28: whose each is, what it
//! came to where nobody else tells, and which of its questions are asked. Knows nothing of how anything is asked.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::detail::Detail;
use crate::{model::Requester, support::Timestamp};

/// How many tasks are known at once; beyond, the oldest are forgotten.
const MOST: usize = 4_096;
/// How many bytes of what tasks came to are kept; beyond, the oldest are forgotten.
const MOST_BYTES: usize = 32 << 20;
/// How many questions of one task are known; beyond, none is asked.
const MOST_KEYS: usize = 1_024;

/// The tasks at one server.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tasks: HashMap<String, Entry>,
    order: VecDeque<String>,
    bytes: usize,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    holder: Requester,
    /// What the gateway answers for it, and until when.
    kept: Option<(Detail, Timestamp)>,
    /// The questions that were asked: their answers are on their way, or arrived.
    keys: HashSet<String>,
}

/// A question that is asked by one who waits. Dropping it unanswered lets another ask it.
#[derive(Debug)]
pub(crate) struct Claim {
    ledger: Arc<Ledger>,
    id: String,
    key: Option<String>,
}

// === impl Ledger ===

impl Ledger {
    /// Notes whose a task is, where nobody else's.
    pub(crate) fn note(&self, id: &str, holder: &Requester) {
        let mut inner = self.0.lock();
        inner.open(id, holder);
        inner.make_room();
    }

    /// Keeps what is to be answered for a task until then.
    pub(crate) fn keep(&self, holder: &Requester, detail: Detail, until: Timestamp) {
        let mut inner = self.0.lock();
        let size = detail.payload.json().len();
        let entry = inner.open(&detail.id.clone(), holder);
        let before = entry.size();
        entry.kept = Some((detail, until));
        inner.bytes = inner.bytes + size - before;
        inner.make_room();
    }

    /// Whether a task is known to be another's. A task that nobody is known to own is for its server to judge.
    pub(crate) fn is_of_another(&self, id: &str, holder: &Requester) -> bool {
        self.0.lock().tasks.get(id).is_some_and(|entry| entry.holder != *holder)
    }

    /// What is to be answered for a task.
    pub(crate) fn kept(&self, id: &str, now: Timestamp) -> Option<Detail> {
        let mut inner = self.0.lock();
        let (detail, until) = inner.tasks.get(id)?.kept.as_ref()?;
        if *until > now {
            return Some(detail.clone());
        }
        inner.remove(id);
        None
    }

    /// Takes a question, so that nobody else asks it; `None` where it was asked.
    pub(crate) fn claim(self: &Arc<Self>, id: &str, key: &str) -> Option<Claim> {
        let mut inner = self.0.lock();
        let entry = inner.tasks.get_mut(id)?;
        if entry.keys.len() >= MOST_KEYS || !entry.keys.insert(key.to_owned()) {
            return None;
        }
        Some(Claim { ledger: Arc::clone(self), id: id.to_owned(), key: Some(key.to_owned()) })
    }

    /// A number that was not given before.
    pub(crate) fn number(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.last += 1;
        inner.last
    }

    /// Forgets a task.
    pub(crate) fn remove(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Forgets the tasks of a client that is over.
    pub(crate) fn forget(&self, holder: &Requester) {
        let mut inner = self.0.lock();
        let gone = |(id, entry): (&String, &Entry)| (entry.holder == *holder).then(|| id.clone());
        let gone: Vec<String> = inner.tasks.iter().filter_map(gone).collect();
        for id in &gone {
            inner.remove(id);
        }
    }
}

// === impl Inner ===

impl Inner {
    fn open(&mut self, id: &str, holder: &Requester) -> &mut Entry {
        if !self.tasks.contains_key(id) {
            self.order.push_back(id.to_owned());
        }
        let fresh = || Entry { holder: holder.clone(), kept: None, keys: HashSet::new() };
        self.tasks.entry(id.to_owned()).or_insert_with(fresh)
    }

    fn make_room(&mut self) {
        while (self.tasks.len() > MOST || self.bytes > MOST_BYTES) && self.tasks.len() > 1 {
            let Some(oldest) = self.order.front().cloned() else { return };
            metrics::counter!("lockkeeper_backend_tasks_forgotten_total").increment(1);
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.tasks.remove(id) {
            self.bytes -= entry.size();
            self.order.retain(|other| other != id);
        }
    }
}

impl Entry {
    fn size(&self) -> usize {
        self.kept.as_ref().map_or(0, |(detail, _)| detail.payload.json().len())
    }
}

// === impl Claim ===

impl Claim {
    /// The question was answered: it is not asked again (extension, *Task Update Requests*).
    pub(crate) fn answered(mut self) {
        self.key = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = &self.key
            && let Some(entry) = self.ledger.0.lock().tasks.get_mut(&self.id)
        {
            entry.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::{Payload, Revision},
        model::SessionId,
    };

    fn holder(name: &str) -> Requester {
        Requester::Session(SessionId::new(name))
    }

    fn detail(id: &str, size: usize) -> Detail {
        let text = serde_json::json!({ "taskId": id, "status": "completed", "result": "x".repeat(size) });
        Detail::read(&Payload::of(Revision::V2026_07_28, &text)).unwrap()
    }

    #[test]
    fn a_task_is_its_makers_until_the_session_ends() {
        let ledger = Ledger::default();
        ledger.note("T", &holder("a"));
        ledger.note("T", &holder("b"));
        assert!(ledger.is_of_another("T", &holder("b")) && !ledger.is_of_another("T", &holder("a")));
        ledger.forget(&holder("a"));
        assert!(!ledger.is_of_another("T", &holder("b")));
    }

    #[test]
    fn what_is_kept_ends_in_its_time_and_has_a_bound() {
        let (ledger, until) = (Ledger::default(), Timestamp::from_seconds(10));
        ledger.keep(&holder("a"), detail("1", 10), until);
        assert!(ledger.kept("1", Timestamp::from_seconds(9)).is_some());
        assert!(ledger.kept("1", until).is_none() && ledger.0.lock().bytes == 0);
        for id in 0..5 {
            ledger.keep(&holder("a"), detail(&id.to_string(), MOST_BYTES / 3), until);
        }
        let there = |id: u8| ledger.kept(&id.to_string(), Timestamp::from_seconds(0)).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(there), [false, false, false, true, true]);
    }

    #[test]
    fn a_question_is_asked_once_unless_nobody_answered() {
        let ledger = Arc::new(Ledger::default());
        ledger.note("T", &holder("a"));
        let claim = ledger.claim("T", "k").unwrap();
        assert!(ledger.claim("T", "k").is_none());
        drop(claim);
        ledger.claim("T", "k").unwrap().answered();
        assert!(ledger.claim("T", "k").is_none());
    }
}
