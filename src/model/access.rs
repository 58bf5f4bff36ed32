//! Verdicts on servers and endpoints: who sees which, and how far. The gate, consent, the pages and the gateway ask
//! here, each for its own subject. Rules about whole servers belong here; `gateway::access` decides about the parts of
//! a visible server.

use super::{Access, AllowedBackends, BackendId, Groups, Rights, Scope, Scopes, Target, UserId};

/// A party that sees and uses servers: a user, within the rights of a credential.
#[derive(Debug, Clone, Copy)]
pub struct AccessSubject<'a> {
    pub user: &'a UserId,
    /// The rights of the key, of the token, or of both.
    pub rights: &'a Rights,
}

/// The endpoints where a server is looked for.
#[derive(Debug, Clone, Copy)]
pub enum AccessPlace<'a> {
    /// The server's own endpoint and the merged one.
    Own,
    /// The endpoint of this group, which has the server.
    Group(&'a BackendId),
    /// This endpoint, which may not have the server.
    At(&'a Target, &'a Groups),
    /// Every endpoint that has the server. Any one is enough.
    Anywhere(&'a Groups),
}

/// The verdict on a server. Of two, the greater allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerVerdict {
    /// To this subject the server looks the same as one that does not exist.
    Hidden,
    /// The subject sees the server, and may use this much of it.
    Visible(Access),
}

/// The verdict on the state of a server, which pages show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateVerdict {
    Hidden,
    /// Its state, without reasons and output, which may name files and hosts.
    StateAlone,
    /// Everything: the subject administers the gateway.
    Whole,
}

/// The verdict on an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointVerdict {
    /// The subject may use it.
    Open,
    /// The scopes of the credential do not name it, but another login's might.
    BeyondScopes,
    /// The rights do not reach it, so another login would not help.
    BeyondRights,
}

// === impl AccessSubject ===

impl AccessSubject<'_> {
    /// The verdict on a server. At the endpoint of a group, a right to the group is a right to each of its servers.
    pub fn server(self, place: AccessPlace<'_>, server: &BackendId) -> ServerVerdict {
        match place {
            AccessPlace::Own | AccessPlace::At(Target::Merged, _) => self.named(server),
            AccessPlace::Group(group) => self.named(group).max(self.named(server)),
            AccessPlace::At(Target::Backend(own), _) if own == server => self.named(server),
            AccessPlace::At(Target::Backend(group), groups) if groups.servers(group).contains(server) => {
                self.server(AccessPlace::Group(group), server)
            }
            AccessPlace::At(Target::Backend(_), _) => ServerVerdict::Hidden,
            AccessPlace::Anywhere(groups) => {
                let around = groups.iter().filter(|group| group.servers.contains(server));
                around.map(|group| self.named(&group.id)).fold(self.named(server), Ord::max)
            }
        }
    }

    /// The verdict on the state of a server. Administrators see every server's state.
    pub fn state(self, place: AccessPlace<'_>, server: &BackendId) -> StateVerdict {
        match self.server(place, server) {
            _ if self.rights.admin => StateVerdict::Whole,
            ServerVerdict::Visible(_) => StateVerdict::StateAlone,
            ServerVerdict::Hidden => StateVerdict::Hidden,
        }
    }

    /// The verdict on an endpoint, for a token with these scopes, or for a key without any. A right to a server opens
    /// its endpoint. A right to a group, or to any of its servers, opens the group's endpoint. A right to any server
    /// opens the merged one. Without any rights, the merged endpoint is open but empty. Rights to everything are
    /// decided without looking at the groups.
    pub fn endpoint(
        self,
        target: &Target,
        groups: impl FnOnce() -> Groups,
        scopes: Option<&Scopes>,
    ) -> EndpointVerdict {
        let is_open = match (&self.rights.backends, target) {
            (AllowedBackends::All, _) => true,
            (AllowedBackends::Only(allowed), Target::Merged) => {
                let groups = groups();
                let is_group = |name: &String| groups.iter().any(|group| group.id.as_str() == name);
                allowed.is_empty() || !allowed.keys().all(is_group)
            }
            (AllowedBackends::Only(_), Target::Backend(id)) => {
                self.is_named(id) || groups().servers(id).iter().any(|server| self.is_named(server))
            }
        };
        match (scopes, target) {
            _ if is_open => EndpointVerdict::Open,
            (Some(scopes), Target::Backend(id)) if scopes.rights().backends.access(id).is_none() => {
                EndpointVerdict::BeyondScopes
            }
            _ => EndpointVerdict::BeyondRights,
        }
    }

    /// The verdict on the administration of the gateway, for a token with these scopes, or for a key without scopes.
    pub fn administration(self, scopes: Option<&Scopes>) -> EndpointVerdict {
        match scopes {
            _ if self.rights.admin => EndpointVerdict::Open,
            Some(scopes) if !scopes.contains(&Scope::Admin) => EndpointVerdict::BeyondScopes,
            _ => EndpointVerdict::BeyondRights,
        }
    }

    /// True if the subject will also see servers that come to this endpoint later.
    pub fn sees_later(self, target: &Target, groups: &Groups) -> bool {
        match target {
            Target::Merged => self.rights.backends == AllowedBackends::All,
            Target::Backend(id) => groups.find(id).is_some() && self.is_named(id),
        }
    }

    /// The scopes of `scopes` that this subject may grant to an app: administration only with that right (`OA-67`).
    pub fn grantable(self, scopes: &Scopes) -> Scopes {
        let is_own = |scope: &&Scope| self.rights.admin || **scope != Scope::Admin;
        scopes.iter().filter(is_own).cloned().collect()
    }

    /// True if this subject may see and end things of the other, such as a grant or a session: both are the same user,
    /// and the other has no more rights.
    pub fn covers(self, other: AccessSubject<'_>) -> bool {
        self.user == other.user && other.rights.is_within(self.rights)
    }

    fn named(self, name: &BackendId) -> ServerVerdict {
        self.rights.backends.access(name).map_or(ServerVerdict::Hidden, ServerVerdict::Visible)
    }

    fn is_named(self, name: &BackendId) -> bool {
        self.named(name).is_visible()
    }
}

/// The rights of a token with these scopes at an endpoint, through a key or account with these rights (`OA-113`). At
/// the endpoint of a group, the scope of the group covers each of its servers.
pub fn granted(scopes: &Scopes, target: &Target, groups: &Groups, key: &Rights) -> Rights {
    let mut rights = scopes.rights();
    if let Target::Backend(id) = target
        && let Some(access) = rights.backends.access(id)
    {
        groups.servers(id).iter().for_each(|server| rights.backends.allow(server, access));
    }
    rights.intersect(key)
}

// === impl ServerVerdict ===

impl ServerVerdict {
    /// True unless the server is hidden.
    pub fn is_visible(self) -> bool {
        matches!(self, Self::Visible(_))
    }
}

// === impl EndpointVerdict ===

impl EndpointVerdict {
    /// True if the subject may use the endpoint.
    pub fn is_open(self) -> bool {
        self == Self::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupSpec;

    const HIDDEN: ServerVerdict = ServerVerdict::Hidden;
    const READ: ServerVerdict = ServerVerdict::Visible(Access::ReadOnly);
    const FULL: ServerVerdict = ServerVerdict::Visible(Access::Full);

    fn id(name: &str) -> BackendId {
        BackendId::parse(name).unwrap()
    }

    fn at(name: &str) -> Target {
        if name.is_empty() { Target::Merged } else { Target::Backend(id(name)) }
    }

    /// The groups `work` of `git` and `files`, and `play` of `files` and `web`; `time` is in none.
    fn groups() -> Groups {
        let group = |name, servers: [&str; 2]| GroupSpec { id: id(name), servers: servers.map(id).into(), tools: None };
        [group("work", ["git", "files"]), group("play", ["files", "web"])].into_iter().collect()
    }

    /// Rights by name: `*` for all, `:read` after a name for the right to read.
    fn rights(text: &str) -> Rights {
        let mut rights = Rights::none();
        for word in text.split_whitespace() {
            match (word, word.strip_suffix(":read")) {
                ("*", _) => rights.backends = AllowedBackends::All,
                ("admin", _) => rights.admin = true,
                (_, Some(name)) => rights.backends.allow(&id(name), Access::ReadOnly),
                (name, None) => rights.backends.allow(&id(name), Access::Full),
            }
        }
        rights
    }

    /// The verdict of a subject with these rights.
    fn with<T>(text: &str, ask: impl FnOnce(AccessSubject<'_>) -> T) -> T {
        ask(AccessSubject { user: &UserId::new("bob"), rights: &rights(text) })
    }

    #[test]
    fn a_server_is_seen_by_a_right_to_it_and_in_a_group_by_one_to_the_group() {
        let servers = ["git", "files", "web", "time"];
        let anywhere = "anywhere";
        for (held, place, expected) in [
            ("*", "", [FULL; 4]),
            ("*", "git", [FULL, HIDDEN, HIDDEN, HIDDEN]),
            ("*", "work", [FULL, FULL, HIDDEN, HIDDEN]),
            ("*", "gone", [HIDDEN; 4]),
            ("git:read time", "", [READ, HIDDEN, HIDDEN, FULL]),
            ("git:read time", "work", [READ, HIDDEN, HIDDEN, HIDDEN]),
            ("work", "", [HIDDEN; 4]),
            ("work", "git", [HIDDEN; 4]),
            ("work", "work", [FULL, FULL, HIDDEN, HIDDEN]),
            ("work", "play", [HIDDEN; 4]),
            ("work:read git", "work", [FULL, READ, HIDDEN, HIDDEN]),
            ("work git:read", "work", [FULL, FULL, HIDDEN, HIDDEN]),
            ("work", anywhere, [FULL, FULL, HIDDEN, HIDDEN]),
            ("work:read play", anywhere, [READ, FULL, FULL, HIDDEN]),
            ("time:read", anywhere, [HIDDEN, HIDDEN, HIDDEN, READ]),
            ("admin", "", [HIDDEN; 4]),
            ("", anywhere, [HIDDEN; 4]),
        ] {
            let (groups, target) = (groups(), at(if place == anywhere { "" } else { place }));
            let place_of =
                || if place == anywhere { AccessPlace::Anywhere(&groups) } else { AccessPlace::At(&target, &groups) };
            let verdicts = servers.map(|server| with(held, |subject| subject.server(place_of(), &id(server))));
            assert_eq!(verdicts, expected, "{held:?} at {place:?}");
        }
    }

    #[test]
    fn the_state_of_a_server_is_for_those_who_see_it_and_whole_for_administrators() {
        let groups = groups();
        let state = |held, server| with(held, |subject| subject.state(AccessPlace::Anywhere(&groups), &id(server)));
        assert_eq!(state("work", "git"), StateVerdict::StateAlone);
        assert_eq!(state("work", "time"), StateVerdict::Hidden);
        assert_eq!(state("admin", "time"), StateVerdict::Whole);
    }

    #[test]
    fn a_group_is_opened_by_a_right_to_it_or_to_one_of_its_servers() {
        let groups = groups();
        let opened = |held| {
            let is_open = |place| with(held, |subject| subject.endpoint(&at(place), || groups.clone(), None)).is_open();
            ["", "work", "git", "time"].map(is_open)
        };
        assert_eq!(opened("*"), [true; 4]);
        assert_eq!(opened("work"), [false, true, false, false], "and opens no other endpoint");
        assert_eq!(opened("work git:read"), [true, true, true, false]);
        assert_eq!(opened("time"), [true, false, false, true]);
        assert_eq!(opened(""), [true, false, false, false], "the merged endpoint, which is empty");
    }

    #[test]
    fn servers_that_come_later_are_seen_by_a_right_to_all_or_to_their_group() {
        let seen =
            |held| ["", "work", "git"].map(|place| with(held, |subject| subject.sees_later(&at(place), &groups())));
        assert_eq!(seen("*"), [true, true, false]);
        assert_eq!(seen("work:read git"), [false, true, false]);
        assert_eq!(seen("git files"), [false; 3]);
    }

    #[test]
    fn a_refusal_says_whether_another_login_would_help() {
        let groups = groups();
        let verdict = |scopes: &str, key: &str| {
            let (scopes, target) = (Scopes::parse(scopes).unwrap(), at("git"));
            let rights = granted(&scopes, &target, &groups, &rights(key));
            AccessSubject { user: &UserId::new("bob"), rights: &rights }.endpoint(
                &target,
                || groups.clone(),
                Some(&scopes),
            )
        };
        assert_eq!(verdict("mcp:git:read", "*"), EndpointVerdict::Open);
        assert_eq!(verdict("mcp:time", "*"), EndpointVerdict::BeyondScopes);
        assert_eq!(verdict("mcp:git", "time"), EndpointVerdict::BeyondRights);
        assert_eq!(verdict("mcp:use", "time"), EndpointVerdict::BeyondRights);
        let admin = |scopes: Option<&str>, held| {
            let scopes = scopes.map(|scopes| Scopes::parse(scopes).unwrap());
            with(held, |subject| subject.administration(scopes.as_ref()))
        };
        assert_eq!(admin(Some("mcp:use mcp:admin"), "* admin"), EndpointVerdict::Open);
        assert_eq!(admin(Some("mcp:use"), "*"), EndpointVerdict::BeyondScopes);
        assert_eq!([admin(None, "*"), admin(Some("mcp:admin"), "*")], [EndpointVerdict::BeyondRights; 2]);
    }

    #[test]
    fn oa_113_the_scope_of_a_group_covers_its_servers_at_its_endpoint_alone() {
        let granted = |scopes: &str, place: &str, key: &str| {
            granted(&Scopes::parse(scopes).unwrap(), &at(place), &groups(), &rights(key))
        };
        assert_eq!(granted("mcp:work", "work", "*"), rights("files git work"));
        assert_eq!(granted("mcp:work:read", "work", "git time"), rights("git:read"));
        assert_eq!(granted("mcp:work", "work", "work"), rights("work"));
        for other in ["", "git"] {
            assert_eq!(granted("mcp:work", other, "*"), rights("work"));
        }
        assert_eq!(granted("mcp:use mcp:admin", "", "git"), rights("git"));
    }

    #[test]
    fn a_subject_covers_what_the_same_user_has_with_no_more_rights() {
        let (bob, eve) = (UserId::new("bob"), UserId::new("eve"));
        let (narrow, wide) = (rights("git:read"), rights("git time"));
        let subject = |user, rights| AccessSubject { user, rights };
        assert!(subject(&bob, &wide).covers(subject(&bob, &narrow)));
        assert!(subject(&bob, &wide).covers(subject(&bob, &wide)));
        assert!(!subject(&bob, &narrow).covers(subject(&bob, &wide)));
        assert!(!subject(&eve, &wide).covers(subject(&bob, &narrow)));
    }

    #[test]
    fn oa_067_administration_is_granted_only_by_those_who_have_it() {
        let scopes = Scopes::parse("mcp:use mcp:admin").unwrap();
        assert_eq!(with("*", |subject| subject.grantable(&scopes)).to_string(), "mcp:use");
        assert_eq!(with("* admin", |subject| subject.grantable(&scopes)), scopes);
    }
}
