//! What the gateway says of its own process: to commands on this machine, and in the status.

use std::{io, sync::Arc, time::Duration};

use super::{
    outgoing::OutgoingCheck,
    run_record::{LeftRecords, RecordGuard},
};
use crate::{
    config::{Config, Environment},
    model::status::ProcessStatus,
};

/// This process. Cheap to clone.
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

    /// Leaves the records. Call it under the lock of the data folder.
    pub(super) fn announce(&self) -> io::Result<()> {
        self.records.leave(&self.environment)
    }

    /// Removes the record of the runtime folder on drop, which must be before the lock of the data folder is freed.
    pub(super) fn guard(&self) -> RecordGuard {
        RecordGuard::new(Arc::clone(&self.records))
    }

    /// Looks which of the configured hosts can be reached.
    pub(super) async fn check_outgoing(self) {
        self.outgoing.run().await;
    }

    /// For the status.
    pub(super) fn status(&self, uptime: Duration) -> ProcessStatus {
        self.records.status(uptime)
    }

    /// What does not work without outgoing HTTPS.
    pub(super) fn unreachable(&self) -> Vec<String> {
        self.outgoing.findings()
    }
}
