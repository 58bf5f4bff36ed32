//! Provider of one server's tokens: saved, refreshed, or from a login. Knows nothing of the requests that use them.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    authorization::{BrowserLogin, LoginTarget, OpenBrowser},
    challenge::BearerChallenge,
    error::LoginError,
    login_file::{Login, LoginLock, SavedLogin, TokenSet},
    tokens::{SavedTokens, TokenGrant},
};
use crate::{
    model::{RenewalError, TokenRequest, TokenRequests},
    support::{Clock, Random},
};

/// Age up to which a rejected token counts as just issued: another of the same kind would be rejected too.
const JUST_ISSUED: Duration = Duration::from_secs(30);
/// Time before a refresh is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// Provider of the tokens of one server.
#[derive(Debug)]
pub struct TokenProvider {
    login: BrowserLogin,
}

// === impl TokenProvider ===

impl TokenProvider {
    /// Creates the provider for one server.
    ///
    /// # Errors
    ///
    /// An error if there can be no HTTP client: certificates are missing.
    pub fn new(
        target: LoginTarget,
        browser: OpenBrowser,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, LoginError> {
        Ok(Self { login: BrowserLogin::new(target, browser, clock, random)? })
    }

    /// Answers requests for tokens, and refreshes tokens before they end, until the last [`crate::model::Bearer`] is dropped.
    pub async fn run(self, mut requests: TokenRequests) {
        let mut current = self.login.read().ok().and_then(|login| login.tokens().cloned());
        let mut not_before = Instant::now();
        loop {
            if let Some(tokens) = &current {
                requests.set(tokens.access.0.clone());
            }
            let refresh_at = self.refresh_at(current.as_ref()).map(|at| at.max(not_before));
            let request = tokio::select! {
                request = requests.recv() => request,
                () = at(refresh_at) => {
                    not_before = Instant::now() + RETRY;
                    match self.refreshed(current.as_ref()).await {
                        Ok(tokens) => current = tokens.or(current),
                        Err(error) => tracing::warn!(%error, "the token was not refreshed; the next attempt is in a minute"),
                    }
                    continue;
                }
            };
            let Some(request) = request else { return };
            if request.is_open(current.as_ref().map(|tokens| &tokens.access.0)) {
                match self.obtain(&request).await {
                    Ok(tokens) => current = Some(tokens),
                    Err(error) => {
                        tracing::warn!(server = %self.login.target.server, %error, "not logged in");
                        request.answer(Err(RenewalError::Failed(error.to_string())));
                        continue;
                    }
                }
            }
            if let Some(tokens) = &current {
                requests.set(tokens.access.0.clone());
            }
            request.answer(Ok(()));
        }
    }

    /// Logs in now if the saved tokens are of no use; returns the scopes of the login.
    ///
    /// # Errors
    ///
    /// The reason, if the login did not succeed.
    pub async fn log_in_now(&self) -> Result<Option<String>, LoginError> {
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        if let Some(tokens) = login.tokens().filter(|tokens| !tokens.is_over(self.login.clock.now())) {
            return Ok(tokens.scope.clone());
        }
        let tokens = match self.refresh(&mut login, &lock).await? {
            Some(tokens) => tokens,
            None => self.login.log_in(&mut login, &lock, &BearerChallenge::default()).await?,
        };
        Ok(tokens.scope)
    }

    fn refresh_at(&self, current: Option<&SavedTokens>) -> Option<Instant> {
        Some(Instant::now() + current?.refresh_at()?.since(self.login.clock.now()))
    }

    /// The tokens of another process, or refreshed ones; `None` if a login is needed.
    async fn refreshed(&self, current: Option<&SavedTokens>) -> Result<Option<SavedTokens>, LoginError> {
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        match login.tokens() {
            Some(saved) if current.is_none_or(|tokens| tokens.access.expose() != saved.access.expose()) => {
                Ok(Some(saved.clone()))
            }
            _ => self.refresh(&mut login, &lock).await,
        }
    }

    /// A token other than the rejected one: that of another process, a refreshed one, or that of a login.
    async fn obtain(&self, request: &TokenRequest) -> Result<SavedTokens, LoginError> {
        let challenge = BearerChallenge::of(&request.challenges);
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        let now = self.login.clock.now();
        let saved = login.tokens().cloned();
        if let Some(tokens) =
            saved.as_ref().filter(|tokens| !request.is_open(Some(&tokens.access.0)) && !tokens.is_over(now))
        {
            return Ok(tokens.clone());
        }
        let just_issued = saved.filter(|tokens| now.since(tokens.issued) < JUST_ISSUED && !tokens.is_over(now));
        match just_issued.map(|tokens| tokens.by) {
            Some(TokenGrant::AuthorizationCode) if !challenge.asks_for_more() => Err(LoginError::Untrusted(format!(
                "{} rejects the token that its authorization server has just issued",
                self.login.target.server
            ))),
            Some(_) => self.login.log_in(&mut login, &lock, &challenge).await,
            None if challenge.asks_for_more() => self.login.log_in(&mut login, &lock, &challenge).await,
            None => match self.refresh(&mut login, &lock).await? {
                Some(tokens) => Ok(tokens),
                None => self.login.log_in(&mut login, &lock, &challenge).await,
            },
        }
    }

    /// Refreshes the tokens and saves them; `None` if only a login can help. They are given up only if the
    /// authorization server says that they have ended.
    async fn refresh(&self, login: &mut Login, lock: &LoginLock) -> Result<Option<SavedTokens>, LoginError> {
        let SavedLogin::LoggedIn(set) = &mut login.state else { return Ok(None) };
        let TokenSet { source, client, tokens } = &mut **set;
        let Some(token) = &tokens.refresh else { return Ok(None) };
        match source.refresh((&self.login.http, self.login.clock.now()), (&*client).into(), (&*tokens, token)).await {
            Ok(refreshed) => {
                *tokens = refreshed.clone();
                self.login.target.file.write(login, lock)?;
                Ok(Some(refreshed))
            }
            Err(LoginError::Refused { code, .. }) => {
                tracing::info!(server = %self.login.target.server, code, "the login has ended");
                let is_known = code != "invalid_client" && code != "unauthorized_client";
                login.state = SavedLogin::LoggedOut(is_known.then(|| client.clone()));
                self.login.target.file.write(login, lock)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
