//! `lockkeeper master-key`: the key that encrypts the secrets in the database. The gateway must not run.

use std::sync::Arc;

use clap::Subcommand;

use super::{arguments, failure::CommandFailure, process::ProcessContext, store};
use crate::{
    app::{DataLock, DataLockError, database},
    audit::{Audit, KeyEvent},
    config::{DataPlaces, files},
    oauth::master_key,
    support::{OsRandom, SystemClock},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper master-key rotate

Stop the gateway first: it keeps the key in memory. Nobody has to log in again,
and all API keys and tokens stay valid. Backups of the database from before the
rotation need the old key: keep it with them.";

/// Subcommands of `master-key`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum MasterKeyCommand {
    /// Replaces the key, and encrypts every secret in the database under the new one
    Rotate,
}

// === impl MasterKeyCommand ===

impl MasterKeyCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::Rotate => rotate(process).await,
        }
    }
}

async fn rotate(process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let DataPlaces { folder, database } = arguments::data_places(process)?;
    store::exists(&database)?;
    let _lock = DataLock::take(&folder).map_err(|error| match error {
        DataLockError::InUse { .. } => CommandFailure::failed("the master key was not rotated")
            .why(error)
            .advise("stop the gateway first: it keeps the key in memory"),
        DataLockError::Unusable(..) => CommandFailure::failed("the master key was not rotated").why(error),
    })?;
    let storage = database::open(&database)
        .await
        .map_err(|error| CommandFailure::failed(format!("the database {database} cannot be opened")).why(error))?;
    let rotated = master_key::rotate(&files::master_key(&folder), &storage, &OsRandom).await;
    if rotated.is_ok() {
        let audit = Audit::new(storage.clone(), Arc::new(SystemClock));
        audit.record(KeyEvent::MasterRotated);
        if let Err(error) = audit.write().await {
            tracing::warn!(%error, "the audit trail could not be written");
        }
    }
    storage.close().await;
    let secrets = rotated?;
    process
        .output
        .remark(&format!("the master key is replaced, and {secrets} secrets are encrypted under the new one"));
    Ok(())
}
