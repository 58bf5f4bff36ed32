//! Pages for people: start, login, consent, account. Knows nothing of MCP messages; what an authorization request means
//! is `oauth`'s business.
//!
//! Every page works without scripts. Errors become pages, or JSON, in one place, `error`.

mod accept;
mod account;
mod assets;
mod authorize;
mod error;
mod forms;
mod login;
mod pages;
mod posted;
mod same_origin;
mod session;
mod start;
mod visit;
mod words;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::from_fn_with_state,
    response::IntoResponse as _,
    routing::{get, post},
};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use url::Url;

use crate::{
    model::status::Status,
    oauth::OAuth,
    storage::Storage,
    support::{Clock, Random},
};
use error::Problem;

/// The largest form: 8 KiB (`OA-30`).
const FORM_LIMIT: usize = 8 * 1024;

/// Tells the state of the gateway at this moment.
pub type StatusSource = Arc<dyn Fn() -> Status + Send + Sync>;

/// What the pages need.
#[derive(Clone)]
pub struct State {
    /// The authorization server.
    pub oauth: OAuth,
    /// Where browser sessions are kept.
    pub storage: Storage,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where session ids and form tokens come from.
    pub random: Arc<dyn Random>,
    /// What the operator decided.
    pub settings: Settings,
    /// The state of backends and sessions.
    pub status: StatusSource,
}

/// What the operator decides about the pages.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The public URL: links, cookies and the addresses on the start page derive from it alone (`OA-137`).
    pub public_url: Url,
    /// What the gateway calls itself: `Lockkeeper`.
    pub name: String,
}

/// Every page, with `/authorize` as an alias of `/oauth/authorize` (`OA-19`) and a fallback that says that there is no
/// such page. Reads [`crate::model::ClientIp`] and [`crate::model::RequestId`] from the request extensions.
pub fn router(state: State) -> Router {
    let sessions = session::layer(session::Store::new(&state), &state.settings.public_url);
    let state = Arc::new(state);
    let authorize = get(authorize::begin).post(authorize::decide);
    Router::new()
        .route("/", get(start::show))
        .route("/oauth/authorize", authorize.clone())
        .route("/authorize", authorize)
        .route("/oauth/consent/{transaction}", get(authorize::show))
        .route("/login", get(login::show).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/account", get(account::show))
        .route("/account/revoke", post(account::revoke))
        .route("/account/revoke-all", post(account::revoke_all))
        .route("/assets/{file}", get(assets::serve))
        .route("/favicon.ico", get(assets::favicon))
        .fallback(async || Problem::not_found())
        .layer(sessions)
        .layer(DefaultBodyLimit::max(FORM_LIMIT))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            tracing::error!(panic = text.unwrap_or("(no message)"), "a page panicked");
            Problem::internal().into_response()
        }))
        .layer(from_fn_with_state(Arc::clone(&state), error::rescue))
        .with_state(state)
}

// === impl Settings ===

impl Settings {
    /// The defaults for a gateway at `public_url`.
    pub fn new(public_url: Url) -> Self {
        Self { public_url, name: "Lockkeeper".to_owned() }
    }

    /// The path below which the pages lie: empty, or `/path` without a slash at its end.
    fn base(&self) -> &str {
        self.public_url.path().trim_end_matches('/')
    }

    /// The public URL without a slash at its end, as clients write it.
    fn root(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }

    /// The host and port that people know the gateway by.
    fn host(&self) -> String {
        let host = self.public_url.host_str().unwrap_or_default();
        self.public_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

// === impl State ===

impl State {
    /// Deletes expired browser sessions every 10 minutes, until `cancel`. Run it on the app's task tracker.
    pub async fn sweep_sessions(self, cancel: CancellationToken) {
        session::Store::new(&self).keep_swept(cancel).await;
    }

    /// What every page shows.
    fn frame(&self) -> pages::Frame {
        pages::Frame {
            base: self.settings.base().to_owned(),
            name: self.settings.name.clone(),
            host: self.settings.host(),
            style: assets::style_path(),
            mark: assets::mark_path(),
        }
    }
}
