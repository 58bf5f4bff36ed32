//! The tables `[groups.<name>]`: servers that share an endpoint.

use super::{
    section::{Section, meant},
    tool_rules,
};
use crate::model::{BackendId, GroupSpec, Groups, Scope, config_key::key_rows};

key_rows! {
    /// The keys of `[groups.<name>]`.
    pub(super) const KEYS {
        /// The names of its servers, in the order of their lists; at least one.
        ///
        /// Servers that are `disabled` are left out.
        servers: Texts, Required("[\"files\", \"docs\"]");
        /// Rules for its tools: `[groups.<name>.tools]`.
        tools: Table("group_tools"), None("");
    }
}

/// Reads the groups of these servers, which may be disabled.
pub(super) fn read_all(section: Section<'_>, servers: &[BackendId]) -> Groups {
    let mut groups: Vec<GroupSpec> = Vec::new();
    for (name, mut section) in section.tables() {
        let id = named(name, &section, servers);
        let members = members(&mut section, servers);
        let tools = tool_rules::read_names(section.table("tools"));
        if let Some(id) = id {
            if groups.iter().any(|other| other.id == id) {
                section.fault(format!("another group is `{id}` too"), Some("rename one of them"));
            }
            groups.push(GroupSpec { id, servers: members, tools });
        }
        section.finish();
    }
    groups.into_iter().collect()
}

/// The name of a group. Servers and groups share paths, scopes and rights.
fn named(name: &str, section: &Section<'_>, servers: &[BackendId]) -> Option<BackendId> {
    let advice = Some("choose another name for the group");
    let Ok(id) = BackendId::normalise(name) else {
        section.fault(format!("`{name}` is not a valid name: use a letter, then up to 31 of a-z, 0-9 and `-`"), advice);
        return None;
    };
    if let Some(reason) = Scope::reservation(&id) {
        section.fault(reason, advice);
    }
    if servers.contains(&id) {
        section.fault(format!("there is a server `{id}`, and both would be at `/mcp/{id}`"), advice);
    }
    Some(id)
}

/// The servers of a group, each once.
fn members(section: &mut Section<'_>, servers: &[BackendId]) -> Vec<BackendId> {
    let mut members = Vec::new();
    let names = section.texts("servers");
    if names.as_ref().map_or_else(|| !section.has("servers"), Vec::is_empty) {
        section.fault("the group has no servers", Some("name them: `servers = [\"…\"]`"));
    }
    for name in names.unwrap_or_default() {
        match BackendId::normalise(&name).ok().filter(|id| servers.contains(id)) {
            Some(id) if members.contains(&id) => {}
            Some(id) => members.push(id),
            None => {
                let known: Vec<&str> = servers.iter().map(BackendId::as_str).collect();
                let advice = match meant(&name, &known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("the servers are {}", known.join(", ")),
                };
                section.fault(format!("there is no server `{name}`"), Some(&advice));
            }
        }
    }
    members
}
