//! One server made of many (`translation` section 5): policy, routing, merging.
//!
//! Each call goes to exactly one backend, under the backend's own names; results and events get the gateway's names.
//! Lists are served from a catalog in memory, so that no backend delays another. All bytes except names and URIs stay
//! unchanged.
//!
//! The current backends are one immutable set behind an atomic pointer: a call takes no lock, and [`Gateway::replace`]
//! installs another set while calls run.

mod access;
mod alike;
mod backend_call;
mod backends;
mod catalog;
mod configured_backend;
pub(crate) mod cursor;
mod descriptions;
mod discover;
mod endpoint;
mod fanout;
mod gateway_settings;
mod gather;
mod hints;
mod listen;
mod lists;
mod names;
mod read_only_hints;
pub(crate) mod rewrite;

mod route;
mod shared;
mod tool_counts;
mod uri_owner;
mod watch;

use std::sync::Arc;

pub use self::{
    catalog::{KeptList, ListPlace, ListStore},
    configured_backend::ConfiguredBackend,
    gateway_settings::{GatewayDeps, GatewaySettings},
};
use self::{endpoint::EndpointServer, shared::GatewayState};
use crate::{
    mcp::{ListKind, Server, translate},
    model::{
        BackendId, Groups, SessionId, Target, UserId,
        status::{EmptyList, OfferCounts, OmittedEntry},
    },
};

/// Warning about a server whose lists come from an earlier run.
const REMEMBERED: &str = "clients are shown its lists of an earlier run of the gateway until it answers";

/// Maximum number of omitted entries in the status of one backend.
const MAX_LEFT_OUT: usize = 100;

pub struct Gateway {
    shared: Arc<GatewayState>,
}

// === impl Gateway ===

impl Gateway {
    /// Creates a gateway for these backends, in this order, and their groups, and starts listing them in tasks of the
    /// tracker. Requires a tokio runtime.
    pub fn new(
        backends: Vec<ConfiguredBackend>,
        groups: &Groups,
        settings: GatewaySettings,
        deps: GatewayDeps,
    ) -> Arc<Self> {
        let gateway = Arc::new(Self { shared: Arc::new(GatewayState::new(settings, deps)) });
        gateway.replace(backends, groups);
        gateway
    }

    /// Replaces the backends and their groups. A backend keeps its cached lists if its server and its rules for tools
    /// stay the same. Running calls continue, and listening clients are notified of changed lists.
    pub fn replace(&self, backends: Vec<ConfiguredBackend>, groups: &Groups) {
        for new in self.shared.replace(backends, groups) {
            self.shared.deps.tracker.spawn(watch::watch(new));
        }
    }

    /// All backends as one server.
    pub fn merged(&self) -> Arc<dyn Server> {
        Arc::new(EndpointServer { shared: Arc::clone(&self.shared), target: Target::Merged })
    }

    /// The names of the backends, in configured order.
    pub fn ids(&self) -> Vec<BackendId> {
        self.shared.backends.load().entries.iter().map(|entry| entry.id.clone()).collect()
    }

    /// The names of the groups, in order.
    pub fn group_ids(&self) -> Vec<BackendId> {
        self.shared.backends.load().group_ids()
    }

    /// One backend with its own names, or the group with this name; `None` if there is neither.
    pub fn single(&self, id: &BackendId) -> Option<Arc<dyn Server>> {
        let target = Target::Backend(id.clone());
        let is_there = self.shared.backends.load().has(id);
        is_there.then(|| Arc::new(EndpointServer { shared: Arc::clone(&self.shared), target }) as _)
    }

    /// Numbers of listed tools, prompts and resources of a backend, for a client without capabilities.
    pub fn counts(&self, id: &BackendId) -> OfferCounts {
        let backends = self.shared.backends.load();
        let Some(entry) = backends.find(id.as_str()) else { return OfferCounts::default() };
        let count = |kind| entry.catalog.count(kind);
        OfferCounts {
            tools: count(ListKind::Tools),
            prompts: count(ListKind::Prompts),
            resources: count(ListKind::Resources) + count(ListKind::Templates),
        }
    }

    /// Why a backend lists no tools for the gateway itself; `None` if it lists some, or was not asked yet.
    pub fn no_tools(&self, id: &BackendId) -> Option<EmptyList> {
        let backends = self.shared.backends.load();
        let entry = backends.find(id.as_str())?;
        if entry.configured.connect_tool.is_some() {
            return Some(EmptyList::AwaitsLogin);
        }
        match entry.catalog.emptiness(ListKind::Tools)? {
            EmptyList::Nothing if entry.configured.spec.tools.is_some() => Some(EmptyList::NoneOffered),
            reason => Some(reason),
        }
    }

    /// True if each list of each backend is present, or could not be fetched.
    pub fn is_listed(&self) -> bool {
        self.shared.backends.load().entries.iter().all(|entry| entry.catalog.is_listed())
    }

    /// Fetches the lists of a backend that now runs at this replica.
    pub fn moved_here(&self, id: &BackendId) {
        if let Some(entry) = self.shared.backends.load().find(id.as_str()) {
            entry.catalog.ask_again();
        }
    }

    /// Sentences for the operator about results that violate their schema, about tools of `read_only_tools` that do not
    /// only read, as the server has it, and about lists of an earlier process.
    pub fn warnings(&self, id: &BackendId) -> Vec<String> {
        let backends = self.shared.backends.load();
        let Some(entry) = backends.find(id.as_str()) else { return Vec::new() };
        let mut warnings = entry.catalog.facts().outputs.warnings();
        if !entry.read_only_tools.is_empty() {
            let tools = entry.catalog.own(ListKind::Tools);
            warnings.extend(tools.and_then(|tools| read_only_hints::contrary(&tools, &entry.read_only_tools)));
        }
        if entry.catalog.is_remembered() {
            warnings.push(REMEMBERED.to_owned());
        }
        warnings
    }

    /// A sentence about tools that the server says only read, and that `read_only_tools` does not list.
    pub fn further_read_only_tools(&self, id: &BackendId) -> Option<String> {
        let backends = self.shared.backends.load();
        let entry = backends.find(id.as_str())?;
        read_only_hints::further(&*entry.catalog.own(ListKind::Tools)?, &entry.read_only_tools)
    }

    /// List entries hidden from clients, or shown only at the backend's own endpoint, with the reasons; at most
    /// `MAX_LEFT_OUT`.
    pub fn left_out(&self, id: &BackendId) -> Vec<OmittedEntry> {
        let backends = self.shared.backends.load();
        let Some(entry) = backends.find(id.as_str()) else { return Vec::new() };
        let status = |(kind, one): (ListKind, translate::LeftOut)| OmittedEntry {
            list: kind.method().as_str().to_owned(),
            name: one.name,
            reason: one.reason,
        };
        let foreign = uri_owner::left_out(&backends, entry);
        entry.catalog.left_out().into_iter().chain(foreign).take(MAX_LEFT_OUT).map(status).collect()
    }

    /// Deletes the state of an ended client session.
    pub fn session_ended(&self, session: &SessionId) {
        for entry in &self.shared.backends.load().entries {
            entry.catalog.forget(session);
        }
    }

    /// Drops the lists of a deleted user.
    pub fn user_gone(&self, user: &UserId) {
        for entry in &self.shared.backends.load().entries {
            entry.catalog.forget_user(user);
        }
    }
}
