//! Pages for people: start, login, consent, device, invitation, account, connect. `oauth` handles authorization
//! requests, `openid` logins at providers, and `upstream` logins at servers.
//!
//! Every page works without scripts; the only script marks a pressed button and keeps its form from being sent twice.
//! The module `error` turns every error into a page or JSON.

mod accept;
mod account;
mod account_page;
mod accounts;
mod app_grants;
mod assets;
mod authorize;
mod bound_logins;
mod choice;
mod connect;
mod connect_address;
mod consent;
mod consent_page;
mod decided;
mod device;
mod error;
mod form_fields;
mod forms;
mod host_name;
mod invite;
mod login;
pub(crate) mod login_cookie;
mod pages;
mod posted_form;
mod problem;
mod provider_login;
mod provider_logout;
mod same_origin;
mod secrets;
mod session;
mod start;
mod state;
mod texts;
mod visitor;
mod visits;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use http::header;
use tokio_util::sync::CancellationToken;

use self::problem::Problem;
pub use self::state::{StatusSource, ToolCounter, WebSettings, WebState};
use crate::support::{log_context::carried_fields, panics};

/// Maximum size of a form: 8 KiB (`OA-30`).
const FORM_LIMIT: usize = 8 * 1024;
/// Maximum size of a form that names servers: 64 KiB, enough for more than a thousand.
const CONSENT_FORM_LIMIT: usize = 64 * 1024;

/// Router of all pages, with `/authorize` as an alias of `/oauth/authorize` (`OA-19`) and a fallback for unknown pages.
/// Reads [`crate::model::ClientIp`] and [`crate::model::CorrelationId`] from the request extensions.
pub fn router(state: WebState) -> Router {
    let sessions = session::layer(session::BrowserSessionStore::new(&state), &state.settings);
    let state = Arc::new(state);
    let names_servers = || DefaultBodyLimit::max(CONSENT_FORM_LIMIT);
    let authorize = get(authorize::begin).post(authorize::decide).layer(names_servers());
    let device_decision = get(device::show_decision).post(device::decide).layer(names_servers());
    Router::new()
        .route("/", get(start::show))
        .route("/oauth/authorize", authorize.clone())
        .route("/authorize", authorize)
        .route("/oauth/consent/{transaction}", get(authorize::show))
        .route("/login", get(login::show).post(login::log_in))
        .route("/oauth/login/start", post(provider_login::begin))
        .route("/oauth/login/callback/{provider}", get(provider_login::finish))
        .route("/oauth/login/backchannel/{provider}", post(provider_logout::receive))
        .route("/device", get(device::show).post(device::enter))
        .route("/device/decision", device_decision)
        .route("/invite", get(invite::show).post(invite::accept).layer(from_fn(invite::unlisted)))
        .route("/logout", post(login::log_out))
        .route("/account", get(account::show))
        .route("/account/revoke", post(account::revoke))
        .route("/account/disconnect", post(connect::disconnect))
        .route("/account/secret", post(secrets::decide))
        .route("/connect/{backend}", get(connect::show).post(connect::decide))
        .route("/connect/{backend}/done", get(connect::done))
        .route("/oauth/upstream/callback/{backend}", get(connect::finish))
        .route("/account/revoke-all", post(account::revoke_all))
        .route("/assets/{file}", get(assets::serve))
        .route("/favicon.ico", get(assets::favicon))
        .fallback(async || Problem::not_found())
        .layer(sessions)
        .layer(from_fn_with_state(Arc::clone(&state), remember_visits))
        .layer(DefaultBodyLimit::max(FORM_LIMIT))
        .layer(from_fn(async |request, next: Next| {
            panics::caught(next.run(request), || Problem::internal().into_response()).await
        }))
        .layer(from_fn_with_state(Arc::clone(&state), to_the_end))
        .layer(from_fn_with_state(Arc::clone(&state), error::rescue))
        .with_state(state)
}

/// True for paths that a person opens in a browser, perhaps by typing them without `https`; false for endpoints of
/// programs.
pub fn is_page(path: &str) -> bool {
    const PAGES: [&str; 9] = [
        "/",
        "/login",
        "/account",
        "/device",
        "/device/decision",
        "/authorize",
        "/oauth/authorize",
        "/invite",
        "/favicon.ico",
    ];
    PAGES.contains(&path) || ["/connect/", "/assets/", "/oauth/consent/"].iter().any(|start| path.starts_with(start))
}

/// Middleware: sets a cookie for each visit that the browser is to remember.
async fn remember_visits(State(state): State<Arc<WebState>>, mut request: Request, next: Next) -> Response {
    let (new, headers) = (visits::NewVisits::default(), request.headers().clone());
    request.extensions_mut().insert(new.clone());
    let mut answer = next.run(request).await;
    for cookie in new.cookies(&headers, &state.settings, state.clock.now()) {
        answer.headers_mut().append(header::SET_COOKIE, cookie);
    }
    answer
}

/// Middleware: finishes handling a submitted form or a callback even if the browser disconnects, as it does when a
/// button is pressed twice (`OA-150`). A page that is only read is dropped with its request.
async fn to_the_end(State(state): State<Arc<WebState>>, request: Request, next: Next) -> Response {
    if request.method().is_safe() && !request.uri().path().contains("/callback/") {
        return next.run(request).await;
    }
    let fields = carried_fields();
    let handling = async move {
        match fields {
            Some(fields) => fields.around(next.run(request)).await,
            None => next.run(request).await,
        }
    };
    state.tasks.spawn(handling).await.unwrap_or_else(|_| Problem::internal().into_response())
}

// === impl WebState ===

impl WebState {
    /// Deletes expired browser sessions every 10 minutes, until `cancel`. Run it on the app's task tracker.
    pub async fn sweep_sessions(self, cancel: CancellationToken) {
        session::BrowserSessionStore::new(&self).keep_swept(cancel).await;
    }
}
