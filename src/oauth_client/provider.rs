//! Provider of one server's tokens: saved, refreshed, or from a login.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    authorization::{BrowserLogin, LoginTarget, OpenBrowser},
    challenge::BearerChallenge,
    error::LoginError,
    login_file::{Login, LoginLock, SavedLogin, TokenSet},
    parameters::{covers, union},
    refresh_attempts::{RefreshAttempts, RefreshOutcome, RefreshReason},
    saved_tokens::{SavedTokens, TokenGrant},
    tokens::AuthenticatedClient,
};
use crate::{
    model::{RenewalError, TokenRequest, TokenRequests},
    support::{Clock, Random, Timestamp},
};

/// Age below which a rejected token counts as just issued: a new one of the same kind would be rejected too.
const JUST_ISSUED: Duration = Duration::from_secs(30);
/// Pause before a token that was rejected right after it was issued is sent again.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// Time before a refresh is tried again.
const RETRY: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub struct TokenProvider {
    login: BrowserLogin,
    attempts: RefreshAttempts,
    /// Last time that a token was sent again because it had just been issued.
    repeated: Option<Timestamp>,
}

// === impl TokenProvider ===

impl TokenProvider {
    pub fn new(target: LoginTarget, browser: OpenBrowser, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let login = BrowserLogin::new(target, browser, clock, random);
        Self { login, attempts: RefreshAttempts::default(), repeated: None }
    }

    /// Answers requests for tokens, and refreshes tokens before they expire, until the last [`crate::model::Bearer`] is
    /// dropped.
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

    /// Logs in now if the saved tokens are useless; returns the scopes of the login.
    ///
    /// # Errors
    ///
    /// If the login failed.
    pub async fn log_in_now(&mut self) -> Result<Option<String>, LoginError> {
        let lock = self.login.target.file.lock().await?;
        let mut login = self.login.read()?;
        let now = self.login.clock.now();
        if let Some(tokens) = login.tokens().filter(|tokens| !tokens.is_over(now)) {
            let scopes = tokens.scope.clone();
            // the person asks again for scopes that were not granted, or for others
            let wanted = union(tokens.stepped_up.as_deref(), self.login.target.scope.as_deref());
            if covers(scopes.as_deref(), &wanted) {
                return Ok(scopes);
            }
            let scope = Some(union(scopes.as_deref(), Some(&wanted)));
            let error = Some(BearerChallenge::MORE.to_owned());
            let challenge = BearerChallenge { scope, error, ..self.challenge().await? };
            return Ok(self.login.log_in(&mut login, &lock, &challenge).await?.scope);
        }
        let tokens = match self.refresh(&mut login, &lock, RefreshReason::Ends).await? {
            Some(RefreshOutcome::Tokens(tokens)) => tokens,
            Some(RefreshOutcome::Kept(error, tokens)) if !error.offers_login(&tokens, now) => return Err(error),
            _ => {
                let challenge = self.challenge().await?;
                self.login.log_in(&mut login, &lock, &challenge).await?
            }
        };
        Ok(tokens.scope)
    }

    /// The server's challenge, which names its metadata and scopes.
    async fn challenge(&self) -> Result<BearerChallenge, LoginError> {
        self.login.target.http.challenge(&self.login.target.server).await
    }

    /// True if the saved login was made by requests with other headers: it may belong to another account.
    pub fn is_of_other_headers(&self) -> bool {
        let login = self.login.read().ok().filter(|login| login.tokens().is_some());
        login.is_some_and(|login| login.headers.is_some() && login.headers != self.login.target.headers)
    }

    fn refresh_at(&self, current: Option<&SavedTokens>) -> Option<Instant> {
        Some(Instant::now() + current?.refresh_at()?.since(self.login.clock.now()))
    }

    /// The tokens of another process, or refreshed ones, or the old ones if only a login can help.
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

    /// A token other than the rejected one: from another process, from a refresh, or from a login.
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
        if challenge.asks_for_more() {
            return self.step_up(&mut login, &lock, &challenge).await;
        }
        let just_issued = saved.filter(|tokens| now.since(tokens.issued) < JUST_ISSUED && !tokens.is_over(now));
        if let Some(tokens) = &just_issued
            && self.repeated.is_none_or(|at| now.since(at) >= JUST_ISSUED)
        {
            // the server may not know the token yet
            drop(lock);
            self.repeated = Some(now);
            sleep(REPEAT_AFTER).await;
            return Ok(tokens.clone());
        }
        match just_issued.map(|tokens| tokens.by) {
            Some(TokenGrant::AuthorizationCode) => Err(LoginError::Untrusted(format!(
                "{} rejects the token that its authorization server has just issued",
                self.login.target.server
            ))),
            Some(_) => self.login.log_in(&mut login, &lock, &challenge).await,
            None => match self.refresh(&mut login, &lock, RefreshReason::Rejected).await? {
                Some(RefreshOutcome::Tokens(tokens)) => Ok(tokens),
                Some(RefreshOutcome::Kept(error, tokens)) if error.offers_login(&tokens, now) => {
                    Err(LoginError::Stuck(
                        Box::new(error),
                        format!("`lockkeeper connect {} --login` logs in again", self.login.target.server),
                    ))
                }
                Some(RefreshOutcome::Kept(error, _)) => Err(error),
                Some(RefreshOutcome::Over(_)) | None => self.login.log_in(&mut login, &lock, &challenge).await,
            },
        }
    }

    /// A login that asks for the current scopes and the additional ones that the server wants. The person is asked once
    /// for each: otherwise a server that is never content would ask forever. Tokens that work are kept, however it
    /// ends.
    async fn step_up(
        &mut self,
        login: &mut Login,
        lock: &LoginLock,
        challenge: &BearerChallenge,
    ) -> Result<SavedTokens, LoginError> {
        let Some(tokens) = login.tokens().cloned() else { return self.login.log_in(login, lock, challenge).await };
        let wanted = challenge.wanted();
        if tokens.stepped_up.is_some() && covers(tokens.stepped_up.as_deref(), wanted) {
            let server = &self.login.target.server;
            let named =
                if wanted.is_empty() { "further scopes".to_owned() } else { format!("the scope `{wanted:.200}`") };
            return Err(LoginError::Untrusted(format!(
                "{server} asks for {named}, which was not granted when you were asked for it; `lockkeeper connect {server} \
                 --login` asks again"
            )));
        }
        let scope = union(tokens.scope.as_deref(), Some(wanted));
        let asked = BearerChallenge { scope: Some(scope).filter(|scope| !scope.is_empty()), ..challenge.clone() };
        let outcome = self.login.log_in(login, lock, &asked).await;
        let stepped_up = Some(union(tokens.stepped_up.as_deref(), Some(wanted)));
        if let SavedLogin::LoggedIn(set) = &mut login.state {
            set.tokens.stepped_up.clone_from(&stepped_up);
            self.login.target.file.write(login, lock)?;
        }
        outcome.map(|tokens| SavedTokens { stepped_up, ..tokens })
    }

    /// Refreshes the tokens and saves the outcome.
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
        let http = &self.login.target.http;
        let outcome = self.attempts.refresh(source, tokens, reason, proven, http, now).await;
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
