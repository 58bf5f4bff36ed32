//! Rotation of the master key (`OA-134`, `UP-2`): creates a new key, and encrypts everything with it that was encrypted
//! with the old one.
//!
//! The new key is on the disk, in its own file, before the database changes in one transaction. Then it replaces the
//! old one. If this is interrupted at any point, either file opens the database, and [`super::master_key`] finds out
//! which. Callers hold the lock of the data folder, because a running gateway keeps the old key in memory.

use std::path::Path;

use super::{
    current::{opens, read_or_create},
    key_file::KeyFile,
};
use crate::{
    oauth::{error::OAuthError, secrets::signing},
    storage::{MasterSealed, Storage},
    support::{Random, SealingKey},
    vault,
};

/// Replaces the master key. Returns the number of secrets that were encrypted again.
pub async fn rotate(path: &Path, storage: &Storage, random: &dyn Random) -> Result<usize, OAuthError> {
    finish_rotation(path, storage, random).await?;
    let file = KeyFile::new(path);
    let old = read_or_create(&file, storage, random).await?;
    let new = file.create_next(random)?;
    let reseal = |value: &MasterSealed, sealed: &[u8]| reseal(value, sealed, &old, &new, random);
    let resealed = match storage.master_sealed().reseal(reseal).await {
        Ok(resealed) => resealed,
        Err(error) => {
            // a commit that reported failure may still have been written
            if opens(&old, storage).await? {
                file.drop_next()?;
            }
            return Err(error);
        }
    };
    file.take_next()?;
    Ok(resealed)
}

/// Finishes an interrupted rotation or takes it back, depending on the database.
pub async fn finish_rotation(path: &Path, storage: &Storage, random: &dyn Random) -> Result<(), OAuthError> {
    let file = KeyFile::new(path);
    let next = file.read_next()?;
    match next {
        None => file.drop_next(),
        Some(next) if !file.is_there() && opens(&next, storage).await? => file.take_next(),
        Some(_) if opens(&read_or_create(&file, storage, random).await?, storage).await? => file.drop_next(),
        Some(next) if opens(&next, storage).await? => file.take_next(),
        // neither belongs to this database; opening it will report that
        Some(_) => Ok(()),
    }
}

fn reseal(
    value: &MasterSealed,
    sealed: &[u8],
    old: &SealingKey,
    new: &SealingKey,
    random: &dyn Random,
) -> Result<Vec<u8>, OAuthError> {
    let context = match value {
        MasterSealed::GatewayValue(name) => name.clone(),
        MasterSealed::SigningKey(kid) => signing::sealing_context(kid),
        MasterSealed::DataKey(owner) => vault::data_key_context(owner),
    };
    Ok(new.seal(&old.open(sealed, context.as_bytes())?, context.as_bytes(), random)?)
}
