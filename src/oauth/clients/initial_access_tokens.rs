//! Initial access tokens (RFC 7591 3; `OA-44`): they let a client register at a gateway that is closed to others.

use std::time::Duration;

use crate::{
    audit::ClientEvent,
    model::{ClientIp, InitialAccessToken, InitialAccessTokenId},
    oauth::{
        dependencies::OAuthDeps,
        error::{ErrorResponse, InitialAccessProblem, OAuthError},
        rate_limits::RateLimit,
        secrets::opaque,
    },
    support::{Secret, Timestamp, printable_name},
};

/// Length of an id in base62.
const ID_LENGTH: usize = 10;

/// A token to create.
#[derive(Debug, Clone)]
pub struct NewInitialAccessToken {
    /// Name: 1 to 100 characters.
    pub name: String,
    pub expires: Timestamp,
    /// Number of clients that may register with it.
    pub uses: u32,
}

/// The initial access tokens.
pub struct InitialAccessTokens {
    deps: OAuthDeps,
    /// Wrong tokens, by network.
    wrong: RateLimit,
}

// === impl InitialAccessTokens ===

impl InitialAccessTokens {
    /// One network may send 10 wrong tokens in 15 minutes. A right token always passes.
    pub(in crate::oauth) fn new(deps: OAuthDeps) -> Self {
        let wrong = deps.limits.limit("wrong initial access tokens", 10, Duration::from_secs(90));
        Self { deps, wrong }
    }

    /// Creates a token. The secret is returned only here.
    pub async fn create(&self, new: NewInitialAccessToken) -> Result<(InitialAccessToken, Secret), OAuthError> {
        let name = printable_name(new.name.trim(), 100);
        if name.is_empty() {
            return Err(OAuthError::KeyName);
        }
        let secret = opaque::mint_initial_access(&*self.deps.random);
        let token = InitialAccessToken {
            id: InitialAccessTokenId::new(opaque::base62(&*self.deps.random, ID_LENGTH)),
            name,
            created: self.deps.now(),
            expires: new.expires,
            uses: new.uses.max(1),
            used: 0,
            revoked: None,
        };
        self.deps.storage.initial_access_tokens().add(&token, &secret.digest()).await?;
        self.deps.audit.record(ClientEvent::RegistrationAllowed(token.id.clone()));
        Ok((token, secret))
    }

    /// Every token that was not deleted after its end, newest first.
    pub async fn list(&self) -> Result<Vec<InitialAccessToken>, OAuthError> {
        Ok(self.deps.storage.initial_access_tokens().list().await?)
    }

    /// Revokes a token; the clients that registered with it stay. Returns false if no live token has this id.
    pub async fn revoke(&self, id: &InitialAccessTokenId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.initial_access_tokens().revoke(id, self.deps.now()).await?;
        if done {
            self.deps.audit.record(ClientEvent::RegistrationDisallowed(id.clone()));
        }
        Ok(done)
    }

    /// Takes one use of the presented token.
    pub(super) async fn take(
        &self,
        presented: Option<&str>,
        from: ClientIp,
    ) -> Result<InitialAccessTokenId, ErrorResponse> {
        let now = self.deps.now();
        let Some(presented) = presented else {
            return Err(ErrorResponse::InitialAccessToken(InitialAccessProblem::Missing));
        };
        if opaque::is_initial_access(presented)
            && let Some(id) =
                self.deps.storage.initial_access_tokens().take(&Secret::new(presented).digest(), now).await?
        {
            return Ok(id);
        }
        self.wrong.take(from.network(), now).map_err(ErrorResponse::Limited)?;
        Err(ErrorResponse::InitialAccessToken(InitialAccessProblem::Invalid))
    }

    /// Gives back a use with which no client was added.
    pub(super) async fn give_back(&self, id: &InitialAccessTokenId) -> Result<(), OAuthError> {
        Ok(self.deps.storage.initial_access_tokens().give_back(id).await?)
    }
}
