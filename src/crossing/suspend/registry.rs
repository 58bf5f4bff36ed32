//! Registry of suspended calls (`translation` 4b): each runs on its own task until the client returns with its state,
//! or it times out.
//!
//! A call lives in one process, which its state names. A used state, or the state of another process, gives the same
//! error as an unknown one.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use tokio::{
    sync::oneshot,
    time::{Instant, interval_at, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    call::{Next, SuspendedCall},
    permits::{SuspensionPermit, SuspensionPermits},
    request_state::{CallId, invalid},
};
use crate::{
    mcp::{
        ErrorObject, Event,
        large_messages::{MessageOwner, OffWorker},
    },
    model::{Caller, LimitsConfig},
    support::{Live, Random},
};

/// Interval of progress to a server that gave a token, while the client is busy.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

pub(super) struct SuspendedCalls {
    waiting: DashMap<CallId, RegistryEntry>,
    permits: Arc<SuspensionPermits>,
    random: Arc<dyn Random>,
    /// Random bytes in every id that this process gives.
    process: [u8; 8],
    /// Include the maximum wait for the client.
    limits: Live<LimitsConfig>,
    /// Owner of the waiting tasks.
    tracker: TaskTracker,
    /// Ends the waiting tasks when the gateway stops.
    closed: CancellationToken,
}

/// One call, which its task drives.
struct RegistryEntry {
    owner: Arc<Caller>,
    /// Sends the task a channel, over which it returns the call.
    take: oneshot::Sender<oneshot::Sender<SuspendedCall>>,
}

impl SuspendedCalls {
    /// Creates an empty registry. The waiting tasks belong to the tracker and end with the token.
    pub(super) fn new(
        random: Arc<dyn Random>,
        permits: Arc<SuspensionPermits>,
        limits: Live<LimitsConfig>,
        tracker: TaskTracker,
        closed: CancellationToken,
    ) -> Arc<Self> {
        let process = random.bytes();
        Arc::new(Self { waiting: DashMap::new(), permits, random, process, limits, tracker, closed })
    }

    /// Creates an id for a call.
    pub(super) fn id(&self) -> CallId {
        CallId { process: self.process, wait: self.random.bytes() }
    }

    /// Permits one more call of this caller.
    ///
    /// # Errors
    ///
    /// A text that names the limit.
    pub(super) fn permit(&self, owner: &Caller) -> Result<SuspensionPermit, String> {
        self.permits.begin(&owner.user)
    }

    /// Keeps a call under this id until it is taken, times out, or its credential is revoked.
    pub(super) fn keep(
        self: &Arc<Self>,
        id: CallId,
        call: SuspendedCall,
        permit: SuspensionPermit,
        owner: &Arc<Caller>,
        revoked: Arc<CancellationToken>,
    ) {
        let (take, taken) = oneshot::channel();
        self.waiting.insert(id, RegistryEntry { owner: Arc::clone(owner), take });
        let calls = Arc::clone(self);
        let turns = MessageOwner::User(owner.user.clone());
        let waiting = async move {
            let until = Instant::now() + calls.limits.get().server_request_timeout;
            calls.closed.run_until_cancelled(wait(call, taken, until, &revoked)).await;
            calls.waiting.remove(&id);
            drop(permit);
        };
        self.tracker.spawn(OffWorker::future(turns, Box::pin(waiting)));
    }

    /// Takes the call with this id.
    ///
    /// # Errors
    ///
    /// [`invalid`], for any reason.
    pub(super) async fn take(&self, id: &CallId, owner: &Caller) -> Result<SuspendedCall, ErrorObject> {
        let entry = self.waiting.remove_if(id, |_, entry| entry.owner.owns_the_same_as(owner));
        let (_, entry) = entry.ok_or_else(invalid)?;
        let (give, given) = oneshot::channel();
        entry.take.send(give).map_err(|_| invalid())?;
        given.await.map_err(|_| invalid())
    }
}

/// Drives a call until it is taken, revoked, given up to free memory, or `until`.
async fn wait(
    mut call: SuspendedCall,
    mut asked: oneshot::Receiver<oneshot::Sender<SuspendedCall>>,
    until: Instant,
    revoked: &CancellationToken,
) {
    // true once the call has its outcome, which it keeps for the client
    let mut over = false;
    let mut reassurance = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            biased;
            taker = &mut asked => {
                if let Ok(taker) = taker {
                    // if the client left in the meantime, the call is cancelled
                    drop(taker.send(call));
                }
                return;
            }
            () = revoked.cancelled() => return call.abandon().await,
            _ = call.reclaimed() => return call.abandon().await,
            () = sleep_until(until) => {
                metrics::counter!("lockkeeper_frontend_questions_expired_total").increment(1);
                return if over { drop(call) } else { call.abandon().await };
            }
            _ = reassurance.tick(), if !over => call.send_progress(),
            next = call.live(), if !over => {
                if let Next::Event(event) = next {
                    over = matches!(event, Event::Done(_));
                    call.keep(event);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use serde_json::json;

    use super::*;
    use crate::mcp::{
        AnswerEvent, ClientInfo, Method, Payload, Reply, Revision, ServerRequest, client_translator::ClientTranslator,
        pending_request::PendingRequest, translate::Profile,
    };
    use crate::support::Account;

    #[tokio::test(start_paused = true)]
    async fn a_server_with_a_progress_token_gets_progress_while_its_client_is_busy() {
        let of = |value| Payload::of(Revision::V2025_11_25, &value);
        let params = of(json!({ "message": "?", "requestedSchema": {}, "_meta": { "progressToken": "t" } }));
        let (question, mut answered) = ServerRequest::new(Method::Elicit, params);
        let client = Arc::new(ClientInfo { revision: Revision::V2026_07_28, ..ClientInfo::gateway() });
        let absent = Payload::absent(Revision::V2026_07_28);
        let translator = ClientTranslator::new(&client, Profile::default(), &Method::ToolsCall, &absent);
        let mut call = SuspendedCall::new(Reply::new(stream::pending()), Account::unbounded());
        call.ask(PendingRequest::new(question, &translator).unwrap());
        let (_take, taken) = oneshot::channel();
        let revoked = CancellationToken::new();
        let waiting = wait(call, taken, Instant::now() + Duration::from_hours(1), &revoked);
        let told = async { [answered.next().await, answered.next().await] };
        let told = tokio::select! {
            () = waiting => panic!("nobody took it"),
            told = told => told,
        };
        let progress = |number| {
            let text = format!(r#"{{"progressToken":"t","progress":{number}}}"#);
            Some(AnswerEvent::Progress(Payload::new(Revision::V2025_11_25, text.into())))
        };
        assert_eq!(told, [progress(1), progress(2)]);
    }
}
