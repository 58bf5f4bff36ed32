//! Health of one backend, as its base connection shows it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use crate::{
    backend::{
        connection::ServerSummary, error::StartError, start::opener::Failure, transport::output_tail::OutputTail,
    },
    mcp::Revision,
    model::{
        BackendId,
        status::{BackendState, BackendStatus, EraStatus, OutputLine},
    },
    support::{Clock, Timestamp},
};

/// Warning about a server that prints other text than messages.
const STRAY_OUTPUT: &str = "it prints text on its standard output, where only messages belong: the text is passed over";

/// Time after a failed start in which calls fail at once, instead of starting the server again.
const FRESH: Duration = Duration::from_secs(1);

/// Health of one backend; changes can be awaited.
pub(crate) struct Health {
    condition: watch::Sender<Condition>,
    /// Wakes the pause before a start, when a call waits for it.
    wanted: Notify,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone)]
struct Condition {
    phase: Phase,
    revision: Option<Revision>,
    notices: Vec<String>,
    server: Option<String>,
    restarts: u64,
    /// Since when the server has not been ready; `None` while it is ready or in its first start.
    failing_since: Option<Timestamp>,
}

/// Phase in the life of a base connection.
#[derive(Debug, Clone)]
enum Phase {
    /// The first start is running, since this time.
    Starting(Instant),
    /// The server runs at another replica.
    Elsewhere,
    Ready,
    /// The connection was lost for this reason, and a new one is being opened.
    Lost {
        reason: String,
        output: Vec<OutputLine>,
    },
    /// The last start failed.
    Failed(FailedStart),
}

/// The last failed start, until one succeeds.
#[derive(Debug, Clone)]
struct FailedStart {
    error: StartError,
    at: Instant,
    next_try: Instant,
    output: Vec<OutputLine>,
    advice: Option<String>,
}

// === impl Health ===

impl Health {
    /// Health of a backend before its first start.
    pub(crate) fn starting(clock: &Arc<dyn Clock>) -> Self {
        let condition = watch::Sender::new(Condition {
            phase: Phase::Starting(Instant::now()),
            revision: None,
            notices: Vec::new(),
            server: None,
            restarts: 0,
            failing_since: None,
        });
        Self { condition, wanted: Notify::new(), clock: Arc::clone(clock) }
    }

    /// Records that the server runs at another replica.
    pub(crate) fn elsewhere(&self) {
        self.condition.send_modify(|condition| condition.phase = Phase::Elsewhere);
    }

    /// Records that the server starts here now, as if for the first time.
    pub(crate) fn starts_here(&self) {
        self.condition.send_modify(|condition| condition.phase = Phase::Starting(Instant::now()));
    }

    /// Records that the server is ready.
    pub(crate) fn ready(&self, ServerSummary { revision, notices, server }: ServerSummary) {
        self.condition.send_modify(|condition| {
            condition.phase = Phase::Ready;
            condition.failing_since = None;
            condition.revision = Some(revision);
            condition.notices = notices;
            condition.server = server;
        });
    }

    /// Records that the connection was lost; a new one is opened at once.
    pub(crate) fn lost(&self, reason: String, output: Vec<OutputLine>) {
        let now = self.clock.now();
        self.condition.send_modify(|condition| {
            condition.phase = Phase::Lost { reason, output };
            condition.failing_since.get_or_insert(now);
            condition.restarts += 1;
        });
    }

    /// Records a failed start; the next one is due in `retry_in`.
    pub(crate) fn failed(&self, failure: Failure, advice: Option<String>, retry_in: Duration) {
        let Failure { error, output } = failure;
        let at = Instant::now();
        let (next_try, now) = (at + retry_in, self.clock.now());
        self.condition.send_modify(|condition| {
            condition.phase = Phase::Failed(FailedStart { error, at, next_try, output, advice });
            condition.failing_since.get_or_insert(now);
            condition.restarts += 1;
        });
    }

    /// Records that the next start is running, if the last one failed.
    pub(crate) fn tries_again(&self) {
        self.condition.send_modify(|condition| {
            if let Phase::Failed(failed) = &mut condition.phase {
                failed.next_try = Instant::now();
            }
        });
    }

    /// Waits for `retry_in`, or until a call needs the server.
    pub(crate) async fn pause(&self, retry_in: Duration) {
        let _ = timeout(retry_in, self.wanted.notified()).await;
    }

    /// True if a call should try a failed server again: the failure is at least [`FRESH`] old and may be temporary.
    pub(crate) fn is_worth_a_try(&self) -> bool {
        self.condition.borrow().phase.is_worth_a_try()
    }

    /// Starts a failed server now, and waits until that start has succeeded or failed.
    pub(crate) async fn try_now(&self) {
        let mut changes = self.condition.subscribe();
        let seen = {
            let condition = changes.borrow_and_update();
            if !condition.phase.is_worth_a_try() {
                return;
            }
            condition.restarts
        };
        self.wanted.notify_waiters();
        let over = |condition: &Condition| condition.restarts != seen || !matches!(condition.phase, Phase::Failed(_));
        let _ = changes.wait_for(over).await;
    }

    /// Waits until the first start has succeeded or failed.
    pub(crate) async fn first_start(&self) {
        let mut changes = self.condition.subscribe();
        let _ = changes.wait_for(|condition| !matches!(condition.phase, Phase::Starting(_))).await;
    }

    /// Number of starts after the first.
    pub(crate) fn starts(&self) -> u64 {
        self.condition.borrow().restarts
    }

    /// Waits until a start after the number `starts` has succeeded or failed.
    pub(crate) async fn start_after(&self, starts: u64) {
        let is_over = |condition: &Condition| {
            condition.restarts != starts && !matches!(condition.phase, Phase::Starting(_) | Phase::Lost { .. })
        };
        let _ = self.condition.subscribe().wait_for(is_over).await;
    }

    /// True if a start has failed or a connection was lost before.
    pub(crate) fn has_failed(&self) -> bool {
        self.condition.borrow().restarts > 0
    }

    /// True if the server is ready; `None` if it runs at another replica.
    pub(crate) fn is_up(&self) -> Option<bool> {
        match self.condition.borrow().phase {
            Phase::Ready => Some(true),
            Phase::Starting(_) | Phase::Lost { .. } | Phase::Failed(_) => Some(false),
            Phase::Elsewhere => None,
        }
    }

    /// Why the server cannot be used now, with the time until the next start; `None` if a call may try.
    pub(crate) fn trouble(&self) -> Option<StartError> {
        match &self.condition.borrow().phase {
            Phase::Starting(_) | Phase::Ready | Phase::Lost { .. } => None,
            Phase::Elsewhere => Some(StartError::Elsewhere),
            Phase::Failed(failed) => {
                let left = failed.next_try.saturating_duration_since(Instant::now());
                Some(failed.error.clone().postponed(left))
            }
        }
    }

    /// The status of the backend. The catalog adds the counts of lists.
    pub(crate) fn report(
        &self,
        id: &BackendId,
        transport: &'static str,
        era: Option<EraStatus>,
        sessions: usize,
        printed: &OutputTail,
    ) -> BackendStatus {
        let condition = self.condition.borrow().clone();
        let (state, output, advice) = condition.phase.shown(printed);
        let is_noisy = state == BackendState::Ready && printed.has_stray();
        BackendStatus {
            protocol_version: condition.revision.map(|revision| revision.to_string()),
            era,
            lacks: condition.revision.map(lacks).unwrap_or_default(),
            notices: condition.notices,
            server: condition.server,
            failing_since: condition.failing_since.map(|since| since.to_string()),
            sessions,
            restarts: condition.restarts,
            output,
            advice,
            warnings: is_noisy.then(|| STRAY_OUTPUT.to_owned()).into_iter().collect(),
            ..BackendStatus::new(id.to_string(), transport, state)
        }
    }
}

// === impl Phase ===

impl Phase {
    fn is_worth_a_try(&self) -> bool {
        matches!(self, Self::Failed(failed) if failed.at.elapsed() >= FRESH && !failed.error.is_lasting())
    }

    /// State, output and advice for the status; `printed` is the output of the running start.
    fn shown(self, printed: &OutputTail) -> (BackendState, Vec<OutputLine>, Option<String>) {
        match self {
            Self::Starting(began) => {
                (BackendState::Starting { seconds: began.elapsed().as_secs() }, printed.lines(), None)
            }
            Self::Ready => (BackendState::Ready, Vec::new(), None),
            Self::Elsewhere => (BackendState::Elsewhere, Vec::new(), None),
            Self::Lost { reason, output } => (BackendState::Restarting { reason }, output, None),
            Self::Failed(FailedStart { error, next_try, output, advice, .. }) => {
                let left = next_try.saturating_duration_since(Instant::now());
                // a fraction of a second counts as a whole one
                let retry_in = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                (BackendState::Failed { reason: error.to_string(), retry_in: Some(retry_in) }, output, advice)
            }
        }
    }
}

/// Names of the features that a version lacks, for the status.
pub(crate) fn lacks(revision: Revision) -> Vec<String> {
    revision.lacks().into_iter().map(str::to_owned).collect()
}
