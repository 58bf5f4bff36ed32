//! What a person lets an app use: all servers that it asks for, or some of them, each whole or to read (`OA-158`). The
//! token has scopes for exactly these, so a server that was left out does not exist for the app.

use std::collections::BTreeMap;

use crate::{
    model::{Access, AccessPlace, AccessSubject, BackendId, Scope, Scopes, ServerVerdict, Target, access},
    oauth::{accounts::api_keys::KeyHolder, oauth_settings::OAuthSettings},
};

/// Maximum length of the scopes of a choice, in bytes: they are in every request of the app.
const LONGEST_CHOICE: usize = 2 * 1024;

/// The servers that a grant could open, with the most access that it could give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferedServers(BTreeMap<String, Access>);

/// The servers that a form names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChosenServers {
    /// Number of servers on the page of the form; zero for a form that offers no choice.
    pub shown: usize,
    /// The chosen ones, by name. None needs to exist.
    pub servers: BTreeMap<String, Access>,
}

/// The decision about the servers of a grant.
#[derive(Debug, Clone, Copy)]
pub enum ServerChoice<'a> {
    /// Everything that the app asks for, since no page is shown.
    AsAsked,
    Of(&'a ChosenServers),
}

/// Why a choice grants nothing. The request still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceRefusal {
    #[error("no server is chosen")]
    Nothing,
    /// The page offered other servers than there are now for this person.
    #[error("what you may use has changed since the page was shown")]
    Changed,
    /// The scopes do not fit into a token.
    #[error("the names of the chosen servers are too long for a token")]
    TooMany,
}

// === impl OfferedServers ===

impl OfferedServers {
    /// The servers that this person could open at an endpoint for an app with these scopes.
    pub fn new(settings: &OAuthSettings, holder: &KeyHolder, target: &Target, scopes: &Scopes) -> Self {
        let groups = settings.backends.groups();
        let rights = access::granted(scopes, target, &groups, &holder.rights);
        let subject = AccessSubject { user: &holder.user, rights: &rights };
        let offered = settings.backends.servers().into_iter().filter_map(|id| {
            match subject.server(AccessPlace::At(target, &groups), &id) {
                ServerVerdict::Visible(access) => Some((id.to_string(), access)),
                ServerVerdict::Hidden => None,
            }
        });
        Self(offered.collect())
    }

    /// The servers, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Access)> {
        self.0.iter().map(|(name, access)| (name.as_str(), *access))
    }

    pub fn have(&self, server: &BackendId) -> bool {
        self.0.contains_key(server.as_str())
    }

    /// The scopes that a choice grants of the ones asked for, never more. The choice of everything that the page showed
    /// grants them as they are, so that `mcp:use` and the scope of a group reach servers that come later.
    pub(super) fn granted(&self, asked: &Scopes, choice: ServerChoice<'_>) -> Result<Scopes, ChoiceRefusal> {
        let ServerChoice::Of(ChosenServers { shown: shown @ 1.., servers }) = choice else { return Ok(asked.clone()) };
        if servers.is_empty() {
            return Err(ChoiceRefusal::Nothing);
        }
        let is_offered = |(name, access): (&String, &Access)| self.0.get(name).is_some_and(|most| access <= most);
        if !servers.iter().all(is_offered) {
            return Err(ChoiceRefusal::Changed);
        }
        if *servers == self.0 && servers.len() == *shown {
            return Ok(asked.clone());
        }
        let chosen = servers.iter().filter_map(|(name, access)| Some(Scope::of(BackendId::parse(name).ok()?, *access)));
        let scopes: Scopes = chosen.chain(asked.iter().filter(|scope| **scope == Scope::Admin).cloned()).collect();
        if scopes.to_string().len() > LONGEST_CHOICE { Err(ChoiceRefusal::TooMany) } else { Ok(scopes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> BTreeMap<String, Access> {
        let server = |word: &str| {
            let name = word.strip_suffix(":read");
            (name.unwrap_or(word).to_owned(), Access::unless_read_only(name.is_some()))
        };
        text.split_whitespace().map(server).collect()
    }

    fn granted(offered: &str, asked: &str, (shown, chosen): (usize, &str)) -> Result<String, ChoiceRefusal> {
        let chosen = ChosenServers { shown, servers: servers(chosen) };
        let asked = Scopes::parse(asked).unwrap();
        let granted = OfferedServers(servers(offered)).granted(&asked, ServerChoice::Of(&chosen));
        granted.map(|scopes| scopes.to_string())
    }

    #[test]
    fn oa_158_a_choice_grants_what_was_chosen_and_never_more() {
        let (all, asked) = ("files git notes:read", "mcp:use mcp:admin");
        for (chosen, expected) in [
            ((3, "files git notes:read"), "mcp:use mcp:admin"),
            ((3, "files"), "mcp:files mcp:admin"),
            ((3, "files:read git"), "mcp:git mcp:files:read mcp:admin"),
            ((3, "files:read git:read notes:read"), "mcp:files:read mcp:git:read mcp:notes:read mcp:admin"),
            // a server came after the page was shown
            ((2, "files git"), "mcp:files mcp:git mcp:admin"),
        ] {
            assert_eq!(granted(all, asked, chosen).as_deref(), Ok(expected), "{chosen:?}");
        }
        // one that was left out is gone now: the rest is not everything that the page showed
        assert_eq!(granted("files git", asked, (3, "files git")).as_deref(), Ok("mcp:files mcp:git mcp:admin"));
        for chosen in [(3, "files other"), (3, "notes"), (3, "mcp:use"), (1, "*")] {
            assert_eq!(granted(all, asked, chosen), Err(ChoiceRefusal::Changed), "{chosen:?}");
        }
        assert_eq!(granted(all, asked, (3, "")), Err(ChoiceRefusal::Nothing));
        assert_eq!(granted(all, asked, (0, "")).as_deref(), Ok(asked), "the form offers no choice");
        assert_eq!(granted("files", "mcp:files:read", (1, "files")).as_deref(), Ok("mcp:files:read"));
    }

    #[test]
    fn oa_158_a_choice_that_no_token_can_hold_is_refused() {
        let names: Vec<String> = (0..100).map(|number| format!("a-server-with-a-long-name-{number}")).collect();
        let (all, some) = (names.join(" "), names[1..].join(" "));
        assert_eq!(granted(&all, "mcp:use", (100, &all)).as_deref(), Ok("mcp:use"));
        assert_eq!(granted(&all, "mcp:use", (100, &some)), Err(ChoiceRefusal::TooMany));
    }
}
