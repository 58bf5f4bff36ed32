//! Login with an API key, and logout. Knows nothing of what the login is for.

use std::sync::Arc;

use axum::{
    extract,
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::{
    forms::Purpose,
    pages::{self, Page},
    posted::Posted,
    problem::Problem,
    state::State,
    visit::Visitor,
};
use crate::{
    oauth::{KeyHolder, KeyRefusal},
    support::Secret,
};

/// What the login page sends. A field that is missing counts as empty.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    #[serde(default)]
    token: String,
    key: Option<Secret>,
}

/// What a form sends that has buttons alone.
#[derive(Deserialize)]
pub(super) struct ButtonForm {
    #[serde(default)]
    pub(super) token: String,
}

/// Why a login did not do, and whether it may be tried again at once.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    alert: String,
    retry_after: Option<u64>,
}

/// `GET /login`.
pub(super) async fn show(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
) -> Result<Response, Problem> {
    if visitor.holder().await?.is_some() {
        return Ok(to_account(&state));
    }
    let page = page(&state, &mut visitor, None).await?;
    Ok(Page(StatusCode::OK, page).into_response())
}

/// `POST /login`.
pub(super) async fn log_in(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Posted(form): Posted<LoginForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Login, &form.token).await?;
    match check(&state, &visitor, form.key).await? {
        Ok(holder) => {
            visitor.log_in(&holder).await?;
            Ok(to_account(&state))
        }
        Err(failure) => {
            let page = page(&state, &mut visitor, Some(failure.alert.clone())).await?;
            Ok(failure.answer(page))
        }
    }
}

/// `POST /logout`: ends the browser session and nothing else (`OA-133`).
pub(super) async fn log_out(
    extract::State(state): extract::State<Arc<State>>,
    mut visitor: Visitor,
    Posted(form): Posted<ButtonForm>,
) -> Result<Response, Problem> {
    visitor.spend(Purpose::Account, &form.token).await?;
    visitor.log_out().await?;
    tracing::info!(target: "audit", "logout");
    Ok(Redirect::to(&format!("{}/", state.settings.base())).into_response())
}

/// Checks a key that was typed in. Whatever is wrong with it, the page says the same (`OA-73`). Refusals are audited
/// where keys are checked.
pub(super) async fn check(
    state: &State,
    visitor: &Visitor,
    key: Option<Secret>,
) -> Result<Result<KeyHolder, Failure>, Problem> {
    let key = key.unwrap_or_else(|| Secret::new(""));
    match state.oauth.keys().authenticate(key.expose().trim(), visitor.from).await {
        Ok(holder) => {
            tracing::info!(target: "audit", user = %holder.user, key = %holder.key, "login");
            Ok(Ok(holder))
        }
        Err(KeyRefusal::Unknown) => Ok(Err(Failure::wrong())),
        Err(KeyRefusal::Limited { retry_after }) => Ok(Err(Failure::limited(retry_after.as_secs().max(1)))),
        Err(KeyRefusal::Unavailable(error)) => Err(error.into()),
    }
}

async fn page(state: &State, visitor: &mut Visitor, alert: Option<String>) -> Result<pages::Login<'static>, Problem> {
    let token = visitor.token(Purpose::Login).await?;
    Ok(pages::Login { frame: pages::Frame::new(&state.settings), token, alert, request: None })
}

fn to_account(state: &State) -> Response {
    Redirect::to(&format!("{}/account", state.settings.base())).into_response()
}

// === impl Failure ===

impl Failure {
    fn wrong() -> Self {
        let alert = "This key does not open anything here. Check that you copied the whole of it; it begins with lkk_. \
                     If it still fails, ask the operator for a new one.";
        Self { status: StatusCode::FORBIDDEN, alert: alert.to_owned(), retry_after: None }
    }

    fn limited(seconds: u64) -> Self {
        let alert = "Too many wrong keys came from your network or named this key, and this one is wrong too. Check that \
                     you copied the whole of it; a right key logs you in at once.";
        Self { status: StatusCode::TOO_MANY_REQUESTS, alert: alert.to_owned(), retry_after: Some(seconds) }
    }

    /// What to tell on the login page.
    pub(super) fn alert(&self) -> String {
        self.alert.clone()
    }

    /// The login page again, with the status that the failure has.
    pub(super) fn answer(self, page: pages::Login<'_>) -> Response {
        let mut answer = Page(self.status, page).into_response();
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}
