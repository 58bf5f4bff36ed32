//! The JWT bearer grant with identity assertions (RFC 7523 2.1, draft-ietf-oauth-identity-assertion-authz-grant;
//! `OA-145`): tokens for a person that a login provider has verified. There is no refresh token: the client brings
//! another assertion (`UP-16`).

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{
        AssertedAccount, AssertedRights, Client, ClientIp, Endpoint, Grant, GrantId, IdentityAssertion, KeyAccount,
        Registrant, Scopes, TokenDelivery,
    },
    oauth::{
        accounts::{
            api_keys::{AccountEntry, KeyHolder},
            provider_accounts::ClaimedAddress,
        },
        error::ErrorResponse,
        form::Params,
        logged_reason::GrantProblem,
        rate_limits::RateLimit,
        secrets::opaque,
    },
    storage::StorageError,
    support::{Digest, Secret},
};

/// The grant of identity assertions.
pub(super) struct IdentityAssertionGrant {
    issuer: Arc<Issuer>,
    limits: RateLimit,
}

impl IdentityAssertionGrant {
    /// One client may ask 60 times at once, then once a second.
    pub(super) fn new(issuer: Arc<Issuer>) -> Self {
        let limits = issuer.deps.limits.limit("identity assertions", 60, Duration::from_secs(1));
        Self { issuer, limits }
    }

    /// Exchanges the assertion of an authenticated client for an access token of the person. Each assertion can be used
    /// once, and a live grant is reused.
    pub(super) async fn exchange(
        &self,
        client: &Client,
        form: &Params,
        from: ClientIp,
    ) -> Result<Issued, ErrorResponse> {
        if !matches!(client.registrant, Registrant::Operator(_)) || client.auth.is_public() {
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let (deps, now) = (&self.issuer.deps, self.issuer.deps.now());
        let verifier = deps.settings.assertions.as_ref().ok_or(ErrorResponse::UnsupportedGrantType)?;
        self.limits.take(&client.id, now).map_err(ErrorResponse::Limited)?;
        let text = form.get("assertion")?.ok_or_else(|| ErrorResponse::missing("assertion"))?;
        let assertion = verifier.verify(Secret::new(text), &client.id).await;
        let assertion = assertion.map_err(|reason| refused(client, reason))?;
        let (endpoint, asked) = self.asked(client, form, &assertion)?;
        // before the rights of the account change, so that a replayed assertion changes nothing
        if !deps.storage.assertions().add(&digest(&assertion), assertion.expires).await? {
            return Err(refused(client, "it was used before"));
        }
        let holder = self.admit(client, &assertion.account).await?;
        if !holder.networks.allow(from.0) {
            self.issuer.keys.record_elsewhere(&holder.key, from.0);
            return Err(refused(client, "the account may not be used from this address"));
        }
        let settings = &deps.settings;
        if !settings.backends.verdict(holder.subject(), &endpoint.target, None).is_open() {
            return Err(ErrorResponse::InvalidTarget);
        }
        let end = now + settings.policy.get().refresh_idle;
        let end = self.issuer.keys.ends(&holder.key).await?.map_or(end, |key_end| key_end.min(end));
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*deps.random, 22)),
            scopes: holder.subject().grantable(&asked),
            user: holder.user,
            key: holder.key,
            client: client.id.clone(),
            endpoint,
            delivery: TokenDelivery::Assertion,
            created: now,
            expires: end,
            last_used: None,
            revoked: None,
        };
        let until = (now + settings.policy.get().access_token_lifetime).min(end);
        let grant = match deps.storage.grants().reuse_or_add(&grant, until).await {
            Err(StorageError::Ended) => return Err(refused(client, "the account has ended")),
            grant => grant?,
        };
        let generation = opaque::base62(&*deps.random, 16);
        deps.audit.record(GrantEvent::AssertionToken(GrantParties::of(&grant)));
        Ok(self.issuer.issue(&grant, grant.scopes.clone(), &generation, now)?)
    }

    /// Endpoint and scopes. The provider limits them, and the request may narrow them.
    fn asked(
        &self,
        client: &Client,
        form: &Params,
        assertion: &IdentityAssertion,
    ) -> Result<(Endpoint, Scopes), ErrorResponse> {
        let settings = &self.issuer.deps.settings;
        let allowed: Vec<String> = assertion.resource.iter().cloned().collect();
        let allowed = settings.endpoint_of(&allowed);
        let allowed = allowed.map_err(|_| refused(client, "its resource is not an endpoint of this gateway"))?;
        let named = settings.endpoint_of(form.all("resource")).map_err(|_| ErrorResponse::InvalidTarget)?;
        if allowed.is_some() && named.is_some() && allowed != named {
            return Err(ErrorResponse::InvalidTarget);
        }
        let bound = match assertion.scope.as_deref() {
            Some(scope) => Some(Scopes::parse(scope).map_err(|_| refused(client, "its scope is malformed"))?),
            None => None,
        };
        let asked = form.get("scope")?.map(Scopes::parse).transpose().map_err(|_| ErrorResponse::InvalidScope)?;
        let wanted = match (&bound, asked) {
            // the provider sets the limit: nothing that it left out is added
            (Some(bound), Some(asked)) if !bound.includes(&asked) => return Err(ErrorResponse::InvalidScope),
            (Some(bound), None) => bound.clone(),
            (_, asked) => asked.unwrap_or_default(),
        };
        let (endpoint, scopes) =
            settings.resolve(allowed.or(named).as_ref(), &wanted).ok_or(ErrorResponse::InvalidTarget)?;
        if bound.is_some_and(|bound| !bound.includes(&scopes)) {
            return Err(refused(client, "its scopes open nothing at its resource"));
        }
        Ok((endpoint, scopes))
    }

    /// The account of the person, with the rights from the assertion.
    async fn admit(&self, client: &Client, asserted: &AssertedAccount) -> Result<KeyHolder, ErrorResponse> {
        let keys = &self.issuer.keys;
        let not_let_in = || refused(client, "no rule lets the person in");
        let (by_tables, is_known) = match &asserted.rights {
            AssertedRights::Known(rights) => (rights.clone(), true),
            AssertedRights::Partial(rights) => (rights.clone(), false),
        };
        let entry = match keys.enter(&asserted.account).await? {
            AccountEntry::Open(holder) if !is_known => {
                keys.reconfirm(&holder.key, None).await?;
                AccountEntry::Open(holder)
            }
            AccountEntry::Open(_) | AccountEntry::Ended(_) | AccountEntry::Unknown => {
                let KeyAccount::Provider { issuer, subject } = &asserted.account else { return Err(not_let_in()) };
                let address = asserted.email.as_deref().map_or(ClaimedAddress::Unsaid, ClaimedAddress::Verified);
                let given = keys.rights_of_person(issuer, subject, address, by_tables).await?;
                let given = given.ok_or_else(not_let_in)?;
                keys.admit(asserted.account.clone(), &asserted.name, &given).await?
            }
        };
        match entry {
            AccountEntry::Open(holder) => Ok(holder),
            AccountEntry::Ended(_) | AccountEntry::Unknown => {
                Err(refused(client, "the account is revoked or disabled"))
            }
        }
    }
}

/// The form in which an assertion is stored. Its issuer never repeats an id.
fn digest(assertion: &IdentityAssertion) -> Digest {
    let issuer = match &assertion.account.account {
        KeyAccount::Provider { issuer, .. } => issuer,
        KeyAccount::Service { client } => client.as_str(),
    };
    Digest::sha256(format!("identity assertion {issuer} {}", assertion.id))
}

/// Refuses an assertion, always with the same answer; only the log has the reason.
fn refused(client: &Client, reason: impl Into<String>) -> ErrorResponse {
    ErrorResponse::InvalidGrant(GrantProblem::Assertion(client.id.clone(), reason.into()))
}
