//! Secrets under a key: XChaCha20-Poly1305 with a random nonce in front. Knows nothing of what is sealed.
//!
//! The master key never lies in the database: it is a file beside it, or given, so that a copy of the database alone
//! opens nothing.

use std::{io::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305,
    aead::{Aead as _, Payload},
};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Error, MasterKeySource};
use crate::{
    storage::Storage,
    support::{Random, Secret},
};

const NONCE: usize = 24;

/// A 256-bit key to seal under; wiped when dropped.
pub struct SealingKey(Zeroizing<[u8; 32]>);

impl SealingKey {
    /// The master key from where the operator keeps it; a file that does not exist is created with mode 0600.
    pub fn master(source: &MasterKeySource, random: &dyn Random) -> Result<Self, Error> {
        match source {
            MasterKeySource::Ephemeral => Ok(Self(Zeroizing::new(random.bytes()))),
            MasterKeySource::Given(text) => Self::parse(text.expose()).ok_or(Error::MasterKeyForm),
            MasterKeySource::File(path) => {
                let failed = |source| Error::MasterKeyFile { path: path.display().to_string(), source };
                create_key_file(path, random).map_err(failed)?;
                let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
                Self::parse(text.trim()).ok_or(Error::MasterKeyForm)
            }
        }
    }

    /// 256 random bits that are made once and kept in the store under this key, by this name.
    pub async fn kept(
        &self,
        storage: &Storage,
        name: &'static str,
        random: &dyn Random,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let fresh = self.seal(&*Zeroizing::new(random.bytes::<32>()), name, random)?;
        self.open(&storage.fact_or_add(name, &fresh).await?, name)
    }

    /// A key derived from a secret that the gateway does not keep (RFC 5869), for this purpose alone.
    pub fn derived(secret: &Secret, purpose: &str) -> Self {
        Self::expanded(secret.expose().as_bytes(), purpose)
    }

    /// A key derived from this one, for this purpose alone: the same in every process with the same master key.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Self {
        Self::expanded(&*self.0, purpose)
    }

    /// Seals `plain`; it opens with the same `context` alone.
    pub fn seal(&self, plain: &[u8], context: &str, random: &dyn Random) -> Result<Vec<u8>, Error> {
        let nonce: [u8; NONCE] = random.bytes();
        let sealed = self.cipher().encrypt(&nonce.into(), Payload { msg: plain, aad: context.as_bytes() });
        sealed.map(|sealed| [nonce.as_slice(), &sealed].concat()).map_err(|_| Error::Sealed)
    }

    /// Opens what [`Self::seal`] made under the same key and context.
    pub fn open(&self, sealed: &[u8], context: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or(Error::Sealed)?;
        let plain = self.cipher().decrypt(&(*nonce).into(), Payload { msg: sealed, aad: context.as_bytes() });
        plain.map(Zeroizing::new).map_err(|_| Error::Sealed)
    }

    fn expanded(secret: &[u8], purpose: &str) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        // 32 bytes are far below the 255 hashes that HKDF can expand to, so that this cannot fail
        let _ = Hkdf::<Sha256>::new(None, secret).expand(purpose.as_bytes(), key.as_mut_slice());
        Self(key)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        bytes.as_slice().try_into().ok().map(|key| Self(Zeroizing::new(key)))
    }
}

/// Writes a new key into the file, where there is none: whole or not at all, so that two processes that start together
/// agree.
fn create_key_file(path: &Path, random: &dyn Random) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", super::opaque::base62(random, 12)));
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
    use crate::support::{OsRandom, SeededRandom};

    #[test]
    fn what_is_sealed_opens_in_its_context_alone() {
        let random = SeededRandom::new(1);
        let key = SealingKey::master(&MasterKeySource::Ephemeral, &random).unwrap();
        let sealed = key.seal(b"boat", "lock", &random).unwrap();
        assert_eq!(key.open(&sealed, "lock").unwrap().as_slice(), b"boat");
        assert!(key.open(&sealed, "canal").is_err());
        assert!(SealingKey::derived(&Secret::new("other"), "lock").open(&sealed, "lock").is_err());
        assert!(key.for_purpose("boats").open(&sealed, "lock").is_err());
        assert!(key.open(b"short", "lock").is_err());
    }

    #[tokio::test]
    async fn what_is_kept_is_the_same_for_every_process_on_the_store() {
        let storage = Storage::in_memory().await.unwrap();
        let key = SealingKey::derived(&Secret::new("master"), "test");
        let first = key.kept(&storage, "a", &OsRandom).await.unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(key.kept(&storage, "a", &OsRandom).await.unwrap(), first);
        assert_ne!(key.kept(&storage, "b", &OsRandom).await.unwrap(), first);
        assert!(SealingKey::derived(&Secret::new("other"), "test").kept(&storage, "a", &OsRandom).await.is_err());
    }

    #[test]
    fn the_key_file_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let source = MasterKeySource::File(folder.path().join("master.key"));
        let sealed = SealingKey::master(&source, &OsRandom).unwrap().seal(b"x", "c", &OsRandom).unwrap();
        assert!(SealingKey::master(&source, &OsRandom).unwrap().open(&sealed, "c").is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join("master.key")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
