//! Pages for people: start, login, consent, account, connect. Knows nothing of MCP messages; `oauth` handles
//! authorization requests, `openid` logins at providers, and `upstream` logins at servers.
//!
//! Every page works without scripts. The module `error` turns every error into a page or JSON.

mod accept;
mod account;
mod accounts;
mod assets;
mod authorize;
mod bound_logins;
mod connect;
mod connect_address;
mod device;
mod error;
mod forms;
mod login;
pub(crate) mod login_cookie;
mod opened_servers;
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

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::{Next, from_fn, from_fn_with_state},
    response::IntoResponse as _,
    routing::{get, post},
};
use tokio_util::sync::CancellationToken;

use self::problem::Problem;
pub use self::state::{StatusSource, WebSettings, WebState};
use crate::support::panics;

/// Maximum size of a form: 8 KiB (`OA-30`).
const FORM_LIMIT: usize = 8 * 1024;

/// Router of every page, with `/authorize` as an alias of `/oauth/authorize` (`OA-19`) and a fallback for unknown
/// pages. Reads [`crate::model::ClientIp`] and [`crate::model::CorrelationId`] from the request extensions.
pub fn router(state: WebState) -> Router {
    let sessions = session::layer(session::BrowserSessionStore::new(&state), &state.settings);
    let state = Arc::new(state);
    let authorize = get(authorize::begin).post(authorize::decide);
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
        .route("/device/decision", post(device::decide))
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
        .layer(DefaultBodyLimit::max(FORM_LIMIT))
        .layer(from_fn(async |request, next: Next| {
            panics::caught(next.run(request), || Problem::internal().into_response()).await
        }))
        .layer(from_fn_with_state(Arc::clone(&state), error::rescue))
        .with_state(state)
}

// === impl WebState ===

impl WebState {
    /// Deletes expired browser sessions every 10 minutes, until `cancel`. Run it on the app's task tracker.
    pub async fn sweep_sessions(self, cancel: CancellationToken) {
        session::BrowserSessionStore::new(&self).keep_swept(cancel).await;
    }
}
