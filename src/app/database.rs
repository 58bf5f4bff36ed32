//! The database of the configuration. Knows nothing of what is stored.

use crate::{
    config::{Config, DatabasePlace},
    storage::{ClaimKind, DatabaseClaim, Storage, StorageError},
};

/// Opens the database at this place.
pub async fn open(place: &DatabasePlace) -> Result<Storage, StorageError> {
    match place {
        DatabasePlace::File(path) => Storage::open(path).await,
        DatabasePlace::Server(url) => Storage::connect(url.expose()).await,
    }
}

/// Claims the database for this gateway, which shares it with others only as a replica.
pub async fn claim(storage: &Storage, config: &Config) -> anyhow::Result<DatabaseClaim> {
    let kind = if config.replica.is_some() { ClaimKind::WithReplicas } else { ClaimKind::Alone };
    let place = &config.database;
    storage.claim(kind).await?.ok_or_else(|| match kind {
        ClaimKind::Alone => anyhow::anyhow!(
            "another gateway uses the database {place}: stop it, set another `database`, or give both a `[replica]`"
        ),
        ClaimKind::WithReplicas => {
            anyhow::anyhow!("a gateway without `[replica]` uses the database {place}: stop it, or give it one")
        }
    })
}
