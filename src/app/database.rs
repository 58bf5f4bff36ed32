//! Opening of the configured database.

use crate::{
    config::{Config, DatabasePlace},
    storage::{ClaimKind, DatabaseClaim, Storage, StorageError},
};

/// Opens the database at `place`.
pub async fn open(place: &DatabasePlace) -> Result<Storage, StorageError> {
    match place {
        DatabasePlace::File(path) => Storage::open(path).await,
        DatabasePlace::Server(url) => Storage::connect(url.expose()).await,
    }
}

/// True if a gateway has used the database at `place` before. Creates nothing and runs no migration. If the database
/// cannot be reached, returns true: opening it gives the reason.
pub async fn is_filled(place: &DatabasePlace) -> bool {
    match place {
        DatabasePlace::File(path) => path.exists(),
        DatabasePlace::Server(url) => match Storage::connect_as_is(url.expose()).await {
            Ok(storage) => {
                let is_filled = storage.has_tables().await;
                storage.close().await;
                is_filled
            }
            Err(_) => true,
        },
    }
}

/// Reserves the database for this gateway. With `[replica]`, other replicas may share it.
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
