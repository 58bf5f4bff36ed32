//! The file of one login: client, tokens, and the authorization request that a person may be answering. Shared by all
//! of a person's processes, and readable only by that person (mode 0600).

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::{
    authorization_request::OpenAuthorization,
    error::LoginError,
    registration::RegisteredClient,
    saved_tokens::{RefreshEnd, SavedTokens},
    tokens::TokenSource,
};
use crate::support::{Digest, Timestamp};

/// Interval of the attempts to lock a file that another process holds.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// Time over which registrations that replace lost ones are counted, and their maximum number.
const REGISTRATIONS: (Duration, usize) = (Duration::from_hours(1), 3);

#[derive(Debug, Clone)]
pub struct LoginFile {
    path: PathBuf,
    /// The file of an earlier version, which identified logins only by the server, and the client that it may belong
    /// to.
    earlier: Option<(PathBuf, String)>,
}

/// A login among several at one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginName<'a> {
    /// The client, if it was registered by hand.
    pub client_id: Option<&'a str>,
    /// The person's name for the account.
    pub account: Option<&'a str>,
}

/// Content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "StoredLogin", into = "StoredLogin")]
pub(super) struct Login {
    /// URL of the server, for people who read the file.
    pub(super) server: String,
    pub(super) state: SavedLogin,
    /// The login waiting for a person. Until it succeeds, `state` stays unchanged: the server may have moved to another
    /// authorization server.
    pub(super) pending: Option<WaitingLogin>,
    /// True if the token endpoint has just said that it does not know the last login's client. Not in the file.
    pub(super) lost_client: bool,
    /// The latest registrations that replaced lost ones.
    registered: Vec<Timestamp>,
    /// Digest of the headers with which the person logged in.
    pub(super) headers: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) enum SavedLogin {
    /// There are no tokens; the client comes from an earlier login.
    LoggedOut(Option<RegisteredClient>),
    LoggedIn(Box<TokenSet>),
}

/// Tokens, with the authorization server that issued them and the client that got them. They are sent to no other
/// authorization server.
#[derive(Debug, Clone)]
pub(super) struct TokenSet {
    pub(super) source: TokenSource,
    pub(super) client: RegisteredClient,
    pub(super) tokens: SavedTokens,
}

#[derive(Debug, Clone)]
pub(super) struct WaitingLogin {
    pub(super) source: TokenSource,
    pub(super) client: RegisteredClient,
    pub(super) open: OpenAuthorization,
}

/// The login as stored in the file.
#[derive(Serialize, Deserialize)]
struct StoredLogin {
    server: String,
    source: Option<TokenSource>,
    client: Option<RegisteredClient>,
    tokens: Option<SavedTokens>,
    pending: Option<StoredPending>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    registered: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
}

/// An authorization request in the file. Files of an earlier version have no source and client in it.
#[derive(Serialize, Deserialize)]
struct StoredPending {
    source: Option<TokenSource>,
    client: Option<RegisteredClient>,
    #[serde(flatten)]
    open: OpenAuthorization,
}

/// Exclusive access to a login; ends when it is dropped, or with the process.
#[derive(Debug)]
pub(super) struct LoginLock {
    _file: File,
}

// === impl Login ===

impl Login {
    /// The tokens, if there are any.
    pub(super) const fn tokens(&self) -> Option<&SavedTokens> {
        match &self.state {
            SavedLogin::LoggedIn(set) => Some(&set.tokens),
            SavedLogin::LoggedOut(_) => None,
        }
    }

    /// The client of the last login, if this authorization server knows it.
    pub(super) fn client_of(&self, issuer: &str) -> Option<&RegisteredClient> {
        self.client().filter(|client| client.issuer == issuer)
    }

    fn client(&self) -> Option<&RegisteredClient> {
        match &self.state {
            SavedLogin::LoggedIn(set) => Some(&set.client),
            SavedLogin::LoggedOut(client) => client.as_ref(),
        }
    }

    /// True if the authorization server has said that it does not know the last login's client.
    pub(super) fn has_lost_client(&self) -> bool {
        self.lost_client || self.tokens().is_some_and(|tokens| tokens.end == Some(RefreshEnd::ClientIsUnknown))
    }

    /// Counts a registration that replaces a lost one. Returns false if there were too many.
    pub(super) fn register_again(&mut self, now: Timestamp) -> bool {
        let (time, most) = REGISTRATIONS;
        self.registered.retain(|at| now.since(*at) < time);
        if self.registered.len() >= most {
            return false;
        }
        self.registered.push(now);
        self.lost_client = false;
        true
    }

    /// The login without anything from a source that does not fit.
    pub(super) fn retain(mut self, fits: impl Fn(&TokenSource) -> bool) -> Self {
        self.pending = self.pending.filter(|pending| fits(&pending.source));
        self.state = match self.state {
            SavedLogin::LoggedIn(set) if !fits(&set.source) => SavedLogin::LoggedOut(Some(set.client)),
            state => state,
        };
        self
    }

    /// Forgets a client whose authorization request got no response: the authorization server may have forgotten the
    /// client and shown that only to the person.
    pub(super) fn forget_unanswered_client(&mut self, client: &RegisteredClient) {
        if self.client_of(&client.issuer).is_some_and(|known| known.id == client.id) && self.tokens().is_none() {
            self.state = SavedLogin::default();
        }
    }
}

impl From<StoredLogin> for Login {
    fn from(stored: StoredLogin) -> Self {
        let StoredLogin { server, source, client, tokens, pending, registered, headers } = stored;
        let (state, pending) = match pending {
            None => (SavedLogin::of(source, client, tokens), None),
            Some(StoredPending { source: Some(of_pending), client: Some(with), open }) => {
                (SavedLogin::of(source, client, tokens), WaitingLogin::checked(of_pending, with, open))
            }
            // from an earlier version: source and client are the request's, and the tokens may be another server's
            Some(StoredPending { open, .. }) => {
                let request = source.zip(client);
                (
                    SavedLogin::default(),
                    request.and_then(|(source, client)| WaitingLogin::checked(source, client, open)),
                )
            }
        };
        Self { server, state, pending, lost_client: false, registered, headers }
    }
}

impl From<Login> for StoredLogin {
    fn from(login: Login) -> Self {
        let Login { server, state, pending, registered, headers, .. } = login;
        let pending = pending.map(|WaitingLogin { source, client, open }| StoredPending {
            source: Some(source),
            client: Some(client),
            open,
        });
        let (source, client, tokens) = match state {
            SavedLogin::LoggedOut(client) => (None, client, None),
            SavedLogin::LoggedIn(set) => {
                let TokenSet { source, client, tokens } = *set;
                (Some(source), Some(client), Some(tokens))
            }
        };
        Self { server, source, client, tokens, pending, registered, headers }
    }
}

// === impl SavedLogin ===

impl SavedLogin {
    fn of(source: Option<TokenSource>, client: Option<RegisteredClient>, tokens: Option<SavedTokens>) -> Self {
        match (source, client, tokens) {
            (Some(source), Some(client), Some(tokens)) if client.issuer == source.issuer => {
                Self::LoggedIn(Box::new(TokenSet { source, client, tokens }))
            }
            (_, client, _) => Self::LoggedOut(client),
        }
    }
}

impl Default for SavedLogin {
    fn default() -> Self {
        Self::LoggedOut(None)
    }
}

// === impl WaitingLogin ===

impl WaitingLogin {
    fn checked(source: TokenSource, client: RegisteredClient, open: OpenAuthorization) -> Option<Self> {
        (client.issuer == source.issuer).then_some(Self { source, client, open })
    }
}

// === impl LoginFile ===

impl LoginFile {
    /// The file of a login at `server`, in this folder.
    pub fn new(folder: &Path, server: &Url, login: LoginName<'_>) -> Self {
        let path = |key: &str| folder.join(format!("{}.json", &Digest::sha256(key).to_base64url()[..22]));
        let plain = path(server.as_str());
        let LoginName { client_id, account } = login;
        if login == LoginName::default() {
            return Self { path: plain, earlier: None };
        }
        let key = json!([server.as_str(), client_id, account]).to_string();
        let earlier = client_id.filter(|_| account.is_none()).map(|id| (plain, id.to_owned()));
        Self { path: path(&key), earlier }
    }

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

    /// Waits for exclusive access. The lock is a file of its own, since each write replaces the login's.
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

    /// Reads the login; returns an empty one if the file is missing, or has other content.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be opened.
    pub(super) fn read(&self) -> Result<Login, LoginError> {
        if let Some((path, id)) = self.earlier.as_ref().filter(|_| !self.path.exists()) {
            let login = Self { path: path.clone(), earlier: None }.read()?;
            let is_of_client = login.client().is_some_and(|client| client.id == *id);
            return Ok(if is_of_client { login } else { Login::default() });
        }
        match fs::read(&self.path) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::warn!(file = %self.path.display(), %error, "the saved login cannot be read: a new one begins");
                Login::default()
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Login::default()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Replaces the login atomically, under the lock.
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

/// Options for a file that only its owner can read.
fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn source(host: &str) -> Value {
        json!({
            "issuer": format!("https://{host}"), "authorization_endpoint": format!("https://{host}/authorize"),
            "token_endpoint": format!("https://{host}/token"), "revocation_endpoint": null, "resource": null,
        })
    }

    fn client(host: &str) -> Value {
        let (issuer, redirect_uri) = (format!("https://{host}"), "http://127.0.0.1:1/callback");
        json!({ "issuer": issuer, "id": host, "secret": null, "secret_in_body": false, "redirect_uri": redirect_uri })
    }

    fn tokens() -> Value {
        json!({ "access": "a", "refresh": "r", "expires": null, "scope": null, "issued": 0, "by": "refresh_token" })
    }

    fn request() -> Value {
        json!({ "url": "https://b/authorize", "state": "s", "verifier": "v", "returns_issuer": false, "begun": 0 })
    }

    fn read(login: &Value) -> Login {
        serde_json::from_value(login.clone()).unwrap()
    }

    /// The issuers of the tokens and of the request that waits.
    fn issuers(login: &Login) -> (Option<&str>, Option<&str>) {
        let of_tokens = match &login.state {
            SavedLogin::LoggedIn(set) => Some(&*set.source.issuer),
            SavedLogin::LoggedOut(_) => None,
        };
        (of_tokens, login.pending.as_ref().map(|pending| &*pending.source.issuer))
    }

    #[test]
    fn up_017_tokens_and_a_request_that_waits_have_each_their_own_authorization_server() {
        let mut pending = request();
        (pending["source"], pending["client"]) = (source("b"), client("b"));
        let file = json!({
            "server": "x", "source": source("a"), "client": client("a"), "tokens": tokens(), "pending": pending,
        });
        let login = read(&file);
        assert_eq!(issuers(&login), (Some("https://a"), Some("https://b")));
        assert_eq!(serde_json::to_value(&login).unwrap(), file);
        assert_eq!(login.client_of("https://a").map(|client| &*client.id), Some("a"));
        assert!(login.client_of("https://b").is_none());
    }

    #[test]
    fn up_030_logins_of_other_clients_and_accounts_have_files_of_their_own() {
        let (folder, server) = (tempfile::tempdir().unwrap(), Url::parse("https://a.example/mcp").unwrap());
        let file = |client_id, account| LoginFile::new(folder.path(), &server, LoginName { client_id, account });
        let names = [(None, None), (Some("a"), None), (Some("b"), None), (None, Some("a")), (Some("a"), Some("a"))];
        let paths: Vec<PathBuf> = names.iter().map(|(client, account)| file(*client, *account).path).collect();
        for (index, path) in paths.iter().enumerate() {
            assert!(!paths[..index].contains(path), "{:?}", names[index]);
        }
        // an earlier version kept all logins at a server in one file
        let login = json!({
            "server": "x", "source": source("a"), "client": client("a"), "tokens": tokens(), "pending": null,
        });
        fs::write(&paths[0], login.to_string()).unwrap();
        let is_in = |client, account| file(client, account).read().unwrap().tokens().is_some();
        assert!(is_in(None, None) && is_in(Some("a"), None));
        assert!(!is_in(Some("b"), None) && !is_in(None, Some("a")) && !is_in(Some("a"), Some("a")));
    }

    #[test]
    fn up_023_a_lost_client_is_replaced_three_times_an_hour() {
        let (mut login, at) = (Login::default(), |minutes: i64| Timestamp::from_seconds(minutes * 60));
        let allowed: Vec<bool> = [0, 1, 2, 3, 59, 60, 61].map(|minutes| login.register_again(at(minutes))).into();
        assert_eq!(allowed, [true, true, true, false, false, true, true]);
        let read: Login = serde_json::from_value(serde_json::to_value(&login).unwrap()).unwrap();
        assert_eq!(read.registered, login.registered, "processes that start anew count on");
    }

    #[test]
    fn up_017_a_file_that_does_not_say_whose_the_tokens_are_has_none() {
        let file = |client: Value, pending: Value| {
            read(&json!({
                "server": "x", "source": source("b"), "client": client, "tokens": tokens(), "pending": pending,
            }))
        };
        // of an earlier version: the request has overwritten the source of the tokens
        assert_eq!(issuers(&file(client("b"), request())), (None, Some("https://b")));
        assert_eq!(issuers(&file(client("b"), Value::Null)), (Some("https://b"), None));
        assert_eq!(issuers(&file(client("a"), Value::Null)), (None, None));
        assert_eq!(issuers(&file(client("a"), request())), (None, None));
    }
}
