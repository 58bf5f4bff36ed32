//! File of one login: client, tokens and the authorization that a person may be giving. Shared by all processes of one
//! person, readable by that person alone (mode 0600). Knows nothing of requests.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    authorization_request::OpenAuthorization,
    error::LoginError,
    registration::RegisteredClient,
    tokens::{SavedTokens, TokenSource},
};
use crate::support::Digest;

/// Interval of the attempts to lock a file that another process holds.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// File of the login at one server.
#[derive(Debug, Clone)]
pub struct LoginFile {
    path: PathBuf,
}

/// Content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Login {
    /// URL of the server, for people who read the file.
    pub(super) server: String,
    pub(super) source: Option<TokenSource>,
    pub(super) client: Option<RegisteredClient>,
    pub(super) tokens: Option<SavedTokens>,
    pub(super) pending: Option<OpenAuthorization>,
}

/// Exclusive access to a login; ends when it is dropped, or with the process.
#[derive(Debug)]
pub(super) struct LoginLock {
    _file: File,
}

// === impl Login ===

impl Login {
    /// Gives up a client whose authorization request got no response: the authorization server may not know it any more,
    /// and have told the person alone.
    pub(super) fn forget_unanswered_client(&mut self) {
        self.client = None;
    }
}

// === impl LoginFile ===

impl LoginFile {
    /// The file of the login at `server`, in this folder.
    pub fn new(folder: &Path, server: &Url) -> Self {
        let name = Digest::sha256(server.as_str()).to_base64url();
        Self { path: folder.join(format!("{}.json", &name[..22])) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the login. Returns `false` if there was none.
    ///
    /// # Errors
    ///
    /// An error if the file exists and cannot be removed.
    pub fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for exclusive access.
    pub(super) async fn lock(&self) -> Result<LoginLock, LoginError> {
        let file = private().open(self.path.with_extension("lock")).map_err(|error| self.failed(&error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(LoginLock { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(self.failed(&error)),
            }
        }
    }

    /// Reads the login; an empty one if there is no file, or an unreadable one.
    pub(super) fn read(&self) -> Result<Login, LoginError> {
        match fs::read(&self.path) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::warn!(file = %self.path.display(), %error, "the saved login cannot be read: a new one begins");
                Login::default()
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Login::default()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces the login at once.
    pub(super) fn write(&self, login: &Login, _: &LoginLock) -> Result<(), LoginError> {
        let next = self.path.with_extension("next");
        let write = || {
            let _ = fs::remove_file(&next);
            let mut file = private().create_new(true).open(&next)?;
            file.write_all(&serde_json::to_vec_pretty(login)?)?;
            file.sync_all()?;
            fs::rename(&next, &self.path)
        };
        write().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> LoginError {
        LoginError::File(format!("the login cannot be kept in {}: {error}", self.path.display()))
    }
}

/// Options for a file that only its owner reads.
fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
