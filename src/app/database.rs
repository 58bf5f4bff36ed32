//! The database of the configuration. Knows nothing of what is stored.

use crate::{
    config::DatabasePlace,
    storage::{DatabaseClaim, Storage, StorageError},
};

/// Opens the database at this place.
pub async fn open(place: &DatabasePlace) -> Result<Storage, StorageError> {
    match place {
        DatabasePlace::File(path) => Storage::open(path).await,
        DatabasePlace::Server(url) => Storage::connect(url.expose()).await,
    }
}

/// Claims the database for this gateway: sessions and their streams are in the memory of one.
pub async fn claim(storage: &Storage, place: &DatabasePlace) -> anyhow::Result<DatabaseClaim> {
    let claim = storage.claim().await?;
    claim
        .ok_or_else(|| anyhow::anyhow!("another gateway uses the database {place}: stop it, or set another `database`"))
}
