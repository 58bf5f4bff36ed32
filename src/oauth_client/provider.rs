//! Provider of one server's tokens: saved, refreshed, or from a login. Knows nothing of the requests that use them.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    authorization::{BrowserLogin, LoginTarget, OpenBrowser},
    challenge::BearerChallenge,
    error::LoginError,
    login_file::{Login, LoginLock, SavedLogin, TokenSet},
    refresh_attempts::{RefreshAttempts, RefreshOutcome, RefreshReason},
    saved_tokens::{SavedTokens, TokenGrant},
    tokens::AuthenticatedClient,
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
    attempts: RefreshAttempts,
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
        let login = BrowserLogin::new(target, browser, clock, random)?;
        Ok(Self { login, attempts: RefreshAttempts::default() })
    }

    /// Answers requests for tokens, and refreshes tokens before they end, until the last [`crate::model::Bearer`] is dropped.
    pub async fn run(mut self, mut requests: TokenRequests) {
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
                        Ok(tokens) => current = Some(tokens),
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
    pub async fn log_in_now(&mut self) -> Result<Option<String>, LoginError> {
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        let now = self.login.clock.now();
        if let Some(tokens) = login.tokens().filter(|tokens| !tokens.is_over(now)) {
            return Ok(tokens.scope.clone());
        }
        let tokens = match self.refresh(&mut login, &lock, RefreshReason::Ends).await? {
            Some(RefreshOutcome::Tokens(tokens)) => tokens,
            Some(RefreshOutcome::Kept(error, tokens)) if !error.offers_login(&tokens, now) => return Err(error),
            _ => self.login.log_in(&mut login, &lock, &BearerChallenge::default()).await?,
        };
        Ok(tokens.scope)
    }

    fn refresh_at(&self, current: Option<&SavedTokens>) -> Option<Instant> {
        Some(Instant::now() + current?.refresh_at()?.since(self.login.clock.now()))
    }

    /// The tokens of another process, or refreshed ones, or those of before if only a login can help.
    async fn refreshed(&mut self, current: Option<&SavedTokens>) -> Result<SavedTokens, LoginError> {
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        let saved = login.tokens().cloned().ok_or_else(|| LoginError::Unavailable("there is no login".to_owned()))?;
        if current.is_none_or(|tokens| tokens.access.expose() != saved.access.expose()) {
            return Ok(saved);
        }
        match self.refresh(&mut login, &lock, RefreshReason::Ends).await? {
            Some(RefreshOutcome::Tokens(tokens) | RefreshOutcome::Over(tokens)) => Ok(tokens),
            Some(RefreshOutcome::Kept(error, _)) => Err(error),
            None => Ok(saved),
        }
    }

    /// A token other than the rejected one: that of another process, a refreshed one, or that of a login.
    async fn obtain(&mut self, request: &TokenRequest) -> Result<SavedTokens, LoginError> {
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
            None => match self.refresh(&mut login, &lock, RefreshReason::Rejected).await? {
                Some(RefreshOutcome::Tokens(tokens)) => Ok(tokens),
                Some(RefreshOutcome::Kept(error, tokens)) if error.offers_login(&tokens, now) => {
                    Err(LoginError::Stuck(
                        Box::new(error),
                        format!("`lockkeeper connect {} --login` logs in anew", self.login.target.server),
                    ))
                }
                Some(RefreshOutcome::Kept(error, _)) => Err(error),
                Some(RefreshOutcome::Over(_)) | None => self.login.log_in(&mut login, &lock, &challenge).await,
            },
        }
    }

    /// Refreshes the tokens and saves what came of it.
    async fn refresh(
        &mut self,
        login: &mut Login,
        lock: &LoginLock,
        reason: RefreshReason,
    ) -> Result<Option<RefreshOutcome>, LoginError> {
        let SavedLogin::LoggedIn(set) = &mut login.state else { return Ok(None) };
        let TokenSet { source, client, tokens } = &mut **set;
        let now = self.login.clock.now();
        let current = self.login.target.identity.current(client);
        let proven = AuthenticatedClient { is_given: self.login.target.identity.is_given(), ..(&current).into() };
        let outcome = self.attempts.refresh(source, (&self.login.http, now), proven, (tokens, reason)).await;
        let (RefreshOutcome::Tokens(changed) | RefreshOutcome::Over(changed) | RefreshOutcome::Kept(_, changed)) =
            &outcome;
        *tokens = changed.clone();
        self.login.target.file.write(login, lock)?;
        Ok(Some(outcome))
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
