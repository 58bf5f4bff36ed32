//! The choice of servers on the consent pages of apps and devices, with the tools of each (`OA-158`).

use super::{accounts, consent_page, problem::Problem, state::WebState, texts};
use crate::{
    model::{Access, BackendId, Groups, Scope, Scopes, Target, status::ToolCounts},
    oauth::{ChoiceRefusal, ChosenServers, KeyHolder, OfferedServers},
};

/// An app's request, as the person who decides sees it.
#[derive(Clone, Copy)]
pub(super) struct ConsentRequest<'a> {
    pub(super) holder: &'a KeyHolder,
    /// Endpoint that its tokens would open.
    pub(super) target: &'a Target,
    /// Scopes that the person would grant.
    pub(super) scopes: &'a Scopes,
    /// A submitted choice that grants nothing.
    pub(super) refused: Option<RefusedChoice<'a>>,
}

/// A choice that grants nothing, and the reason.
#[derive(Clone, Copy)]
pub(super) struct RefusedChoice<'a> {
    pub(super) servers: &'a ChosenServers,
    pub(super) refusal: ChoiceRefusal,
}

/// The part of the page where the person chooses servers.
pub(super) async fn choice(
    state: &WebState,
    request: ConsentRequest<'_>,
) -> Result<consent_page::ServerSelection, Problem> {
    let ConsentRequest { holder, target, scopes, refused } = request;
    let offered = OfferedServers::new(state.oauth.settings(), holder, target, scopes);
    let missing = accounts::missing(state, holder).await?;
    let chosen = refused.map(|refused| refused.servers);
    let item = |(name, most): (&str, Access)| {
        let counts = BackendId::parse(name).ok().and_then(|id| (state.tools)(target, &id, &holder.user));
        let use_of = chosen.map_or(Some(most), |chosen| chosen.servers.get(name).copied());
        consent_page::OfferedServer {
            name: name.to_owned(),
            tools: tools(most, counts),
            read_only: read_only(most, counts),
            most,
            chosen: use_of,
            lacks_login: missing.contains(name),
        }
    };
    let items: Vec<consent_page::OfferedServer> = offered.iter().map(item).collect();
    let groups = state.oauth.settings().backends.groups();
    let permissions = texts::permissions(scopes, &groups);
    Ok(consent_page::ServerSelection {
        later: later(target, scopes, &groups).filter(|_| !items.is_empty()),
        alert: refused.map(|refused| sentence(refused.refusal)),
        // the list of servers already shows their permissions
        permissions: permissions
            .into_iter()
            .filter(|permission| items.is_empty() || permission.sensitivity == texts::Sensitivity::High)
            .collect(),
        items,
    })
}

/// The sentence that an unchanged choice includes servers added later, if it does.
fn later(target: &Target, scopes: &Scopes, groups: &Groups) -> Option<&'static str> {
    match target {
        Target::Merged if scopes.contains(&Scope::Use) => {
            Some("If you leave all of them as they are, the app may also use servers that are added later.")
        }
        Target::Backend(id) if groups.find(id).is_some() => Some(
            "If you leave all of them as they are, the app may also use servers that are added to this group later.",
        ),
        Target::Merged | Target::Backend(_) => None,
    }
}

fn tools(most: Access, counts: Option<ToolCounts>) -> String {
    let Some(counts) = counts else { return "tools not known yet".to_owned() };
    let ToolCounts { tools, changing, .. } = counts;
    let all = texts::count(counts.callable(most), "tool");
    match (tools, changing) {
        (0, _) => "no tools".to_owned(),
        _ if most == Access::ReadOnly => all,
        (_, 0) => format!("{all}, none changes data"),
        (1, _) => format!("{all}, which may change data"),
        _ => format!("{all}, {changing} may change data"),
    }
}

/// Label of the read-only option.
fn read_only(most: Access, counts: Option<ToolCounts>) -> String {
    match counts {
        Some(counts) if most != Access::ReadOnly && counts.tools > 0 => {
            format!("Read-only ({})", texts::count(counts.read_only, "tool"))
        }
        _ => "Read-only".to_owned(),
    }
}

const fn sentence(refusal: ChoiceRefusal) -> &'static str {
    match refusal {
        ChoiceRefusal::Nothing => "No server is chosen, so the app could do nothing. Choose at least one, or deny.",
        ChoiceRefusal::Changed => {
            "What you may use here has changed since you opened this page. These are the servers now: check your choice."
        }
        ChoiceRefusal::TooMany => {
            "The names of the chosen servers are too long for the key that the app gets. Choose fewer, or choose \
             Everything for all of them."
        }
    }
}
