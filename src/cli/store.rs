//! The authorization server's data, for administration commands; a gateway may run on it at the same time. Knows
//! nothing of what is administered.

use std::sync::Arc;

use super::{arguments, data_access, failure::CommandFailure, operator, process::ProcessContext};
use crate::{
    app::{self, database},
    config::{DataPlaces, DatabasePlace, files},
    oauth::{self, OAuth, OAuthSettings},
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
    pub async fn open(process: &mut ProcessContext, absent: IfMissing) -> Result<Self, CommandFailure> {
        let places = arguments::data_places(process)?;
        let DataPlaces { folder, database, .. } = &places;
        if absent == IfMissing::Refuse {
            exists(database)?;
        }
        if let Some(warning) = data_access::root_warning(folder) {
            process.output.remark(&format!("warning: {warning}"));
        }
        let unusable = |why: &dyn std::fmt::Display| {
            let failure = CommandFailure::failed(format!("the database {database} cannot be opened")).why(why);
            data_access::explained(failure, &places)
        };
        files::create(folder).map_err(|error| unusable(&error))?;
        let storage = database::open(database).await.map_err(|error| unusable(&error))?;
        let oauth = open_oauth(&storage, &places, operator::name(process)).await.map_err(|error| unusable(&error))?;
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
async fn open_oauth(storage: &Storage, places: &DataPlaces, operator: String) -> Result<OAuth, oauth::OAuthError> {
    let settings = OAuthSettings {
        operator: Some(operator),
        master_key: app::master_key_source(&places.master_key),
        private_proxies: places.trusted_proxies.trusts_private(),
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
        if matches!(error, oauth::OAuthError::NetworksBehindPrivateProxies) {
            return Self::usage("nothing was created").why(error).advise(
                "name the addresses of the proxies in `trusted_proxies` and restart the gateway, or leave `--network` away",
            );
        }
        let busy = matches!(&error, oauth::OAuthError::Storage(error) if storage::StorageError::is_busy(error));
        let failure = Self::failed("the database operation failed").why(error);
        if busy { failure.advise("the database is busy: try again") } else { failure }
    }
}
