//! The endpoint for pushed authorization requests (RFC 9126; `OA-79`).

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{Authorization, PushedRequest};
use crate::{
    model::GrantType,
    oauth::{
        clients::client_auth::{ClientAuthenticator, ClientRequest, SoughtClient},
        dependencies::OAuthDeps,
        error::ErrorResponse,
        rate_limits::RateLimit,
    },
};

/// The endpoint for pushed authorization requests.
pub(in crate::oauth) struct PushedRequestEndpoint {
    deps: OAuthDeps,
    clients: Arc<ClientAuthenticator>,
    authorization: Arc<Authorization>,
    requests: RateLimit,
}

impl PushedRequestEndpoint {
    /// One network may push 60 requests at once, then one a second, because hosted clients share an address.
    pub(in crate::oauth) fn new(
        deps: OAuthDeps,
        clients: Arc<ClientAuthenticator>,
        authorization: Arc<Authorization>,
    ) -> Self {
        let requests = deps.limits.limit("pushed requests", 60, Duration::from_secs(1));
        Self { deps, clients, authorization, requests }
    }

    /// Checks a request as the authorization endpoint does, and answers with its `request_uri` (RFC 9126 2.2).
    pub(in crate::oauth) async fn push(&self, request: ClientRequest<'_>) -> Result<Value, ErrorResponse> {
        // before the first await, so that concurrent requests cannot all pass
        self.requests.take(request.from.network(), self.deps.now()).map_err(ErrorResponse::Limited)?;
        let client = self.clients.authenticate(request, SoughtClient::Any).await?;
        if !client.grant_types.contains(&GrantType::AuthorizationCode) {
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let PushedRequest { request_uri, lifetime } = self.authorization.push(request.form, &client)?;
        Ok(json!({ "request_uri": request_uri, "expires_in": lifetime.as_secs() }))
    }
}
