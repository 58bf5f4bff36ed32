//! Input requests of one task, until its client fetches and answers them, and the task's outcome.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};

use crate::{
    crossing::collection_window::Window,
    mcp::{
        ClientInfo, ErrorObject, Facts, Outcome, Payload, Revision, ServerRequest,
        json::{Object, quote},
        task::related,
        translate::Kind,
    },
    support::{
        Account,
        memory::{Relief, Revocable},
    },
};

/// Maximum number of waiting input requests; further ones are refused.
const MAX_REQUESTS: usize = 64;

/// Input requests and outcome of one task.
#[derive(Debug)]
pub(crate) struct PendingInput {
    state: Mutex<InputState>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct InputState {
    open: BTreeMap<u64, ServerRequest>,
    /// Number of requests so far: keys are never reused (extension, *Task Update Requests*).
    last: u64,
    awaited: bool,
    /// A request that was given up, or for which memory was short, can be asked again.
    outcome: Option<Revocable<Outcome>>,
}

/// A wait for the result. Dropping it allows another, and withdraws the input requests.
#[derive(Debug)]
pub(super) struct Waiter(Arc<PendingInput>);

impl Default for PendingInput {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

// === impl PendingInput ===

impl PendingInput {
    /// Starts a wait for the result; `None` if one is running, or the task has ended.
    pub(super) fn wait(input: &Arc<Self>) -> Option<Waiter> {
        let mut state = input.state.lock();
        if state.outcome.is_some() || std::mem::replace(&mut state.awaited, true) {
            return None;
        }
        Some(Waiter(Arc::clone(input)))
    }

    /// The `inputRequests` for this client, as soon as there are any, at most after `patience`; `None` if there are
    /// none.
    pub(super) async fn requests(&self, patience: Duration, client: &ClientInfo) -> Option<String> {
        let mut changes = self.changes.subscribe();
        let some = changes.wait_for(|_| self.has_questions());
        if matches!(timeout(patience, some).await, Ok(Ok(_))) {
            Window::opened().over().await;
        }
        let mut state = self.state.lock();
        let (mut shown, mut refused) = (Vec::new(), Vec::new());
        for (number, question) in &state.open {
            let facts = Facts { client: Some(client), ..Facts::new(Kind::ServerRequest, &question.method) };
            let params = match question.params.clone().into_revision(client.revision, &facts) {
                Ok(params) => params,
                Err(refusal) => {
                    refused.push((*number, refusal));
                    continue;
                }
            };
            let params = if params.is_absent() { "{}".into() } else { String::from_utf8_lossy(params.json()) };
            let method = quote(question.method.as_str());
            shown.push(format!(r#""r{number}":{{"method":{method},"params":{params}}}"#));
        }
        for (number, refusal) in refused {
            refusal.report();
            if let Some(question) = state.open.remove(&number) {
                question.answer.give(Err(refusal.error()));
            }
        }
        (!shown.is_empty()).then(|| format!("{{{}}}", shown.join(",")))
    }

    /// Delivers the client's answers, written in `revision`, marked as answers for the task `id`. Unknown keys are
    /// ignored (extension, *Task Update Requests*).
    pub(super) fn answer(&self, id: &str, responses: &Object<'_>, revision: Revision) {
        for (key, text) in responses.iter() {
            let number = key.strip_prefix('r').and_then(|number| number.parse().ok());
            let question = number.and_then(|number: u64| self.state.lock().open.remove(&number));
            let Some(ServerRequest { method, params, answer }) = question else { continue };
            let given = Payload::new(revision, Bytes::copy_from_slice(text.as_bytes()));
            if given.object().is_none() {
                answer.give(Err(ErrorObject::internal("the answer is no object")));
                continue;
            }
            let facts = Facts { question: Some(&params), ..Facts::new(Kind::Answer, &method) };
            answer.give(match given.into_revision(params.revision, &facts) {
                Ok(given) => Ok(related(&given, id)),
                Err(refusal) => {
                    let refusal = refusal.of(params.origin());
                    refusal.report();
                    Err(refusal.error())
                }
            });
        }
    }

    /// The outcome of the task, if a wait is running and ends within `patience`.
    pub(super) async fn outcome(&self, patience: Duration) -> Option<Outcome> {
        let mut changes = self.changes.subscribe();
        let over = changes.wait_for(|_| {
            let state = self.state.lock();
            state.outcome.is_some() || !state.awaited
        });
        let _ = timeout(patience, over).await;
        self.state.lock().outcome.as_ref()?.with(|outcome| outcome.clone())
    }

    /// True if a wait for the result is running.
    pub(super) fn is_awaited(&self) -> bool {
        self.state.lock().awaited
    }

    /// True if there are requests that are not withdrawn.
    fn has_questions(&self) -> bool {
        let mut state = self.state.lock();
        state.open.retain(|_, question| question.answer.withdrawn().now_or_never().is_none());
        !state.open.is_empty()
    }
}

// === impl Waiter ===

impl Waiter {
    /// Adds an input request.
    pub(super) fn ask(&self, question: ServerRequest) {
        let mut state = self.0.state.lock();
        if state.open.len() >= MAX_REQUESTS {
            return;
        }
        state.last += 1;
        let number = state.last;
        state.open.insert(number, question);
        drop(state);
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Ends the wait; `account` pays for the outcome. A failure of the gateway is no outcome of the task.
    pub(super) fn ended(&self, outcome: Outcome, account: &Account) {
        let is_own = matches!(&outcome, Outcome::Failed(error) if error.revision().is_none());
        if is_own {
            return;
        }
        let bytes = outcome.payload_len();
        let kept = Revocable::new(outcome, bytes, account, Relief::Lists).ok();
        self.0.state.lock().outcome = kept;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        {
            let mut state = self.0.state.lock();
            state.awaited = false;
            state.open.clear();
        }
        self.0.changes.send_modify(|changes| *changes += 1);
    }
}
