//! The account page: what was allowed, what is open, and how to take it back (`OA-132`). Keys may share a user: each sees
//! and ends what allows no more than it does itself.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{self, Query, rejection::QueryRejection},
    response::{IntoResponse as _, Redirect, Response},
};
use http::StatusCode;
use serde::Deserialize;

use super::{
    forms::Purpose,
    login::ButtonForm,
    pages::{self, Health, Page},
    posted::Posted,
    problem::Problem,
    state::State,
    visit::Visitor,
    words,
};
use crate::{
    model::{
        BackendId, GrantId,
        status::{BackendState, BackendStatus, SessionStatus, Status},
    },
    oauth::{GrantView, KeyHolder},
    support::Timestamp,
};

/// What was just done, told once on the page that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Done {
    Revoked,
    NothingToRevoke,
}

/// The query of the account page.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    done: Option<Done>,
}

/// What the button beside a grant sends.
#[derive(Deserialize)]
pub(super) struct RevokeForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    grant: String,
}

/// `GET /account`.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    shown: Result<Query<Shown>, QueryRejection>,
) -> Result<Response, Problem> {
    let Some(holder) = visitor.holder().await? else {
        return Ok(Redirect::to(&format!("{}/login", state.settings.base())).into_response());
    };
    let now = state.clock.now();
    let status = (state.status)();
    let grants = state.oauth.grants().within(&holder).await?;
    let own = |client: &&SessionStatus| is_within(client, &holder);
    let page = pages::Account {
        frame: pages::Frame::new(&state.settings),
        token: visitor.token(Purpose::Account).await?,
        user: holder.user_name(),
        key: (!holder.user.is_of_key()).then_some(&*holder.name),
        notice: shown.ok().and_then(|Query(shown)| shown.done).map(Done::sentence),
        grants: grants.iter().map(|grant| grant_row(grant, now)).collect(),
        clients: status.sessions.iter().filter(own).map(client_row).collect(),
        backends: backends(&status, &holder),
    };
    Ok(Page(StatusCode::OK, page).into_response())
}

/// Whether a client may be shown to the holder of a key: it is one of the holder's user, and may do no more than the key.
fn is_within(client: &SessionStatus, holder: &KeyHolder) -> bool {
    let rights = client.rights.as_ref();
    client.user == holder.user.as_str() && rights.is_some_and(|rights| rights.is_within(&holder.rights))
}

/// `POST /account/revoke`: takes one grant back.
pub(super) async fn revoke(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Posted(form): Posted<RevokeForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Account, &form.token).await?;
    let Some(holder) = visitor.holder().await? else { return Err(Problem::foreign_form()) };
    let revoked = state.oauth.grants().revoke_within(&holder, &GrantId::new(form.grant)).await?;
    Ok(back(&state, if revoked { "revoked" } else { "nothing-to-revoke" }))
}

/// `POST /account/revoke-all`: takes every grant back that the page shows and ends the browser session (`OA-133`).
pub(super) async fn revoke_all(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Posted(form): Posted<ButtonForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Account, &form.token).await?;
    let Some(holder) = visitor.holder().await? else { return Err(Problem::foreign_form()) };
    state.oauth.grants().revoke_all_within(&holder).await?;
    visitor.log_out().await?;
    Ok(Redirect::to(&format!("{}/", state.settings.base())).into_response())
}

/// The backends that this key opens, at a glance. Why one is down is told to administrators alone: it may name files
/// and hosts.
pub(super) fn backends(status: &Status, holder: &KeyHolder) -> Vec<pages::Backend> {
    let reaches = |backend: &&BackendStatus| {
        holder.rights.admin
            || BackendId::parse(&backend.id).is_ok_and(|id| holder.rights.backends.access(&id).is_some())
    };
    status.backends.iter().filter(reaches).map(|backend| backend_row(backend, holder)).collect()
}

fn backend_row(backend: &BackendStatus, holder: &KeyHolder) -> pages::Backend {
    let told =
        |reason: &str, otherwise: &str| if holder.rights.admin { reason.to_owned() } else { otherwise.to_owned() };
    let (health, detail) = match &backend.state {
        BackendState::Ready => {
            let counts = backend.counts;
            let offers = [(counts.tools, "tool"), (counts.prompts, "prompt"), (counts.resources, "resource")];
            let offers =
                offers.iter().filter(|(number, _)| *number > 0).map(|(number, thing)| words::count(*number, thing));
            (Health::Ready, offers.collect::<Vec<_>>().join(", "))
        }
        BackendState::Starting => (Health::Starting, "is starting".to_owned()),
        BackendState::Restarting { reason, retry_in } => {
            let detail = told(reason, "does not answer");
            (Health::Starting, format!("{detail}; next try in {retry_in} s"))
        }
        BackendState::Failed { reason } => (Health::Down, told(reason, "cannot be used; the operator can see why")),
    };
    pages::Backend { id: backend.id.clone(), health, detail }
}

fn grant_row(view: &GrantView, now: Timestamp) -> pages::Grant {
    let grant = &view.grant;
    pages::Grant {
        id: grant.id.to_string(),
        client: view.client_name.clone(),
        destination: words::destination(&view.redirect),
        permissions: words::permissions(&grant.scopes),
        endpoint: grant.endpoint.to_string(),
        key: (!grant.user.is_of_key()).then(|| view.key_name.clone()),
        created: words::ago(now.since(grant.created)),
        used: grant.last_used.map_or_else(|| "never".to_owned(), |used| words::ago(now.since(used))),
    }
}

fn client_row(client: &SessionStatus) -> pages::Client {
    pages::Client {
        name: client.client.clone(),
        endpoint: client.endpoint.clone(),
        protocol_version: client.protocol_version.clone(),
        used: words::ago(Duration::from_secs(client.idle_seconds)),
    }
}

fn back(state: &State, done: &str) -> Response {
    Redirect::to(&format!("{}/account?done={done}", state.settings.base())).into_response()
}

// === impl Done ===

impl Done {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Revoked => "The app is disconnected. Its tokens stopped working within a second.",
            Self::NothingToRevoke => "That app was disconnected already.",
        }
    }
}
