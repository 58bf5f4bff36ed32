//! The file of the master key, and the file of the next one while it is rotated.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::{
    oauth::{error::OAuthError, secrets::opaque},
    support::{Random, SealingKey},
};

/// Longest file provided by the operator, in bytes: a key, and space around it.
const MAX_NAMED: u64 = 4096;

/// The file of the master key.
pub(super) struct KeyFile<'a>(&'a Path);

// === impl KeyFile ===

impl<'a> KeyFile<'a> {
    pub(super) const fn new(path: &'a Path) -> Self {
        Self(path)
    }

    /// True if a file or folder has its name.
    pub(super) fn is_there(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// The error for a missing file.
    pub(super) fn missing(&self) -> OAuthError {
        OAuthError::MasterKeyMissing(self.0.display().to_string())
    }

    /// The key. Creates a missing file in a way that two processes that start together agree on the key.
    pub(super) fn read_or_create(&self, random: &dyn Random) -> Result<SealingKey, OAuthError> {
        if !self.0.exists() {
            self.create(random).map_err(|error| self.failed(error))?;
        }
        refuse_folder(self.0)?;
        let text = Zeroizing::new(fs::read_to_string(self.0).map_err(|error| self.failed(error))?);
        parse(text.trim()).ok_or(OAuthError::MasterKeyForm)
    }

    /// The key of an unfinished rotation.
    pub(super) fn read_next(&self) -> Result<Option<SealingKey>, OAuthError> {
        match fs::read_to_string(self.next()).map(Zeroizing::new) {
            // a file without a complete key was never used
            Ok(text) => Ok(parse(text.trim())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes a new next key. It is on the disk when this returns.
    pub(super) fn create_next(&self, random: &dyn Random) -> Result<SealingKey, OAuthError> {
        let text = Zeroizing::new(random.token());
        let written = write_new(&self.next(), &text).and_then(|()| self.sync_folder());
        written.map_err(|error| self.failed(error))?;
        parse(&text).ok_or(OAuthError::MasterKeyForm)
    }

    /// Replaces this key with the next one.
    pub(super) fn take_next(&self) -> Result<(), OAuthError> {
        let taken = fs::rename(self.next(), self.0).and_then(|()| self.sync_folder());
        taken.map_err(|error| self.failed(error))
    }

    /// Deletes the unused next key.
    pub(super) fn drop_next(&self) -> Result<(), OAuthError> {
        match fs::remove_file(self.next()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn create(&self, random: &dyn Random) -> io::Result<()> {
        let draft = self.beside(&opaque::base62(random, 12));
        write_new(&draft, &Zeroizing::new(random.token()))?;
        // a link fails if the name is taken, a rename would replace it
        let linked = fs::hard_link(&draft, self.0);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    }

    fn next(&self) -> PathBuf {
        self.beside("next")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{suffix}"));
        self.0.with_file_name(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        // only Unix has files of folders
        if cfg!(unix) { fs::File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> OAuthError {
        OAuthError::MasterKeyFile { path: self.0.display().to_string(), source }
    }
}

/// Refuses a folder that has the name of the file.
fn refuse_folder(path: &Path) -> Result<(), OAuthError> {
    if path.is_dir() { Err(OAuthError::MasterKeyFolder(path.display().to_string())) } else { Ok(()) }
}

/// The key in a file provided by the operator.
pub(super) fn read_named(path: &Path) -> Result<SealingKey, OAuthError> {
    refuse_folder(path)?;
    let name = || path.display().to_string();
    let mut text = Zeroizing::new(Vec::new());
    let read = fs::File::open(path).and_then(|file| file.take(MAX_NAMED).read_to_end(&mut text));
    read.map_err(|source| OAuthError::NamedMasterKey { path: name(), source })?;
    let text = std::str::from_utf8(&text).unwrap_or_default();
    parse(text.trim()).ok_or_else(|| OAuthError::NamedMasterKeyForm(name()))
}

/// Reads 32 bytes in base64url.
pub(super) fn parse(text: &str) -> Option<SealingKey> {
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
    bytes.as_slice().try_into().ok().map(SealingKey::new)
}

/// Writes a new file that only this user can read.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
