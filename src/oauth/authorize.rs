//! The authorization request (RFC 6749 4.1) as a state machine. Knows nothing of HTML, cookies and CSRF tokens.

mod authorization_request;
mod browser;
mod error_answer;
mod pushed_request;
mod response;
mod transaction;

use std::{sync::Arc, time::Duration};

use self::{
    authorization_request::{AuthorizationRequest, Rejected, Resolved},
    pushed_request::PushedRequests,
    transaction::TransactionSealer,
};
pub use self::{
    browser::{Browser, LoginPrompt, TransactionId},
    response::{AuthorizationError, Redirect, Trust},
    transaction::{StoreOutcome, Transaction, UnsealError},
};
use super::{
    api_keys::{KeyHolder, Keys},
    client_documents::ClientUrl,
    client_lookup,
    dependencies::OAuthDeps,
    error::{ErrorResponse, OAuthError},
    form::Params,
    opaque,
    redirect_uri::{RedirectTarget, RedirectUri},
    registration::Registrations,
    usage::UsageRecorder,
};
use crate::{
    audit::GrantEvent,
    model::{
        Client, ClientId, ClientIp, ConsentRule, Endpoint, Grant, GrantId, Registrant, Scope, Scopes, Target,
        TokenDelivery,
    },
    support::{SealingKey, Secret, Timestamp},
};

/// Where an authorization request comes from.
#[derive(Debug, Clone, Copy)]
pub struct RequestSource<'a> {
    /// The address that is charged for what has to be read.
    pub from: ClientIp,
    /// Who is logged in, if anybody is.
    pub holder: Option<&'a KeyHolder>,
}

/// Outcome of the first check of an authorization request.
#[derive(Debug)]
pub enum BeginOutcome {
    /// Valid: a person must log in and decide. Nothing is stored yet.
    Valid(Box<Transaction>),
    /// Invalid; the client receives the error.
    Redirect(Redirect),
    /// Invalid, and the client must not receive the error: a local page without a `Location` (`OA-63`).
    Page(AuthorizationError),
}

/// A request that a client pushed (`OA-79`).
pub(super) struct PushedRequest {
    /// What names it at the authorization endpoint.
    pub(super) request_uri: String,
    /// How long it is good.
    pub(super) lifetime: Duration,
}

/// A valid authorization request, as shown to the logged-in person (`OA-70`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAuthorization {
    /// Its id.
    pub id: TransactionId,
    /// The client.
    pub client: ClientId,
    /// Name that the client claims.
    pub client_name: String,
    /// Source of that name; it is not verified.
    pub client_origin: ClientOrigin,
    /// Target of the response.
    pub redirect: RedirectTarget,
    /// Endpoint that its tokens will open.
    pub endpoint: Endpoint,
    /// The absolute URL of that endpoint.
    pub resource: String,
    /// Requested scopes; the person grants [`PendingAuthorization::scopes_for`] the login.
    pub scopes: Scopes,
    /// Whether the person is asked, unless a scope needs it.
    consent: ConsentRule,
    /// Maximum life of the grant.
    pub grant_lifetime: Duration,
    /// Expiry of the request.
    pub expires: Timestamp,
}

/// Source of a client's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOrigin {
    /// Dynamic registration (RFC 7591): the name is the client's own claim.
    Registered,
    /// The document at its id: whoever has this host claims it.
    Document {
        /// The host.
        host: String,
    },
    /// The operator.
    Operator,
}

/// The authorization endpoint.
pub struct Authorization {
    deps: OAuthDeps,
    keys: Arc<Keys>,
    registrations: Arc<Registrations>,
    uses: Arc<UsageRecorder>,
    sealer: TransactionSealer,
    pushed: PushedRequests,
}

// === impl Authorization ===

impl Authorization {
    /// Creates the endpoint; requests that wait for a login are sealed under `key`.
    pub(super) fn new(
        keys: Arc<Keys>,
        registrations: Arc<Registrations>,
        uses: Arc<UsageRecorder>,
        key: SealingKey,
    ) -> Self {
        let deps = keys.deps.clone();
        let sealer = TransactionSealer::new(deps.clone(), key.clone());
        let pushed = PushedRequests::new(deps.clone(), key);
        Self { deps, keys, registrations, uses, sealer, pushed }
    }

    /// Checks the raw query string of an authorization request in the order of `OA-63`. Nothing is stored.
    pub async fn begin(&self, query: &str, source: RequestSource<'_>) -> BeginOutcome {
        let rejected = match self.read(query, source.from).await {
            Ok(transaction) => return BeginOutcome::Valid(Box::new(transaction)),
            Err(rejected) => rejected,
        };
        rejected.record(&self.deps.audit);
        match rejected {
            Rejected::Page(refusal) => BeginOutcome::Page(refusal),
            Rejected::Client(answer) => BeginOutcome::Redirect(answer.redirect(&self.deps, source.holder).await),
        }
    }

    async fn read(&self, query: &str, from: ClientIp) -> Result<Transaction, Rejected> {
        let params = authorization_request::parse(query)?;
        let client = authorization_request::client(&self.deps, &params, from).await?;
        let transaction = if let Some(uri) = pushed_request::request_uri(&params) {
            // RFC 9101 6.3: nothing but what was pushed counts
            self.pushed.open(uri, &client).await.map_err(Rejected::Page)?
        } else {
            let request = authorization_request::check(&self.deps.settings, &params, &client)?;
            self.transaction((request, &client), self.deps.settings.policy.get().transaction_lifetime)
        };
        Ok(Transaction { request: transaction.request.with_pages()?, ..transaction })
    }

    /// Checks a request that the authenticated client pushes. Nothing is stored.
    pub(super) fn push(&self, params: &Params, client: &Client) -> Result<PushedRequest, ErrorResponse> {
        if !params.all("request_uri").is_empty() {
            return Err(ErrorResponse::InvalidRequest("a pushed request has no request_uri".to_owned()));
        }
        let (request, lifetime) =
            (authorization_request::check(&self.deps.settings, params, client)?, pushed_request::LIFETIME);
        let request_uri = self.pushed.seal(&self.transaction((request, client), lifetime))?;
        Ok(PushedRequest { request_uri, lifetime })
    }

    fn transaction(&self, (request, client): (AuthorizationRequest, &Client), lifetime: Duration) -> Transaction {
        let (id, login) = (TransactionId(self.deps.random.token()), request.login);
        Transaction { id, client_name: client.name.clone(), login, expires: self.deps.now() + lifetime, request }
    }

    /// Seals the request for the form of a login page. It opens only in this browser and until it expires. At most 7
    /// KiB of base64url, so that it fits the form (`OA-30`).
    pub fn seal(&self, transaction: &Transaction, browser: &Browser) -> Result<String, OAuthError> {
        self.sealer.seal(transaction, browser)
    }

    /// Opens the output of [`Self::seal`], and checks client and redirect URI against the store again.
    pub async fn unseal(&self, sealed: &str, browser: &Browser) -> Result<Transaction, UnsealError> {
        self.sealer.unseal(sealed, browser).await
    }

    /// Stores the request for the logged-in user, bound to the browser session. An undecided request of the same user
    /// moves to this browser session.
    pub async fn keep(
        &self,
        transaction: &Transaction,
        browser: &Browser,
        holder: &KeyHolder,
    ) -> Result<StoreOutcome, OAuthError> {
        if transaction.request.resolve(&self.deps.settings).is_none() {
            let answer = transaction.request.unknown_target();
            return Ok(StoreOutcome::Refused(answer.redirect(&self.deps, Some(holder)).await));
        }
        let row = transaction.row(browser, holder)?;
        Ok(if self.deps.storage.transactions().add(&row).await? { StoreOutcome::Waiting } else { StoreOutcome::Spent })
    }

    /// Denies without a login for this request: the client receives `access_denied`. Nothing is stored.
    pub async fn decline(&self, transaction: &Transaction, holder: Option<&KeyHolder>) -> Redirect {
        let (client, user) = (transaction.request.client.clone(), holder.map(|holder| holder.user.clone()));
        self.deps.audit.record(GrantEvent::Denied { user, client });
        transaction.request.deny().redirect(&self.deps, holder).await
    }

    /// The pending request, for rendering; `None` if it expired, was decided, or belongs to another browser.
    pub async fn pending(
        &self,
        id: &TransactionId,
        browser: &Browser,
    ) -> Result<Option<PendingAuthorization>, OAuthError> {
        let Some((text, expires)) = self.deps.storage.transactions().lookup(&id.digest(), &browser.0).await? else {
            return Ok(None);
        };
        let request = AuthorizationRequest::from_text(&text)?;
        if self.deps.now() >= expires {
            return Ok(None);
        }
        let client = client_lookup::of_waiting(&self.deps, &request.client).await;
        let client = client.ok().filter(|client| request.is_about(client));
        let (Some(client), Some(Resolved { endpoint, scopes })) = (client, request.resolve(&self.deps.settings)) else {
            return Ok(None);
        };
        Ok(Some(PendingAuthorization {
            id: id.clone(),
            client_origin: ClientOrigin::of(&client),
            consent: request.consent_rule(&client),
            client: client.id,
            client_name: client.name,
            redirect: RedirectUri::stored(&request.redirect_uri).target().clone(),
            resource: self.deps.settings.resource(&endpoint),
            endpoint,
            scopes,
            grant_lifetime: self.deps.settings.policy.get().refresh_absolute,
            expires,
        }))
    }

    /// Approves: creates the grant and the code. Works once and consumes the transaction.
    pub async fn approve(
        &self,
        id: &TransactionId,
        browser: &Browser,
        holder: &KeyHolder,
    ) -> Result<Redirect, AuthorizationError> {
        if !self.keys.is_live(&holder.key).await.map_err(|error| AuthorizationError::internal(&error))? {
            return Err(AuthorizationError::logged_out().logged(&self.deps.audit));
        }
        let request = self.take_request(id, browser).await?;
        let client = client_lookup::of_waiting(&self.deps, &request.client).await?;
        if !request.is_about(&client) {
            return Err(AuthorizationError::changed_client().logged(&self.deps.audit));
        }
        let Some(mut resolved) = request.resolve(&self.deps.settings) else {
            return Ok(request.unknown_target().redirect(&self.deps, Some(holder)).await);
        };
        resolved.scopes = holder.subject().grantable(&resolved.scopes);
        let target = &resolved.endpoint.target;
        if !self.deps.settings.backends.verdict(holder.subject(), target, None).is_open() {
            let reason = match target {
                Target::Merged => "the API key or account is for the endpoints of groups, and not for this one",
                Target::Backend(_) => "the API key or account does not reach this server",
            };
            return Ok(request.fail("access_denied", reason).redirect(&self.deps, Some(holder)).await);
        }
        let code = Secret::new(self.deps.random.token());
        match self.grant((&request, &client), resolved, holder, &code).await {
            Ok(()) => Ok(request.succeed(&code, &self.deps.settings)),
            Err(error) => Err(AuthorizationError::internal(&error)),
        }
    }

    /// Denies: the client receives `access_denied`. Works once.
    pub async fn deny(
        &self,
        id: &TransactionId,
        browser: &Browser,
        holder: Option<&KeyHolder>,
    ) -> Result<Redirect, AuthorizationError> {
        let request = self.take_request(id, browser).await?;
        self.deps.audit.record(GrantEvent::Denied {
            user: holder.map(|holder| holder.user.clone()),
            client: request.client.clone(),
        });
        Ok(request.deny().redirect(&self.deps, holder).await)
    }

    /// Marks the request as decided. Only one of several concurrent calls gets it.
    async fn take_request(
        &self,
        id: &TransactionId,
        browser: &Browser,
    ) -> Result<AuthorizationRequest, AuthorizationError> {
        let taken = self.deps.storage.transactions().decide(&id.digest(), &browser.0, self.deps.now()).await;
        let taken = taken.map_err(|error| AuthorizationError::internal(&error.into()))?;
        let Some((text, expires)) = taken else { return Err(AuthorizationError::gone().logged(&self.deps.audit)) };
        if self.deps.now() >= expires {
            return Err(AuthorizationError::lapsed().logged(&self.deps.audit));
        }
        AuthorizationRequest::from_text(&text).map_err(|error| AuthorizationError::internal(&error))
    }

    async fn grant(
        &self,
        (request, client): (&AuthorizationRequest, &Client),
        resolved: Resolved,
        holder: &KeyHolder,
        code: &Secret,
    ) -> Result<(), OAuthError> {
        let now = self.deps.now();
        let end = now + self.deps.settings.policy.get().refresh_absolute;
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*self.deps.random, 22)),
            user: holder.user.clone(),
            key: holder.key.clone(),
            client: request.client.clone(),
            endpoint: resolved.endpoint,
            scopes: resolved.scopes,
            delivery: TokenDelivery::Redirect(request.redirect_uri.clone()),
            created: now,
            expires: self.keys.expires(&holder.key).await?.map_or(end, |key_end| key_end.min(end)),
            last_used: None,
            revoked: None,
        };
        let lapses = now + self.deps.settings.policy.get().code_lifetime;
        // the eviction of the least recently used grant depends on them (OA-135)
        self.uses.write().await?;
        client_lookup::keep(&self.deps, client).await?;
        let first_of =
            self.deps.storage.grants().add(&grant, &code.digest(), request.challenge.as_str(), lapses).await?;
        if let Some(network) = first_of {
            // OA-42: registrations that somebody consents to do not count
            self.registrations.give_back(&network, now);
        }
        let consent = effective_rule(request.consent_rule(client), &grant.scopes);
        let Grant { id, user, client, endpoint, scopes, .. } = grant;
        self.deps.audit.record(GrantEvent::Approved { user, client, grant: id, endpoint, scopes, consent });
        Ok(())
    }
}

// === impl ClientOrigin ===

impl ClientOrigin {
    pub(super) fn of(client: &Client) -> Self {
        match ClientUrl::parse(client.id.as_str()) {
            Some(url) => Self::Document { host: url.host().to_owned() },
            None if matches!(client.registrant, Registrant::Operator(_)) => Self::Operator,
            None => Self::Registered,
        }
    }
}

// === impl PendingAuthorization ===

impl PendingAuthorization {
    /// Scopes that the holder of this key would grant: administration only if the key has it (`OA-67`, N-61).
    pub fn scopes_for(&self, holder: &KeyHolder) -> Scopes {
        holder.subject().grantable(&self.scopes)
    }

    /// True if this person is asked (`OA-71`): about administration always.
    pub fn needs_consent(&self, holder: &KeyHolder) -> bool {
        effective_rule(self.consent, &self.scopes_for(holder)) == ConsentRule::Asked
    }
}

/// The rule for these scopes: people are always asked about administration.
fn effective_rule(rule: ConsentRule, scopes: &Scopes) -> ConsentRule {
    if scopes.contains(&Scope::Admin) { ConsentRule::Asked } else { rule }
}
