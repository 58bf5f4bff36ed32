//! The authorization server's data, for administration commands; a gateway may run on it at the same time. Knows
//! nothing of what is administered.

use std::{path::Path, sync::Arc};

use super::{arguments, failure::CommandFailure, operator, process::ProcessContext};
use crate::{
    app::database,
    config::{DataPlaces, DatabasePlace, files},
    oauth::{self, MasterKeySource, OAuth, OAuthSettings},
    storage::{self, Storage},
    support::{Clock, OsRandom, SystemClock, Timestamp},
};

/// Handling of a missing database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Create it.
    Create,
    /// Fail: it has no data to show.
    Refuse,
}

/// An open database.
#[derive(Debug)]
pub struct AdminStore {
    /// The authorization server on it.
    pub oauth: OAuth,
    /// The database itself.
    pub storage: Storage,
}

impl AdminStore {
    /// Opens the database in the gateway's data folder.
    pub async fn open(process: &ProcessContext, absent: IfMissing) -> Result<Self, CommandFailure> {
        let DataPlaces { folder, database } = arguments::data_places(process)?;
        if absent == IfMissing::Refuse {
            exists(&database)?;
        }
        let unusable = |why: &dyn std::fmt::Display| {
            CommandFailure::failed(format!("the database {database} cannot be opened")).why(why)
        };
        files::create(&folder).map_err(|error| unusable(&error))?;
        let storage = database::open(&database).await.map_err(|error| unusable(&error))?;
        let oauth = open_oauth(&storage, &folder, operator::name(process)).await.map_err(|error| unusable(&error))?;
        Ok(Self { oauth, storage })
    }

    /// Writes what the command did into the audit trail, and closes the database.
    pub async fn close(self) {
        if let Err(error) = self.oauth.audit().write().await {
            tracing::warn!(%error, "the audit trail could not be written");
        }
        self.storage.close().await;
    }
}

/// Refuses a file that is not there.
pub fn exists(database: &DatabasePlace) -> Result<(), CommandFailure> {
    match database {
        DatabasePlace::File(path) if !path.exists() => {
            let folder = path.parent().unwrap_or(path);
            Err(CommandFailure::failed(format!("there is no gateway data in {}", folder.display()))
                .advise("set the folder: `--data-dir DIR` or `--config FILE`"))
        }
        DatabasePlace::File(_) | DatabasePlace::Server(_) => Ok(()),
    }
}

/// The authorization server without an issuer, which no command needs.
async fn open_oauth(storage: &Storage, folder: &Path, operator: String) -> Result<OAuth, oauth::OAuthError> {
    let settings = OAuthSettings {
        operator: Some(operator),
        master_key: MasterKeySource::File(files::master_key(folder)),
        ..OAuthSettings::new("http://localhost")
    };
    OAuth::open(storage.clone(), Arc::new(SystemClock), Arc::new(OsRandom), settings).await
}

/// The present moment.
pub fn now() -> Timestamp {
    SystemClock.now()
}

impl From<oauth::OAuthError> for CommandFailure {
    fn from(error: oauth::OAuthError) -> Self {
        let busy = matches!(&error, oauth::OAuthError::Storage(error) if storage::StorageError::is_busy(error));
        let failure = Self::failed("the database operation failed").why(error);
        if busy { failure.advise("the database is busy: try again") } else { failure }
    }
}
