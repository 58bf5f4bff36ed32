//! Questions that a server asked outside of any call, before clients that can be asked in calls alone: each is held for the
//! next call of the same caller and capabilities (`translation` 4b.2 (v)). Knows nothing of how the client is asked.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{sync::oneshot, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    frontend::able::can_be_asked,
    mcp::{ClientInfo, ErrorObject, Question},
    model::{Caller, Owner, Target},
};

/// How long each is held.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many are held at once, and of them for one caller.
const MOST: (usize, usize) = (1_024, 64);

/// The questions that are held.
pub(super) struct Strays {
    /// By caller, those of each in the order in which they came.
    held: DashMap<Owner, BTreeMap<u64, Stray>>,
    /// How many there are: calls look no further where there is none.
    count: AtomicUsize,
    last: AtomicU64,
    /// Ends all of them, when the gateway does.
    closed: CancellationToken,
}

/// Who can be asked: a caller with these capabilities, at this endpoint.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    /// The caller.
    pub(super) owner: Arc<Caller>,
    /// What it declared.
    pub(super) client: Arc<ClientInfo>,
    /// Where it is.
    pub(super) target: Target,
}

/// One question, and how to take it.
struct Stray {
    whose: Whose,
    take: oneshot::Sender<oneshot::Sender<Question>>,
}

// === impl Strays ===

impl Strays {
    /// None yet.
    pub(super) fn new(closed: CancellationToken) -> Arc<Self> {
        Arc::new(Self { held: DashMap::new(), count: AtomicUsize::new(0), last: AtomicU64::new(0), closed })
    }

    /// Holds a question for 5 s. One that this client has not said it can answer is refused at once; one that no call came
    /// for, or that has no room, is refused as one without a call.
    pub(super) fn hold(self: &Arc<Self>, whose: Whose, question: Question, tracker: &TaskTracker) {
        if let Err(error) = can_be_asked(&whose.client, &question.method, &question.params) {
            return refuse(question, error);
        }
        let (take, taken) = oneshot::channel();
        let (number, owner) = (self.last.fetch_add(1, Ordering::Relaxed), whose.owner.owner());
        if !self.add(&owner, number, Stray { whose, take }) {
            return refuse(question, no_call());
        }
        let strays = Arc::clone(self);
        tracker.spawn(async move {
            strays.closed.run_until_cancelled(wait(question, taken)).await;
            strays.remove(&owner, number);
        });
    }

    /// Whether there is any for this client.
    pub(super) fn wait_for(&self, whose: &Whose) -> bool {
        // almost always: no lock, and nothing compared
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let theirs = self.held.get(&whose.owner.owner());
        theirs.is_some_and(|theirs| theirs.values().any(|stray| stray.whose.is_same(whose)))
    }

    /// Takes all that there are for this client.
    pub(super) async fn take(&self, whose: &Whose) -> Vec<Question> {
        let owner = whose.owner.owner();
        let numbers: Vec<u64> = self.held.get(&owner).map_or_else(Vec::new, |theirs| {
            theirs.iter().filter(|(_, stray)| stray.whose.is_same(whose)).map(|(number, _)| *number).collect()
        });
        let taken: Vec<Stray> = numbers.into_iter().filter_map(|number| self.remove(&owner, number)).collect();
        let mut questions = Vec::new();
        for stray in taken {
            let (give, given) = oneshot::channel();
            if stray.take.send(give).is_ok()
                && let Ok(question) = given.await
            {
                questions.push(question);
            }
        }
        questions
    }

    /// Adds one; `false` where there is no room.
    fn add(&self, owner: &Owner, number: u64, stray: Stray) -> bool {
        let mut theirs = self.held.entry(owner.clone()).or_default();
        let room = theirs.len() < MOST.1 && self.count.load(Ordering::Acquire) < MOST.0;
        if room {
            theirs.insert(number, stray);
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        drop(theirs);
        self.held.remove_if(owner, |_, theirs| theirs.is_empty());
        room
    }

    fn remove(&self, owner: &Owner, number: u64) -> Option<Stray> {
        let stray = self.held.get_mut(owner).and_then(|mut theirs| theirs.remove(&number))?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.held.remove_if(owner, |_, theirs| theirs.is_empty());
        Some(stray)
    }
}

impl Whose {
    fn is_same(&self, other: &Self) -> bool {
        self.target == other.target
            && self.client.capabilities == other.client.capabilities
            && self.owner.owns_the_same_as(&other.owner)
    }
}

/// Holds a question until it is taken, withdrawn, or refused in its time.
async fn wait(mut question: Question, mut asked: oneshot::Receiver<oneshot::Sender<Question>>) {
    tokio::select! {
        biased;
        taker = &mut asked => {
            if let Ok(taker) = taker {
                // a client that left meanwhile leaves the question without an answer
                drop(taker.send(question));
            }
        }
        () = question.answer.withdrawn() => {}
        () = sleep(PATIENCE) => refuse(question, no_call()),
    }
}

fn refuse(question: Question, error: ErrorObject) {
    metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
    question.answer.give(Err(error));
}

/// The error for a question that belongs to no call (`translation` 4.6).
fn no_call() -> ErrorObject {
    ErrorObject::invalid_params("No associated client request")
}
