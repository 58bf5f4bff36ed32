//! What servers ask of each user, as pages show it: accounts there, and secrets. Knows nothing of logins and values.

use super::{pages, problem::Problem, state::WebState, texts};
use crate::{
    model::{BackendId, Groups, Rights},
    oauth::KeyHolder,
    upstream::{ConnectionView, SecretView, UpstreamError},
};

/// True if these rights open the server, alone or in a group.
pub(super) fn reaches(rights: &Rights, groups: &Groups, backend: &BackendId) -> bool {
    let is_open = |id: &BackendId| rights.backends.access(id).is_some();
    is_open(backend) || groups.iter().any(|group| group.servers.contains(backend) && is_open(&group.id))
}

/// The servers at which the user logs in, as far as these rights open them.
pub(super) async fn of(
    state: &WebState,
    holder: &KeyHolder,
    rights: &Rights,
) -> Result<Vec<pages::AccountItem>, Problem> {
    let groups = state.oauth.settings().backends.groups();
    let now = state.clock.now();
    let all = state.upstream.connections().of(&holder.user).await?;
    let own = all
        .into_iter()
        .filter(|one| reaches(rights, &groups, &one.backend) && reaches(&holder.rights, &groups, &one.backend));
    let item = |ConnectionView { backend, login }: ConnectionView| pages::AccountItem {
        backend: backend.to_string(),
        connected: login.as_ref().map(|login| texts::ago(now.since(login.connected))),
        issuer: login.as_ref().map(|login| host(&login.issuer)).unwrap_or_default(),
        scope: login.and_then(|login| login.scope).unwrap_or_default(),
    };
    Ok(own.map(item).collect())
}

/// The same, with the servers that need secrets: one that lacks something counts as not connected.
pub(super) async fn with_secrets(
    state: &WebState,
    holder: &KeyHolder,
    rights: &Rights,
) -> Result<Vec<pages::AccountItem>, Problem> {
    let groups = state.oauth.settings().backends.groups();
    let mut items = of(state, holder, rights).await?;
    for SecretView { servers, entered, .. } in secrets(state, holder).await? {
        for server in servers.iter().filter(|server| reaches(rights, &groups, server)) {
            let connected = entered.map(|entered| texts::ago(state.clock.now().since(entered)));
            match items.iter_mut().find(|item| item.backend == server.as_str()) {
                Some(item) => item.connected = item.connected.take().filter(|_| connected.is_some()),
                None => items.push(pages::AccountItem {
                    backend: server.to_string(),
                    connected,
                    issuer: String::new(),
                    scope: String::new(),
                }),
            }
        }
    }
    Ok(items)
}

/// The secrets that the holder may see, with the servers that need them.
pub(super) async fn secrets(state: &WebState, holder: &KeyHolder) -> Result<Vec<SecretView>, Problem> {
    let groups = state.oauth.settings().backends.groups();
    let all = state.upstream.secrets().of(&holder.user).await?;
    Ok(all.into_iter().filter_map(|view| within(view, holder, &groups)).collect())
}

/// The secret with the servers that the holder's rights open; `None` if all its servers are beyond them.
fn within(view: SecretView, holder: &KeyHolder, groups: &Groups) -> Option<SecretView> {
    let is_unused = view.servers.is_empty();
    let servers: Vec<_> = view.servers.into_iter().filter(|server| reaches(&holder.rights, groups, server)).collect();
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
                tracing::error!(%error, "a page about connected accounts could not be made");
                Self::internal()
            }
        }
    }
}
