//! The master key of a database, and secrets that are stored under it.

use zeroize::Zeroizing;

use super::key_file::{KeyFile, parse, read_named};
use crate::{
    oauth::{error::OAuthError, oauth_settings::MasterKeySource},
    storage::Storage,
    support::{Random, SealingKey},
};

/// The secret that identifies the master key of a database.
const PEPPER: &str = "pepper";

/// The master key of a database. Creates a missing file with mode 0600. After an interrupted rotation, it is the key
/// that the secrets of the database are encrypted with.
pub async fn master_key(
    source: &MasterKeySource,
    storage: &Storage,
    random: &dyn Random,
) -> Result<SealingKey, OAuthError> {
    match source {
        MasterKeySource::Ephemeral => Ok(SealingKey::ephemeral(random)),
        MasterKeySource::Given(text) => parse(text.expose()).ok_or(OAuthError::MasterKeyForm),
        MasterKeySource::Named(path) => read_named(path),
        MasterKeySource::File(path) => {
            let file = KeyFile::new(path);
            let key = read_or_create(&file, storage, random).await?;
            match file.read_next()? {
                Some(next) if !opens(&key, storage).await? => Ok(next),
                _ => Ok(key),
            }
        }
    }
}

/// A 256-bit secret of this name, created once and stored encrypted under `key`.
pub async fn stored_secret(
    key: &SealingKey,
    storage: &Storage,
    name: &'static str,
    random: &dyn Random,
) -> Result<Zeroizing<Vec<u8>>, OAuthError> {
    let fresh = key.seal(&*Zeroizing::new(random.bytes::<32>()), name.as_bytes(), random)?;
    Ok(key.open(&storage.gateway_values().get_or_add(name, &fresh).await?, name.as_bytes())?)
}

/// The HMAC key of API keys.
pub async fn pepper(
    key: &SealingKey,
    storage: &Storage,
    random: &dyn Random,
) -> Result<Zeroizing<Vec<u8>>, OAuthError> {
    stored_secret(key, storage, PEPPER, random).await
}

/// The key in a file. A missing file is created only for a database without secrets, because a new key could not
/// decrypt them.
pub(super) async fn read_or_create(
    file: &KeyFile<'_>,
    storage: &Storage,
    random: &dyn Random,
) -> Result<SealingKey, OAuthError> {
    // in this order: a process that has encrypted a secret wrote the key first
    let is_sealed = storage.gateway_values().lookup(PEPPER).await?.is_some();
    if is_sealed && !file.is_there() {
        return Err(file.missing());
    }
    file.read_or_create(random)
}

/// True if the secrets of the database are encrypted with this key, or it has none yet.
pub(super) async fn opens(key: &SealingKey, storage: &Storage) -> Result<bool, OAuthError> {
    let sealed = storage.gateway_values().lookup(PEPPER).await?;
    Ok(sealed.is_none_or(|sealed| key.open(&sealed, PEPPER.as_bytes()).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{OsRandom, Secret};

    #[tokio::test]
    async fn a_stored_secret_is_the_same_for_every_process_on_the_database() {
        let storage = Storage::empty().await;
        let key = SealingKey::derived(&Secret::new("master"), "test");
        let first = stored_secret(&key, &storage, "a", &OsRandom).await.unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(stored_secret(&key, &storage, "a", &OsRandom).await.unwrap(), first);
        assert_ne!(stored_secret(&key, &storage, "b", &OsRandom).await.unwrap(), first);
        let other = SealingKey::derived(&Secret::new("other"), "test");
        assert!(stored_secret(&other, &storage, "a", &OsRandom).await.is_err());
    }

    #[tokio::test]
    async fn a_named_file_is_read_with_its_line_end_and_never_created() {
        let (folder, storage) = (tempfile::tempdir().unwrap(), Storage::empty().await);
        let path = folder.path().join("secret");
        let source = MasterKeySource::Named(path.clone());
        let missing = master_key(&source, &storage, &OsRandom).await.err().unwrap();
        assert!(
            missing.is_of_configuration() && missing.to_string().contains("the gateway does not create it"),
            "{missing}"
        );
        assert!(!path.exists());
        for wrong in [String::new(), "short\n".to_owned(), "A".repeat(100_000)] {
            std::fs::write(&path, wrong).unwrap();
            let refused = master_key(&source, &storage, &OsRandom).await.err().unwrap();
            assert!(matches!(refused, OAuthError::NamedMasterKeyForm(_)), "{refused}");
        }
        std::fs::write(&path, format!("{}\r\n", "A".repeat(43))).unwrap();
        let mut mode = std::fs::metadata(&path).unwrap().permissions();
        mode.set_readonly(true);
        std::fs::set_permissions(&path, mode).unwrap();
        let key = master_key(&source, &storage, &OsRandom).await.unwrap();
        let sealed = key.seal(b"x", b"c", &OsRandom).unwrap();
        assert!(parse(&"A".repeat(43)).unwrap().open(&sealed, b"c").is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_missing_key_is_not_replaced_by_one_that_opens_nothing() {
        let (folder, storage) = (tempfile::tempdir().unwrap(), Storage::empty().await);
        let path = folder.path().join("master.key");
        let source = MasterKeySource::File(path.clone());
        let key = master_key(&source, &storage, &OsRandom).await.unwrap();
        pepper(&key, &storage, &OsRandom).await.unwrap();
        std::fs::rename(&path, folder.path().join("kept")).unwrap();
        let refused = master_key(&source, &storage, &OsRandom).await.err().unwrap();
        assert!(refused.is_of_configuration() && refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        assert!(!path.exists());
        // Docker creates it for a missing mount
        std::fs::create_dir(&path).unwrap();
        let refused = master_key(&source, &storage, &OsRandom).await.err().unwrap();
        assert!(matches!(refused, OAuthError::MasterKeyFolder(_)), "{refused}");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(folder.path().join("kept"), &path).unwrap();
        master_key(&source, &storage, &OsRandom).await.unwrap();
    }

    #[tokio::test]
    async fn the_key_file_is_created_once_and_readable_by_its_owner_only() {
        let (folder, storage) = (tempfile::tempdir().unwrap(), Storage::empty().await);
        let source = MasterKeySource::File(folder.path().join("master.key"));
        let key = master_key(&source, &storage, &OsRandom).await.unwrap();
        let sealed = key.seal(b"x", b"c", &OsRandom).unwrap();
        assert!(master_key(&source, &storage, &OsRandom).await.unwrap().open(&sealed, b"c").is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join("master.key")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
