//! Calls that wait for their client between two requests (`translation` 4b): each is driven by a task of its own until the
//! client comes back with the state that it was given, or its time is over. Knows nothing of HTTP, and of how a state is
//! sealed.
//!
//! A call lives in one process, which its state names. A state that was used, or that another process gave, is the same
//! error as one that never was.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use tokio::{
    sync::oneshot,
    time::{Instant, interval_at, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    held::{Held, Next},
    seal::{ParkName, invalid},
    users::Permit,
};
use crate::{
    frontend::{sessions::Deps, settings::Settings},
    mcp::{ErrorObject, Event},
    model::Caller,
    support::Random,
};

/// How often a server that wants to know is told that its client is still at it.
const REASSURANCE: Duration = Duration::from_secs(15);

/// The calls that wait.
pub(super) struct Parks {
    waiting: DashMap<ParkName, Parked>,
    random: Arc<dyn Random>,
    process: [u8; 8],
    /// How long each waits for its client.
    patience: Duration,
    /// Ends all of them, when the gateway does.
    closed: CancellationToken,
}

/// One call that waits, and how to take it.
struct Parked {
    owner: Arc<Caller>,
    take: oneshot::Sender<oneshot::Sender<Held>>,
}

impl Parks {
    /// None yet.
    pub(super) fn new(deps: &Deps, settings: &Settings, closed: CancellationToken) -> Arc<Self> {
        let random = Arc::clone(&deps.random);
        let process = random.bytes();
        Arc::new(Self { waiting: DashMap::new(), random, process, patience: settings.question_timeout, closed })
    }

    /// A name under which a call can wait.
    pub(super) fn name(&self) -> ParkName {
        ParkName { process: self.process, wait: self.random.bytes() }
    }

    /// Lets a call wait under this name; the permit bounds how many can.
    pub(super) fn keep(
        self: &Arc<Self>,
        name: ParkName,
        (held, permit): (Held, Permit),
        owner: &Arc<Caller>,
        tracker: &TaskTracker,
    ) {
        let (take, taken) = oneshot::channel();
        self.waiting.insert(name, Parked { owner: Arc::clone(owner), take });
        let parks = Arc::clone(self);
        tracker.spawn(async move {
            let until = Instant::now() + parks.patience;
            parks.closed.run_until_cancelled(wait(held, taken, until)).await;
            parks.waiting.remove(&name);
            drop(permit);
        });
    }

    /// Takes the call that waits under this name.
    ///
    /// # Errors
    ///
    /// [`invalid`], whatever became of it.
    pub(super) async fn take(&self, name: &ParkName, owner: &Caller) -> Result<Held, ErrorObject> {
        let parked = self.waiting.remove_if(name, |_, parked| parked.owner.owns_the_same_as(owner));
        let (_, parked) = parked.ok_or_else(invalid)?;
        let (give, given) = oneshot::channel();
        parked.take.send(give).map_err(|_| invalid())?;
        given.await.map_err(|_| invalid())
    }
}

/// Drives a call until it is taken or `until`.
async fn wait(mut held: Held, mut asked: oneshot::Receiver<oneshot::Sender<Held>>, until: Instant) {
    let mut over = false;
    let mut reassurance = interval_at(Instant::now() + REASSURANCE, REASSURANCE);
    loop {
        tokio::select! {
            biased;
            taker = &mut asked => {
                if let Ok(taker) = taker {
                    // a client that left meanwhile cancels what it came for
                    drop(taker.send(held));
                }
                return;
            }
            () = sleep_until(until) => {
                metrics::counter!("lockkeeper_frontend_questions_expired_total").increment(1);
                return if over { drop(held) } else { held.abandon().await };
            }
            _ = reassurance.tick(), if !over => held.reassure(),
            next = held.live(), if !over => {
                if let Next::Event(event) = next {
                    over = matches!(event, Event::Done(_));
                    held.keep(event);
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
    use crate::{
        frontend::{questions::Asking, spoken::Spoken},
        mcp::{ClientInfo, Heard, Method, Payload, Question, Reply, Revision},
    };

    #[tokio::test(start_paused = true)]
    async fn a_server_that_wants_to_know_is_told_that_its_client_is_still_at_it() {
        let of = |value| Payload::of(Revision::V2025_11_25, &value);
        let params = of(json!({ "message": "?", "requestedSchema": {}, "_meta": { "progressToken": "t" } }));
        let (question, mut answered) = Question::new(Method::Elicit, params);
        let client = Arc::new(ClientInfo { revision: Revision::V2026_07_28, ..ClientInfo::gateway() });
        let absent = Payload::absent(Revision::V2026_07_28);
        let spoken = Spoken::about(&client, &Settings::default(), Method::ToolsCall, &absent);
        let mut held = Held::new(Reply::new(stream::pending()));
        held.ask(Asking::new(question, &spoken).unwrap());
        let (_take, taken) = oneshot::channel();
        let waiting = wait(held, taken, Instant::now() + Duration::from_hours(1));
        let told = async { [answered.next().await, answered.next().await] };
        let told = tokio::select! {
            () = waiting => panic!("nobody took it"),
            told = told => told,
        };
        let progress = |number| {
            let text = format!(r#"{{"progressToken":"t","progress":{number}}}"#);
            Some(Heard::Progress(Payload::new(Revision::V2025_11_25, text.into())))
        };
        assert_eq!(told, [progress(1), progress(2)]);
    }
}
