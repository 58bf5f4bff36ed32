//! Pushed authorization requests (RFC 9126; `OA-79`): a `request_uri` contains the checked request itself, sealed for
//! its client.
//!
//! Nothing is stored, so requests cannot fill a table. The id in a `request_uri` becomes the transaction's, and a
//! transaction is decided once, so a `request_uri` is good for one decision.

use std::time::Duration;

use super::{
    authorization_request,
    response::AuthorizationError,
    transaction::{MAX_SEALED, Transaction},
};
use crate::{
    model::{Client, ClientId},
    oauth::{dependencies::OAuthDeps, error::OAuthError, form::Params},
    support::SealingKey,
};

/// Life of a `request_uri`. `transaction_lifetime` is a minute at least, so the row of a decision lives longer, and no
/// `request_uri` outlives it.
pub(super) const LIFETIME: Duration = Duration::from_mins(1);

/// Beginning of a `request_uri` (RFC 9126 2.2).
const PREFIX: &str = "urn:ietf:params:oauth:request_uri:";

/// The `request_uri` is forged, another client's, expired or used. The text is the same for all of these.
const UNUSABLE: &str = "The request of the app has expired, was already answered, or belongs to another app. Start again \
                        from your MCP client.";

/// Seals pushed requests and opens them.
pub(super) struct PushedRequests {
    deps: OAuthDeps,
    key: SealingKey,
}

// === impl PushedRequests ===

impl PushedRequests {
    pub(super) const fn new(deps: OAuthDeps, key: SealingKey) -> Self {
        Self { deps, key }
    }

    /// The `request_uri` of a request, until it expires.
    pub(super) fn seal(&self, transaction: &Transaction) -> Result<String, OAuthError> {
        let context = context(&transaction.request.client);
        let sealed = self.key.seal_text(&transaction.to_bytes()?, context.as_bytes(), &*self.deps.random)?;
        Ok(format!("{PREFIX}{sealed}"))
    }

    /// Opens a `request_uri` for its own client, and checks the client's description and the redirect URI again.
    pub(super) async fn open(&self, uri: &str, client: &Client) -> Result<Transaction, AuthorizationError> {
        let refused = || AuthorizationError::request("invalid_request_uri", UNUSABLE);
        let sealed = uri.strip_prefix(PREFIX).filter(|sealed| sealed.len() <= MAX_SEALED).ok_or_else(refused)?;
        let plain = self.key.open_text(sealed, context(&client.id).as_bytes()).map_err(|_| refused())?;
        let (id, expires, request) = Transaction::parts(&plain).ok_or_else(refused)?;
        let now = self.deps.now();
        let decided = self.deps.storage.transactions().is_decided(&id.digest()).await;
        if now >= expires || decided.map_err(|error| AuthorizationError::internal(&error.into()))? {
            return Err(refused());
        }
        if !request.is_about(client) {
            return Err(AuthorizationError::changed_client());
        }
        authorization_request::find_target(client, Some(&request.redirect_uri))?;
        let expires = now + self.deps.settings.policy.get().transaction_lifetime;
        let (client_name, login, chooses) = (client.name.clone(), request.login, request.chooses);
        Ok(Transaction { id, client_name, login, chooses, expires, request })
    }
}

/// The `request_uri` of a request, if it has the form of this gateway's.
pub(super) fn request_uri(params: &Params) -> Option<&str> {
    params.get("request_uri").ok().flatten().filter(|uri| uri.starts_with(PREFIX))
}

fn context(client: &ClientId) -> String {
    format!("pushed authorization request of {client}")
}
