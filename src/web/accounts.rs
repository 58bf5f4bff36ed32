//! The accounts of a user at protected servers, as pages show them. Knows nothing of logins.

use super::{pages, problem::Problem, state::WebState, texts};
use crate::{
    model::{BackendId, Groups, Rights},
    oauth::KeyHolder,
    upstream::{ConnectionView, UpstreamError},
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
