//! The account page: apps, backends, and revocation (`OA-132`). A user may have several keys: each key shows and ends
//! only grants that allow no more than the key.

use std::{cmp::Reverse, collections::HashSet, iter, sync::Arc, time::Duration};

use axum::{
    extract::{self, Query, rejection::QueryRejection},
    response::{IntoResponse as _, Redirect, Response},
};
use http::StatusCode;
use serde::Deserialize;

use super::{
    account_page, accounts,
    app_grants::AppGrants,
    forms::Purpose,
    login::{self, ButtonForm},
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    secrets,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    model::{
        Access, AccessPlace, AccessSubject, ApiKey, BackendId, GrantId, Groups, KeyAccount, KeyHistory, KeyKind,
        ServerVerdict, StateVerdict, Target, UserId,
        status::{
            BackendState, BackendStatus, GroupStatus, ListedClients, OfferCounts, SessionStatus, Status, last_output,
            summary,
        },
    },
    oauth::{GrantView, KeyHolder},
    support::{Timestamp, first_names},
};

/// Maximum number of servers named in the row of an app.
const SHOWN_SERVERS: usize = 3;

/// Result of an action, shown on the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AccountNotice {
    Revoked,
    NothingToRevoke,
    AccountDisconnected,
    SecretSaved,
    SecretDeleted,
}

#[derive(Debug, Deserialize)]
pub(super) struct AccountQuery {
    done: Option<AccountNotice>,
}

/// Form of the *Disconnect* button of an app.
#[derive(Deserialize)]
pub(super) struct RevokeForm {
    #[serde(default)]
    token: String,
    /// Ids of its grants, separated by spaces.
    #[serde(default)]
    grant: String,
}

/// `GET /account`.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    shown: Result<Query<AccountQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Some(holder) = visitor.holder().await? else {
        return Ok(Redirect::to(&format!("{}/login", state.settings.base())).into_response());
    };
    let Some(key) = state.oauth.keys().find(&holder.key).await? else { return Err(Problem::logged_out()) };
    let now = state.clock.now();
    let status = (state.status)(ListedClients::Of(&holder.user));
    let mut grants = state.oauth.grants().within(&holder).await?;
    // most recent first
    grants.sort_by_key(|view| Reverse(view.grant.last_used.unwrap_or(view.grant.created)));
    let own: Vec<&SessionStatus> = status.sessions.iter().filter(|client| covers(&holder, client)).collect();
    let missing = accounts::missing(&state, &holder).await?;
    let page = account_page::AccountPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Account).await?,
        user: holder.user_name(),
        key: (!holder.user.is_of_key()).then_some(&*holder.name),
        provider: provider(&state, &holder),
        notice: shown.ok().and_then(|Query(shown)| shown.done).map(AccountNotice::sentence),
        rights: rights(&key, &state.oauth.settings().backends.groups(), now),
        apps: apps(&state, &grants, &own, &missing),
        accounts: accounts::of_holder(&state, &holder).await?,
        secrets: secrets::of(&state, &holder).await?,
        backends: backends(&state, &status, &holder, &missing),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// The key's rights, their age, and who gave or changed them.
fn rights(key: &ApiKey, groups: &Groups, now: Timestamp) -> account_page::RightsItem {
    let KeyHistory { given_by, changed, changed_by } = &key.history;
    let changed = changed.map(|changed| {
        let by = changed_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        format!("{}{by}", texts::ago(now.since(changed)))
    });
    account_page::RightsItem {
        permissions: texts::rights(&key.rights, groups),
        since: texts::ago(now.since(key.created)),
        given_by: given_by.clone(),
        changed,
        ends: key.ends().map(|end| format!("in {}", texts::span_left(end.since(now)))),
        networks: key.networks.listed().map(|_| key.networks.to_string()),
    }
}

/// Label of the provider where the holder logs in; its issuer if it is no longer configured.
fn provider<'a>(state: &'a WebState, holder: &'a KeyHolder) -> Option<&'a str> {
    let KeyKind::Account(KeyAccount::Provider { issuer, .. }) = &holder.kind else { return None };
    Some(state.providers.of_issuer(issuer).map_or(issuer, |spec| &spec.label))
}

/// True if the holder of a key may see a client.
fn covers(holder: &KeyHolder, client: &SessionStatus) -> bool {
    let user = UserId::new(client.user.as_str());
    client.rights.as_ref().is_some_and(|rights| holder.subject().covers(AccessSubject { user: &user, rights }))
}

/// `POST /account/revoke`: revokes the grants of one row.
pub(super) async fn revoke(
    extract::State(state): extract::State<Arc<WebState>>,
    visitor: Visitor,
    PostedForm(form): PostedForm<RevokeForm>,
) -> Result<Response, Problem> {
    let Some(holder) = holder_of(&visitor, &form.token).await? else { return Ok(login::go_on(&state, None)) };
    let mut revoked = false;
    for grant in form.grant.split_ascii_whitespace() {
        revoked |= state.oauth.grants().revoke_within(&holder, &GrantId::new(grant)).await?;
    }
    Ok(back(&state, if revoked { "revoked" } else { "nothing-to-revoke" }))
}

/// `POST /account/revoke-all`: revokes every grant on the page and ends the browser session (`OA-133`).
pub(super) async fn revoke_all(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<ButtonForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Account, &form.token)?;
    let Some(holder) = visitor.holder().await? else {
        // pressed twice: the first press has logged out
        return Ok(login::to_start(&state));
    };
    if !shown.is_current {
        return Ok(login::go_on(&state, None));
    }
    state.oauth.grants().revoke_all_within(&holder).await?;
    visitor.log_out().await?;
    Ok(login::to_start(&state))
}

/// The logged-in holder, for a form of the account page. `None` if the form was shown before the login, or the visitor
/// has logged out since; the caller then leads back to the page.
pub(super) async fn holder_of(visitor: &Visitor, token: &str) -> Result<Option<KeyHolder>, Problem> {
    let shown = visitor.shown(Purpose::Account, token)?;
    let holder = visitor.holder().await?;
    Ok(holder.filter(|_| shown.is_current))
}

/// The backends and groups that this key opens, the state of each backend, and a summary of the states.
pub(super) fn backends(
    state: &WebState,
    status: &Status,
    holder: &KeyHolder,
    missing: &HashSet<String>,
) -> pages::BackendList {
    let (subject, groups) = (holder.subject(), state.oauth.settings().backends.groups());
    let seen = |backend| verdict(subject, AccessPlace::Anywhere(&groups), backend);
    let own = status.backends.iter().map(|backend| (backend, seen(&backend.id)));
    let own: Vec<(&BackendStatus, StateVerdict)> = own.filter(|(_, seen)| *seen != StateVerdict::Hidden).collect();
    let administers = subject.administration(None).is_open();
    pages::BackendList {
        configuration: status.configuration.iter().filter(|_| administers).map(|text| texts::plain(text)).collect(),
        summary: summary(own.iter().map(|(backend, _)| &backend.state)),
        items: own
            .into_iter()
            .map(|(backend, seen)| pages::BackendItem {
                lacks_login: missing.contains(&backend.id),
                ..backend_row(backend, seen, usable(state, holder, &groups, backend))
            })
            .collect(),
        groups: status.groups.iter().filter_map(|group| group_item(group, subject)).collect(),
        groups_note: match only_group(state, status, holder) {
            Some(_) => "Your key opens only these addresses.",
            None => "Some of these servers, at addresses of their own.",
        },
    }
}

/// The first group that the key opens, unless it opens the merged endpoint.
pub(super) fn only_group<'a>(state: &WebState, status: &'a Status, holder: &KeyHolder) -> Option<&'a GroupStatus> {
    let opens = |target: &Target| state.oauth.settings().backends.verdict(holder.subject(), target, None).is_open();
    let is_open = |group: &&GroupStatus| BackendId::parse(&group.id).is_ok_and(|id| opens(&Target::Backend(id)));
    if opens(&Target::Merged) { None } else { status.groups.iter().find(is_open) }
}

fn verdict(subject: AccessSubject<'_>, place: AccessPlace<'_>, server: &str) -> StateVerdict {
    BackendId::parse(server).map_or(StateVerdict::Hidden, |server| subject.state(place, &server))
}

/// A group, with its servers that this subject sees there; `None` if there are none.
fn group_item(group: &GroupStatus, subject: AccessSubject<'_>) -> Option<pages::GroupItem> {
    let id = BackendId::parse(&group.id).ok()?;
    let is_seen = |server: &&String| verdict(subject, AccessPlace::Group(&id), server) != StateVerdict::Hidden;
    let servers: Vec<String> = group.servers.iter().filter(is_seen).cloned().collect();
    (!servers.is_empty()).then(|| pages::GroupItem { id: group.id.clone(), url: group.url.clone(), servers })
}

/// The numbers of what this person may use of a server; tools that are not known yet are left out.
fn usable(state: &WebState, holder: &KeyHolder, groups: &Groups, backend: &BackendStatus) -> OfferCounts {
    let (subject, all) = (holder.subject(), backend.counts);
    let Ok(id) = BackendId::parse(&backend.id) else { return all };
    let targets = iter::once(Target::Merged).chain(groups.iter().map(|group| Target::Backend(group.id.clone())));
    let seen: Vec<(Target, Access)> = targets
        .filter_map(|target| match subject.server(AccessPlace::At(&target, groups), &id) {
            ServerVerdict::Visible(access) => Some((target, access)),
            ServerVerdict::Hidden => None,
        })
        .collect();
    if seen.is_empty() {
        // an administrator, who sees the server but may not use it
        return all;
    }
    let tools = |(target, access): (Target, Access)| Some((state.tools)(&target, &id, &holder.user)?.callable(access));
    OfferCounts { tools: seen.into_iter().filter_map(tools).max().unwrap_or_default(), ..all }
}

fn backend_row(backend: &BackendStatus, verdict: StateVerdict, counts: OfferCounts) -> pages::BackendItem {
    let mut said: Vec<String> = Vec::new();
    let mut output = Vec::new();
    if verdict == StateVerdict::Whole {
        said.extend(backend.state.reason().into_iter().chain(backend.advice.as_deref()).map(str::to_owned));
        output.extend(last_output(&backend.output).into_iter().map(ToString::to_string));
    }
    match &backend.state {
        BackendState::Ready => {
            let offers = [(counts.tools, "tool"), (counts.prompts, "prompt"), (counts.resources, "resource")];
            let offers = offers.into_iter().filter(|(number, _)| *number > 0);
            let offers: Vec<_> = offers.map(|(number, thing)| texts::count(number, thing)).collect();
            said.extend((!offers.is_empty()).then(|| offers.join(", ")));
        }
        BackendState::Elsewhere => said.push("at another replica of this gateway".to_owned()),
        BackendState::Starting { seconds } => said.push(format!("for {seconds} s")),
        BackendState::Restarting { .. } => said.push("the connection was lost and is being reopened".to_owned()),
        BackendState::Failed { retry_in: Some(0), .. } => said.push("it is being tried again".to_owned()),
        BackendState::Failed { retry_in: Some(seconds), .. } => said.push(format!("next try in {seconds} s")),
        BackendState::Failed { retry_in: None, .. } => {}
    }
    if verdict == StateVerdict::Whole {
        said.extend(backend.lacks_tools());
        said.extend(backend.other_era().map(str::to_owned));
        said.extend(backend.warnings.iter().cloned());
    }
    let (state, detail) = (backend.state.word(), texts::plain(&said.join("; ")));
    pages::BackendItem { id: backend.id.clone(), state, lacks_login: false, detail, output }
}

/// The apps with their programs, then the clients that belong to none of them.
fn apps(
    state: &WebState,
    grants: &[GrantView],
    clients: &[&SessionStatus],
    missing: &HashSet<String>,
) -> Vec<account_page::AppItem> {
    let (now, backends) = (state.clock.now(), &state.oauth.settings().backends);
    let (groups, servers) = (backends.groups(), backends.servers());
    let connected = AppGrants::collect(grants);
    let is_of = |client: &SessionStatus, app: &AppGrants<'_>| client.grant.as_ref().is_some_and(|id| app.has(id));
    let opened = |app: &AppGrants<'_>| -> Vec<account_page::AppServer> {
        let GrantView { grant, rights, .. } = app.latest;
        let subject = AccessSubject { user: &grant.user, rights };
        let server = |id: &BackendId| match subject.server(AccessPlace::At(&grant.endpoint.target, &groups), id) {
            ServerVerdict::Visible(access) => {
                let (name, lacks_login) = (id.to_string(), missing.contains(id.as_str()));
                Some(account_page::AppServer { name, access, lacks_login })
            }
            ServerVerdict::Hidden => None,
        };
        servers.iter().filter_map(server).collect()
    };
    let row = |app: &AppGrants<'_>| {
        let own = clients.iter().filter(|client| is_of(client, app)).map(|client| client_row(client)).collect();
        let (mut servers, others) = (opened(app), app.others(&connected).map(opened).collect::<Vec<_>>());
        // first what the app's other grants lack, so that the summary shows it
        servers.sort_by_key(|server| others.iter().all(|other| other.contains(server)));
        let distinction = app.distinction(&connected, &groups);
        account_page::AppItem::Connected(Box::new(grant_row(app, servers, own, distinction, now)))
    };
    let rows: Vec<account_page::AppItem> = connected.iter().map(row).collect();
    let others = clients.iter().filter(|client| !connected.iter().any(|app| is_of(client, app)));
    rows.into_iter().chain(others.map(|client| account_page::AppItem::Client(client_row(client)))).collect()
}

fn grant_row(
    app: &AppGrants<'_>,
    servers: Vec<account_page::AppServer>,
    clients: Vec<account_page::ClientItem>,
    distinction: Option<String>,
    now: Timestamp,
) -> account_page::GrantItem {
    let view = app.latest;
    let grant = &view.grant;
    let brief = |server: &account_page::AppServer| {
        let mark = if server.access == Access::ReadOnly { " (read-only)" } else { "" };
        format!("{}{mark}", server.name)
    };
    let names: Vec<String> = servers.iter().filter(|server| !server.lacks_login).map(brief).collect();
    let permissions = texts::permissions(&grant.scopes, &Groups::default());
    account_page::GrantItem {
        ids: app.ids(),
        distinction,
        client: view.client_name.clone(),
        destination: texts::grant_destination(view),
        permissions: permissions.into_iter().filter(|one| one.sensitivity == texts::Sensitivity::High).collect(),
        summary: first_names(&names, SHOWN_SERVERS)
            .unwrap_or_else(|| if servers.is_empty() { "no servers" } else { "no others" }.to_owned()),
        servers,
        ends: texts::day(app.expires()),
        clients,
        endpoint: grant.endpoint.to_string(),
        key: (!grant.user.is_of_key()).then(|| view.key_name.clone()),
        created: app.connected(now),
        used: grant.last_used.map_or_else(|| "never".to_owned(), |used| texts::ago(now.since(used))),
    }
}

fn client_row(client: &SessionStatus) -> account_page::ClientItem {
    account_page::ClientItem {
        name: client.client.clone(),
        endpoint: client.endpoint.clone(),
        protocol_version: client.protocol_version.clone(),
        used: texts::ago(Duration::from_secs(client.idle_seconds)),
    }
}

fn back(state: &WebState, done: &str) -> Response {
    Redirect::to(&format!("{}/account?done={done}", state.settings.base())).into_response()
}

// === impl AccountNotice ===

impl AccountNotice {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Revoked => "The app is disconnected. Its tokens stop working within a second.",
            Self::NothingToRevoke => "There is nothing to disconnect.",
            Self::AccountDisconnected => "Your account is disconnected. Its tokens are deleted here and revoked there.",
            Self::SecretSaved => "The secret is saved. The servers that need it use it as of the next call.",
            Self::SecretDeleted => "The secret is deleted. Everything that ran with it has ended.",
        }
    }
}
