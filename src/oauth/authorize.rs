//! The authorization request (RFC 6749 4.1) as a state machine. Knows nothing of HTML, cookies and CSRF tokens.

use std::{fmt, time::Duration};

use super::{Error, KeyHolder, OAuth};
use crate::{
    model::{ClientId, Endpoint, Scopes},
    support::{Digest, Timestamp},
};

/// A browser: the digest of its session id, to which transactions are bound (`OA-68`). A browser that is not logged in
/// has one too; the binding moves with [`OAuth::rebind`] when the id is rotated at login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Browser(pub Digest);

/// An authorization request that waits for a person: 256 random bits, in base64url.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TransactionId(String);

/// How an authorization request goes on.
#[derive(Debug)]
pub enum Begun {
    /// It is valid: a person must log in and decide.
    Consent(TransactionId),
    /// It is wrong, and the client is to be told so.
    Redirect(Redirect),
    /// It is wrong, and the client cannot be told: a local page without a `Location` (`OA-63`).
    Page(Refusal),
}

/// A valid authorization request as the person must see it (`OA-70`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its id.
    pub id: TransactionId,
    /// The client.
    pub client: ClientId,
    /// What the client calls itself.
    pub client_name: String,
    /// Where the name comes from; nobody has verified it.
    pub client_origin: ClientOrigin,
    /// Where the answer goes.
    pub redirect: RedirectTarget,
    /// What its tokens will open.
    pub endpoint: Endpoint,
    /// The absolute URL of that endpoint.
    pub resource: String,
    /// What it asks for; the person grants [`Pending::scopes_for`] the one who is logged in.
    pub scopes: Scopes,
    /// How long the grant will live at most.
    pub grant_lifetime: Duration,
    /// When the request lapses.
    pub expires: Timestamp,
    /// Whether the person must give the key again although a session is live (`prompt=login`, `OA-77`).
    pub login: Login,
}

/// Whether the person must log in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A live session is enough.
    IfNeeded,
    /// The client asked for a fresh login.
    Fresh,
}

/// Where a client's description comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOrigin {
    /// It registered itself (RFC 7591): its name is its own claim.
    Registered,
}

/// Where a redirect URI leads, for people to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A web site: its host, with a port that is not the default.
    Web(String),
    /// An app on this computer that listens on this loopback host and port.
    Loopback(String),
    /// An app on this computer that owns this scheme.
    App(String),
}

/// A redirect to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The whole URI, to be sent with 303 and `no-store`.
    pub location: String,
    /// Whether the browser may be sent there without a click.
    pub trust: Trust,
}

/// Whether the browser may be sent somewhere without a click (`OA-75`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It may: answer 303.
    Automatic,
    /// It may not: show a page that says what happened, with a link to the location.
    ShowLink {
        /// The host to name in the link.
        host: String,
        /// What happened, for people.
        reason: String,
    },
}

/// Why a request ends on a local page (`OA-63`, `OA-76`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code of RFC 6749, such as `invalid_request`, `invalid_client`, `server_error`.
    pub error: &'static str,
    /// What happened and what to do.
    pub description: String,
    /// The status of the page: 400, 403, 500 or 503.
    pub status: u16,
}

impl OAuth {
    /// Checks the raw query string of an authorization request in the order of `OA-63`. A valid one is stored, bound
    /// to the browser.
    pub async fn begin(&self, query: &str, browser: &Browser) -> Begun {
        let _ = (query, browser);
        Begun::Page(Refusal { error: "server_error", description: "not built yet".to_owned(), status: 500 })
    }

    /// The request that waits, for rendering; `None` where it lapsed, was decided, or belongs to another browser.
    pub async fn pending(&self, id: &TransactionId, browser: &Browser) -> Result<Option<Pending>, Error> {
        let _ = (id, browser);
        Err(Error::Unfinished)
    }

    /// Moves what waits from one browser session id to the next, for the rotation at login (`OA-69`).
    pub async fn rebind(&self, from: &Browser, to: &Browser) -> Result<(), Error> {
        let _ = (from, to);
        Err(Error::Unfinished)
    }

    /// The person approves: makes the grant and the code. Works once; afterwards the transaction is gone.
    pub async fn approve(
        &self,
        id: &TransactionId,
        browser: &Browser,
        holder: &KeyHolder,
    ) -> Result<Redirect, Refusal> {
        let _ = (id, browser, holder);
        Err(Refusal { error: "server_error", description: "not built yet".to_owned(), status: 500 })
    }

    /// The person refuses: the client is told `access_denied`. Works once.
    pub async fn deny(&self, id: &TransactionId, browser: &Browser) -> Result<Redirect, Refusal> {
        let _ = (id, browser);
        Err(Refusal { error: "server_error", description: "not built yet".to_owned(), status: 500 })
    }
}

// === impl Pending ===

impl Pending {
    /// What the holder of this key would grant: administration only where the key has it (`OA-67`, N-61).
    pub fn scopes_for(&self, holder: &KeyHolder) -> Scopes {
        let allowed = |scope: &&crate::model::Scope| holder.rights.admin || **scope != crate::model::Scope::Admin;
        self.scopes.iter().filter(allowed).cloned().collect()
    }
}

// === impl TransactionId ===

impl TransactionId {
    /// Reads an id back from a form or URL; `None` where it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (text.len() == 43 && text.chars().all(fits)).then(|| Self(text.to_owned()))
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionId({}…)", self.0.get(..4).unwrap_or_default())
    }
}
