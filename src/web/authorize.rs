//! The pages of the authorization endpoint: login, decision, and redirect to the app. `oauth` checks the request; this
//! file handles HTML and redirects.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{self, Path, RawQuery},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    consent::{self, ConsentRequest, RefusedChoice},
    consent_page, decided,
    form_fields::FormFields,
    forms::Purpose,
    login,
    pages::{self, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    texts,
    visitor::{ShownForm, Visitor},
};
use crate::{
    model::{ClientIp, RefusalCode, RefusalReason},
    oauth::{
        self, BeginOutcome, ChosenServers, DecisionOutcome, KeyHolder, RequestSource, RequestState, SentDecision,
        ServerChoice, StoreOutcome, Transaction, TransactionId, Trust,
    },
    support::Secret,
};

/// Time to read the denial before the browser goes on to the app.
const TOLD_AFTER: Duration = Duration::from_secs(3);

/// Form of the login and consent pages. A missing field counts as empty.
#[derive(Deserialize)]
#[serde(try_from = "FormFields")]
pub(super) struct DecisionForm {
    /// Id of a pending request, or, on a login page, the whole request, sealed (`OA-68`).
    transaction: String,
    token: String,
    decision: Option<Decision>,
    /// API key; only the login page sends it.
    key: Option<Secret>,
    /// The chosen servers; only the consent page sends them.
    servers: ChosenServers,
}

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
        BeginOutcome::Redirect(redirect) => redirect_to_app(&state, &redirect),
        BeginOutcome::Page(refusal) => Err(refusal.into()),
    }
}

/// `GET /oauth/consent/{transaction}`: the page after a login. It has its own address, so that a reload does not send
/// the key again.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    Path(transaction): Path<String>,
) -> Result<Response, Problem> {
    let id = TransactionId::parse(&transaction).ok_or_else(Problem::lapsed)?;
    ask(&state, &mut visitor, &id, None).await
}

/// `POST /oauth/authorize`: the forms of the login and consent pages.
pub(super) async fn decide(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<DecisionForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Transaction(&form.transaction), &form.token);
    match TransactionId::parse(&form.transaction) {
        Some(id) => match shown {
            Ok(shown) => decide_waiting(&state, &mut visitor, &id, &shown, &form).await,
            Err(foreign) => Err(decided::of_another(&state, &visitor, &id).await?.unwrap_or(foreign)),
        },
        None => decide_sealed(&state, &mut visitor, &shown?, form).await,
    }
}

/// Handles the consent form. Every approval takes a click by a logged-in person, even if the person approved the app
/// before, unless the operator vouches for the app (`OA-71`).
async fn decide_waiting(
    state: &WebState,
    visitor: &mut Visitor,
    id: &TransactionId,
    shown: &ShownForm,
    form: &DecisionForm,
) -> Result<Response, Problem> {
    let browser = visitor.browser().await?;
    let holder = visitor.holder().await?;
    if matches!(state.oauth.authorization().look_up(id, &browser).await?, RequestState::Unknown) {
        return Err(decided::of_another(state, visitor, id).await?.unwrap_or_else(Problem::lapsed));
    }
    let token = Secret::new(&*form.token);
    let sent = SentDecision { id, browser: &browser, form: &token };
    let outcome = match form.decision {
        // a form shown before a login never approves
        Some(Decision::Approve) if shown.is_current => {
            let holder = holder.ok_or_else(Problem::logged_out)?;
            state.oauth.authorization().approve(sent, &holder, ServerChoice::Of(&form.servers)).await?
        }
        Some(Decision::Deny) => state.oauth.authorization().deny(sent, holder.as_ref()).await?,
        Some(Decision::Approve | Decision::LogIn) | None => return Ok(to_consent(state, id)),
    };
    match outcome {
        DecisionOutcome::Answer { redirect, client_name } if form.decision == Some(Decision::Deny) => {
            tell_denial(state, &client_name, &redirect)
        }
        DecisionOutcome::Answer { redirect, .. } => redirect_to_app(state, &redirect),
        DecisionOutcome::Before(request) => Ok(decided::page(state, &request)),
        DecisionOutcome::Unchosen(refusal) => {
            ask(state, visitor, id, Some(RefusedChoice { servers: &form.servers, refusal })).await
        }
    }
}

/// Handles the login form. Denying needs no login.
async fn decide_sealed(
    state: &WebState,
    visitor: &mut Visitor,
    shown: &ShownForm,
    form: DecisionForm,
) -> Result<Response, Problem> {
    let transaction = state.oauth.authorization().unseal(&form.transaction, &shown.visit.browser()).await?;
    match form.decision {
        Some(Decision::LogIn) => log_in(state, visitor, &transaction, shown, form).await,
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
    shown: &ShownForm,
    form: DecisionForm,
) -> Result<Response, Problem> {
    match login::check(state, visitor, form.key).await? {
        login::KeyCheck::Right(holder) => {
            visitor.log_in(&holder, Some(state.clock.now())).await?;
            logged_in(state, visitor, transaction, &holder).await
        }
        // the request stays in the form (`OA-73`)
        login::KeyCheck::Wrong(failure) => {
            let sealed = if shown.is_current {
                form.transaction
            } else {
                state.oauth.authorization().seal(transaction, &visitor.present().await?.browser())?
            };
            let page = login_page(state, visitor, transaction, &sealed).await?;
            let page = pages::LoginPage { alert: Some(failure.alert()), ..page };
            Ok(failure.answer(page))
        }
    }
}

/// Leads a visitor who has just logged in to the consent page of a request.
pub(super) async fn logged_in(
    state: &WebState,
    visitor: &mut Visitor,
    transaction: &Transaction,
    holder: &KeyHolder,
) -> Result<Response, Problem> {
    match state.oauth.authorization().keep(transaction, &visitor.browser().await?, holder).await? {
        // a spent request was decided, or belongs to someone else: the page says so
        StoreOutcome::Waiting | StoreOutcome::Spent => Ok(to_consent(state, &transaction.id)),
        StoreOutcome::Refused(redirect) => redirect_to_app(state, &redirect),
    }
}

/// Redirects to the page of a request, so that a reload does not send a form again.
fn to_consent(state: &WebState, id: &TransactionId) -> Response {
    axum::response::Redirect::to(&format!("{}/oauth/consent/{id}", state.settings.base())).into_response()
}

/// The next page for a valid request: consent for a visitor who logged in as recently as the app wants (`OA-77`), else
/// login.
async fn proceed(state: &WebState, visitor: &mut Visitor, transaction: &Transaction) -> Result<Response, Problem> {
    let holder = if transaction.chooses { None } else { visitor.holder_for(transaction.login).await? };
    let browser = visitor.browser().await?;
    let Some(holder) = holder else {
        let sealed = state.oauth.authorization().seal(transaction, &visitor.present().await?.browser())?;
        let page = login_page(state, visitor, transaction, &sealed).await?;
        return Ok(PageResponse(StatusCode::OK, page).into_response());
    };
    match state.oauth.authorization().keep(transaction, &browser, &holder).await? {
        StoreOutcome::Waiting | StoreOutcome::Spent => ask(state, visitor, &transaction.id, None).await,
        StoreOutcome::Refused(redirect) => redirect_to_app(state, &redirect),
    }
}

/// The consent page of a pending request; or a redirect back to an app that the operator vouches for (`OA-71`). The
/// person has logged in for a pending request (`OA-77`). After a choice that grants nothing, `refused` contains the
/// choice, and the page says why.
async fn ask(
    state: &WebState,
    visitor: &mut Visitor,
    id: &TransactionId,
    refused: Option<RefusedChoice<'_>>,
) -> Result<Response, Problem> {
    let browser = visitor.browser().await?;
    let pending = match state.oauth.authorization().look_up(id, &browser).await? {
        RequestState::Waiting(pending) => pending,
        RequestState::Decided(request) => return Ok(decided::page(state, &request)),
        RequestState::Unknown => {
            return Err(decided::of_another(state, visitor, id).await?.unwrap_or_else(Problem::lapsed));
        }
    };
    let holder = visitor.holder().await?.ok_or_else(Problem::logged_out)?;
    if !pending.needs_consent(&holder) {
        // there is no form, so the id stands in for its token: only this browser knows it
        let token = Secret::new(id.as_str());
        let sent = SentDecision { id, browser: &browser, form: &token };
        return match state.oauth.authorization().approve(sent, &holder, ServerChoice::AsAsked).await? {
            DecisionOutcome::Answer { redirect, .. } => redirect_to_app(state, &redirect),
            DecisionOutcome::Before(request) => Ok(decided::page(state, &request)),
            // there was nothing to choose
            DecisionOutcome::Unchosen(_) => Err(Problem::internal()),
        };
    }
    let (target, scopes) = (&pending.endpoint.target, &pending.scopes_for(&holder));
    let page = consent_page::ConsentPage {
        layout: pages::Layout::new(&state.settings),
        token: visitor.token(Purpose::Transaction(id.as_str())).await?,
        subject: consent_page::ConsentSubject::App {
            transaction: id.as_str(),
            destination: texts::destination(&pending.redirect),
        },
        client: &pending.client_name,
        origin: (&pending.client_origin).into(),
        choice: consent::choice(state, ConsentRequest { holder: &holder, target, scopes, refused }).await?,
        resource: &pending.resource,
        lifetime: texts::span(pending.grant_lifetime),
        user: holder.user_name(),
    };
    let status = if refused.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok(PageResponse(status, page).into_response())
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

/// Shows that access was denied, and redirects to the app after a moment (`OA-75`).
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

/// Redirects the browser to the app, automatically or, for an error, by a link (`OA-74`, `OA-75`).
fn redirect_to_app(state: &WebState, redirect: &oauth::Redirect) -> Result<Response, Problem> {
    match &redirect.trust {
        Trust::Automatic if oauth::redirect_uri::RedirectUri::stored(&redirect.location).is_of_app() => {
            open_app(state, &redirect.location)
        }
        Trust::Automatic => {
            let location = HeaderValue::try_from(&redirect.location).map_err(|_| Problem::internal())?;
            Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
        }
        Trust::ShowLink { host, reason } => {
            let (layout, refusal) = (pages::Layout::new(&state.settings), RefusalCode::mint(&*state.random));
            let told = texts::plain(reason);
            let page = pages::ReturnPage { layout, reason: &told, host, location: &redirect.location, refusal };
            let mut answer = PageResponse(StatusCode::BAD_REQUEST, page).into_response();
            answer.extensions_mut().insert(RefusalReason { reason: reason.clone().into(), code: Some(refusal) });
            Ok(answer)
        }
    }
}

/// A page that opens an app by its own URL scheme. After a redirect to it, browsers would keep showing the previous
/// page.
fn open_app(state: &WebState, location: &str) -> Result<Response, Problem> {
    let scheme = location.split_inclusive(':').next().unwrap_or_default();
    let page = pages::OpenedPage { layout: pages::Layout::new(&state.settings), scheme, location };
    let mut answer = PageResponse(StatusCode::OK, page).into_response();
    let next = HeaderValue::try_from(format!("0; url={location}")).map_err(|_| Problem::internal())?;
    answer.headers_mut().insert(header::REFRESH, next);
    Ok(answer)
}

// === impl DecisionForm ===

impl TryFrom<FormFields> for DecisionForm {
    type Error = serde::de::value::Error;

    fn try_from(mut fields: FormFields) -> Result<Self, Self::Error> {
        Ok(Self {
            transaction: fields.once("transaction")?.unwrap_or_default(),
            token: fields.once("token")?.unwrap_or_default(),
            decision: fields.button()?,
            key: fields.once("key")?.map(Secret::new),
            servers: fields.servers(),
        })
    }
}
