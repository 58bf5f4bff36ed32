//! Health of one backend, as its base connection shows it.

use std::time::Duration;

use tokio::sync::watch;

use super::{connection::ServerSummary, error::StartError};
use crate::{
    mcp::Revision,
    model::{
        BackendId,
        status::{BackendState, BackendStatus, EraStatus, OfferCounts},
    },
};

/// Health of one backend, with change notification.
pub(crate) struct Health(watch::Sender<Condition>);

#[derive(Debug, Clone)]
struct Condition {
    state: BackendState,
    revision: Option<Revision>,
    notices: Vec<String>,
    server: Option<String>,
    restarts: u64,
    stderr: Vec<String>,
    /// The permanent failure, if any.
    failure: Option<StartError>,
}

// === impl Health ===

impl Health {
    /// A backend before its first start.
    pub(crate) fn starting() -> Self {
        let state = BackendState::Starting;
        Self(watch::Sender::new(Condition {
            state,
            revision: None,
            notices: Vec::new(),
            server: None,
            restarts: 0,
            stderr: Vec::new(),
            failure: None,
        }))
    }

    /// Marks the backend as ready.
    pub(crate) fn ready(&self, ServerSummary { revision, notices, server }: ServerSummary) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Ready;
            condition.revision = Some(revision);
            condition.notices = notices;
            condition.server = server;
            condition.stderr = Vec::new();
        });
    }

    /// Marks the backend as failed, to be restarted in `retry_in`.
    pub(crate) fn restarting(&self, reason: &str, retry_in: Duration, stderr_tail: Vec<String>) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Restarting { reason: reason.to_owned(), retry_in: retry_in.as_secs() };
            condition.restarts += 1;
            condition.stderr = stderr_tail;
        });
    }

    /// Marks the backend as unusable.
    pub(crate) fn failed(&self, error: &StartError, stderr_tail: Vec<String>) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Failed { reason: error.to_string() };
            condition.failure = Some(error.clone());
            condition.stderr = stderr_tail;
        });
    }

    /// Waits until the first start has ended, well or not.
    pub(crate) async fn settled(&self) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|condition| condition.state != BackendState::Starting).await;
    }

    /// True if it has failed before.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.borrow().restarts > 0
    }

    /// The reason why it cannot be used now; `None` if a call may try.
    pub(crate) fn trouble(&self) -> Option<StartError> {
        let condition = self.0.borrow();
        match &condition.state {
            // without a wait, the connection was just lost and is being reopened
            BackendState::Starting | BackendState::Ready | BackendState::Restarting { retry_in: 0, .. } => None,
            BackendState::Restarting { reason, .. } => Some(StartError::Unreachable(reason.clone())),
            BackendState::Failed { reason } => {
                Some(condition.failure.clone().unwrap_or_else(|| StartError::Unreachable(reason.clone())))
            }
        }
    }

    /// The status of the backend. The catalog fills in the counts.
    pub(crate) fn status(
        &self,
        (id, transport): (&BackendId, &'static str),
        era: Option<EraStatus>,
        sessions: usize,
    ) -> BackendStatus {
        let condition = self.0.borrow().clone();
        BackendStatus {
            id: id.to_string(),
            transport: transport.to_owned(),
            protocol_version: condition.revision.map(|revision| revision.to_string()),
            era,
            lacks: condition.revision.map(lacks).unwrap_or_default(),
            notices: condition.notices,
            server: condition.server,
            state: condition.state,
            counts: OfferCounts::default(),
            left_out: Vec::new(),
            sessions,
            restarts: condition.restarts,
            stderr: condition.stderr,
        }
    }
}

/// Features that a version lacks, for display.
pub(super) fn lacks(revision: Revision) -> Vec<String> {
    revision.lacks().into_iter().map(str::to_owned).collect()
}
