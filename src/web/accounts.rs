//! The accounts and secrets that servers need from each user, as pages show them.

use std::collections::HashSet;

use super::{pages, problem::Problem, state::WebState, texts};
use crate::{
    model::{AccessPlace, BackendId, Groups},
    oauth::KeyHolder,
    upstream::{ConnectionView, SecretView, UpstreamError},
};

/// True if the holder sees the server, at its own endpoint or at a group's. To others it looks like a server that does
/// not exist.
pub(super) fn sees(state: &WebState, holder: &KeyHolder, server: &BackendId) -> bool {
    sees_among(&state.oauth.settings().backends.groups(), holder, server)
}

fn sees_among(groups: &Groups, holder: &KeyHolder, server: &BackendId) -> bool {
    holder.subject().server(AccessPlace::Anywhere(groups), server).is_visible()
}

/// The servers visible to the holder where each user logs in.
pub(super) async fn of_holder(state: &WebState, holder: &KeyHolder) -> Result<Vec<pages::AccountItem>, Problem> {
    let (now, groups) = (state.clock.now(), state.oauth.settings().backends.groups());
    let all = state.upstream.connections().of(&holder.user).await?;
    let own = all.into_iter().filter(|one| sees_among(&groups, holder, &one.backend));
    let item = |ConnectionView { backend, login }: ConnectionView| pages::AccountItem {
        backend: backend.to_string(),
        connected: login.as_ref().map(|login| texts::ago(now.since(login.connected))),
        issuer: login.as_ref().map(|login| host(&login.issuer)).unwrap_or_default(),
        scope: login.and_then(|login| login.scope).unwrap_or_default(),
    };
    Ok(own.map(item).collect())
}

/// The servers visible to the holder where a login or a secret of the user is missing.
pub(super) async fn missing(state: &WebState, holder: &KeyHolder) -> Result<HashSet<String>, Problem> {
    let accounts = of_holder(state, holder).await?;
    let accounts = accounts.into_iter().filter(|item| item.connected.is_none()).map(|item| item.backend);
    let secrets = secrets(state, holder).await?.into_iter().filter(|secret| secret.entered.is_none());
    let secrets = secrets.flat_map(|secret| secret.servers).map(|server| server.to_string());
    Ok(accounts.chain(secrets).collect())
}

/// The secrets that the holder may see, with the servers that need them.
pub(super) async fn secrets(state: &WebState, holder: &KeyHolder) -> Result<Vec<SecretView>, Problem> {
    let groups = state.oauth.settings().backends.groups();
    let all = state.upstream.secrets().of(&holder.user).await?;
    Ok(all.into_iter().filter_map(|view| within(view, holder, &groups)).collect())
}

/// The secret with the servers that the holder sees; `None` if the holder sees none of them.
fn within(view: SecretView, holder: &KeyHolder, groups: &Groups) -> Option<SecretView> {
    let is_unused = view.servers.is_empty();
    let servers: Vec<_> = view.servers.into_iter().filter(|server| sees_among(groups, holder, server)).collect();
    (is_unused || !servers.is_empty()).then_some(SecretView { servers, ..view })
}

fn host(issuer: &str) -> String {
    url::Url::parse(issuer).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| issuer.to_owned())
}

impl From<UpstreamError> for Problem {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::Storage(error) if error.is_busy() => Self::busy(),
            error => {
                tracing::error!(%error, "a page about connected accounts could not be created");
                Self::internal()
            }
        }
    }
}
