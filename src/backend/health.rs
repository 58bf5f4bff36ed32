//! Health of one backend, as its base connection shows it.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use super::{connection::ServerSummary, error::StartError, opener::Failure, output_tail::OutputTail};
use crate::{
    mcp::Revision,
    model::{
        BackendId,
        status::{BackendState, BackendStatus, EraStatus, OfferCounts, OutputLine},
    },
};

/// The warning of a server that prints more than messages.
const STRAY_OUTPUT: &str = "it prints text on its standard output, where only messages belong: the text is passed over";

/// Health of one backend, with change notification.
pub(crate) struct Health(watch::Sender<Condition>);

#[derive(Debug, Clone)]
struct Condition {
    phase: Phase,
    revision: Option<Revision>,
    notices: Vec<String>,
    server: Option<String>,
    restarts: u64,
}

/// The part of a base connection's life.
#[derive(Debug, Clone)]
enum Phase {
    /// The first start, since this time.
    Starting(Instant),
    /// It runs at another replica.
    Elsewhere,
    Ready,
    /// The connection was lost, for this reason, and is opened again.
    Lost {
        reason: String,
        output: Vec<OutputLine>,
    },
    /// The last start failed.
    Failed(FailedStart),
}

/// A start that failed, until one succeeds.
#[derive(Debug, Clone)]
struct FailedStart {
    error: StartError,
    next_try: Instant,
    output: Vec<OutputLine>,
    advice: Option<String>,
}

// === impl Health ===

impl Health {
    /// A backend before its first start.
    pub(crate) fn starting() -> Self {
        Self(watch::Sender::new(Condition {
            phase: Phase::Starting(Instant::now()),
            revision: None,
            notices: Vec::new(),
            server: None,
            restarts: 0,
        }))
    }

    /// Marks the backend as one that runs at another replica.
    pub(crate) fn elsewhere(&self) {
        self.0.send_modify(|condition| condition.phase = Phase::Elsewhere);
    }

    /// Marks it as one that starts here, as if for the first time.
    pub(crate) fn starts_here(&self) {
        self.0.send_modify(|condition| condition.phase = Phase::Starting(Instant::now()));
    }

    /// Marks the backend as ready.
    pub(crate) fn ready(&self, ServerSummary { revision, notices, server }: ServerSummary) {
        self.0.send_modify(|condition| {
            condition.phase = Phase::Ready;
            condition.revision = Some(revision);
            condition.notices = notices;
            condition.server = server;
        });
    }

    /// Marks the connection as lost; it is opened again at once.
    pub(crate) fn lost(&self, reason: String, output: Vec<OutputLine>) {
        self.0.send_modify(|condition| {
            condition.phase = Phase::Lost { reason, output };
            condition.restarts += 1;
        });
    }

    /// Marks the backend as failed, to be started again in `retry_in`.
    pub(crate) fn failed(&self, failure: Failure, advice: Option<String>, retry_in: Duration) {
        let Failure { error, output } = failure;
        let next_try = Instant::now() + retry_in;
        self.0.send_modify(|condition| {
            condition.phase = Phase::Failed(FailedStart { error, next_try, output, advice });
            condition.restarts += 1;
        });
    }

    /// Waits until the first start has ended, well or not.
    pub(crate) async fn settled(&self) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|condition| !matches!(condition.phase, Phase::Starting(_))).await;
    }

    /// True if it has failed before.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.borrow().restarts > 0
    }

    /// The reason why it cannot be used now, and the time of the next try; `None` if a call may try.
    pub(crate) fn trouble(&self) -> Option<StartError> {
        match &self.0.borrow().phase {
            Phase::Starting(_) | Phase::Ready | Phase::Lost { .. } => None,
            Phase::Elsewhere => Some(StartError::Elsewhere),
            Phase::Failed(failed) => {
                let left = failed.next_try.saturating_duration_since(Instant::now());
                Some(failed.error.clone().postponed(left))
            }
        }
    }

    /// The status of the backend. The catalog fills in the counts.
    pub(crate) fn status(
        &self,
        (id, transport): (&BackendId, &'static str),
        era: Option<EraStatus>,
        (sessions, printed): (usize, &OutputTail),
    ) -> BackendStatus {
        let condition = self.0.borrow().clone();
        let (state, output, advice) = condition.phase.shown(printed);
        let is_noisy = state == BackendState::Ready && printed.has_stray();
        BackendStatus {
            id: id.to_string(),
            transport: transport.to_owned(),
            protocol_version: condition.revision.map(|revision| revision.to_string()),
            era,
            lacks: condition.revision.map(lacks).unwrap_or_default(),
            notices: condition.notices,
            server: condition.server,
            state,
            counts: OfferCounts::default(),
            left_out: Vec::new(),
            sessions,
            restarts: condition.restarts,
            output,
            advice,
            warnings: is_noisy.then(|| STRAY_OUTPUT.to_owned()).into_iter().collect(),
        }
    }
}

// === impl Phase ===

impl Phase {
    /// The state for people, the lines and the advice that belong to it; `printed` is what the running start printed.
    fn shown(self, printed: &OutputTail) -> (BackendState, Vec<OutputLine>, Option<String>) {
        match self {
            Self::Starting(began) => {
                (BackendState::Starting { seconds: began.elapsed().as_secs() }, printed.lines(), None)
            }
            Self::Ready => (BackendState::Ready, Vec::new(), None),
            Self::Elsewhere => (BackendState::Elsewhere, Vec::new(), None),
            Self::Lost { reason, output } => (BackendState::Restarting { reason }, output, None),
            Self::Failed(FailedStart { error, next_try, output, advice }) => {
                let left = next_try.saturating_duration_since(Instant::now());
                // a part of a second is one
                let retry_in = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                (BackendState::Failed { reason: error.to_string(), retry_in: Some(retry_in) }, output, advice)
            }
        }
    }
}

/// Features that a version lacks, for display.
pub(super) fn lacks(revision: Revision) -> Vec<String> {
    revision.lacks().into_iter().map(str::to_owned).collect()
}
