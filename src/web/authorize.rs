//! The authorization endpoint as people see it: login, decision, and the way back to the app. What the request means is
//! decided by `oauth`; what is here is HTML and redirects.

use std::sync::Arc;

use axum::{
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    forms::Purpose,
    login,
    pages::{self, Page},
    posted::Posted,
    problem::Problem,
    state::State,
    visit::Visitor,
    words,
};
use crate::{
    oauth::{self, Begun, Browser, Kept, Login, Pending, Transaction, TransactionId, Trust},
    support::Secret,
};

/// What the login and consent pages send. A field that is missing counts as empty.
#[derive(Deserialize)]
pub(super) struct DecisionForm {
    /// The id of a request that waits for a decision, or, on a login page, the whole request, sealed (`OA-68`).
    #[serde(default)]
    transaction: String,
    #[serde(default)]
    token: String,
    decision: Option<Decision>,
    /// The API key; only the login page has it.
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
    mut visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    match state.oauth.authorization().begin(query.as_deref().unwrap_or_default()).await {
        Begun::Valid(transaction) => proceed(&state, &mut visitor, &transaction).await,
        Begun::Redirect(redirect) => hand_over(&state, StatusCode::BAD_REQUEST, &redirect),
        Begun::Page(refusal) => Err(refusal.into()),
    }
}

/// `GET /oauth/consent/{transaction}`: where a login leads, so that reloading does not send the key again.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Path(transaction): Path<String>,
) -> Result<Response, Problem> {
    let id = TransactionId::parse(&transaction).ok_or_else(Problem::lapsed)?;
    ask(&state, &mut visitor, &id).await
}

/// `POST /oauth/authorize`: the forms of both pages.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Posted(form): Posted<DecisionForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Transaction(&form.transaction), &form.token).await?;
    match TransactionId::parse(&form.transaction) {
        Some(id) => decide_waiting(&state, &mut visitor, &id, form.decision).await,
        None => decide_sealed(&state, &mut visitor, form).await,
    }
}

/// The form of the consent page. Every approval is a click of a person who is logged in, whatever was approved before
/// (`OA-71`).
async fn decide_waiting(
    state: &State,
    visitor: &mut Visitor,
    id: &TransactionId,
    decision: Option<Decision>,
) -> Result<Response, Problem> {
    let browser = visitor.browser().await?;
    let redirect = match decision {
        Some(Decision::Approve) => {
            pending(state, &browser, id).await?;
            let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
            state.oauth.authorization().approve(id, &browser, &holder).await?
        }
        Some(Decision::Deny) => {
            pending(state, &browser, id).await?;
            state.oauth.authorization().deny(id, &browser).await?
        }
        Some(Decision::LogIn) | None => return ask(state, visitor, id).await,
    };
    hand_over(state, StatusCode::OK, &redirect)
}

/// The form of the login page. Nobody has to log in to say no.
async fn decide_sealed(state: &State, visitor: &mut Visitor, form: DecisionForm) -> Result<Response, Problem> {
    let transaction = state.oauth.authorization().unseal(&form.transaction, &visitor.browser().await?).await?;
    match form.decision {
        Some(Decision::LogIn) => log_in(state, visitor, &transaction, form).await,
        Some(Decision::Deny) => hand_over(state, StatusCode::OK, &state.oauth.authorization().decline(&transaction)),
        Some(Decision::Approve) | None => proceed(state, visitor, &transaction).await,
    }
}

async fn log_in(
    state: &State,
    visitor: &mut Visitor,
    transaction: &Transaction,
    form: DecisionForm,
) -> Result<Response, Problem> {
    match login::check(state, visitor, form.key).await? {
        Ok(holder) => {
            visitor.log_in(&holder).await?;
            match state.oauth.authorization().keep(transaction, &visitor.browser().await?, &holder).await? {
                Kept::Waiting => {
                    let next = format!("{}/oauth/consent/{}", state.settings.base(), transaction.id);
                    Ok(axum::response::Redirect::to(&next).into_response())
                }
                Kept::Refused(redirect) => hand_over(state, StatusCode::BAD_REQUEST, &redirect),
                Kept::Spent => Err(Problem::foreign_form()),
            }
        }
        // the request waits on in the form (`OA-73`)
        Err(failure) => {
            let page = login_page(state, visitor, transaction, &form.transaction);
            let page = pages::Login { alert: Some(failure.alert()), ..page.await? };
            Ok(failure.answer(page))
        }
    }
}

/// The page that comes next for a valid request: the login, or the decision if somebody is logged in and the app asks
/// for no fresh login (`OA-77`).
async fn proceed(state: &State, visitor: &mut Visitor, transaction: &Transaction) -> Result<Response, Problem> {
    let holder = match transaction.login {
        Login::IfNeeded => visitor.holder().await?,
        Login::Fresh => None,
    };
    let browser = visitor.browser().await?;
    let Some(holder) = holder else {
        let sealed = state.oauth.authorization().seal(transaction, &browser)?;
        let page = login_page(state, visitor, transaction, &sealed).await?;
        return Ok(Page(StatusCode::OK, page).into_response());
    };
    match state.oauth.authorization().keep(transaction, &browser, &holder).await? {
        Kept::Waiting => ask(state, visitor, &transaction.id).await,
        Kept::Refused(redirect) => hand_over(state, StatusCode::BAD_REQUEST, &redirect),
        Kept::Spent => Err(Problem::foreign_form()),
    }
}

/// The decision on a request that waits for it. That it waits means that the person logged in for it (`OA-77`).
async fn ask(state: &State, visitor: &mut Visitor, id: &TransactionId) -> Result<Response, Problem> {
    let pending = pending(state, &visitor.browser().await?, id).await?;
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    let page = pages::Consent {
        frame: pages::Frame::new(&state.settings),
        token: visitor.token(Purpose::Transaction(id.as_str())).await?,
        transaction: id.as_str(),
        client: &pending.client_name,
        destination: words::destination(&pending.redirect),
        permissions: words::permissions(&pending.scopes_for(&holder)),
        resource: &pending.resource,
        lifetime: words::span(pending.grant_lifetime),
        user: holder.user_name(),
    };
    Ok(Page(StatusCode::OK, page).into_response())
}

async fn pending(state: &State, browser: &Browser, id: &TransactionId) -> Result<Pending, Problem> {
    state.oauth.authorization().pending(id, browser).await?.ok_or_else(Problem::lapsed)
}

async fn login_page<'a>(
    state: &State,
    visitor: &mut Visitor,
    transaction: &'a Transaction,
    sealed: &'a str,
) -> Result<pages::Login<'a>, Problem> {
    let token = visitor.token(Purpose::Transaction(sealed)).await?;
    let request = Some(pages::Request { transaction: sealed, client: &transaction.client_name });
    Ok(pages::Login { frame: pages::Frame::new(&state.settings), token, alert: None, request })
}

/// Sends the browser back to the app: at once, or by a link that a person follows (`OA-74`, `OA-75`).
fn hand_over(state: &State, status: StatusCode, redirect: &oauth::Redirect) -> Result<Response, Problem> {
    match &redirect.trust {
        Trust::Automatic => {
            let location = HeaderValue::try_from(&redirect.location).map_err(|_| Problem::internal())?;
            Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
        }
        Trust::ShowLink { host, reason } => {
            let page = pages::Handover {
                frame: pages::Frame::new(&state.settings),
                reason,
                host,
                location: &redirect.location,
            };
            Ok(Page(status, page).into_response())
        }
    }
}
