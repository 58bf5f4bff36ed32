//! The authorization server's records, for the commands that administer them; a gateway may run on them meanwhile.
//! Knows nothing of what is administered.

use std::{path::Path, sync::Arc};

use super::{arguments::Data, failure::Failure, process::Process};
use crate::{
    config::files,
    oauth::{self, MasterKeySource, OAuth, Settings},
    storage::{self, Storage},
    support::{Clock, OsRandom, SystemClock, Timestamp},
};

/// Whether a database that does not exist is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It is.
    Create,
    /// It is not: there is nothing to be found in it.
    Refuse,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// The authorization server on it.
    pub oauth: OAuth,
    storage: Storage,
}

impl Store {
    /// Opens the store in the data folder that `data` names.
    pub async fn open(data: &Data, process: &Process, absent: Absent) -> Result<Self, Failure> {
        let folder = data.folder(process)?;
        let database = files::database(&folder);
        if absent == Absent::Refuse && !database.exists() {
            return Err(Failure::failed(format!("there is no gateway's data in {}", folder.display()))
                .advise("say where it is: `--data-dir DIR` or `--config FILE`"));
        }
        let unusable = |why: &dyn std::fmt::Display| {
            Failure::failed(format!("the database in {} cannot be opened", folder.display())).why(why)
        };
        files::create(&folder).map_err(|error| unusable(&error))?;
        let storage = Storage::open(&database).await.map_err(|error| unusable(&error))?;
        let oauth = open_oauth(&storage, &folder).await.map_err(|error| unusable(&error))?;
        Ok(Self { oauth, storage })
    }

    /// Writes everything out.
    pub async fn close(self) {
        self.storage.close().await;
    }
}

/// The authorization server without its issuer, which no command needs.
async fn open_oauth(storage: &Storage, folder: &Path) -> Result<OAuth, oauth::Error> {
    let settings =
        Settings { master_key: MasterKeySource::File(files::master_key(folder)), ..Settings::new("http://localhost") };
    OAuth::open(storage.clone(), Arc::new(SystemClock), Arc::new(OsRandom), settings).await
}

/// The present moment.
pub fn now() -> Timestamp {
    SystemClock.now()
}

impl From<oauth::Error> for Failure {
    fn from(error: oauth::Error) -> Self {
        let busy = matches!(&error, oauth::Error::Storage(error) if storage::Error::is_busy(error));
        let failure = Self::failed("the database did not do it").why(error);
        if busy { failure.advise("it is busy: try again") } else { failure }
    }
}
