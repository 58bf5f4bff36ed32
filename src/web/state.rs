//! State and settings of the pages.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use url::Url;

use crate::{
    model::{
        BackendId, Target, UserId,
        status::{ListedClients, Status, ToolCounts},
    },
    oauth::OAuth,
    openid::Providers,
    storage::Storage,
    support::{Clock, Random},
    upstream::Upstream,
};

/// Returns the current status of the gateway, with the requested clients.
pub type StatusSource = Arc<dyn Fn(ListedClients<'_>) -> Status + Send + Sync>;

/// Counts the tools of one server that an app of this user would see at an endpoint; `None` as long as they are not
/// known.
pub type ToolCounter = Arc<dyn Fn(&Target, &BackendId, &UserId) -> Option<ToolCounts> + Send + Sync>;

/// State of the pages.
#[derive(Clone)]
pub struct WebState {
    pub oauth: OAuth,
    /// The gateway as a client of protected servers.
    pub upstream: Upstream,
    /// The OpenID providers where people log in.
    pub providers: Providers,
    /// Storage of browser sessions.
    pub storage: Storage,
    pub clock: Arc<dyn Clock>,
    /// Source of session ids and form tokens.
    pub random: Arc<dyn Random>,
    pub settings: WebSettings,
    /// Tracks the handling of submissions, which goes on if the browser disconnects.
    pub tasks: TaskTracker,
    /// Source of the status of backends and sessions.
    pub status: StatusSource,
    /// Counts tools for the consent page.
    pub tools: ToolCounter,
}

/// Settings of the pages.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// Public URL: base of links, cookies and the addresses on the start page (`OA-137`).
    pub public_url: Url,
    /// Name of the gateway: `Lockkeeper`.
    pub name: String,
}

// === impl WebSettings ===

impl WebSettings {
    /// Defaults for a gateway at `public_url`.
    pub fn new(public_url: Url) -> Self {
        Self { public_url, name: "Lockkeeper".to_owned() }
    }

    /// Base path of the pages: empty, or `/path` without a trailing slash.
    pub(super) fn base(&self) -> &str {
        self.public_url.path().trim_end_matches('/')
    }

    /// Name of the session cookie, and prefix of the other cookies' names. With https it begins with `__Host-`, which
    /// binds a cookie to this host; browsers refuse that from a loopback gateway without TLS. They send a cookie to
    /// every port of a host, so a port other than the default one is in the name.
    pub(super) fn cookie_name(&self) -> String {
        let prefix = if self.is_https() { "__Host-" } else { "" };
        let port = self.public_url.port().map(|port| format!("-{port}")).unwrap_or_default();
        format!("{prefix}lockkeeper{port}")
    }

    /// True if browsers reach the gateway over https.
    pub(super) fn is_https(&self) -> bool {
        self.public_url.scheme() == "https"
    }

    /// The public URL without a trailing slash.
    pub(super) fn root(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }

    /// Host and port of the public URL.
    pub(super) fn host(&self) -> String {
        let host = self.public_url.host_str().unwrap_or_default();
        self.public_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}
