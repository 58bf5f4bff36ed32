//! The master key, and secrets encrypted under it in the store. Knows nothing of what the secrets are for.
//!
//! The master key is never in the database: it is a file beside it, or configured, so a copy of the database alone
//! reveals no secret.

use std::{io::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::{error::OAuthError, oauth_settings::MasterKeySource, opaque};
use crate::{
    storage::Storage,
    support::{Random, SealingKey},
};

/// Loads the master key; creates a missing file with mode 0600.
pub fn master_key(source: &MasterKeySource, random: &dyn Random) -> Result<SealingKey, OAuthError> {
    match source {
        MasterKeySource::Ephemeral => Ok(SealingKey::ephemeral(random)),
        MasterKeySource::Given(text) => parse(text.expose()).ok_or(OAuthError::MasterKeyForm),
        MasterKeySource::File(path) => {
            let failed = |source| OAuthError::MasterKeyFile { path: path.display().to_string(), source };
            create_key_file(path, random).map_err(failed)?;
            let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
            parse(text.trim()).ok_or(OAuthError::MasterKeyForm)
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

fn parse(text: &str) -> Option<SealingKey> {
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
    bytes.as_slice().try_into().ok().map(SealingKey::new)
}

/// Writes a new key into a missing file, atomically, so that two processes that start together agree.
fn create_key_file(path: &Path, random: &dyn Random) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", opaque::base62(random, 12)));
    let draft = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(Zeroizing::new(random.token()).as_bytes())?;
    file.sync_all()?;
    // a link fails if the name is taken, a rename would replace it
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{OsRandom, Secret};

    #[tokio::test]
    async fn a_stored_secret_is_the_same_for_every_process_on_the_database() {
        let storage = Storage::in_memory().await.unwrap();
        let key = SealingKey::derived(&Secret::new("master"), "test");
        let first = stored_secret(&key, &storage, "a", &OsRandom).await.unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(stored_secret(&key, &storage, "a", &OsRandom).await.unwrap(), first);
        assert_ne!(stored_secret(&key, &storage, "b", &OsRandom).await.unwrap(), first);
        let other = SealingKey::derived(&Secret::new("other"), "test");
        assert!(stored_secret(&other, &storage, "a", &OsRandom).await.is_err());
    }

    #[test]
    fn the_key_file_is_created_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let source = MasterKeySource::File(folder.path().join("master.key"));
        let sealed = master_key(&source, &OsRandom).unwrap().seal(b"x", b"c", &OsRandom).unwrap();
        assert!(master_key(&source, &OsRandom).unwrap().open(&sealed, b"c").is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join("master.key")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
