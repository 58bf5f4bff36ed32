//! `lockkeeper master-key`: rotates the key that encrypts the secrets in the database. The gateway must not run.

use std::{path::Path, sync::Arc};

use clap::Subcommand;
use serde_json::json;

use crate::{
    app::{DataLock, DataLockError, database},
    audit::{Audit, KeyEvent},
    cli::{
        arguments, store,
        terminal::{
            documents::{Became, FormatArgs},
            ending,
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    config::{DataPlaces, MasterKeyPlace, files},
    oauth::master_key,
    support::{OsRandom, SystemClock},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper master-key rotate

Stop the gateway first: it keeps the key in memory. Nobody has to log in again,
and all API keys and tokens stay valid. Backups of the database from before the
rotation need the old key: keep it with them.

A key in a file of `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE is not
replaced: the command says what to do.";

/// Subcommands of `master-key`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum MasterKeyCommand {
    /// Replaces the key, and encrypts every secret in the database under the new one
    Rotate(FormatArgs),
}

// === impl MasterKeyCommand ===

impl MasterKeyCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::Rotate(form) => rotate(form, process).await,
        }
    }
}

/// The refusal to replace a key file that something else provides, with advice on rotating it by hand.
fn named(path: &Path, in_folder: &Path) -> CommandFailure {
    let (path, in_folder) = (path.display(), in_folder.display());
    CommandFailure::usage("the master key was not rotated")
        .why(format!("it is in {path}, which `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE names: the gateway only reads it"))
        .advise(format!(
            "stop the gateway; copy {path} to {in_folder}, readable only by the gateway's user; remove the setting and \
             run this \
             again; put the new content of {in_folder} where {path} comes from; set the setting again and delete {in_folder}"
        ))
}

async fn rotate(form: FormatArgs, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let DataPlaces { folder, database, master_key, .. } = arguments::data_places(process)?;
    store::exists(&database)?;
    let master_key = match master_key {
        MasterKeyPlace::InFolder(path) => path,
        MasterKeyPlace::Named(path) => return Err(named(&path, &files::master_key(&folder))),
    };
    let _lock = DataLock::take(&folder).map_err(|error| match error {
        DataLockError::InUse { .. } => CommandFailure::failed("the master key was not rotated")
            .why(error)
            .advise("stop the gateway first: it keeps the key in memory"),
        DataLockError::Unusable(..) => CommandFailure::failed("the master key was not rotated").why(error),
    })?;
    let storage = database::open(&database)
        .await
        .map_err(|error| CommandFailure::failed(format!("the database {database} cannot be opened")).why(error))?;
    let rotated = master_key::rotate(&master_key, &storage, &OsRandom).await;
    if rotated.is_ok() {
        let audit = Audit::new(storage.clone(), Arc::new(SystemClock));
        audit.record(KeyEvent::MasterRotated);
        if let Err(error) = audit.write().await {
            tracing::warn!(%error, "the audit trail could not be written");
        }
    }
    storage.close().await;
    let secrets = rotated?;
    let sentence = format!(
        "the master key in {} is replaced, and {secrets} secrets are encrypted under the new one",
        master_key.display()
    );
    let what = json!({ "file": master_key.display().to_string(), "secrets": secrets });
    ending::tell(form, what, Became::Rotated, &sentence, process);
    Ok(())
}
