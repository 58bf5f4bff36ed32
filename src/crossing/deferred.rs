//! Requests of servers that wait for a call to ride on: sent outside of any call, to clients that can be asked in calls
//! alone. Each is held for the next call of the same caller and capabilities (`translation` 4b.2 (v)). Knows nothing of how
//! the client is asked.

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
    mcp::{ClientInfo, Context, ErrorObject, Question, declared::can_be_asked},
    model::{Caller, Owner, Target},
};

/// The time for which each is held.
const HOLD_TIME: Duration = Duration::from_secs(5);
/// The most that are held at once, and of them for one caller.
const MAX_HELD: (usize, usize) = (1_024, 64);

/// The requests that are held.
pub(super) struct DeferredRequests {
    /// By caller, those of each in the order in which they came.
    held: DashMap<Owner, BTreeMap<u64, Deferred>>,
    /// The number of all: calls look no further if there is none.
    count: AtomicUsize,
    last: AtomicU64,
    /// Owns the waits.
    tracker: TaskTracker,
    /// Ends all of them, when the gateway stops.
    closed: CancellationToken,
}

/// A client that can be asked: a caller with these capabilities, at this endpoint.
#[derive(Debug, Clone)]
pub(super) struct Respondent {
    /// The caller.
    pub(super) owner: Arc<Caller>,
    /// The client's description of itself.
    pub(super) client: Arc<ClientInfo>,
    /// The endpoint.
    pub(super) target: Target,
}

/// One request, and how to take it.
struct Deferred {
    respondent: Respondent,
    take: oneshot::Sender<oneshot::Sender<Question>>,
}

// === impl DeferredRequests ===

impl DeferredRequests {
    /// None yet. The waits are owned by the tracker and ended by the token.
    pub(super) fn new((tracker, closed): (TaskTracker, CancellationToken)) -> Arc<Self> {
        Arc::new(Self { held: DashMap::new(), count: AtomicUsize::new(0), last: AtomicU64::new(0), tracker, closed })
    }

    /// Holds a request for 5 s. One that this client has not declared is refused at once; one that no call came for, or
    /// that has no room, is refused as one without a call.
    pub(super) fn hold(self: &Arc<Self>, respondent: Respondent, question: Question) {
        if let Err(error) = can_be_asked(&respondent.client, &question.method, &question.params) {
            return refuse(question, error);
        }
        let (take, taken) = oneshot::channel();
        let (number, owner) = (self.last.fetch_add(1, Ordering::Relaxed), respondent.owner.owner());
        if !self.add(&owner, number, Deferred { respondent, take }) {
            return refuse(question, no_call());
        }
        let requests = Arc::clone(self);
        self.tracker.spawn(async move {
            requests.closed.run_until_cancelled(wait(question, taken)).await;
            requests.remove(&owner, number);
        });
    }

    /// Whether any waits for this client.
    pub(super) fn wait_for(&self, respondent: &Respondent) -> bool {
        // almost always: no lock, and nothing compared
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let theirs = self.held.get(&respondent.owner.owner());
        theirs.is_some_and(|theirs| theirs.values().any(|one| one.respondent.is_same(respondent)))
    }

    /// Takes all that wait for this client.
    pub(super) async fn take(&self, respondent: &Respondent) -> Vec<Question> {
        let owner = respondent.owner.owner();
        let numbers: Vec<u64> = self.held.get(&owner).map_or_else(Vec::new, |theirs| {
            theirs.iter().filter(|(_, one)| one.respondent.is_same(respondent)).map(|(number, _)| *number).collect()
        });
        let taken: Vec<Deferred> = numbers.into_iter().filter_map(|number| self.remove(&owner, number)).collect();
        let mut questions = Vec::new();
        for one in taken {
            let (give, given) = oneshot::channel();
            if one.take.send(give).is_ok()
                && let Ok(question) = given.await
            {
                questions.push(question);
            }
        }
        questions
    }

    /// Adds one; `false` where there is no room.
    fn add(&self, owner: &Owner, number: u64, one: Deferred) -> bool {
        let mut theirs = self.held.entry(owner.clone()).or_default();
        let room = theirs.len() < MAX_HELD.1 && self.count.load(Ordering::Acquire) < MAX_HELD.0;
        if room {
            theirs.insert(number, one);
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        drop(theirs);
        self.held.remove_if(owner, |_, theirs| theirs.is_empty());
        room
    }

    fn remove(&self, owner: &Owner, number: u64) -> Option<Deferred> {
        let one = self.held.get_mut(owner).and_then(|mut theirs| theirs.remove(&number))?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.held.remove_if(owner, |_, theirs| theirs.is_empty());
        Some(one)
    }
}

// === impl Respondent ===

impl Respondent {
    /// The client of this context, at this endpoint.
    pub(super) fn of(context: &Context, target: Target) -> Self {
        Self { owner: Arc::clone(&context.caller), client: Arc::clone(&context.client), target }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.target == other.target
            && self.client.capabilities == other.client.capabilities
            && self.owner.owns_the_same_as(&other.owner)
    }
}

/// Holds a request until it is taken, withdrawn, or refused in its time.
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
        () = sleep(HOLD_TIME) => refuse(question, no_call()),
    }
}

/// Refuses a request of a server.
pub(super) fn refuse(question: Question, error: ErrorObject) {
    metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
    question.answer.give(Err(error));
}

/// The error for a request that belongs to no call (`translation` 4.6).
fn no_call() -> ErrorObject {
    ErrorObject::invalid_params("No associated client request")
}
