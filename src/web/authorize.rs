//! The authorization endpoint for people: login, decision, and redirect to the app. `oauth` checks the request; this
//! file has HTML and redirects.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    accounts,
    forms::Purpose,
    login,
    opened_servers::OpenedServers,
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::Visitor,
};
use crate::{
    model::ClientIp,
    oauth::{
        self, BeginOutcome, Browser, KeyHolder, PendingAuthorization, RequestSource, StoreOutcome, Transaction,
        TransactionId, Trust,
    },
    support::Secret,
};

/// Time for which a person reads that access was denied, before the browser goes on to the app.
const TOLD_AFTER: Duration = Duration::from_secs(3);
/// Form of the login and consent pages. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct DecisionForm {
    /// Id of a pending request, or, on a login page, the whole request, sealed (`OA-68`).
    #[serde(default)]
    transaction: String,
    #[serde(default)]
    token: String,
    decision: Option<Decision>,
    /// API key; only the login page sends it.
    key: Option<Secret>,
}

/// Button that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Decision {
    LogIn,
    Approve,
    Deny,
}

/// `GET /oauth/authorize`: an app sends the browser here (RFC 6749 4.1.1).
pub(super) async fn begin(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let holder = visitor.holder().await?;
    let source = RequestSource { from: ClientIp(visitor.from), holder: holder.as_ref() };
    match state.oauth.authorization().begin(query.as_deref().unwrap_or_default(), source).await {
        BeginOutcome::Valid(transaction) => proceed(&state, &mut visitor, &transaction).await,
        BeginOutcome::Redirect(redirect) => redirect_to_app(&state, StatusCode::BAD_REQUEST, &redirect),
        BeginOutcome::Page(refusal) => Err(refusal.into()),
    }
}

/// `GET /oauth/consent/{transaction}`: the page after a login, so that a reload does not send the key again.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(transaction): Path<String>,
) -> Result<Response, Problem> {
    let id = TransactionId::parse(&transaction).ok_or_else(Problem::lapsed)?;
    ask(&state, &mut visitor, &id).await
}

/// `POST /oauth/authorize`: form of both pages.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<DecisionForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Transaction(&form.transaction), &form.token).await?;
    match TransactionId::parse(&form.transaction) {
        Some(id) => decide_waiting(&state, &mut visitor, &id, form.decision).await,
        None => decide_sealed(&state, &mut visitor, form).await,
    }
}

/// Handles the consent form. Every approval is a click of a logged-in person, regardless of earlier approvals, unless the
/// operator vouches for the app (`OA-71`).
async fn decide_waiting(
    state: &WebState,
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
            let pending = pending(state, &browser, id).await?;
            let holder = visitor.holder().await?;
            let redirect = state.oauth.authorization().deny(id, &browser, holder.as_ref()).await?;
            return tell_denial(state, &pending.client_name, &redirect);
        }
        Some(Decision::LogIn) | None => return ask(state, visitor, id).await,
    };
    redirect_to_app(state, StatusCode::OK, &redirect)
}

/// Handles the login form. Denying needs no login.
async fn decide_sealed(state: &WebState, visitor: &mut Visitor, form: DecisionForm) -> Result<Response, Problem> {
    let transaction = state.oauth.authorization().unseal(&form.transaction, &visitor.browser().await?).await?;
    match form.decision {
        Some(Decision::LogIn) => log_in(state, visitor, &transaction, form).await,
        Some(Decision::Deny) => {
            let holder = visitor.holder().await?;
            let redirect = state.oauth.authorization().decline(&transaction, holder.as_ref()).await;
            tell_denial(state, &transaction.client_name, &redirect)
        }
        Some(Decision::Approve) | None => proceed(state, visitor, &transaction).await,
    }
}

async fn log_in(
    state: &WebState,
    visitor: &mut Visitor,
    transaction: &Transaction,
    form: DecisionForm,
) -> Result<Response, Problem> {
    match login::check(state, visitor, form.key).await? {
        login::KeyCheck::Right(holder) => {
            visitor.log_in(&holder, Some(state.clock.now())).await?;
            logged_in(state, visitor, (transaction, &holder)).await
        }
        // the request stays in the form (`OA-73`)
        login::KeyCheck::Wrong(failure) => {
            let page = login_page(state, visitor, transaction, &form.transaction);
            let page = pages::LoginPage { alert: Some(failure.alert()), ..page.await? };
            Ok(failure.answer(page))
        }
    }
}

/// Leads to the decision about a request for which somebody has just logged in.
pub(super) async fn logged_in(
    state: &WebState,
    visitor: &mut Visitor,
    (transaction, holder): (&Transaction, &KeyHolder),
) -> Result<Response, Problem> {
    match state.oauth.authorization().keep(transaction, &visitor.browser().await?, holder).await? {
        StoreOutcome::Waiting => {
            let next = format!("{}/oauth/consent/{}", state.settings.base(), transaction.id);
            Ok(axum::response::Redirect::to(&next).into_response())
        }
        StoreOutcome::Refused(redirect) => redirect_to_app(state, StatusCode::BAD_REQUEST, &redirect),
        StoreOutcome::Spent => Err(Problem::foreign_form()),
    }
}

/// The next page for a valid request: consent if somebody is logged in, as recently as the app wants (`OA-77`), else
/// login.
async fn proceed(state: &WebState, visitor: &mut Visitor, transaction: &Transaction) -> Result<Response, Problem> {
    let holder = visitor.holder_for(transaction.login).await?;
    let browser = visitor.browser().await?;
    let Some(holder) = holder else {
        let sealed = state.oauth.authorization().seal(transaction, &browser)?;
        let page = login_page(state, visitor, transaction, &sealed).await?;
        return Ok(PageResponse(StatusCode::OK, page).into_response());
    };
    match state.oauth.authorization().keep(transaction, &browser, &holder).await? {
        StoreOutcome::Waiting => ask(state, visitor, &transaction.id).await,
        StoreOutcome::Refused(redirect) => redirect_to_app(state, StatusCode::BAD_REQUEST, &redirect),
        StoreOutcome::Spent => Err(Problem::foreign_form()),
    }
}

/// The consent page of a pending request; without it, the way back to an app for which the operator vouches (`OA-71`).
/// A pending request implies that the person logged in for it (`OA-77`).
async fn ask(state: &WebState, visitor: &mut Visitor, id: &TransactionId) -> Result<Response, Problem> {
    let browser = visitor.browser().await?;
    let pending = pending(state, &browser, id).await?;
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    if !pending.needs_consent(&holder) {
        let redirect = state.oauth.authorization().approve(id, &browser, &holder).await?;
        return redirect_to_app(state, StatusCode::OK, &redirect);
    }
    let scopes = pending.scopes_for(&holder);
    let opened = OpenedServers::new(state, &holder, &pending.endpoint.target, &scopes);
    let page = pages::ConsentPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Transaction(id.as_str())).await?,
        subject: pages::ConsentSubject::App {
            transaction: id.as_str(),
            destination: texts::destination(&pending.redirect),
        },
        client: &pending.client_name,
        origin: &pending.client_origin,
        accounts: accounts::of_grant(state, &holder, &opened).await?,
        permissions: texts::permissions(&scopes, &state.oauth.settings().backends.groups()),
        servers: opened.sentence(state),
        resource: &pending.resource,
        lifetime: texts::span(pending.grant_lifetime),
        user: holder.user_name(),
    };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

async fn pending(state: &WebState, browser: &Browser, id: &TransactionId) -> Result<PendingAuthorization, Problem> {
    state.oauth.authorization().pending(id, browser).await?.ok_or_else(Problem::lapsed)
}

async fn login_page<'a>(
    state: &WebState,
    visitor: &mut Visitor,
    transaction: &'a Transaction,
    sealed: &'a str,
) -> Result<pages::LoginPage<'a>, Problem> {
    let token = visitor.token(Purpose::Transaction(sealed)).await?;
    let request = Some(pages::LoginRequest { transaction: sealed, client: &transaction.client_name });
    let providers = pages::provider_buttons(&state.providers);
    let layout = pages::Layout::new(&state.settings);
    Ok(pages::LoginPage { layout, token, alert: None, request, connect: None, device: None, providers })
}

/// Tells the person that nothing was given, and lets the browser tell the app after a moment (`OA-75`).
fn tell_denial(state: &WebState, client: &str, redirect: &oauth::Redirect) -> Result<Response, Problem> {
    let layout = pages::Layout::new(&state.settings);
    let host = match &redirect.trust {
        Trust::Automatic => None,
        Trust::ShowLink { host, .. } => Some(host.as_str()),
    };
    let page = pages::DeniedPage { layout, client, host, location: &redirect.location };
    let mut answer = PageResponse(StatusCode::OK, page).into_response();
    if host.is_none() {
        let next = format!("{}; url={}", TOLD_AFTER.as_secs(), redirect.location);
        let next = HeaderValue::try_from(next).map_err(|_| Problem::internal())?;
        answer.headers_mut().insert(header::REFRESH, next);
    }
    Ok(answer)
}

/// Redirects the browser to the app, automatically or by a link (`OA-74`, `OA-75`).
fn redirect_to_app(state: &WebState, status: StatusCode, redirect: &oauth::Redirect) -> Result<Response, Problem> {
    match &redirect.trust {
        Trust::Automatic => {
            let location = HeaderValue::try_from(&redirect.location).map_err(|_| Problem::internal())?;
            Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
        }
        Trust::ShowLink { host, reason } => {
            let page = pages::ReturnPage {
                layout: pages::Layout::new(&state.settings),
                reason,
                host,
                location: &redirect.location,
            };
            Ok(PageResponse(status, page).into_response())
        }
    }
}
