//! How one backend is, as its base session shows it.

use std::time::Duration;

use tokio::sync::watch;

use super::{connection::ServerSummary, error::StartError};
use crate::{
    mcp::Revision,
    model::{
        BackendSpec,
        status::{BackendState, BackendStatus, EraStatus, OfferCounts},
    },
};

/// How one backend is; every change can be waited for.
pub(crate) struct Health(watch::Sender<Condition>);

#[derive(Debug, Clone)]
struct Condition {
    state: BackendState,
    revision: Option<Revision>,
    notices: Vec<String>,
    server: Option<String>,
    restarts: u64,
    stderr: Vec<String>,
    /// What keeps it from being used for good.
    failure: Option<StartError>,
}

// === impl Health ===

impl Health {
    /// A backend that is about to be started.
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

    /// It answers.
    pub(crate) fn ready(&self, ServerSummary { revision, notices, server }: ServerSummary) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Ready;
            condition.revision = Some(revision);
            condition.notices = notices;
            condition.server = server;
            condition.stderr = Vec::new();
        });
    }

    /// It failed and is started again after `retry_in`.
    pub(crate) fn restarting(&self, reason: &str, retry_in: Duration, stderr_tail: Vec<String>) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Restarting { reason: reason.to_owned(), retry_in: retry_in.as_secs() };
            condition.restarts += 1;
            condition.stderr = stderr_tail;
        });
    }

    /// It cannot be used.
    pub(crate) fn failed(&self, error: &StartError, stderr_tail: Vec<String>) {
        self.0.send_modify(|condition| {
            condition.state = BackendState::Failed { reason: error.to_string() };
            condition.failure = Some(error.clone());
            condition.stderr = stderr_tail;
        });
    }

    /// Waits until the first start has come to an end, whichever.
    pub(crate) async fn settled(&self) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|condition| condition.state != BackendState::Starting).await;
    }

    /// Whether it has ever failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.borrow().restarts > 0
    }

    /// Why it cannot be used at the moment; `None` where it may be tried.
    pub(crate) fn trouble(&self) -> Option<StartError> {
        let condition = self.0.borrow();
        match &condition.state {
            // without a wait it was lost a moment ago, and is being started
            BackendState::Starting | BackendState::Ready | BackendState::Restarting { retry_in: 0, .. } => None,
            BackendState::Restarting { reason, .. } => Some(StartError::Unreachable(reason.clone())),
            BackendState::Failed { reason } => {
                Some(condition.failure.clone().unwrap_or_else(|| StartError::Unreachable(reason.clone())))
            }
        }
    }

    /// What people and machines are shown. The counts are the catalog's to fill in.
    pub(crate) fn status(&self, spec: &BackendSpec, era: Option<EraStatus>, sessions: usize) -> BackendStatus {
        let condition = self.0.borrow().clone();
        BackendStatus {
            id: spec.id.to_string(),
            transport: spec.transport.name().to_owned(),
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

/// What a version lacks, for people.
pub(super) fn lacks(revision: Revision) -> Vec<String> {
    revision.lacks().into_iter().map(str::to_owned).collect()
}
