//! State and settings of the pages. Knows no page.

use std::sync::Arc;

use url::Url;

use crate::{
    model::status::Status,
    oauth::OAuth,
    storage::Storage,
    support::{Clock, Random},
};

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

// === impl Settings ===

impl Settings {
    /// The defaults for a gateway at `public_url`.
    pub fn new(public_url: Url) -> Self {
        Self { public_url, name: "Lockkeeper".to_owned() }
    }

    /// The path below which the pages lie: empty, or `/path` without a slash at its end.
    pub(super) fn base(&self) -> &str {
        self.public_url.path().trim_end_matches('/')
    }

    /// The public URL without a slash at its end, as clients write it.
    pub(super) fn root(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }

    /// The host and port that people know the gateway by.
    pub(super) fn host(&self) -> String {
        let host = self.public_url.host_str().unwrap_or_default();
        self.public_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}
