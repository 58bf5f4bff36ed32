//! The authorization request (RFC 6749 4.1) as a state machine. Knows nothing of HTML, cookies and CSRF tokens.

mod request;
mod transaction;

use std::{fmt, time::Duration};

use request::{AuthorizationRequest, Rejected, Resolved};
use serde::{Deserialize, Serialize};

pub use self::transaction::{Kept, Transaction, Unusable};
use super::{Error, KeyHolder, OAuth, opaque, redirect_uri::RedirectUri};
use crate::{
    model::{ClientId, Endpoint, Grant, GrantId, Scope, Scopes, Target},
    support::{Digest, Secret, Timestamp},
};

/// A browser: the digest of what its cookie says, to which transactions are bound (`OA-68`). Before the login that is a
/// random value of which nothing is stored, after it a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Browser(pub Digest);

/// An authorization request that waits for a person: 256 random bits, in base64url.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TransactionId(String);

/// How an authorization request goes on.
#[derive(Debug)]
pub enum Begun {
    /// It is valid: a person must log in and decide. Nothing is stored yet.
    Valid(Box<Transaction>),
    /// It is wrong, and the client is to be told so.
    Redirect(Redirect),
    /// It is wrong, and the client cannot be told: a local page without a `Location` (`OA-63`).
    Page(Refusal),
}

/// A valid authorization request as the person who is logged in must see it (`OA-70`).
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
    /// When the request expires.
    pub expires: Timestamp,
}

/// Whether the person must log in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// A redirect to the client. `Debug` shows nothing of the query, which may hold a code.
#[derive(Clone, PartialEq, Eq)]
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
    /// Checks the raw query string of an authorization request in the order of `OA-63`. Nothing is stored.
    pub async fn begin(&self, query: &str) -> Begun {
        let (request, client_name) = match self.read_request(query).await {
            Ok(valid) => valid,
            Err(Rejected::Page(refusal)) => return Begun::Page(refusal),
            Err(Rejected::Client(answer)) => return Begun::Redirect(answer.redirect(self.settings())),
        };
        let expires = self.0.clock.now() + self.settings().policy.transaction_lifetime;
        let (id, login) = (TransactionId(self.0.random.token()), request.login);
        Begun::Valid(Box::new(Transaction { id, client_name, login, expires, request }))
    }

    /// The request that waits, for rendering; `None` where it lapsed, was decided, or belongs to another browser.
    pub async fn pending(&self, id: &TransactionId, browser: &Browser) -> Result<Option<Pending>, Error> {
        let Some((text, expires)) = self.0.storage.lookup_transaction(&id.digest(), &browser.0).await? else {
            return Ok(None);
        };
        let request = AuthorizationRequest::from_text(&text)?;
        let client = self.0.storage.lookup_client(&request.client).await?;
        let client = client.filter(|_| self.0.clock.now() < expires);
        let (Some(client), Some(Resolved { endpoint, scopes })) = (client, request.resolve(self.settings())) else {
            return Ok(None);
        };
        Ok(Some(Pending {
            id: id.clone(),
            client: client.id,
            client_name: client.name,
            client_origin: ClientOrigin::Registered,
            redirect: RedirectUri::stored(&request.redirect_uri).target().clone(),
            resource: self.settings().resource(&endpoint),
            endpoint,
            scopes,
            grant_lifetime: self.settings().policy.refresh_absolute,
            expires,
        }))
    }

    /// The person approves: makes the grant and the code. Works once; afterwards the transaction is gone.
    pub async fn approve(
        &self,
        id: &TransactionId,
        browser: &Browser,
        holder: &KeyHolder,
    ) -> Result<Redirect, Refusal> {
        if !self.key_is_live(&holder.key).await.map_err(|error| Refusal::internal(&error))? {
            return Err(Refusal::logged_out().logged());
        }
        let request = self.take_request(id, browser).await?;
        let Some(mut resolved) = request.resolve(self.settings()) else {
            return Ok(request.unknown_target().redirect(self.settings()));
        };
        resolved.scopes = grantable(&resolved.scopes, holder);
        let reached = match &resolved.endpoint.target {
            Target::Merged => true,
            Target::Backend(backend) => holder.rights.backends.access(backend).is_some(),
        };
        if !reached {
            return Ok(request
                .fail("access_denied", "the API key does not reach this backend")
                .redirect(self.settings()));
        }
        let code = Secret::new(self.0.random.token());
        match self.grant(&request, resolved, holder, &code).await {
            Ok(()) => Ok(request.succeed(&code, self.settings())),
            Err(error) => Err(Refusal::internal(&error)),
        }
    }

    /// The person refuses: the client is told `access_denied`. Works once.
    pub async fn deny(&self, id: &TransactionId, browser: &Browser) -> Result<Redirect, Refusal> {
        let request = self.take_request(id, browser).await?;
        tracing::info!(target: "audit", client = %request.client, "authorization denied");
        Ok(request.deny().redirect(self.settings()))
    }

    /// Takes the request out, so that it is decided once: of two that do so at the same time, one gets it.
    async fn take_request(&self, id: &TransactionId, browser: &Browser) -> Result<AuthorizationRequest, Refusal> {
        let taken = self.0.storage.decide_transaction(&id.digest(), &browser.0, self.0.clock.now()).await;
        let taken = taken.map_err(|error| Refusal::internal(&error.into()))?;
        let Some((text, expires)) = taken else { return Err(Refusal::gone().logged()) };
        if self.0.clock.now() >= expires {
            return Err(Refusal::lapsed().logged());
        }
        AuthorizationRequest::from_text(&text).map_err(|error| Refusal::internal(&error))
    }

    async fn grant(
        &self,
        request: &AuthorizationRequest,
        resolved: Resolved,
        holder: &KeyHolder,
        code: &Secret,
    ) -> Result<(), Error> {
        let now = self.0.clock.now();
        let end = now + self.settings().policy.refresh_absolute;
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*self.0.random, 22)),
            user: holder.user.clone(),
            key: holder.key.clone(),
            client: request.client.clone(),
            endpoint: resolved.endpoint,
            scopes: resolved.scopes,
            redirect_uri: request.redirect_uri.clone(),
            created: now,
            expires: self.key_expires(&holder.key).await?.map_or(end, |key_end| key_end.min(end)),
            last_used: None,
            revoked: None,
        };
        let lapses = now + self.settings().policy.code_lifetime;
        // which grant lay longest unused depends on them (OA-135)
        self.settle_uses().await?;
        let first_of = self.0.storage.add_grant(&grant, &code.digest(), request.challenge.as_str(), lapses).await?;
        if let Some(network) = first_of {
            // OA-42: registrations that somebody consents to do not count
            self.0.registrations.give_back(&network, now);
        }
        tracing::info!(target: "audit", client = %grant.client, user = %grant.user, grant = %grant.id, endpoint = %grant.endpoint, scopes = %grant.scopes, "authorization approved");
        Ok(())
    }
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn request(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into(), status: 400 }
    }

    fn internal(error: &Error) -> Self {
        tracing::error!(%error, "an authorization request failed");
        if error.is_busy() {
            return Self::busy();
        }
        let description =
            "Something inside the gateway failed. Try again; if it goes on, tell the operator.".to_owned();
        Self { error: "server_error", description, status: 500 }
    }

    fn busy() -> Self {
        let description = "The gateway is busy. Try again in a moment.".to_owned();
        Self { error: "temporarily_unavailable", description, status: 503 }
    }

    /// The same refusal, with a line in the log that has its reason.
    fn logged(self) -> Self {
        tracing::info!(target: "audit", error = self.error, reason = self.description, "OAuth request refused");
        self
    }

    fn gone() -> Self {
        let description = "This request was decided already, or it was begun in another browser. Start again from your \
                           MCP client.";
        Self { error: "invalid_request", description: description.to_owned(), status: 403 }
    }

    fn lapsed() -> Self {
        Self::request("invalid_request", "This request has lapsed. Start again from your MCP client.")
    }

    /// The API key of the browser session was revoked or has expired (`OA-128`).
    pub fn logged_out() -> Self {
        let description = "The API key of this session has ended. Log in with another one.".to_owned();
        Self { error: "access_denied", description, status: 403 }
    }
}

impl fmt::Debug for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.location.split('?').next().unwrap_or_default();
        f.debug_struct("Redirect").field("target", &target).field("trust", &self.trust).finish_non_exhaustive()
    }
}

// === impl Pending ===

impl Pending {
    /// What the holder of this key would grant: administration only where the key has it (`OA-67`, N-61).
    pub fn scopes_for(&self, holder: &KeyHolder) -> Scopes {
        grantable(&self.scopes, holder)
    }
}

/// The scopes that the holder of this key may grant.
fn grantable(scopes: &Scopes, holder: &KeyHolder) -> Scopes {
    let allowed = |scope: &&Scope| holder.rights.admin || **scope != Scope::Admin;
    scopes.iter().filter(allowed).cloned().collect()
}

// === impl TransactionId ===

impl TransactionId {
    /// How long the text of an id is, in bytes.
    const LENGTH: usize = 43;

    /// Reads an id back from a form or URL; `None` where it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (text.len() == Self::LENGTH && text.chars().all(fits)).then(|| Self(text.to_owned()))
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> Digest {
        Digest::sha256(&self.0)
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
