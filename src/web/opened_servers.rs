//! The servers that a grant would open, for the consent pages.

use super::{state::WebState, texts};
use crate::{
    model::{AccessPlace, AccessSubject, BackendId, Groups, Rights, Scopes, Target, access, status::ListedClients},
    oauth::KeyHolder,
};

/// Maximum number of servers named on the consent page.
const SHOWN_SERVERS: usize = 12;

/// A grant before it is given: the servers its tokens would open.
pub(super) struct OpenedServers<'a> {
    holder: &'a KeyHolder,
    target: &'a Target,
    groups: Groups,
    rights: Rights,
}

// === impl OpenedServers ===

impl<'a> OpenedServers<'a> {
    /// A grant by this holder of these scopes at an endpoint.
    pub(super) fn new(state: &WebState, holder: &'a KeyHolder, target: &'a Target, scopes: &Scopes) -> Self {
        let groups = state.oauth.settings().backends.groups();
        let rights = access::granted(scopes, target, &groups, &holder.rights);
        Self { holder, target, groups, rights }
    }

    /// True if the grant would open this server.
    pub(super) fn have(&self, server: &BackendId) -> bool {
        let subject = AccessSubject { user: &self.holder.user, rights: &self.rights };
        subject.server(AccessPlace::At(self.target, &self.groups), server).is_visible()
    }

    /// All of them as a sentence; `None` if there are none.
    pub(super) fn sentence(&self, state: &WebState) -> Option<String> {
        let status = (state.status)(ListedClients::Nobodys);
        let all = status.backends.iter().filter_map(|backend| BackendId::parse(&backend.id).ok());
        let mut names: Vec<String> = all.filter(|id| self.have(id)).map(|id| id.to_string()).collect();
        // the status lists those that need attention first
        names.sort();
        texts::list(&names, SHOWN_SERVERS)
    }
}
