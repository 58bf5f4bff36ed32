//! The master key, and secrets in the store under it. Knows nothing of what the secrets are for.
//!
//! The master key never lies in the database: it is a file beside it, or given, so that a copy of the database alone
//! opens nothing.

use std::{io::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::{error::Error, opaque, settings::MasterKeySource};
use crate::{
    storage::Storage,
    support::{Random, SealingKey},
};

/// The master key from where the operator keeps it; a file that does not exist is created with mode 0600.
pub fn master_key(source: &MasterKeySource, random: &dyn Random) -> Result<SealingKey, Error> {
    match source {
        MasterKeySource::Ephemeral => Ok(SealingKey::ephemeral(random)),
        MasterKeySource::Given(text) => parse(text.expose()).ok_or(Error::MasterKeyForm),
        MasterKeySource::File(path) => {
            let failed = |source| Error::MasterKeyFile { path: path.display().to_string(), source };
            create_key_file(path, random).map_err(failed)?;
            let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
            parse(text.trim()).ok_or(Error::MasterKeyForm)
        }
    }
}

/// 256 random bits that are made once and kept in the store under `key`, by this name.
pub async fn kept(
    key: &SealingKey,
    storage: &Storage,
    name: &'static str,
    random: &dyn Random,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let fresh = key.seal(&*Zeroizing::new(random.bytes::<32>()), name.as_bytes(), random)?;
    Ok(key.open(&storage.facts().get_or_add(name, &fresh).await?, name.as_bytes())?)
}

fn parse(text: &str) -> Option<SealingKey> {
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
    bytes.as_slice().try_into().ok().map(SealingKey::new)
}

/// Writes a new key into the file, where there is none: whole or not at all, so that two processes that start together
/// agree.
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
    // a link fails where the name is taken, a rename would replace it
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
    async fn what_is_kept_is_the_same_for_every_process_on_the_store() {
        let storage = Storage::in_memory().await.unwrap();
        let key = SealingKey::derived(&Secret::new("master"), "test");
        let first = kept(&key, &storage, "a", &OsRandom).await.unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(kept(&key, &storage, "a", &OsRandom).await.unwrap(), first);
        assert_ne!(kept(&key, &storage, "b", &OsRandom).await.unwrap(), first);
        let other = SealingKey::derived(&Secret::new("other"), "test");
        assert!(kept(&other, &storage, "a", &OsRandom).await.is_err());
    }

    #[test]
    fn the_key_file_is_made_once_and_for_its_owner_alone() {
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
