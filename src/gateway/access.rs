//! Verdicts on servers and what they offer: which servers a caller sees, and which methods and tools it may use there.
//! Lists, calls, completions, listens and notifications check here before anything is sent. `model::access` decides
//! about whole servers, since pages and consent need that too.
//!
//! A caller who sees a server may use its prompts and resources, and the tasks of its own calls (`layers` keeps their
//! owners): there is no further verdict on those. Hidden things get the same answer as things that do not exist.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    backends::{BackendEntry, BackendGroup, Backends, NameView},
    names,
    rewrite::Rewriter,
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, ListKind, Method, Payload, Server, extensions, json::Object, methods::MethodAccess,
    },
    model::{Access, AccessPlace, BackendId, Caller, GroupSpec, ServerVerdict, Target},
};

/// Maximum age of a list that counts as current: calls with names that are not in it must not cause more fetches than
/// that.
const LIST_IS_CURRENT: Duration = Duration::from_secs(10);

/// A visible backend and the caller's access to it.
#[derive(Clone)]
pub(crate) struct VisibleBackend {
    pub(crate) entry: Arc<BackendEntry>,
    access: Access,
    /// The group whose endpoint shows it.
    group: Option<Arc<GroupSpec>>,
    /// True if the gateway has several backends, so that a server request must name its backend.
    several: bool,
}

/// The verdict on a message to a visible server.
#[derive(Debug)]
pub(crate) enum MessageVerdict {
    /// The server gets the message.
    Open,
    /// The verdict on the named tool decides: [`VisibleBackend::tool`].
    ByTool,
    /// This method does not exist for this caller.
    Unknown,
    /// The caller may send the method, but not with these parameters.
    Refused(ErrorObject),
}

/// The verdict on a tool call, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolVerdict {
    Open,
    /// This tool does not exist for this caller.
    Unknown,
    /// The current list of the caller's server decides: [`VisibleBackend::listed_tool`].
    InList,
}

/// The subject of a completion, as MCP defines it.
pub(crate) enum Completed {
    Prompt,
    Template,
}

// === impl Backends ===

impl Backends {
    /// The only backend at `target`, if the caller sees it.
    pub(crate) fn one_at(&self, target: &Target, caller: &Caller) -> Option<VisibleBackend> {
        match target {
            Target::Merged => self.see(None, caller, self.entries.first()?),
            Target::Backend(id) => self.see(None, caller, self.find(id.as_str())?),
        }
    }

    /// How `target` names its backends, and the backends there that the caller sees.
    pub(crate) fn visible_at(&self, target: &Target, caller: &Caller) -> (NameView, Vec<VisibleBackend>) {
        let view = self.view(target);
        let seen = match view {
            NameView::Merged => self.all_visible(target, caller),
            NameView::Own => self.one_at(target, caller).into_iter().collect(),
        };
        (view, seen)
    }

    /// The backend with this name at `target`, if the caller sees it.
    pub(crate) fn visible_one(&self, target: &Target, caller: &Caller, id: &BackendId) -> Option<VisibleBackend> {
        match self.view(target) {
            NameView::Merged => self.visible(target, caller, id.as_str()),
            NameView::Own => self.one_at(target, caller).filter(|one| one.entry.id == *id),
        }
    }

    /// The backend with this name among those merged at `target`, if the caller sees it.
    pub(crate) fn visible(&self, target: &Target, caller: &Caller, name: &str) -> Option<VisibleBackend> {
        match self.group(target) {
            None => self.see(None, caller, self.find(name)?),
            Some(group) => self.see(Some(group), caller, self.find_in(group, name)?),
        }
    }

    /// Every backend merged at `target` that the caller sees.
    pub(crate) fn all_visible(&self, target: &Target, caller: &Caller) -> Vec<VisibleBackend> {
        match self.group(target) {
            None => self.entries.iter().filter_map(|entry| self.see(None, caller, entry)).collect(),
            Some(group) => self.members(group).filter_map(|entry| self.see(Some(group), caller, entry)).collect(),
        }
    }

    /// True if `seen` contains all backends merged at their endpoint.
    pub(crate) fn are_all(&self, seen: &[VisibleBackend]) -> bool {
        let group = seen.first().and_then(|one| one.group.as_ref());
        self.count(group.map(|group| &group.id)) == Some(seen.len())
    }

    fn see(&self, group: Option<&BackendGroup>, caller: &Caller, entry: &Arc<BackendEntry>) -> Option<VisibleBackend> {
        let place = group.map_or(AccessPlace::Own, |group| AccessPlace::Group(&group.spec.id));
        let ServerVerdict::Visible(access) = caller.subject().server(place, &entry.id) else { return None };
        let group = group.map(|group| Arc::clone(&group.spec));
        Some(VisibleBackend { entry: Arc::clone(entry), access, group, several: self.entries.len() > 1 })
    }
}

// === impl VisibleBackend ===

impl VisibleBackend {
    /// The verdict on a message of the caller to this server.
    pub(crate) fn message(&self, call: &Call) -> MessageVerdict {
        let is_open = match call.method.access() {
            MethodAccess::Tool => return MessageVerdict::ByTool,
            MethodAccess::Any if call.method == Method::Complete => return self.completion(&call.params),
            MethodAccess::Any | MethodAccess::OwnTask => true,
            MethodAccess::OfServers => self.access == Access::Full,
            MethodAccess::Undefined => {
                self.takes_any_method() || self.entry.configured.spec.allow_methods.contains(call.method.as_str())
            }
        };
        if is_open { MessageVerdict::Open } else { MessageVerdict::Unknown }
    }

    /// True if the caller may send methods outside of MCP, with any name.
    pub(crate) fn takes_any_method(&self) -> bool {
        self.access == Access::Full && !self.has_tool_rules()
    }

    /// True if the caller sees that the server has this extension, or this capability outside of MCP. The caller may
    /// then send its methods, whose names begin with the last part of the extension's name.
    pub(crate) fn shows_extension(&self, id: &str) -> bool {
        let methods = id.rsplit('/').next().unwrap_or(id);
        self.takes_any_method()
            || extensions::is_known(id)
            || self.entry.configured.spec.allow_methods.reaches_below(methods)
    }

    /// The verdict on a completion. Subjects outside of MCP require full rights.
    fn completion(&self, params: &Payload) -> MessageVerdict {
        match self.access {
            Access::Full => MessageVerdict::Open,
            Access::ReadOnly => Completed::of(params).map_or_else(MessageVerdict::Refused, |_| MessageVerdict::Open),
        }
    }

    /// The verdict on a call of the tool with this (own) name by this client, which may call every tool that it sees.
    /// If there are rules for tools, an unlisted name is refused, since the server may take it for a tool that the
    /// rules leave out. Without rules, the server decides about unlisted names.
    pub(crate) fn tool(&self, context: &Context, name: &str) -> ToolVerdict {
        if !self.shows_tool(name) {
            return ToolVerdict::Unknown;
        }
        if self.has_tool_rules() && self.entry.configured.connect_tool != Some(name) {
            return if self.is_known_to_list(context, name) { ToolVerdict::Open } else { ToolVerdict::InList };
        }
        if self.has_plain_calls() || !self.entry.catalog.leaves_out_tool(context, name) {
            ToolVerdict::Open
        } else {
            ToolVerdict::Unknown
        }
    }

    /// True if every client may call every tool: [`Self::tool`] is open to any name.
    pub(crate) fn opens_all_tools(&self) -> bool {
        self.shows_all(ListKind::Tools)
            && !self.has_tool_rules()
            && (self.has_plain_calls() || !self.entry.catalog.leaves_out_tools())
    }

    /// True if lists show the caller the tool with this (own) name, as far as names decide.
    pub(crate) fn shows_tool(&self, name: &str) -> bool {
        if self.entry.configured.spec.tools.as_ref().is_some_and(|rules| rules.offered(name).is_none())
            || !self.is_in_group(name)
        {
            return false;
        }
        match self.access {
            Access::Full => true,
            Access::ReadOnly => self.entry.read_only_tools.contains(name),
        }
    }

    /// True if the caller's rights leave out nothing that this server lists.
    pub(crate) fn shows_all(&self, kind: ListKind) -> bool {
        kind != ListKind::Tools || self.access == Access::Full
    }

    /// A text that differs for each backend and access level, for cursors.
    pub(crate) fn verdict_text(&self) -> String {
        format!("{}:{:?}", self.entry.id, self.access)
    }

    /// The name of the group whose endpoint shows the server; empty if there is none.
    pub(crate) fn group_name(&self) -> &str {
        self.group.as_ref().map_or("", |group| group.id.as_str())
    }

    /// The tool to call for an (own) `name` that no list has so far, according to the current list of the caller's
    /// server: the same tool; or the gateway's own tool, which sends the user to the page that unlocks the server; or
    /// none.
    ///
    /// # Errors
    ///
    /// If the list cannot be fetched.
    pub(crate) async fn listed_tool(&self, context: &Context, name: &str) -> Result<Option<String>, ErrorObject> {
        let connect_tool = self.entry.configured.connect_tool.filter(|tool| *tool != name);
        // the user may have visited the page in the meantime
        let is_replaced = connect_tool.is_some_and(|tool| self.is_known_to_list(context, tool));
        let max_age = if is_replaced { Duration::ZERO } else { LIST_IS_CURRENT };
        let list = self.entry.catalog.current(context, ListKind::Tools, max_age).await?;
        let shown = [Some(name), connect_tool].into_iter().flatten();
        Ok(shown.into_iter().find(|tool| list.shows(tool, context.client.revision)).map(str::to_owned))
    }

    /// The server itself, if calls need nothing from the lists.
    pub(crate) fn plain_server(&self) -> Option<&Arc<dyn Server>> {
        self.has_plain_calls().then_some(&self.entry.server)
    }

    /// Rewrites the backend's messages for the merged endpoint.
    pub(crate) fn rewriter(&self) -> Rewriter {
        Rewriter { backend: self.entry.id.clone(), names_server: self.several }
    }

    /// True if the operator has rules for the tools of the backend, or of the group whose endpoint shows it.
    fn has_tool_rules(&self) -> bool {
        self.entry.configured.spec.tools.is_some() || self.group.as_ref().is_some_and(|group| group.tools.is_some())
    }

    /// True if the endpoint's group has the tool with this (own) name.
    fn is_in_group(&self, name: &str) -> bool {
        let Some(group) = &self.group else { return true };
        group.tools.is_none() || group.offers(&names::prefixed(&self.entry.id, name))
    }

    /// True if the cached list of the caller's server shows this client the tool with this (own) name.
    fn is_known_to_list(&self, context: &Context, name: &str) -> bool {
        let list = self.entry.catalog.list(context, ListKind::Tools);
        list.own().is_some_and(|list| list.shows(name, context.client.revision))
    }

    fn has_plain_calls(&self) -> bool {
        self.entry.catalog.has_plain_calls.load(Ordering::Relaxed)
    }
}

// === impl Completed ===

impl Completed {
    /// Reads the subject from parameters of `completion/complete`.
    ///
    /// # Errors
    ///
    /// `-32602` if MCP does not define it.
    pub(crate) fn of(params: &Payload) -> Result<Self, ErrorObject> {
        let kind = params.member("ref").and_then(|text| Object::parse(text.as_bytes())?.string("type"));
        match kind.as_deref() {
            Some("ref/prompt") => Ok(Self::Prompt),
            Some("ref/resource") => Ok(Self::Template),
            _ => Err(ErrorObject::invalid_params("`ref.type` must be `ref/prompt` or `ref/resource`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mcp::{
        Method,
        methods::MethodAccess::{Any, OwnTask, Tool},
    };

    #[test]
    fn a_method_that_goes_to_a_server_by_what_it_names_takes_no_more_than_to_see_the_server() {
        // merged endpoints send these to the server that the name, the URI or the id leads to
        for (name, access) in Method::defined() {
            let is_by_subject = Method::parse(name).subject().is_some();
            assert!(!is_by_subject || [Any, OwnTask, Tool].contains(&access), "{name}");
        }
        assert_eq!(Method::parse("x/y").subject(), None);
    }
}
