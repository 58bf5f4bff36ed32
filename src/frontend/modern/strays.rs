//! Questions that a server asked outside of any call, before clients that can be asked in calls alone: each is held for the
//! next call of the same caller and capabilities (`translation` 4b.2 (v)). Knows nothing of how the client is asked.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    frontend::able::can_be_asked,
    mcp::{ClientInfo, ErrorObject, Question},
    model::{Caller, Target},
};

/// How long each is held.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many are held at once.
const MOST: usize = 256;

/// The questions that are held.
pub(super) struct Strays {
    held: Mutex<BTreeMap<u64, Stray>>,
    /// They are taken in the order in which they came.
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
        Arc::new(Self { held: Mutex::default(), last: AtomicU64::new(0), closed })
    }

    /// Holds a question for 5 s. One that this client has not said it can answer is refused at once; one that no call came
    /// for, or that has no room, is refused as one without a call.
    pub(super) fn hold(self: &Arc<Self>, whose: Whose, question: Question, tracker: &TaskTracker) {
        if let Err(error) = can_be_asked(&whose.client, &question.method, &question.params) {
            return refuse(question, error);
        }
        let (take, taken) = oneshot::channel();
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        {
            let mut held = self.held.lock();
            if held.len() >= MOST {
                drop(held);
                return refuse(question, no_call());
            }
            held.insert(number, Stray { whose, take });
        }
        let strays = Arc::clone(self);
        tracker.spawn(async move {
            strays.closed.run_until_cancelled(wait(question, taken)).await;
            strays.held.lock().remove(&number);
        });
    }

    /// Whether there is any for this client.
    pub(super) fn wait_for(&self, whose: &Whose) -> bool {
        self.held.lock().values().any(|stray| stray.whose.is_same(whose))
    }

    /// Takes all that there are for this client.
    pub(super) async fn take(&self, whose: &Whose) -> Vec<Question> {
        let taken: Vec<Stray> = {
            let mut held = self.held.lock();
            let numbers: Vec<u64> =
                held.iter().filter(|(_, stray)| stray.whose.is_same(whose)).map(|(number, _)| *number).collect();
            numbers.iter().filter_map(|number| held.remove(number)).collect()
        };
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
