//! Everything that is sealed under the master key, in any table.

use sqlx::{Any, Transaction};

use super::database::{Database, StorageError};

/// A value sealed under the master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterSealed {
    /// A value of the gateway, by its name.
    GatewayValue(String),
    /// The private part of a signing key, by its id.
    SigningKey(String),
    /// The data key of this owner.
    DataKey(String),
}

/// Values sealed under the master key.
#[derive(Debug, Clone, Copy)]
pub struct MasterSealedValues<'a>(pub(super) &'a Database);

impl MasterSealedValues<'_> {
    /// Replaces each of them by the result of `reseal`, in one transaction; returns their number. If one cannot be
    /// resealed, nothing changes.
    pub async fn reseal<E: From<StorageError>>(
        &self,
        mut reseal: impl FnMut(&MasterSealed, &[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<usize, E> {
        let mut change = self.0.change().await?;
        let values = list(&mut change).await?;
        for (value, sealed) in &values {
            let resealed = reseal(value, sealed)?;
            replace(&mut change, value, &resealed).await?;
        }
        change.commit().await.map_err(StorageError::from)?;
        Ok(values.len())
    }
}

async fn list(change: &mut Transaction<'_, Any>) -> Result<Vec<(MasterSealed, Vec<u8>)>, StorageError> {
    // notices for the next start are not secret
    let gateway = "SELECT name, value FROM gateway WHERE name NOT LIKE 'notice: %'";
    let mut values = rows(change, gateway, MasterSealed::GatewayValue).await?;
    values.extend(rows(change, "SELECT kid, sealed FROM signing_keys", MasterSealed::SigningKey).await?);
    values.extend(rows(change, "SELECT owner, sealed FROM data_keys", MasterSealed::DataKey).await?);
    Ok(values)
}

async fn rows(
    change: &mut Transaction<'_, Any>,
    query: &'static str,
    kind: fn(String) -> MasterSealed,
) -> Result<Vec<(MasterSealed, Vec<u8>)>, StorageError> {
    let rows: Vec<(String, Vec<u8>)> = sqlx::query_as(query).fetch_all(&mut **change).await?;
    Ok(rows.into_iter().map(|(name, sealed)| (kind(name), sealed)).collect())
}

async fn replace(change: &mut Transaction<'_, Any>, value: &MasterSealed, sealed: &[u8]) -> Result<(), StorageError> {
    let (query, name) = match value {
        MasterSealed::GatewayValue(name) => ("UPDATE gateway SET value = $1 WHERE name = $2", name),
        MasterSealed::SigningKey(kid) => ("UPDATE signing_keys SET sealed = $1 WHERE kid = $2", kid),
        MasterSealed::DataKey(owner) => {
            ("UPDATE data_keys SET sealed = $1, version = version + 1 WHERE owner = $2", owner)
        }
    };
    sqlx::query(query).bind(sealed).bind(name).execute(&mut **change).await?;
    Ok(())
}
