//! Error responses to the client (RFC 6749 4.1.2.1, RFC 9207), and the choice between an automatic redirect and a link
//! (`OA-75`).

use super::response::{Redirect, Trust};
use crate::{
    model::{ClientId, TokenDelivery},
    oauth::{
        accounts::api_keys::KeyHolder,
        clients::redirect_uri::{RedirectTarget, RedirectUri},
        dependencies::OAuthDeps,
    },
};

pub(super) struct ErrorAnswer {
    pub(super) client: ClientId,
    pub(super) uri: RedirectUri,
    pub(super) state: Option<String>,
    pub(super) error: &'static str,
    pub(super) description: String,
}

// === impl ErrorAnswer ===

impl ErrorAnswer {
    /// The redirect. The browser follows it automatically to this computer, to trusted hosts, and to places that
    /// already get this person's tokens. Anyone may register a client, so any other automatic redirect would be an open
    /// redirector.
    pub(super) async fn redirect(self, deps: &OAuthDeps, holder: Option<&KeyHolder>) -> Redirect {
        let mut parameters = vec![("error", self.error), ("error_description", &self.description)];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters.push(("iss", &deps.settings.issuer));
        let location = self.uri.with(&parameters);
        let trust = match self.uri.target() {
            RedirectTarget::Web(host) if !self.is_trusted(host, deps, holder).await => {
                let reason = format!("The request was not accepted: {}.", self.description);
                Trust::ShowLink { host: host.clone(), reason }
            }
            RedirectTarget::Web(_) | RedirectTarget::Loopback(_) | RedirectTarget::App(_) => Trust::Automatic,
        };
        Redirect { location, trust }
    }

    async fn is_trusted(&self, host: &String, deps: &OAuthDeps, holder: Option<&KeyHolder>) -> bool {
        if deps.settings.policy.get().trusted_redirect_hosts.contains(host) {
            return true;
        }
        let Some(holder) = holder else { return false };
        let delivery = TokenDelivery::Redirect(self.uri.as_str().to_owned());
        let consented = deps.storage.grants().has_consented(&holder.user, &self.client, &delivery, deps.now()).await;
        consented.unwrap_or_else(|error| {
            tracing::warn!(%error, "an earlier consent could not be looked up; the person gets a link");
            false
        })
    }
}
