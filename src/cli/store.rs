//! Opens the authorization server's data for administration commands. A gateway may run on it at the same time.

pub(super) mod data_access;

use std::sync::Arc;

use super::{
    arguments,
    terminal::{
        failure::{CommandFailure, Exit},
        process::{CommandPurpose, ProcessContext},
    },
};
use crate::{
    app::{self, RunRecord, database},
    config::{DataPlaces, DatabasePlace, files},
    oauth::{self, OAuth, OAuthSettings},
    storage::{self, Storage},
    support::{Clock, OsRandom, SystemClock, Timestamp},
};

/// Handling of a missing database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Create it, if the person has named the data folder.
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
        agree_with_gateway(&places)?;
        let is_new = !database::is_filled(database).await;
        if is_new {
            may_create(absent, &places, process)?;
        }
        if process.purpose == CommandPurpose::ChangesData {
            let is_inside = matches!(database, DatabasePlace::File(path) if path.starts_with(folder));
            let place = if is_inside { folder.display().to_string() } else { database.to_string() };
            process.output.remark(&format!("{} {place}", if is_new { "new data:" } else { "data:" }));
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
        let opened = open_oauth(&storage, &places, process.operator()).await;
        let oauth = opened.map_err(|error| {
            let failure = unusable(&error);
            if error.is_of_configuration() { CommandFailure { exit: Exit::Usage, ..failure } } else { failure }
        })?;
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

/// Refuses a database other than the one of the gateway on the same folder: no gateway would see the changes.
pub(super) fn agree_with_gateway(places: &DataPlaces) -> Result<(), CommandFailure> {
    let DataPlaces { folder, database, .. } = places;
    let Some(gateway) = RunRecord::last_on(folder).filter(|gateway| !gateway.uses(database)) else { return Ok(()) };
    let is_there = !matches!(database, DatabasePlace::File(path) if !path.exists());
    let which = if gateway.is_locked() {
        format!("the gateway that is running there (process {})", gateway.pid)
    } else if is_there {
        // the person may mean this other database, since it exists
        return Ok(());
    } else {
        "the gateway that ran there last".to_owned()
    };
    let shown = match database {
        DatabasePlace::File(path) => format!("sqlite:{}", path.display()),
        DatabasePlace::Server(_) => format!("postgres://{database}"),
    };
    let advice = match &gateway.configuration {
        Some(file) => {
            format!("name its configuration: `--config {}`; or set LOCKKEEPER_DATABASE as it does", file.display())
        }
        None => "set LOCKKEEPER_DATABASE as it does".to_owned(),
    };
    Err(CommandFailure::usage("this command would use a database other than the gateway's, and nothing was changed")
        .why(format!(
            "{which}, with its data in {}, uses {}; this command would use {shown}",
            folder.display(),
            gateway.database
        ))
        .advise(advice))
}

/// Refuses to create a database, unless it is a file and the person has named the data folder.
fn may_create(absent: IfMissing, places: &DataPlaces, process: &ProcessContext) -> Result<(), CommandFailure> {
    let DataPlaces { folder, database, .. } = places;
    match (absent, database) {
        (IfMissing::Create, DatabasePlace::File(_)) if process.is_data_dir_named => Ok(()),
        (IfMissing::Create, DatabasePlace::File(_)) => Err(no_data(database).advise(format!(
            "set the folder or the file of the gateway: `--data-dir DIR` or `--config FILE`; for a new one start it with \
             `lockkeeper serve`, or use `--data-dir {}`",
            folder.display()
        ))),
        (_, DatabasePlace::Server(_)) => {
            Err(no_data(database).advise("start the gateway once: it creates what it needs"))
        }
        (IfMissing::Refuse, DatabasePlace::File(_)) => exists(database),
    }
}

fn no_data(database: &DatabasePlace) -> CommandFailure {
    let place = match database {
        DatabasePlace::File(path) => path.parent().unwrap_or(path).display().to_string(),
        DatabasePlace::Server(_) => database.to_string(),
    };
    CommandFailure::failed(format!("there is no gateway data in {place}"))
}

/// Refuses a database file that does not exist.
pub fn exists(database: &DatabasePlace) -> Result<(), CommandFailure> {
    match database {
        DatabasePlace::File(path) if !path.exists() => {
            Err(no_data(database).advise("set the folder: `--data-dir DIR` or `--config FILE`"))
        }
        DatabasePlace::File(_) | DatabasePlace::Server(_) => Ok(()),
    }
}

/// The authorization server with a placeholder for the issuer, which no command needs.
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
                "name the addresses of the proxies in `trusted_proxies` and restart the gateway, or leave out \
                 `--network`",
            );
        }
        let busy = matches!(&error, oauth::OAuthError::Storage(error) if storage::StorageError::is_busy(error));
        let failure = Self::failed("the database operation failed").why(error);
        if busy { failure.advise("the database is busy: try again") } else { failure }
    }
}
