//! One provider: its documents, and tokens verified with its keys.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use url::Url;

use super::{
    assertion_checks::AssertionContext,
    dependencies::OpenIdDeps,
    discovery::{self, ProviderMetadata},
    error::{OpenIdError, TokenProblem},
    exchange::{ProviderClient, ProviderTokens},
    person::{Logout, Person, PersonClaims, RenewedClaims},
    provider_keys::ProviderKeys,
    signed_token::TokenHead,
    token_checks::{LoginClaims, LoginContext, TokenContext},
};
use crate::{
    fetch::{Documents, Exception, FetchBudget, FetchRules, Fetcher, Ports, Reach},
    model::{AssertedAccount, IdentityAssertion, KeyAccount, LoginProvider},
    support::Clock,
};

/// Maximum size of a response of a provider, in bytes.
const MAX_BODY: usize = 256 * 1024;
/// Maximum time for a request to a provider.
const DEADLINE: Duration = Duration::from_secs(10);
/// Minimum time between two readings of the keys for unknown key ids.
const COOL_DOWN: Duration = Duration::from_secs(30);

pub(super) struct Provider {
    pub(super) spec: LoginProvider,
    fetcher: Fetcher,
    rules: FetchRules,
    discovery: Option<Url>,
    metadata: Documents<ProviderMetadata>,
    keys: Documents<ProviderKeys>,
    clock: Arc<dyn Clock>,
}

impl Provider {
    pub(super) fn new(spec: LoginProvider, deps: &OpenIdDeps, budget: &Arc<FetchBudget>) -> Self {
        let exceptions =
            Url::parse(&spec.issuer).map(|issuer| Exception::Origin(issuer.origin())).into_iter().collect();
        let reach = Reach { ports: Ports::Any, exceptions };
        let rules = FetchRules { reach, max_body: MAX_BODY, deadline: DEADLINE };
        let documents = || (deps.fetcher.clone(), rules.clone(), Arc::clone(budget), Arc::clone(&deps.clock));
        let issuer = spec.issuer.clone();
        let (fetcher, for_metadata, charged, clock) = documents();
        let read = Box::new(move |_: &Url, body: &[u8]| ProviderMetadata::read(&issuer, body));
        let metadata = Documents::new(fetcher, for_metadata, charged, clock, read);
        let (fetcher, for_keys, charged, clock) = documents();
        let keys = Documents::new(fetcher, for_keys, charged, clock, Box::new(|_, body| ProviderKeys::read(body)));
        let (fetcher, clock) = (deps.fetcher.clone(), Arc::clone(&deps.clock));
        Self { discovery: discovery::location(&spec.issuer), spec, fetcher, rules, metadata, keys, clock }
    }

    pub(super) async fn metadata(&self) -> Result<Arc<ProviderMetadata>, OpenIdError> {
        let location = self.discovery.as_ref().ok_or_else(|| OpenIdError::Unavailable("no issuer".to_owned()))?;
        Ok(self.metadata.read(location, None).await?.content)
    }

    /// The gateway as its client.
    pub(super) fn client<'a>(&'a self, metadata: &'a ProviderMetadata, redirect_uri: &'a str) -> ProviderClient<'a> {
        let (fetcher, rules, now) = (&self.fetcher, &self.rules, self.clock.now());
        ProviderClient { spec: &self.spec, metadata, redirect_uri, fetcher, rules, now }
    }

    /// The person in a token response. User information supplies what the id token lacks.
    pub(super) async fn person(
        &self,
        tokens: &ProviderTokens,
        metadata: &ProviderMetadata,
        login: LoginContext<'_>,
    ) -> Result<Person, OpenIdError> {
        let id_token = tokens.id_token.as_ref().ok_or(TokenProblem::Missing)?;
        let claims = self.claims(id_token.expose(), metadata).await?;
        let LoginClaims { subject, mut logged_in } = self.context().id_token(&claims, login)?;
        let subject = subject.to_owned();
        if login.prompt.is_fresh() && logged_in.is_none() {
            let provider = &self.spec.name;
            tracing::info!(provider, "a new login was asked for, and the id token has no `auth_time`: it is accepted");
            logged_in = Some(login.begun);
        }
        let mut said = PersonClaims::read(&claims, &self.spec);
        if said.lack(&self.spec)
            && let Some(more) = self.client(metadata, "").user_info(&tokens.access, &subject).await
        {
            said = said.or(PersonClaims::read(&more, &self.spec));
        }
        Ok(Person {
            issuer: self.spec.issuer.clone(),
            name: said.display_name(&subject),
            subject,
            email: said.email,
            groups: said.groups.unwrap_or_default(),
            doubts: said.doubts,
            session: claims["sid"].as_str().map(str::to_owned),
            logged_in,
        })
    }

    /// The claims about this subject in the response to a refresh token and in the user information, if any. With an id
    /// token this is as much as at a login, so a claim missing from both is known to be empty, such as the groups of a
    /// person who has left them all.
    pub(super) async fn renewed(
        &self,
        tokens: &ProviderTokens,
        metadata: &ProviderMetadata,
        subject: &str,
    ) -> Option<RenewedClaims> {
        let stated = match &tokens.id_token {
            Some(token) => self.renewed_claims(token.expose(), metadata, subject).await,
            None => None,
        };
        let lacks = stated.as_ref().is_none_or(|said| said.lack(&self.spec));
        let more = if lacks { self.client(metadata, "").user_info(&tokens.access, subject).await } else { None };
        let (said, is_complete) = match (stated, more.map(|more| PersonClaims::read(&more, &self.spec))) {
            (None, None) => return None,
            (None, Some(more)) => (more, false),
            (Some(stated), Some(more)) => (stated.or(more), true),
            // the user information that did not arrive may have had it
            (Some(stated), None) => (stated, !lacks || metadata.userinfo_endpoint.is_none()),
        };
        let rights = said.rights(subject, &self.spec);
        Some(RenewedClaims { email: said.email, rights: if is_complete { rights.complete() } else { rights } })
    }

    /// The claims of an id token that came with a refresh; `None` if it is not valid.
    async fn renewed_claims(&self, token: &str, metadata: &ProviderMetadata, subject: &str) -> Option<PersonClaims> {
        let claims = self.claims(token, metadata).await.and_then(|claims| {
            self.context().renewed_id_token(&claims, subject)?;
            Ok(PersonClaims::read(&claims, &self.spec))
        });
        let provider = &self.spec.name;
        claims.inspect_err(|error| tracing::warn!(provider, %error, "the id token of a refresh is not used")).ok()
    }

    /// The logout reported by a logout token.
    pub(super) async fn logout(&self, token: &str) -> Result<Logout, OpenIdError> {
        let claims = self.claims(token, &*self.metadata().await?).await?;
        let found = self.context().logout_token(&claims)?;
        Ok(Logout {
            issuer: self.spec.issuer.clone(),
            id: found.id.to_owned(),
            subject: found.subject.map(str::to_owned),
            session: found.session.map(str::to_owned),
            expires: found.expires,
        })
    }

    /// An identity assertion for the gateway, `audience`, presented by a client.
    pub(super) async fn assertion(
        &self,
        token: &str,
        audience: &str,
        client: &str,
    ) -> Result<IdentityAssertion, OpenIdError> {
        AssertionContext::kind(TokenHead::read(token, &self.spec.algorithms)?.kind.as_deref())?;
        let claims = self.claims(token, &*self.metadata().await?).await?;
        let context = AssertionContext { issuer: &self.spec.issuer, audience, client, now: self.clock.now() };
        let found = context.check(&claims)?;
        let said = PersonClaims::read(&claims, &self.spec);
        let account = KeyAccount::Provider { issuer: self.spec.issuer.clone(), subject: found.subject.to_owned() };
        let name = said.display_name(found.subject);
        let rights = said.rights(found.subject, &self.spec);
        Ok(IdentityAssertion {
            account: AssertedAccount { account, name, email: said.email, rights },
            id: found.id.to_owned(),
            expires: found.expires,
            resource: found.resource.map(str::to_owned),
            scope: found.scope.map(str::to_owned),
        })
    }

    /// The claims of a token signed by the provider. An unknown key may be new, so the keys are read again.
    async fn claims(&self, token: &str, metadata: &ProviderMetadata) -> Result<Value, OpenIdError> {
        let head = TokenHead::read(token, &self.spec.algorithms)?;
        let keys = self.keys.read(&metadata.jwks_uri, None).await?;
        if let Some(key) = keys.content.find(head.key_id.as_deref(), head.algorithm) {
            return Ok(head.claims(token, key)?);
        }
        let keys = self.keys.read_again(&metadata.jwks_uri, None, COOL_DOWN).await?;
        let key = keys.content.find(head.key_id.as_deref(), head.algorithm).ok_or(TokenProblem::Key)?;
        Ok(head.claims(token, key)?)
    }

    fn context(&self) -> TokenContext<'_> {
        TokenContext { issuer: &self.spec.issuer, client_id: &self.spec.client_id, now: self.clock.now() }
    }
}
