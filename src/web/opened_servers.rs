//! The servers that a grant would open, for the consent pages. Knows nothing of pages.

use super::{state::WebState, texts};
use crate::{
    model::{BackendId, Scopes, Target},
    oauth::KeyHolder,
};

/// The most servers that the consent page names.
const SHOWN_SERVERS: usize = 12;

/// The servers that these scopes open at an endpoint, as a sentence; `None` if there are none.
pub(super) fn of(state: &WebState, holder: &KeyHolder, (target, scopes): (&Target, &Scopes)) -> Option<String> {
    let groups = state.oauth.settings().backends.groups();
    let rights = groups.rights_at(target, scopes.rights()).intersect(&holder.rights);
    let is_there = |id: &BackendId| match target {
        Target::Merged => true,
        Target::Backend(name) => name == id || groups.find(name).is_some_and(|group| group.servers.contains(id)),
    };
    let status = (state.status)();
    let all = status.backends.iter().filter_map(|backend| BackendId::parse(&backend.id).ok());
    let opened = all.filter(|id| is_there(id) && rights.backends.access(id).is_some());
    let mut names: Vec<String> = opened.map(|id| id.to_string()).collect();
    // the status has those first that need attention
    names.sort();
    texts::list(&names, SHOWN_SERVERS)
}
