//! The authorization endpoint as people see it: login, decision, and the way back to the app. What the request means is
//! decided by `oauth`; what is here is HTML and redirects.

use std::sync::Arc;

use axum::{
    Form,
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    State,
    error::Problem,
    forms::Purpose,
    login,
    pages::{self, Page},
    visit::Visitor,
    words,
};
use crate::{
    oauth::{self, Begun, KeyHolder, Login, Pending, TransactionId, Trust},
    support::Secret,
};

/// What the login and consent pages send.
#[derive(Deserialize)]
pub(super) struct DecisionForm {
    transaction: String,
    token: String,
    decision: Decision,
    /// The API key; only the login page has it.
    #[serde(default)]
    key: Option<Secret>,
}

/// Which button was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Decision {
    LogIn,
    Approve,
    Deny,
}

/// `GET /oauth/authorize`: an app sends the browser here (RFC 6749 4.1.1).
pub(super) async fn begin(
    extract::State(state): extract::State<Arc<State>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    match state.oauth.begin(query.as_deref().unwrap_or_default(), &visitor.browser()).await {
        Begun::Consent(id) => ask(&state, &visitor, &id).await,
        Begun::Redirect(redirect) => hand_over(&state, StatusCode::BAD_REQUEST, &redirect),
        Begun::Page(refusal) => Err(refusal.into()),
    }
}

/// `GET /oauth/consent/{transaction}`: where a login leads, so that reloading does not send the key again.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<State>>,
    visitor: Visitor,
    Path(transaction): Path<String>,
) -> Result<Response, Problem> {
    let id = TransactionId::parse(&transaction).ok_or_else(Problem::lapsed)?;
    ask(&state, &visitor, &id).await
}

/// `POST /oauth/authorize`: the forms of both pages.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Form(form): Form<DecisionForm>,
) -> Result<Response, Problem> {
    let id = TransactionId::parse(&form.transaction).ok_or_else(Problem::foreign_form)?;
    visitor.spend(Purpose::Transaction(id.as_str()), &form.token).await?;
    match form.decision {
        Decision::LogIn => log_in(&state, &mut visitor, &id, form.key).await,
        Decision::Approve => approve(&state, &visitor, &id).await,
        Decision::Deny => {
            pending(&state, &visitor, &id).await?;
            let redirect = state.oauth.deny(&id, &visitor.browser()).await?;
            hand_over(&state, StatusCode::OK, &redirect)
        }
    }
}

async fn log_in(
    state: &State,
    visitor: &mut Visitor,
    id: &TransactionId,
    key: Option<Secret>,
) -> Result<Response, Problem> {
    let pending = pending(state, visitor, id).await?;
    let key = key.unwrap_or_else(|| Secret::new(""));
    match login::check(state, visitor, &key).await? {
        Ok(holder) => {
            visitor.log_in(&holder, Some(id)).await?;
            Ok(Redirect::to(&format!("{}/oauth/consent/{id}", state.settings.base())).into_response())
        }
        // the request waits on (`OA-73`)
        Err(failure) => {
            let page = login_page(state, visitor, &pending, Some(failure.alert())).await?;
            Ok(failure.answer(page))
        }
    }
}

/// Every approval is a click of a person who is logged in, whatever was approved before (`OA-71`).
async fn approve(state: &State, visitor: &Visitor, id: &TransactionId) -> Result<Response, Problem> {
    let pending = pending(state, visitor, id).await?;
    match able(visitor, &pending).await? {
        Some(holder) => {
            let redirect = state.oauth.approve(id, &visitor.browser(), &holder).await?;
            hand_over(state, StatusCode::OK, &redirect)
        }
        None => ask(state, visitor, id).await,
    }
}

/// The page that comes next for a request that waits: the login, or the decision.
async fn ask(state: &State, visitor: &Visitor, id: &TransactionId) -> Result<Response, Problem> {
    let pending = pending(state, visitor, id).await?;
    let Some(holder) = able(visitor, &pending).await? else {
        let page = login_page(state, visitor, &pending, None).await?;
        return Ok(Page(StatusCode::OK, page).into_response());
    };
    let page = pages::Consent {
        frame: state.frame(),
        token: visitor.token(Purpose::Transaction(id.as_str())).await?,
        transaction: id.as_str(),
        client: &pending.client_name,
        destination: words::destination(&pending.redirect),
        permissions: words::permissions(&pending.scopes_for(&holder)),
        resource: &pending.resource,
        lifetime: words::span(pending.grant_lifetime),
        user: holder.user.as_str(),
    };
    Ok(Page(StatusCode::OK, page).into_response())
}

async fn pending(state: &State, visitor: &Visitor, id: &TransactionId) -> Result<Pending, Problem> {
    state.oauth.pending(id, &visitor.browser()).await?.ok_or_else(Problem::lapsed)
}

/// Who may decide: whoever is logged in, for this very request where the app asked for a fresh login (`OA-77`).
async fn able(visitor: &Visitor, pending: &Pending) -> Result<Option<KeyHolder>, Problem> {
    match pending.login {
        Login::Fresh if !visitor.logged_in_for(&pending.id) => Ok(None),
        Login::Fresh | Login::IfNeeded => visitor.holder().await,
    }
}

async fn login_page<'a>(
    state: &State,
    visitor: &Visitor,
    pending: &'a Pending,
    alert: Option<String>,
) -> Result<pages::Login<'a>, Problem> {
    let transaction = pending.id.as_str();
    let token = visitor.token(Purpose::Transaction(transaction)).await?;
    let request = Some(pages::Request { transaction, client: &pending.client_name });
    Ok(pages::Login { frame: state.frame(), token, alert, request })
}

/// Sends the browser back to the app: at once, or by a link that a person follows (`OA-74`, `OA-75`).
fn hand_over(state: &State, status: StatusCode, redirect: &oauth::Redirect) -> Result<Response, Problem> {
    match &redirect.trust {
        Trust::Automatic => {
            let location = HeaderValue::try_from(&redirect.location).map_err(|_| Problem::internal())?;
            Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
        }
        Trust::ShowLink { host, reason } => {
            let page = pages::Handover { frame: state.frame(), reason, host, location: &redirect.location };
            Ok(Page(status, page).into_response())
        }
    }
}
