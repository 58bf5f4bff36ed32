//! Login with an API key, and logout.

use std::sync::Arc;

use axum::{
    extract,
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    choice,
    connect_address::ConnectAddress,
    forms::Purpose,
    pages::{self, Alert, PageResponse},
    posted_form::PostedForm,
    problem::Problem,
    state::WebState,
    visitor::Visitor,
};
use crate::{
    audit::LoginEvent,
    model::{RefusalCode, RefusalReason},
    oauth::{KeyHolder, KeyRefusal, UserCode},
    support::{Secret, pasted},
};

/// Form of the login page. A missing field counts as empty.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    #[serde(default)]
    token: String,
    key: Option<Secret>,
    /// The connect page to continue with.
    connect: Option<String>,
    /// Code of a device waiting for the login; empty if it is entered later.
    device: Option<String>,
}

/// Form with only buttons.
#[derive(Deserialize)]
pub(super) struct ButtonForm {
    #[serde(default)]
    pub(super) token: String,
}

/// A failed login; with a limit, also the time until a retry.
#[derive(Debug)]
pub(super) struct LoginFailure {
    status: StatusCode,
    alert: Alert,
    retry_after: Option<u64>,
}

/// The outcome of checking a key from a form.
pub(super) enum KeyCheck {
    Right(KeyHolder),
    /// Not logged in; the page says why.
    Wrong(LoginFailure),
}

/// `GET /login`.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
) -> Result<Response, Problem> {
    if visitor.holder().await?.is_some() {
        return Ok(to_account(&state));
    }
    let page = page(&state, &mut visitor, None).await?;
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// `POST /login`.
pub(super) async fn log_in(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<LoginForm>,
) -> Result<Response, Problem> {
    visitor.shown(Purpose::Login, &form.token)?;
    let connect = form.connect.as_deref().and_then(ConnectAddress::parse);
    match check(&state, &visitor, form.key).await? {
        KeyCheck::Right(holder) => {
            visitor.log_in(&holder, Some(state.clock.now())).await?;
            Ok(match form.device {
                Some(code) => to_device(&state, &code),
                None => go_on(&state, connect.as_ref()),
            })
        }
        KeyCheck::Wrong(failure) => {
            let page = page(&state, &mut visitor, Some(failure.alert)).await?;
            Ok(failure.answer(pages::LoginPage {
                connect: connect.map(|address| address.text()),
                device: form.device,
                ..page
            }))
        }
    }
}

/// `POST /logout`: ends the browser session and nothing else (`OA-133`).
pub(super) async fn log_out(
    extract::State(state): extract::State<Arc<WebState>>,
    mut visitor: Visitor,
    PostedForm(form): PostedForm<ButtonForm>,
) -> Result<Response, Problem> {
    let shown = visitor.shown(Purpose::Account, &form.token)?;
    let holder = visitor.holder().await?;
    if holder.is_some() && !shown.is_current {
        // somebody logged in after the form was shown
        return Ok(to_account(&state));
    }
    if visitor.is_logged_in() {
        visitor.log_out().await?;
        let user = holder.map(|holder| holder.user);
        state.oauth.audit().record(LoginEvent::LoggedOut { user });
    }
    Ok(to_start(&state))
}

/// Checks a key from the login form. The page shows the same text for every kind of wrong key (`OA-73`).
pub(super) async fn check(state: &WebState, visitor: &Visitor, key: Option<Secret>) -> Result<KeyCheck, Problem> {
    let key = key.unwrap_or_else(|| Secret::new(""));
    match state.oauth.keys().authenticate(pasted(key.expose()), visitor.from).await {
        Ok(holder) => {
            let (user, key) = (holder.user.clone(), holder.key.clone());
            state.oauth.audit().record(LoginEvent::LoggedIn { user, key });
            Ok(KeyCheck::Right(holder))
        }
        Err(KeyRefusal::Unknown) => Ok(KeyCheck::Wrong(LoginFailure::wrong(RefusalCode::mint(&*state.random)))),
        Err(KeyRefusal::Limited { retry_after }) => {
            let seconds = retry_after.as_secs().max(1);
            Ok(KeyCheck::Wrong(LoginFailure::limited(RefusalCode::mint(&*state.random), seconds)))
        }
        Err(KeyRefusal::Unavailable(error)) => Err(error.into()),
    }
}

/// The login page that leads to the account page.
pub(super) async fn page(
    state: &WebState,
    visitor: &mut Visitor,
    alert: Option<Alert>,
) -> Result<pages::LoginPage<'static>, Problem> {
    let token = visitor.token(Purpose::Login).await?;
    let providers = pages::provider_buttons(&state.providers);
    let layout = pages::Layout::new(&state.settings);
    Ok(pages::LoginPage { layout, token, alert, request: None, connect: None, device: None, providers })
}

/// The login page in front of a connect page.
pub(super) async fn ask_for(
    state: &WebState,
    visitor: &mut Visitor,
    address: &ConnectAddress,
) -> Result<Response, Problem> {
    let page = pages::LoginPage { connect: Some(address.text()), ..page(state, visitor, None).await? };
    Ok(PageResponse(StatusCode::OK, page).into_response())
}

/// Redirects to the connect page that asked for the login, or to the account page.
pub(super) fn go_on(state: &WebState, connect: Option<&ConnectAddress>) -> Response {
    match connect {
        Some(address) => Redirect::to(&format!("{}/connect/{}", state.settings.base(), address.text())).into_response(),
        None => to_account(state),
    }
}

/// Redirects to the page for entering a device's code, with this code filled in.
pub(super) fn to_device(state: &WebState, code: &str) -> Response {
    let base = state.settings.base();
    let path = match UserCode::parse(code) {
        Some(code) => format!("{base}/device?user_code={code}"),
        None => format!("{base}/device"),
    };
    Redirect::to(&path).into_response()
}

/// Redirects to the start page after a logout. The next login at a provider begins with a choice of accounts.
pub(super) fn to_start(state: &WebState) -> Response {
    let mut answer = Redirect::to(&format!("{}/", state.settings.base())).into_response();
    if state.providers.specs().next().is_some() {
        answer.headers_mut().append(header::SET_COOKIE, choice::cookie(&state.settings, true));
    }
    answer
}

fn to_account(state: &WebState) -> Response {
    Redirect::to(&format!("{}/account", state.settings.base())).into_response()
}

// === impl LoginFailure ===

impl LoginFailure {
    fn wrong(refusal: RefusalCode) -> Self {
        let text = "This key is not valid. Check that you copied all of it; it begins with lkk_. \
                     If it still fails, ask the operator for a new key.";
        Self { status: StatusCode::FORBIDDEN, alert: Alert { text, refusal }, retry_after: None }
    }

    fn limited(refusal: RefusalCode, seconds: u64) -> Self {
        let text = "Too many wrong keys came from your network or named this key, and this one is wrong too. Check that \
                     you copied all of it; a valid key logs you in at once.";
        let alert = Alert { text, refusal };
        Self { status: StatusCode::TOO_MANY_REQUESTS, alert, retry_after: Some(seconds) }
    }

    /// The alert on the login page.
    pub(super) const fn alert(&self) -> Alert {
        self.alert
    }

    /// Shows the login page again, with the status of the failure.
    pub(super) fn answer(self, page: pages::LoginPage<'_>) -> Response {
        let mut answer = PageResponse(self.status, page).into_response();
        // the code is random, so it does not reveal why the key is wrong
        let code = Some(self.alert.refusal);
        answer.extensions_mut().insert(RefusalReason { reason: "the API key was refused".into(), code });
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}
