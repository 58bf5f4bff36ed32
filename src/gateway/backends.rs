//! The backends of one moment, and those that each caller may see. Knows nothing of calls.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use url::Origin;

use super::{catalog::Catalog, configured_backend::ConfiguredBackend, names, rewrite::Rewriter};
use crate::{
    layers::{Beneath, stacked},
    mcp::{Context, ErrorObject, ListKind, Method, Server, methods::MethodAccess},
    model::{Access, BackendId, Caller, GroupSpec, Groups, Naming, Target},
    support::FastMap,
};

/// The age up to which a list counts as the one that its server gives now: names that are not in it cannot have it fetched
/// more often.
const LIST_IS_CURRENT: Duration = Duration::from_secs(10);

/// The backends of one moment, in configured order. It never changes; another takes its place.
pub(crate) struct Backends {
    pub(crate) entries: Vec<Arc<BackendEntry>>,
    index: FastMap<String, usize>,
    groups: BTreeMap<BackendId, BackendGroup>,
    naming: Naming,
}

/// A group and its backends, by place.
struct BackendGroup {
    spec: Arc<GroupSpec>,
    members: Vec<usize>,
}

/// The names in which backends are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameView {
    /// Those of the merged endpoint.
    Merged,
    /// The backend's own.
    Own,
}

/// One of the backends.
pub(crate) struct BackendEntry {
    /// Its name.
    pub(crate) id: BackendId,
    title: Arc<str>,
    pub(crate) configured: ConfiguredBackend,
    /// Its server, with its layers.
    pub(crate) server: Arc<dyn Server>,
    read_only_tools: HashSet<String>,
    /// The origin of its own URL, whose web addresses belong to it; `None` if it has no URL.
    pub(crate) origin: Option<Origin>,
    /// Its lists.
    pub(crate) catalog: Arc<Catalog>,
}

/// The right of a caller to call a tool, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolOffer {
    /// The caller may call it.
    Offered,
    /// There is no such tool for the caller.
    Unknown,
    /// The list that the caller's server gives now decides.
    InList,
}

/// A visible backend and its access level.
#[derive(Clone)]
pub(crate) struct VisibleBackend {
    pub(crate) entry: Arc<BackendEntry>,
    pub(crate) access: Access,
    /// The group at whose endpoint it is seen.
    pub(crate) group: Option<Arc<GroupSpec>>,
    /// True if there are several, so that a server request must name its backend.
    several: bool,
}

// === impl Backends ===

impl Backends {
    /// Creates the set. Of two with one name the first counts; the configuration prevents that.
    pub(crate) fn new(entries: Vec<Arc<BackendEntry>>, groups: &Groups, naming: Naming) -> Self {
        let index: FastMap<_, _> =
            entries.iter().enumerate().rev().map(|(at, entry)| (entry.id.to_string(), at)).collect();
        let group = |spec: &GroupSpec| {
            let members = spec.servers.iter().filter_map(|id| index.get(id.as_str()).copied()).collect();
            (spec.id.clone(), BackendGroup { spec: Arc::new(spec.clone()), members })
        };
        let groups = groups.iter().map(group).collect();
        Self { entries, index, groups, naming }
    }

    /// The names in which the backends at `target` are shown: the merged endpoint may stand for the only backend.
    pub(crate) fn view(&self, target: &Target) -> NameView {
        match target {
            Target::Merged if self.naming != Naming::Plain || self.entries.len() != 1 => NameView::Merged,
            Target::Backend(id) if self.groups.contains_key(id) => NameView::Merged,
            Target::Merged | Target::Backend(_) => NameView::Own,
        }
    }

    /// The one backend that `target` stands for, if the caller may see it.
    pub(crate) fn one_at(&self, target: &Target, caller: &Caller) -> Option<VisibleBackend> {
        match target {
            Target::Merged => self.see(caller, self.entries.first()?),
            Target::Backend(id) => self.see(caller, self.find(id.as_str())?),
        }
    }

    /// The view of `target`, and those of its backends that the caller may see.
    pub(crate) fn visible_at(&self, target: &Target, caller: &Caller) -> (NameView, Vec<VisibleBackend>) {
        let view = self.view(target);
        let seen = match view {
            NameView::Merged => self.all_visible(target, caller),
            NameView::Own => self.one_at(target, caller).into_iter().collect(),
        };
        (view, seen)
    }

    /// The backend with this name, regardless of rights.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<BackendEntry>> {
        self.index.get(name).map(|at| &self.entries[*at])
    }

    /// The backend with this name among those merged at `target`, if the caller may see it.
    pub(crate) fn visible(&self, target: &Target, caller: &Caller, name: &str) -> Option<VisibleBackend> {
        match self.group(target) {
            None => self.see(caller, self.find(name)?),
            Some(group) => {
                let at = self.index.get(name).filter(|at| group.members.contains(at))?;
                self.see_in(group, caller, &self.entries[*at])
            }
        }
    }

    /// Every backend merged at `target` that the caller may see.
    pub(crate) fn all_visible(&self, target: &Target, caller: &Caller) -> Vec<VisibleBackend> {
        match self.group(target) {
            None => self.entries.iter().filter_map(|entry| self.see(caller, entry)).collect(),
            Some(group) => {
                let members = group.members.iter().map(|at| &self.entries[*at]);
                members.filter_map(|entry| self.see_in(group, caller, entry)).collect()
            }
        }
    }

    /// True if `seen` are all that are merged at their endpoint.
    pub(crate) fn are_all(&self, seen: &[VisibleBackend]) -> bool {
        let group = seen.first().and_then(|one| one.group.as_ref());
        let there = match group {
            None => Some(self.entries.len()),
            Some(spec) => self.groups.get(&spec.id).map(|group| group.members.len()),
        };
        there == Some(seen.len())
    }

    /// The names of the groups.
    pub(crate) fn group_ids(&self) -> Vec<BackendId> {
        self.groups.keys().cloned().collect()
    }

    /// True if there is a backend or group of this name.
    pub(crate) fn has(&self, id: &BackendId) -> bool {
        self.index.contains_key(id.as_str()) || self.groups.contains_key(id)
    }

    fn group(&self, target: &Target) -> Option<&BackendGroup> {
        match target {
            Target::Merged => None,
            Target::Backend(id) => self.groups.get(id),
        }
    }

    fn see(&self, caller: &Caller, entry: &Arc<BackendEntry>) -> Option<VisibleBackend> {
        let access = caller.rights.backends.access(&entry.id)?;
        Some(VisibleBackend { entry: Arc::clone(entry), access, group: None, several: self.entries.len() > 1 })
    }

    /// A backend at the endpoint of a group: a right to the group is one to each of its backends there.
    fn see_in(&self, group: &BackendGroup, caller: &Caller, entry: &Arc<BackendEntry>) -> Option<VisibleBackend> {
        let rights = &caller.rights.backends;
        let access = rights.access(&group.spec.id).max(rights.access(&entry.id))?;
        let several = self.entries.len() > 1;
        Some(VisibleBackend { entry: Arc::clone(entry), access, group: Some(Arc::clone(&group.spec)), several })
    }
}

// === impl BackendEntry ===

impl BackendEntry {
    /// Puts a backend in its place, with these lists of its server.
    pub(crate) fn new(configured: ConfiguredBackend, catalog: Arc<Catalog>) -> Self {
        let (backend, server) = (configured.id(), Arc::clone(&configured.server));
        let server = stacked(&configured.layers, Beneath { backend, server, facts: catalog.facts() });
        Self {
            id: backend.clone(),
            title: configured.title.as_str().into(),
            server,
            read_only_tools: configured.spec.read_only_tools.iter().cloned().collect(),
            origin: configured.spec.transport.origin(),
            configured,
            catalog,
        }
    }

    /// True if the operator's rules leave a tool of this name, as far as names decide.
    fn has_tool(&self, name: &str) -> bool {
        self.configured.spec.tools.as_ref().is_none_or(|rules| rules.offered(name).is_some())
    }
}

// === impl VisibleBackend ===

impl VisibleBackend {
    /// True if messages of this method reach the backend from the caller. Which tools may be called is decided by
    /// [`Self::offers_tool`].
    pub(crate) fn admits(&self, method: &Method) -> bool {
        let is_full = self.access == Access::Full;
        match method.access() {
            MethodAccess::Any | MethodAccess::Tool | MethodAccess::OwnTask => true,
            MethodAccess::OfServers => is_full,
            MethodAccess::Undefined => {
                (is_full && !self.has_tool_rules())
                    || self.entry.configured.spec.allow_methods.contains(method.as_str())
            }
        }
    }

    /// True if the operator has rules for the tools of the backend, or of the group at whose endpoint it is.
    fn has_tool_rules(&self) -> bool {
        self.entry.configured.spec.tools.is_some() || self.group.as_ref().is_some_and(|group| group.tools.is_some())
    }

    /// True if the caller may see the tool of this (own) name, as far as names decide.
    pub(crate) fn allows_tool(&self, name: &str) -> bool {
        if !self.entry.has_tool(name) || !self.is_in_group(name) {
            return false;
        }
        match self.access {
            Access::Full => true,
            Access::ReadOnly => self.entry.read_only_tools.contains(name),
        }
    }

    /// True if the group of the endpoint has the tool of this (own) name.
    fn is_in_group(&self, name: &str) -> bool {
        let Some(group) = &self.group else { return true };
        group.tools.is_none() || group.offers(&names::prefixed(&self.entry.id, name))
    }

    /// The right of this client to call the tool of this (own) name: it may call what it is shown. Under rules for tools a
    /// name in no list is refused, since the server may take it for a tool that the rules leave out; without rules the
    /// server decides about it.
    pub(crate) fn offers_tool(&self, context: &Context, name: &str) -> ToolOffer {
        if !self.allows_tool(name) {
            return ToolOffer::Unknown;
        }
        if self.has_tool_rules() && self.entry.configured.connect_tool != Some(name) {
            return if self.is_known_to_list(context, name) { ToolOffer::Offered } else { ToolOffer::InList };
        }
        if self.has_plain_calls() || !self.entry.catalog.leaves_out_tool(context, name) {
            ToolOffer::Offered
        } else {
            ToolOffer::Unknown
        }
    }

    /// The tool to call in place of the (own) `name` that no list had so far, by the list that the caller's server gives
    /// now: the same, the gateway's own that leads the user to the page without which the server is not reached, or none.
    ///
    /// # Errors
    ///
    /// The reason for which there is no list.
    pub(crate) async fn listed_tool(&self, context: &Context, name: &str) -> Result<Option<String>, ErrorObject> {
        let connect_tool = self.entry.configured.connect_tool.filter(|tool| *tool != name);
        // the user may have been at the page since
        let is_replaced = connect_tool.is_some_and(|tool| self.is_known_to_list(context, tool));
        let max_age = if is_replaced { Duration::ZERO } else { LIST_IS_CURRENT };
        let list = self.entry.catalog.current(context, ListKind::Tools, max_age).await?;
        let shown = [Some(name), connect_tool].into_iter().flatten();
        Ok(shown.into_iter().find(|tool| list.shows(tool, context.client.revision)).map(str::to_owned))
    }

    /// True if the cached list of the caller's server shows the tool of this (own) name to this client.
    fn is_known_to_list(&self, context: &Context, name: &str) -> bool {
        let list = self.entry.catalog.list(context, ListKind::Tools);
        list.own().is_some_and(|list| list.shows(name, context.client.revision))
    }

    /// Returns `true` if every client may call every tool.
    pub(crate) fn offers_all_tools(&self) -> bool {
        self.access == Access::Full
            && !self.has_tool_rules()
            && (self.has_plain_calls() || !self.entry.catalog.leaves_out_tools())
    }

    /// The server itself, if a call needs nothing that only the lists know.
    pub(crate) fn plain_server(&self) -> Option<&Arc<dyn Server>> {
        self.has_plain_calls().then_some(&self.entry.server)
    }

    fn has_plain_calls(&self) -> bool {
        self.entry.catalog.has_plain_calls.load(Ordering::Relaxed)
    }

    /// Shows the backend's messages on the merged endpoint.
    pub(crate) fn rewriter(&self) -> Rewriter {
        let asks_as = self.several.then(|| Arc::clone(&self.entry.title));
        Rewriter { backend: self.entry.id.clone(), asks_as }
    }
}
