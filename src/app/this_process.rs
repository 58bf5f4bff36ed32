//! Information about the gateway's own process: for commands on this machine, and for the status.

use std::{io, sync::Arc, time::Duration};

use super::{
    outgoing::OutgoingCheck,
    run_record::{LeftRecords, RecordGuard},
};
use crate::{
    config::{Config, Environment},
    model::status::ProcessStatus,
};

/// Records of this process, and its check of outgoing connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ThisProcess {
    records: Arc<LeftRecords>,
    outgoing: Arc<OutgoingCheck>,
    environment: Environment,
}

// === impl ThisProcess ===

impl ThisProcess {
    /// For a gateway with this configuration. The data folder must exist.
    pub(super) fn of(config: &Config) -> io::Result<Self> {
        let (records, outgoing) = (Arc::new(LeftRecords::of(config)?), Arc::new(OutgoingCheck::of(config)));
        Ok(Self { records, outgoing, environment: config.environment.clone() })
    }

    /// Writes the records. Must be called while the data folder is locked.
    pub(super) fn announce(&self) -> io::Result<()> {
        self.records.leave(&self.environment)
    }

    /// Returns a guard that removes the record in the runtime folder when dropped. Drop it before the data folder is
    /// unlocked.
    pub(super) fn guard(&self) -> RecordGuard {
        RecordGuard::new(Arc::clone(&self.records))
    }

    /// Checks which configured hosts can be reached.
    pub(super) async fn check_outgoing(self) {
        self.outgoing.run().await;
    }

    /// This process in the form of the status.
    pub(super) fn status(&self, uptime: Duration) -> ProcessStatus {
        self.records.status(uptime)
    }

    /// What does not work without outgoing HTTPS, for the status.
    pub(super) fn unreachable(&self) -> Vec<String> {
        self.outgoing.findings()
    }
}
