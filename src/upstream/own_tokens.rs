//! The gateway's own tokens at a server, by client credentials (`UP-11`). They stay in memory, since the gateway can
//! request another at any time.

use std::{future::Future, time::Duration};

use super::{assertion, context::UpstreamContext, error::UpstreamError, identity, servers::ProtectedServer};
use crate::{
    model::{BackendId, BackendSpec, RenewalError, ServerAuth, TokenRequest, TokenRequests},
    oauth_client::{BearerChallenge, ClientIdentity, Discovered, LoginError, SavedTokens, TokenSource, discover},
};

/// A rejected token up to this age counts as just issued: another would be rejected too.
const JUST_ISSUED: Duration = Duration::from_secs(5);

struct OwnTokens {
    context: UpstreamContext,
    backend: BackendId,
    server: ProtectedServer,
}

/// Answers requests for the gateway's token at a server until nobody needs it any more; `None` without client
/// credentials there.
pub(super) fn keep(
    context: UpstreamContext,
    spec: &BackendSpec,
    mut requests: TokenRequests,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let ServerAuth::Gateway(client) = &spec.auth else { return None };
    let own = OwnTokens { context, backend: spec.id.clone(), server: ProtectedServer::with(spec, client)? };
    Some(async move {
        let mut current: Option<SavedTokens> = None;
        while let Some(request) = requests.recv().await {
            let outcome = own.answer(&mut current, &request).await;
            if let Some(tokens) = &current {
                requests.set(tokens.access.secret().clone());
            }
            request.answer(outcome.map_err(|error| RenewalError::Failed(error.to_string())));
        }
    })
}

// === impl OwnTokens ===

impl OwnTokens {
    async fn answer(&self, current: &mut Option<SavedTokens>, request: &TokenRequest) -> Result<(), UpstreamError> {
        if let Some(tokens) = current {
            if !request.is_open(Some(tokens.access.secret())) {
                return Ok(());
            }
            let now = self.context.now();
            if now.since(tokens.issued) < JUST_ISSUED && !tokens.is_over(now) {
                let rejects = format!("{} rejects a token that was just issued: check its scopes", self.backend);
                return Err(LoginError::Untrusted(rejects).into());
            }
        }
        *current = Some(self.request(&BearerChallenge::of(&request.challenges)).await?);
        Ok(())
    }

    async fn request(&self, challenge: &BearerChallenge) -> Result<SavedTokens, UpstreamError> {
        let (http, spec) = (self.server.http(&self.context)?, &self.server.client);
        let Discovered { resource, scope, server } = discover(&http, self.server.target(), challenge).await?;
        let known = identity::unregistered(&self.context, &self.backend, spec, &server, &http).await?;
        let missing = || LoginError::Untrusted("client credentials need `client_id` and `client_secret`".to_owned());
        let client = known.ok_or_else(missing)?;
        let source = TokenSource::new(&server, resource);
        let scope = spec.scope.clone().or(scope);
        let proven = assertion::authenticated(&self.context, &client, &source)?;
        let tokens = source.client_credentials(proven, scope.as_deref(), &http, self.context.now()).await;
        let identity = identity::configured(spec)?.unwrap_or(ClientIdentity::Registered);
        Ok(tokens.map_err(|error| identity.explain(error))?)
    }
}
