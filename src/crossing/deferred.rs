//! Server requests to clients without a session, outside of any call: each is kept for the next call with the same
//! caller and capabilities (`translation` 4b.2 (v)).

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    mcp::{
        ClientInfo, Context, ErrorObject, ServerRequest,
        declared::can_be_asked,
        deferred_requests::{DeferredLimits, DeferredRequests},
    },
    model::{Caller, Target},
};

/// Maximum number of deferred requests, in all and for one caller.
const LIMITS: DeferredLimits = DeferredLimits { all: 1_024, together: 64 };

/// Deferred requests for the clients of all endpoints.
pub(super) struct Deferred {
    requests: Arc<DeferredRequests<Respondent>>,
    /// Owner of the waiting tasks.
    tracker: TaskTracker,
    /// Ends the waiting tasks when the gateway stops.
    closed: CancellationToken,
}

/// A client that can answer: a caller with these capabilities, at this endpoint.
#[derive(Debug, Clone)]
pub(super) struct Respondent {
    pub(super) owner: Arc<Caller>,
    /// The client's description of itself.
    pub(super) client: Arc<ClientInfo>,
    pub(super) target: Target,
}

// === impl Deferred ===

impl Deferred {
    /// Creates an empty table. The waiting tasks belong to the tracker and end with the token.
    pub(super) fn new(tracker: TaskTracker, closed: CancellationToken) -> Self {
        Self { requests: DeferredRequests::new(LIMITS), tracker, closed }
    }

    /// Keeps a request for 5 s. It is refused at once if this client has not declared support or the table is full, and
    /// later if no call comes.
    pub(super) fn hold(&self, respondent: Respondent, question: ServerRequest) {
        if let Err(error) = can_be_asked(&respondent.client, &question.method, &question.params) {
            return refuse(question, error);
        }
        let owner = Arc::clone(&respondent.owner);
        let held = self.requests.hold(respondent, question, &|other: &Respondent| other.owner.owns_the_same_as(&owner));
        let closed = self.closed.clone();
        match held {
            Err(question) => refuse(question, no_call()),
            Ok(wait) => drop(self.tracker.spawn(async move {
                if let Some(Some(question)) = closed.run_until_cancelled(wait).await {
                    refuse(question, no_call());
                }
            })),
        }
    }

    /// True if any request waits for this client.
    pub(super) fn wait_for(&self, respondent: &Respondent) -> bool {
        self.requests.holds(|other| other.is_same(respondent))
    }

    /// Takes all requests that wait for this client.
    pub(super) fn take(&self, respondent: &Respondent) -> impl Iterator<Item = ServerRequest> + use<> {
        self.requests.take(|other| other.is_same(respondent)).into_iter().map(|(_, question)| question)
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

/// Refuses a server request.
pub(super) fn refuse(question: ServerRequest, error: ErrorObject) {
    metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
    question.answer.give(Err(error));
}

/// The error for a server request without a call (`translation` 4.6).
fn no_call() -> ErrorObject {
    ErrorObject::invalid_params("No associated client request")
}
