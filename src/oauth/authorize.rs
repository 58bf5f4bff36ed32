//! The authorization request (RFC 6749 4.1) as a state machine. Knows nothing of HTML, cookies and CSRF tokens.

mod answer;
mod browser;
mod request;
mod transaction;

use std::{sync::Arc, time::Duration};

pub use self::{
    answer::{Redirect, Refusal, Trust},
    browser::{Browser, Login, TransactionId},
    transaction::{Kept, Transaction, Unusable},
};
use self::{
    request::{AuthorizationRequest, Rejected, Resolved},
    transaction::Sealer,
};
use super::{
    core::Core,
    error::Error,
    keys::{KeyHolder, Keys},
    opaque,
    redirect_uri::{RedirectTarget, RedirectUri},
    registration::Registrations,
    uses::Uses,
};
use crate::{
    model::{ClientId, Endpoint, Grant, GrantId, Scope, Scopes, Target},
    support::{SealingKey, Secret, Timestamp},
};

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

/// Where a client's description comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOrigin {
    /// It registered itself (RFC 7591): its name is its own claim.
    Registered,
}

/// The authorization endpoint.
pub struct Authorization {
    core: Core,
    keys: Arc<Keys>,
    registrations: Arc<Registrations>,
    uses: Arc<Uses>,
    sealer: Sealer,
}

// === impl Authorization ===

impl Authorization {
    /// Authorization requests that wait for a login are sealed under `key`.
    pub(super) fn new(keys: Arc<Keys>, registrations: Arc<Registrations>, uses: Arc<Uses>, key: SealingKey) -> Self {
        let core = keys.core.clone();
        Self { sealer: Sealer::new(core.clone(), key), core, keys, registrations, uses }
    }

    /// Checks the raw query string of an authorization request in the order of `OA-63`. Nothing is stored.
    pub async fn begin(&self, query: &str) -> Begun {
        let (request, client_name) = match request::read(&self.core, query).await {
            Ok(valid) => valid,
            Err(Rejected::Page(refusal)) => return Begun::Page(refusal),
            Err(Rejected::Client(answer)) => return Begun::Redirect(answer.redirect(&self.core.settings)),
        };
        let expires = self.core.now() + self.core.settings.policy.transaction_lifetime;
        let (id, login) = (TransactionId(self.core.random.token()), request.login);
        Begun::Valid(Box::new(Transaction { id, client_name, login, expires, request }))
    }

    /// The request as text for the form of a login page. It opens only for this browser, and until it expires. At most
    /// 7 KiB of base64url, so that it fits the form (`OA-30`).
    pub fn seal(&self, transaction: &Transaction, browser: &Browser) -> Result<String, Error> {
        self.sealer.seal(transaction, browser)
    }

    /// Opens what [`Self::seal`] returned, and checks the client and the redirect URI against the store again.
    pub async fn unseal(&self, sealed: &str, browser: &Browser) -> Result<Transaction, Unusable> {
        self.sealer.unseal(sealed, browser).await
    }

    /// Stores the request for the user who has logged in for it, bound to the browser session. A request that the same
    /// user has not decided yet moves to this browser session.
    pub async fn keep(&self, transaction: &Transaction, browser: &Browser, holder: &KeyHolder) -> Result<Kept, Error> {
        if transaction.request.resolve(&self.core.settings).is_none() {
            return Ok(Kept::Refused(transaction.request.unknown_target().redirect(&self.core.settings)));
        }
        let row = transaction.row(browser, holder)?;
        Ok(if self.core.storage.transactions().add(&row).await? { Kept::Waiting } else { Kept::Spent })
    }

    /// The person refuses without a login: the client is told `access_denied`. Nothing is stored.
    pub fn decline(&self, transaction: &Transaction) -> Redirect {
        tracing::info!(target: "audit", client = %transaction.request.client, "authorization denied without a login");
        transaction.request.deny().redirect(&self.core.settings)
    }

    /// The request that waits, for rendering; `None` where it lapsed, was decided, or belongs to another browser.
    pub async fn pending(&self, id: &TransactionId, browser: &Browser) -> Result<Option<Pending>, Error> {
        let Some((text, expires)) = self.core.storage.transactions().lookup(&id.digest(), &browser.0).await? else {
            return Ok(None);
        };
        let request = AuthorizationRequest::from_text(&text)?;
        let client = self.core.storage.clients().lookup(&request.client).await?;
        let client = client.filter(|_| self.core.now() < expires);
        let (Some(client), Some(Resolved { endpoint, scopes })) = (client, request.resolve(&self.core.settings)) else {
            return Ok(None);
        };
        Ok(Some(Pending {
            id: id.clone(),
            client: client.id,
            client_name: client.name,
            client_origin: ClientOrigin::Registered,
            redirect: RedirectUri::stored(&request.redirect_uri).target().clone(),
            resource: self.core.settings.resource(&endpoint),
            endpoint,
            scopes,
            grant_lifetime: self.core.settings.policy.refresh_absolute,
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
        if !self.keys.is_live(&holder.key).await.map_err(|error| Refusal::internal(&error))? {
            return Err(Refusal::logged_out().logged());
        }
        let request = self.take_request(id, browser).await?;
        let Some(mut resolved) = request.resolve(&self.core.settings) else {
            return Ok(request.unknown_target().redirect(&self.core.settings));
        };
        resolved.scopes = grantable(&resolved.scopes, holder);
        let reached = match &resolved.endpoint.target {
            Target::Merged => true,
            Target::Backend(backend) => holder.rights.backends.access(backend).is_some(),
        };
        if !reached {
            return Ok(request
                .fail("access_denied", "the API key does not reach this backend")
                .redirect(&self.core.settings));
        }
        let code = Secret::new(self.core.random.token());
        match self.grant(&request, resolved, holder, &code).await {
            Ok(()) => Ok(request.succeed(&code, &self.core.settings)),
            Err(error) => Err(Refusal::internal(&error)),
        }
    }

    /// The person refuses: the client is told `access_denied`. Works once.
    pub async fn deny(&self, id: &TransactionId, browser: &Browser) -> Result<Redirect, Refusal> {
        let request = self.take_request(id, browser).await?;
        tracing::info!(target: "audit", client = %request.client, "authorization denied");
        Ok(request.deny().redirect(&self.core.settings))
    }

    /// Takes the request out, so that it is decided once: of two that do so at the same time, one gets it.
    async fn take_request(&self, id: &TransactionId, browser: &Browser) -> Result<AuthorizationRequest, Refusal> {
        let taken = self.core.storage.transactions().decide(&id.digest(), &browser.0, self.core.now()).await;
        let taken = taken.map_err(|error| Refusal::internal(&error.into()))?;
        let Some((text, expires)) = taken else { return Err(Refusal::gone().logged()) };
        if self.core.now() >= expires {
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
        let now = self.core.now();
        let end = now + self.core.settings.policy.refresh_absolute;
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*self.core.random, 22)),
            user: holder.user.clone(),
            key: holder.key.clone(),
            client: request.client.clone(),
            endpoint: resolved.endpoint,
            scopes: resolved.scopes,
            redirect_uri: request.redirect_uri.clone(),
            created: now,
            expires: self.keys.expires(&holder.key).await?.map_or(end, |key_end| key_end.min(end)),
            last_used: None,
            revoked: None,
        };
        let lapses = now + self.core.settings.policy.code_lifetime;
        // which grant lay longest unused depends on them (OA-135)
        self.uses.write().await?;
        let first_of =
            self.core.storage.grants().add(&grant, &code.digest(), request.challenge.as_str(), lapses).await?;
        if let Some(network) = first_of {
            // OA-42: registrations that somebody consents to do not count
            self.registrations.give_back(&network, now);
        }
        tracing::info!(target: "audit", client = %grant.client, user = %grant.user, grant = %grant.id, endpoint = %grant.endpoint, scopes = %grant.scopes, "authorization approved");
        Ok(())
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
