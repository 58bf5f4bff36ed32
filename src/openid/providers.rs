//! The providers where people log in, and a browser's round trip to one (`UP-12`).

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use url::Url;

use super::{
    dependencies::OpenIdDeps,
    error::{OpenIdError, TokenProblem},
    pending_login::{LIFETIME, LoginAnswer, PendingLogin, ProviderPrompt},
    person::{Logout, Person, RenewedClaims},
    provider::Provider,
    signed_token,
    token_checks::LoginContext,
};
use crate::{
    fetch::FetchBudget,
    model::{
        AssertionVerifier, ClientId, ClientIp, IdentityAssertion, IdentityAssertions, LoginProvider, LoginSession,
    },
    oauth_client::RefusalMeaning,
    support::{Digest, Secret, SpentDigests, limits::Buckets},
};

/// Context of sealed logins.
const LOGIN: &[u8] = b"login at a provider";

/// Maximum length of a code, in bytes.
const MAX_CODE: usize = 4 * 1024;

/// Maximum length of an identity assertion, in bytes.
const MAX_ASSERTION: usize = 16 * 1024;

/// Errors of providers without support for `prompt=select_account`.
const NO_CHOICE: [&str; 4] =
    ["invalid_request", "account_selection_required", "unmet_authentication_requirements", "unsupported_prompt"];

/// The start of a login.
pub struct LoginStart {
    /// The browser's next address.
    pub location: Url,
    /// The state, which names the cookie.
    pub state: String,
    /// Value for the browser's cookie, which it has to bring back.
    pub sealed: String,
}

/// A finished login.
#[derive(Debug)]
pub struct FinishedLogin {
    /// The person who logged in.
    pub person: Person,
    /// Refresh token, sealed, if the login is bound to the provider.
    pub refresh: Option<Vec<u8>>,
    /// Next step, as passed to [`Providers::begin`].
    pub after: String,
}

/// Answer of a provider about an account's login.
#[derive(Debug, PartialEq, Eq)]
pub enum Renewal {
    Continued {
        /// The refresh token for the next time, sealed.
        token: Vec<u8>,
        /// Claims about the person now, if requested and given.
        claims: Option<RenewedClaims>,
    },
    Ended,
}

/// The providers; none by default. Cheap to clone.
#[derive(Clone, Default)]
pub struct Providers(Option<Arc<Inner>>);

struct Inner {
    providers: Vec<Provider>,
    deps: OpenIdDeps,
    /// States of logins: each is valid for one answer. Another gateway does not know them; there the provider refuses
    /// the code.
    spent: SpentDigests,
    /// Started logins and arriving answers, by network.
    logins: Buckets<IpAddr>,
}

// === impl Providers ===

impl Providers {
    /// The given providers.
    pub fn new(specs: Vec<LoginProvider>, deps: OpenIdDeps) -> Self {
        let budget = Arc::new(FetchBudget::default());
        let providers = specs.into_iter().map(|spec| Provider::new(spec, &deps, &budget)).collect();
        // whole offices share one address
        let logins = Buckets::new(120, Duration::from_secs(1));
        Self(Some(Arc::new(Inner { providers, deps, spent: SpentDigests::default(), logins })))
    }

    /// The configuration of each.
    pub fn specs(&self) -> impl Iterator<Item = &LoginProvider> {
        self.0.iter().flat_map(|inner| &inner.providers).map(|provider| &provider.spec)
    }

    /// The configuration of the provider of this name.
    pub fn spec(&self, name: &str) -> Option<&LoginProvider> {
        self.specs().find(|spec| spec.name == name)
    }

    /// The configuration of the provider with this issuer.
    pub fn of_issuer(&self, issuer: &str) -> Option<&LoginProvider> {
        self.specs().find(|spec| spec.issuer == issuer)
    }

    /// Begins a login; `after` is returned at its end.
    pub async fn begin(
        &self,
        name: &str,
        prompt: ProviderPrompt,
        after: &str,
        from: IpAddr,
    ) -> Result<LoginStart, OpenIdError> {
        let (inner, provider) = self.find(|spec| spec.name == name)?;
        inner.charge(from)?;
        let metadata = provider.metadata().await?;
        let login = PendingLogin::mint(name, prompt, after, &*inner.deps.random, inner.deps.clock.now());
        let location = provider.client(&metadata, &inner.redirect_uri(name)).authorization_url(&login)?;
        let text = serde_json::to_vec(&login).map_err(|_| OpenIdError::unsealable())?;
        let sealed =
            inner.deps.key.seal_text(&text, LOGIN, &*inner.deps.random).map_err(|_| OpenIdError::unsealable())?;
        Ok(LoginStart { location, state: login.state, sealed })
    }

    /// Ends a login: checks the provider's answer against the browser's cookie.
    pub async fn finish(
        &self,
        name: &str,
        answer: &LoginAnswer<'_>,
        sealed: &str,
        from: IpAddr,
    ) -> Result<FinishedLogin, OpenIdError> {
        let (inner, provider) = self.find(|spec| spec.name == name)?;
        let now = inner.deps.clock.now();
        let login = inner.open(sealed).filter(|login| login.fits(name, answer, now)).ok_or(OpenIdError::Foreign)?;
        if !inner.spent.spend(Digest::sha256(&login.state), login.begun + LIFETIME, now) {
            // the browser dropped the answer to its first visit: the code is used up, and the session there is most
            // likely still alive
            return Err(OpenIdError::Again { prompt: login.prompt, after: login.after });
        }
        inner.charge(from)?;
        let metadata = provider.metadata().await?;
        match answer.issuer {
            Some(issuer) if issuer != provider.spec.issuer => return Err(OpenIdError::Issuer),
            None if metadata.server.returns_issuer => return Err(OpenIdError::Issuer),
            _ => {}
        }
        let code = match (answer.error, answer.code) {
            (Some("access_denied" | "login_required" | "interaction_required"), _) => {
                return Err(OpenIdError::Declined);
            }
            (Some(error), _) => {
                let instead = login.prompt.without_choice().filter(|_| NO_CHOICE.contains(&error));
                return Err(match instead {
                    Some(prompt) => OpenIdError::NoChoice { prompt, after: login.after },
                    None => OpenIdError::Refused(format!("the authorization request, with {}", error_code(error))),
                });
            }
            (None, Some(code)) if code.len() <= MAX_CODE => code,
            (None, _) => return Err(OpenIdError::Unavailable("the answer has no code".to_owned())),
        };
        let tokens = provider.client(&metadata, &inner.redirect_uri(name)).exchange(code, &login.verifier).await?;
        let refresh = match (&tokens.refresh, provider.spec.session) {
            (Some(token), _) if provider.spec.keeps_token_of(tokens.refresh_life) => {
                Some(inner.seal_token(&provider.spec.issuer, token)?)
            }
            (None, LoginSession::Bound) => {
                return Err(OpenIdError::Unavailable(
                    "it gave no refresh token, without which `session = \"bound\"` cannot be; `scopes` may need \
                     `offline_access`"
                        .to_owned(),
                ));
            }
            (_, LoginSession::Bound | LoginSession::Independent) => None,
        };
        let context = LoginContext { nonce: &login.nonce, begun: login.begun, prompt: login.prompt };
        let person = provider.person(&tokens, &metadata, context).await?;
        Ok(FinishedLogin { person, refresh, after: login.after })
    }

    /// Verifies a provider's report of a logout (`UP-14`).
    pub async fn logout(&self, name: &str, token: &str) -> Result<Logout, OpenIdError> {
        self.find(|spec| spec.name == name)?.1.logout(token).await
    }

    /// The verifier of identity assertions; `None` if no provider's assertions are accepted (`OA-145`).
    pub fn assertion_verifier(&self) -> Option<AssertionVerifier> {
        self.specs().find(|spec| spec.identity_assertions == IdentityAssertions::Accepted)?;
        let providers = self.clone();
        Some(AssertionVerifier::new(move |assertion, client| {
            let providers = providers.clone();
            Box::pin(async move {
                providers.assertion(assertion.expose(), &client).await.map_err(|error| error.to_string())
            })
        }))
    }

    /// Verifies an identity assertion that an authenticated client presents (`UP-15`). Its issuer selects the provider,
    /// and is trusted for nothing else before the signature is checked.
    async fn assertion(&self, token: &str, client: &ClientId) -> Result<IdentityAssertion, OpenIdError> {
        if token.len() > MAX_ASSERTION {
            return Err(TokenProblem::Malformed.into());
        }
        let issuer = signed_token::claimed_issuer(token).ok_or(TokenProblem::Malformed)?;
        let accepts = |spec: &LoginProvider| spec.identity_assertions == IdentityAssertions::Accepted;
        let (inner, provider) = self.find(|spec| spec.issuer == issuer && accepts(spec))?;
        provider.assertion(token, &inner.deps.root, client.as_str()).await
    }

    /// Asks a provider whether it still vouches for a person (`UP-14`, `UP-31`), and for the person's claims where the
    /// login was not bound to them. An error says nothing about the login.
    pub async fn renew(&self, issuer: &str, subject: &str, sealed: &[u8]) -> Result<Renewal, OpenIdError> {
        let Ok((inner, provider)) = self.find(|spec| spec.issuer == issuer) else { return Ok(Renewal::Ended) };
        let Ok(plain) = inner.deps.key.open(sealed, &token_context(issuer)) else { return Ok(Renewal::Ended) };
        let token = Secret::new(String::from_utf8_lossy(&plain));
        let metadata = provider.metadata().await?;
        let redirect_uri = inner.redirect_uri(&provider.spec.name);
        let client = provider.client(&metadata, &redirect_uri);
        match client.refresh(&token).await {
            Ok(tokens) => {
                let claims = match provider.spec.session {
                    LoginSession::Bound => None,
                    LoginSession::Independent => provider.renewed(&tokens, &metadata, subject).await,
                };
                let token = inner.seal_token(issuer, tokens.refresh.as_ref().unwrap_or(&token))?;
                Ok(Renewal::Continued { token, claims })
            }
            // only this error means that the login is over; others are about the gateway (RFC 6749 5.2)
            Err(OpenIdError::RefusedTokens(refusal)) if refusal.meaning() == RefusalMeaning::GrantIsOver => {
                tracing::info!(issuer, %refusal, "a login at a provider is over");
                Ok(Renewal::Ended)
            }
            Err(error) => Err(error),
        }
    }

    fn find(&self, fits: impl Fn(&LoginProvider) -> bool) -> Result<(&Inner, &Provider), OpenIdError> {
        let inner = self.0.as_ref().ok_or(OpenIdError::Unknown)?;
        let provider = inner.providers.iter().find(|provider| fits(&provider.spec)).ok_or(OpenIdError::Unknown)?;
        Ok((inner, provider))
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.specs().map(|spec| &spec.name)).finish()
    }
}

// === impl Inner ===

impl Inner {
    fn open(&self, sealed: &str) -> Option<PendingLogin> {
        serde_json::from_slice(&self.deps.key.open_text(sealed, LOGIN).ok()?).ok()
    }

    fn seal_token(&self, issuer: &str, token: &Secret) -> Result<Vec<u8>, OpenIdError> {
        let sealed = self.deps.key.seal(token.expose().as_bytes(), &token_context(issuer), &*self.deps.random);
        sealed.map_err(|_| OpenIdError::unsealable())
    }

    /// The redirect URI of a provider. Each has its own, so that one cannot answer for another.
    fn redirect_uri(&self, name: &str) -> String {
        format!("{}/oauth/login/callback/{name}", self.deps.root)
    }

    fn charge(&self, from: IpAddr) -> Result<(), OpenIdError> {
        let now = self.deps.clock.now();
        self.logins.take(ClientIp(from).network(), now).map_err(|_| OpenIdError::Limited)
    }
}

/// The error code of a provider, if it looks like one: it is the provider's own text.
fn error_code(text: &str) -> &str {
    let fits =
        text.len() <= 60 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if fits && !text.is_empty() { text } else { "a code of another form" }
}

/// A refresh token can be unsealed only for its own issuer.
fn token_context(issuer: &str) -> Vec<u8> {
    format!("refresh token of {issuer}").into_bytes()
}
