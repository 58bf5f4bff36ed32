//! Decisions about authorization requests (`OA-150`): the first one about a request counts, and a second submission of
//! its form gets the same outcome.
//!
//! The outcome is written in the same transaction as the decision. It is sealed under a key derived from the form's
//! token, which is not stored. So every replica can repeat the outcome, but only to this form.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    authorization_request::{AuthorizationRequest, Resolved},
    browser::{Browser, TransactionId},
    response::{AuthorizationError, Redirect},
    server_choice::{ChoiceRefusal, OfferedServers, ServerChoice},
};
use crate::{
    audit::GrantEvent,
    model::{Client, ConsentRule, Grant, GrantId, Scope, Scopes, Target, TokenDelivery},
    oauth::{
        accounts::api_keys::{KeyHolder, Keys},
        clients::{client_lookup, redirect_uri::RedirectUri, registration::Registrations},
        credentials::usage::UsageRecorder,
        dependencies::OAuthDeps,
        error::OAuthError,
        secrets::opaque,
    },
    storage::{FoundTransaction, NewCode, RequestApproval, StorageError, StoredDecision},
    support::{Digest, SealingKey, Secret, Timestamp},
};

/// Purpose of the key that seals an outcome.
const OUTCOME: &str = "lockkeeper form outcome v1";

/// A decision sent by a browser.
#[derive(Debug, Clone, Copy)]
pub struct SentDecision<'a> {
    pub id: &'a TransactionId,
    pub browser: &'a Browser,
    /// The token of the form, which the caller has verified.
    pub form: &'a Secret,
}

/// The decision about a request, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestDecision {
    /// It led to a grant.
    Approved,
    /// The person denied it.
    Denied,
    /// The person approved it, but may not grant what it asks for.
    Refused,
}

/// A decided request, for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedRequest {
    pub decision: RequestDecision,
    /// Time of the decision.
    pub at: Timestamp,
    /// Name claimed by the client.
    pub client_name: String,
    /// Address of the app, without code and state.
    pub home: String,
}

/// The outcome of a decision.
#[derive(Debug)]
pub enum DecisionOutcome {
    /// The answer to the app: for this decision, or for an earlier press of the same button on the same form.
    Answer {
        redirect: Redirect,
        /// Name claimed by the client.
        client_name: String,
    },
    /// It was decided before, and the answer is not given again.
    Before(DecidedRequest),
    /// Nothing is decided: the person has to choose again.
    Unchosen(ChoiceRefusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ConsentButton {
    Approve,
    Deny,
}

/// Stored answer to a form.
#[derive(Serialize, Deserialize)]
struct FormOutcome {
    button: ConsentButton,
    redirect: Redirect,
    /// The authorization code in the redirect.
    code: Option<String>,
}

pub(super) struct Decisions {
    pub(super) deps: OAuthDeps,
    pub(super) keys: Arc<Keys>,
    pub(super) registrations: Arc<Registrations>,
    pub(super) uses: Arc<UsageRecorder>,
}

// === impl Decisions ===

impl Decisions {
    /// Approves: creates the grant and the code. The first decision about a request counts.
    pub(super) async fn approve(
        &self,
        sent: SentDecision<'_>,
        holder: &KeyHolder,
        choice: ServerChoice<'_>,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        if !self.keys.is_live(&holder.key).await.map_err(|error| AuthorizationError::internal(&error))? {
            return Err(AuthorizationError::logged_out().logged(&self.deps.audit));
        }
        let found = self.find_decidable(sent).await?;
        let request = read(&found)?;
        if let Some(decided) = &found.decided {
            return self.again(sent, &request, decided, ConsentButton::Approve).await;
        }
        let client = client_lookup::of_waiting(&self.deps, &request.client).await?;
        if !request.is_about(&client) {
            return Err(AuthorizationError::changed_client().logged(&self.deps.audit));
        }
        let refusal = match request.resolve(&self.deps.settings) {
            None => request.unknown_target(),
            Some(resolved) => match self.unreachable(&resolved, holder) {
                None => {
                    let scopes = match self.chosen(&resolved, holder, choice) {
                        Ok(scopes) => scopes,
                        Err(refusal) => return Ok(DecisionOutcome::Unchosen(refusal)),
                    };
                    return self.grant(sent, &request, &client, Resolved { scopes, ..resolved }, holder).await;
                }
                Some(reason) => request.fail("access_denied", reason),
            },
        };
        let outcome = FormOutcome {
            button: ConsentButton::Approve,
            redirect: refusal.redirect(&self.deps, Some(holder)).await,
            code: None,
        };
        self.note(sent, &request, RequestDecision::Refused, outcome).await.map(|(outcome, _)| outcome)
    }

    /// Denies: the client receives `access_denied`. The first decision about a request counts.
    pub(super) async fn deny(
        &self,
        sent: SentDecision<'_>,
        holder: Option<&KeyHolder>,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        let found = self.find_decidable(sent).await?;
        let request = read(&found)?;
        if let Some(decided) = &found.decided {
            return self.again(sent, &request, decided, ConsentButton::Deny).await;
        }
        let redirect = request.deny().redirect(&self.deps, holder).await;
        let outcome = FormOutcome { button: ConsentButton::Deny, redirect, code: None };
        let (outcome, is_first) = self.note(sent, &request, RequestDecision::Denied, outcome).await?;
        if is_first {
            self.deps.audit.record(GrantEvent::Denied {
                user: holder.map(|holder| holder.user.clone()),
                client: request.client.clone(),
            });
        }
        Ok(outcome)
    }

    /// A decided request, for a page.
    pub(super) async fn decided(&self, request: &AuthorizationRequest, decided: &StoredDecision) -> DecidedRequest {
        DecidedRequest {
            decision: RequestDecision::read(&decided.decision),
            at: decided.at,
            client_name: self.name_of(request).await,
            home: RedirectUri::stored(&request.redirect_uri).home(),
        }
    }

    async fn find_decidable(&self, sent: SentDecision<'_>) -> Result<FoundTransaction, AuthorizationError> {
        let found = self.deps.storage.transactions().find(&sent.id.digest(), &sent.browser.0).await;
        let found = found.map_err(|error| AuthorizationError::internal(&error.into()))?;
        let Some(found) = found else { return Err(AuthorizationError::gone().logged(&self.deps.audit)) };
        if found.decided.is_none() && self.deps.now() >= found.expires {
            return Err(AuthorizationError::lapsed().logged(&self.deps.audit));
        }
        Ok(found)
    }

    /// The reason why this person cannot grant the request; `None` if they can.
    fn unreachable(&self, resolved: &Resolved, holder: &KeyHolder) -> Option<&'static str> {
        let target = &resolved.endpoint.target;
        let is_open = self.deps.settings.backends.verdict(holder.subject(), target, None).is_open();
        let reason = match target {
            Target::Merged => "the API key or account is for the endpoints of groups, and not for this one",
            Target::Backend(_) => "the API key or account does not reach this server",
        };
        (!is_open).then_some(reason)
    }

    /// The scopes that this person grants.
    fn chosen(
        &self,
        Resolved { endpoint, scopes }: &Resolved,
        holder: &KeyHolder,
        choice: ServerChoice<'_>,
    ) -> Result<Scopes, ChoiceRefusal> {
        let grantable = holder.subject().grantable(scopes);
        let offered = OfferedServers::new(&self.deps.settings, holder, &endpoint.target, &grantable);
        offered.granted(&grantable, choice)
    }

    async fn grant(
        &self,
        sent: SentDecision<'_>,
        request: &AuthorizationRequest,
        client: &Client,
        resolved: Resolved,
        holder: &KeyHolder,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        let failed = |error: OAuthError| AuthorizationError::internal(&error);
        let now = self.deps.now();
        let end = now + self.deps.settings.policy.get().refresh_absolute;
        let key_end = self.keys.expires(&holder.key).await.map_err(failed)?;
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*self.deps.random, 22)),
            user: holder.user.clone(),
            key: holder.key.clone(),
            client: request.client.clone(),
            endpoint: resolved.endpoint,
            scopes: resolved.scopes,
            delivery: TokenDelivery::Redirect(request.redirect_uri.clone()),
            created: now,
            expires: key_end.map_or(end, |key_end| key_end.min(end)),
            last_used: None,
            revoked: None,
        };
        let secret = Secret::new(self.deps.random.token());
        let (digest, expires) = (secret.digest(), now + self.deps.settings.policy.get().code_lifetime);
        let code = NewCode { digest, challenge: request.challenge.as_str().to_owned(), expires };
        let redirect = request.succeed(&secret, &self.deps.settings);
        let outcome = FormOutcome { button: ConsentButton::Approve, redirect, code: Some(secret.expose().to_owned()) };
        let decision = self.sealed(sent, RequestDecision::Approved, &outcome).map_err(failed)?;
        // the last uses decide which grant is evicted (OA-135)
        self.uses.write().await.map_err(failed)?;
        client_lookup::keep(&self.deps, client).await.map_err(failed)?;
        let (transactions, id) = (self.deps.storage.transactions(), sent.id.digest());
        let approved = transactions.approve(&id, &sent.browser.0, &decision, &grant, &code).await;
        let approved = match approved {
            Err(StorageError::Ended) => return Err(AuthorizationError::logged_out().logged(&self.deps.audit)),
            approved => approved.map_err(|error| failed(error.into()))?,
        };
        let RequestApproval::Approved { consented_first } = approved else {
            return self.after_another(sent, ConsentButton::Approve).await;
        };
        if let Some(network) = consented_first {
            // OA-42: registrations that led to a consent do not count
            self.registrations.give_back(&network, now);
        }
        let consent = effective_rule(request.consent_rule(client), &grant.scopes);
        let Grant { id, user, client: to, endpoint, scopes, .. } = grant;
        self.deps.audit.record(GrantEvent::Approved { user, client: to, grant: id, endpoint, scopes, consent });
        Ok(DecisionOutcome::Answer { redirect: outcome.redirect, client_name: client.name.clone() })
    }

    /// Stores a decision that grants nothing. Also returns true if it is the first.
    async fn note(
        &self,
        sent: SentDecision<'_>,
        request: &AuthorizationRequest,
        what: RequestDecision,
        outcome: FormOutcome,
    ) -> Result<(DecisionOutcome, bool), AuthorizationError> {
        let decision = self.sealed(sent, what, &outcome).map_err(|error| AuthorizationError::internal(&error))?;
        let first = self.deps.storage.transactions().decide(&sent.id.digest(), &sent.browser.0, &decision).await;
        if !first.map_err(|error| AuthorizationError::internal(&error.into()))? {
            return Ok((self.after_another(sent, outcome.button).await?, false));
        }
        let client_name = self.name_of(request).await;
        Ok((DecisionOutcome::Answer { redirect: outcome.redirect, client_name }, true))
    }

    /// The outcome for a submission that lost against a concurrent one.
    async fn after_another(
        &self,
        sent: SentDecision<'_>,
        button: ConsentButton,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        let found = self.find_decidable(sent).await?;
        let Some(decided) = &found.decided else { return Err(AuthorizationError::lapsed().logged(&self.deps.audit)) };
        self.again(sent, &read(&found)?, decided, button).await
    }

    /// The outcome for a later submission: the same answer for the same form and button, as long as its code has not
    /// been redeemed.
    async fn again(
        &self,
        sent: SentDecision<'_>,
        request: &AuthorizationRequest,
        decided: &StoredDecision,
        button: ConsentButton,
    ) -> Result<DecisionOutcome, AuthorizationError> {
        let outcome = opened(sent, &decided.outcome).filter(|outcome| outcome.button == button);
        if let Some(FormOutcome { redirect, code, .. }) = outcome {
            let waits = match &code {
                Some(code) => {
                    self.waits(&Digest::sha256(code)).await.map_err(|error| AuthorizationError::internal(&error))?
                }
                None => true,
            };
            if waits {
                return Ok(DecisionOutcome::Answer { redirect, client_name: self.name_of(request).await });
            }
        }
        Ok(DecisionOutcome::Before(self.decided(request, decided).await))
    }

    /// True if the code can still be redeemed.
    async fn waits(&self, code: &Digest) -> Result<bool, OAuthError> {
        let now = self.deps.now();
        let Some(row) = self.deps.storage.codes().lookup(code).await? else { return Ok(false) };
        if row.used.is_some() || now >= row.expires {
            return Ok(false);
        }
        Ok(self.deps.storage.grants().lookup(&row.grant).await?.is_some_and(|grant| grant.is_live(now)))
    }

    fn sealed(
        &self,
        sent: SentDecision<'_>,
        decision: RequestDecision,
        outcome: &FormOutcome,
    ) -> Result<StoredDecision, OAuthError> {
        let text = serde_json::to_vec(outcome).map_err(|_| OAuthError::Transaction)?;
        let key = SealingKey::derived(sent.form, OUTCOME);
        let outcome = key.seal(&text, sent.id.as_str().as_bytes(), &*self.deps.random)?;
        Ok(StoredDecision { at: self.deps.now(), decision: decision.word().to_owned(), outcome })
    }

    /// The name of the client, or its id if it is gone.
    async fn name_of(&self, request: &AuthorizationRequest) -> String {
        let client = client_lookup::of_waiting(&self.deps, &request.client).await;
        client.map_or_else(|_| request.client.to_string(), |client| client.name)
    }
}

fn read(found: &FoundTransaction) -> Result<AuthorizationRequest, AuthorizationError> {
    AuthorizationRequest::from_text(&found.request).map_err(|error| AuthorizationError::internal(&error))
}

/// The outcome, if the decision was sent with this form.
fn opened(sent: SentDecision<'_>, sealed: &[u8]) -> Option<FormOutcome> {
    let plain = SealingKey::derived(sent.form, OUTCOME).open(sealed, sent.id.as_str().as_bytes()).ok()?;
    serde_json::from_slice(&plain).ok()
}

/// The rule for these scopes: for administration, the person is always asked.
pub(super) fn effective_rule(rule: ConsentRule, scopes: &Scopes) -> ConsentRule {
    if scopes.contains(&Scope::Admin) { ConsentRule::Asked } else { rule }
}

// === impl RequestDecision ===

impl RequestDecision {
    const fn word(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Refused => "refused",
        }
    }

    /// A decision stored by an earlier version of the gateway has no word: it may have been either, and counts as
    /// refused.
    fn read(word: &str) -> Self {
        match word {
            "approved" => Self::Approved,
            "denied" => Self::Denied,
            _ => Self::Refused,
        }
    }
}
