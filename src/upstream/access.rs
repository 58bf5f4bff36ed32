//! Access to servers, for code that connects to them: either a server with the user's token and secrets, or the page
//! where the user supplies what is missing.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    context::UpstreamContext, error::UpstreamError, keepers::Keepers, servers::ProtectedServers, ticket,
    user_secrets::UserSecrets,
};
use crate::model::{AccessPage, BackendId, BackendSpec, SecretName, ServerAccess, ServerAuth, UserId};

/// The stored values that servers need from a user.
#[derive(Clone)]
pub(super) struct AccessSources {
    pub(super) servers: Arc<ProtectedServers>,
    pub(super) keepers: Arc<Keepers>,
    pub(super) secrets: UserSecrets,
}

/// Builds the access from these sources.
pub(super) fn server_access(context: &UpstreamContext, sources: &AccessSources) -> ServerAccess {
    let (of_users, of_gateway, of_pages) = (sources.clone(), Arc::clone(&sources.keepers), sources.clone());
    let pages = context.clone();
    ServerAccess::new(
        move |user, spec| {
            let sources = of_users.clone();
            Box::pin(async move {
                sources.of_user(&user, &spec).await.map_err(|error| {
                    tracing::error!(%error, server = %spec.id, "a user's access to a server cannot be read");
                    "the gateway cannot read the user's tokens and secrets".to_owned()
                })
            })
        },
        move |spec| of_gateway.of_gateway(spec),
        move |user, backend| of_pages.page(&pages, user, backend),
        context.changes.clone(),
    )
}

// === impl AccessSources ===

impl AccessSources {
    async fn of_user(&self, user: &UserId, spec: &BackendSpec) -> Result<Option<BackendSpec>, UpstreamError> {
        let Some(secrets) = self.secrets.values(user, spec.secret_names()).await? else { return Ok(None) };
        let own = spec.of_user(user, &secrets);
        match &spec.auth {
            ServerAuth::None => Ok(Some(own)),
            ServerAuth::User(_) => {
                let Some(bearer) = self.keepers.open(user, spec).await? else { return Ok(None) };
                Ok(Some(BackendSpec { transport: own.transport.with_bearer(bearer), ..own }))
            }
            ServerAuth::Gateway(_) => Ok(Some(match self.keepers.of_gateway(spec) {
                Some(bearer) => BackendSpec { transport: own.transport.with_bearer(bearer), ..own },
                None => own,
            })),
        }
    }

    fn page(&self, context: &UpstreamContext, user: &UserId, backend: &BackendId) -> AccessPage {
        let scope = self.keepers.wanted(user, backend);
        let names = self.secrets.needed_by(backend);
        let message = match (&scope, self.servers.find(backend)) {
            (Some(scope), _) if scope.is_empty() => {
                format!("{backend} asks for further permissions: connect your account there again.")
            }
            (Some(scope), _) => format!(
                "{backend} asks for further permissions: connect your account there again, with the scopes `{scope:.300}`."
            ),
            (None, Some(_)) if names.is_empty() => {
                format!("{backend} asks for a login of its own: connect your account there.")
            }
            (None, Some(_)) => {
                format!("{backend} asks for a login of its own and for {}: connect your account there.", listed(&names))
            }
            (None, None) => format!("{backend} needs {} from you: enter it for your apps.", listed(&names)),
        };
        AccessPage { url: ticket::address(context, user, backend, scope), message }
    }
}

/// The names of secrets in a sentence.
fn listed(names: &BTreeSet<SecretName>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("the secret {name}")).collect();
    names.join(" and ")
}
