//! Authorization of clients by people: the authorization request (RFC 6749 4.1) as a state machine, pushed requests,
//! PKCE, devices, and the choice of servers.

mod authorization_request;
mod browser;
mod decision;
pub mod device;
mod error_answer;
pub mod pkce;
mod pushed_request;
pub(super) mod pushed_request_endpoint;
mod response;
pub(super) mod server_choice;
mod transaction;

use std::{sync::Arc, time::Duration};

use self::{
    authorization_request::{AuthorizationRequest, Rejected, Resolved},
    decision::{Decisions, effective_rule},
    pushed_request::PushedRequests,
    server_choice::ServerChoice,
    transaction::TransactionSealer,
};
pub use self::{
    browser::{Browser, LoginPrompt, TransactionId},
    decision::{DecidedRequest, DecisionOutcome, RequestDecision, SentDecision},
    response::{AuthorizationError, Redirect, Trust},
    transaction::{StoreOutcome, Transaction, UnsealError},
};
use super::{
    accounts::api_keys::{KeyHolder, Keys},
    clients::{
        client_documents::ClientUrl,
        client_lookup,
        redirect_uri::{RedirectTarget, RedirectUri},
        registration::Registrations,
    },
    credentials::usage::UsageRecorder,
    dependencies::OAuthDeps,
    error::{ErrorResponse, OAuthError},
    form::Params,
};
use crate::{
    audit::GrantEvent,
    model::{Client, ClientId, ClientIp, ConsentRule, Endpoint, Registrant, Scopes, UserId},
    support::{SealingKey, SpentDigests, Timestamp},
};

/// The origin of an authorization request.
#[derive(Debug, Clone, Copy)]
pub struct RequestSource<'a> {
    /// The address that is charged for reading client documents.
    pub from: ClientIp,
    /// The logged-in holder, if any.
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

/// A request that a client has pushed (`OA-79`).
struct PushedRequest {
    /// The name that the client sends to the authorization endpoint.
    request_uri: String,
    lifetime: Duration,
}

/// A valid authorization request, as shown to the logged-in person (`OA-70`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAuthorization {
    pub id: TransactionId,
    pub client: ClientId,
    /// Name claimed by the client.
    pub client_name: String,
    /// Source of that name, which is unverified.
    pub client_origin: ClientOrigin,
    /// Target of the response.
    pub redirect: RedirectTarget,
    /// Endpoint that its tokens open.
    pub endpoint: Endpoint,
    /// The absolute URL of that endpoint.
    pub resource: String,
    /// Requested scopes. The person grants the ones in [`PendingAuthorization::scopes_for`].
    pub scopes: Scopes,
    /// The rule for asking the person; some scopes require it anyway.
    consent: ConsentRule,
    /// Maximum life of the grant.
    pub grant_lifetime: Duration,
    /// Expiry of the request.
    pub expires: Timestamp,
}

/// The state of a stored request, as its browser session sees it.
#[derive(Debug)]
pub enum RequestState {
    /// It waits for the decision.
    Waiting(Box<PendingAuthorization>),
    Decided(DecidedRequest),
    /// It has expired, or belongs to another browser session.
    Unknown,
}

/// Source of a client's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOrigin {
    /// Dynamic registration (RFC 7591): the name is the client's own claim.
    Registered,
    /// The metadata document at its id: the owner of this host chose the name.
    Document {
        host: String,
    },
    Operator,
}

pub struct Authorization {
    deps: OAuthDeps,
    decisions: Decisions,
    /// Requests denied before a login.
    declined: SpentDigests,
    sealer: TransactionSealer,
    pushed: PushedRequests,
}

// === impl Authorization ===

impl Authorization {
    /// Creates the endpoint; requests waiting for a login are sealed under `key`.
    pub(super) fn new(
        keys: Arc<Keys>,
        registrations: Arc<Registrations>,
        uses: Arc<UsageRecorder>,
        key: SealingKey,
    ) -> Self {
        let deps = keys.deps.clone();
        let sealer = TransactionSealer::new(deps.clone(), key.clone());
        let pushed = PushedRequests::new(deps.clone(), key);
        let decisions = Decisions { deps: deps.clone(), keys, registrations, uses };
        Self { deps, decisions, declined: SpentDigests::default(), sealer, pushed }
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
            // RFC 9101 6.3: only the pushed parameters count
            self.pushed.open(uri, &client).await.map_err(Rejected::Page)?
        } else {
            let request = authorization_request::check(&self.deps.settings, &params, &client)?;
            self.transaction(request, &client, self.deps.settings.policy.get().transaction_lifetime)
        };
        Ok(Transaction { request: transaction.request.with_pages()?, ..transaction })
    }

    /// Checks a request that the authenticated client pushes. Nothing is stored.
    fn push(&self, params: &Params, client: &Client) -> Result<PushedRequest, ErrorResponse> {
        if !params.all("request_uri").is_empty() {
            return Err(ErrorResponse::InvalidRequest("a pushed request has no request_uri".to_owned()));
        }
        let (request, lifetime) =
            (authorization_request::check(&self.deps.settings, params, client)?, pushed_request::LIFETIME);
        let request_uri = self.pushed.seal(&self.transaction(request, client, lifetime))?;
        Ok(PushedRequest { request_uri, lifetime })
    }

    fn transaction(&self, request: AuthorizationRequest, client: &Client, lifetime: Duration) -> Transaction {
        let (id, login) = (TransactionId(self.deps.random.token()), request.login);
        let chooses = request.chooses;
        Transaction {
            id,
            client_name: client.name.clone(),
            login,
            chooses,
            expires: self.deps.now() + lifetime,
            request,
        }
    }

    /// Seals the request for the form of a login page. It opens only in this browser, until it expires. At most 7 KiB
    /// of base64url, so that it fits the form (`OA-30`).
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

    /// Denies a request that nobody has logged in for: the client receives `access_denied`. Nothing is stored, and a
    /// second press is not recorded again.
    pub async fn decline(&self, transaction: &Transaction, holder: Option<&KeyHolder>) -> Redirect {
        if self.declined.spend(transaction.id.digest(), transaction.expires, self.deps.now()) {
            let (client, user) = (transaction.request.client.clone(), holder.map(|holder| holder.user.clone()));
            self.deps.audit.record(GrantEvent::Denied { user, client });
        }
        transaction.request.deny().redirect(&self.deps, holder).await
    }

    /// The state of a request, for its page.
    pub async fn look_up(&self, id: &TransactionId, browser: &Browser) -> Result<RequestState, OAuthError> {
        let Some(found) = self.deps.storage.transactions().find(&id.digest(), &browser.0).await? else {
            return Ok(RequestState::Unknown);
        };
        let request = AuthorizationRequest::from_text(&found.request)?;
        if let Some(decided) = &found.decided {
            return Ok(RequestState::Decided(self.decisions.decided(&request, decided).await));
        }
        if self.deps.now() >= found.expires {
            return Ok(RequestState::Unknown);
        }
        let client = client_lookup::of_waiting(&self.deps, &request.client).await;
        let client = client.ok().filter(|client| request.is_about(client));
        let (Some(client), Some(Resolved { endpoint, scopes })) = (client, request.resolve(&self.deps.settings)) else {
            return Ok(RequestState::Unknown);
        };
        Ok(RequestState::Waiting(Box::new(PendingAuthorization {
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
            expires: found.expires,
        })))
    }

    /// Approves what was chosen: creates the grant and the code. The first decision about a request counts.
    pub async fn approve(
        &self,
        sent: SentDecision<'_>,
        holder: &KeyHolder,
        choice: ServerChoice<'_>,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        self.decisions.approve(sent, holder, choice).await
    }

    /// Denies: the client receives `access_denied`. The first decision about a request counts.
    pub async fn deny(
        &self,
        sent: SentDecision<'_>,
        holder: Option<&KeyHolder>,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        self.decisions.deny(sent, holder).await
    }

    /// The user that a request is kept for, in any browser.
    pub async fn user_of(&self, id: &TransactionId) -> Result<Option<UserId>, OAuthError> {
        Ok(self.deps.storage.transactions().user(&id.digest()).await?)
    }
}

// === impl ClientOrigin ===

impl ClientOrigin {
    fn of(client: &Client) -> Self {
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

    /// True if this person must be asked (`OA-71`): for administration, always.
    pub fn needs_consent(&self, holder: &KeyHolder) -> bool {
        effective_rule(self.consent, &self.scopes_for(holder)) == ConsentRule::Asked
    }
}
