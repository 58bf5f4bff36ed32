//! The authorization server (OAuth 2.1, RFC 8414, RFC 7591, RFC 7009). Knows nothing of MCP messages and of pages.
#![expect(clippy::unused_async, reason = "the bodies that await come next")]

pub mod authorize;
pub mod error;
pub mod grants;
pub mod keys;
pub mod settings;

use std::{fmt, sync::Arc};

pub use authorize::{
    Begun, Browser, ClientOrigin, Login, Pending, Redirect, RedirectTarget, Refusal, TransactionId, Trust,
};
pub use error::Error;
pub use grants::GrantView;
pub use keys::{KeyHolder, KeyRefusal};
pub use settings::{AdvertiseIss, ConcealBackends, MasterKeySource, Registration, Settings};
use tokio_util::sync::CancellationToken;

use crate::{
    storage::Storage,
    support::{Clock, Random},
};

/// The authorization server. Cheap to clone.
#[derive(Clone)]
pub struct OAuth(Arc<Inner>);

struct Inner {
    storage: Storage,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    settings: Settings,
}

// === impl OAuth ===

impl OAuth {
    /// Loads or creates what it needs in the store (pepper, signing key) and fills the index of revocations.
    pub async fn open(
        storage: Storage,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        settings: Settings,
    ) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner { storage, clock, random, settings })))
    }

    /// Every endpoint for machines: `/.well-known/*`, `/oauth/{token,register,revoke,jwks}` and the root aliases
    /// `/token` and `/register` (`OA-19`), with CORS, limits and `no-store`. Reads [`crate::model::ClientIp`] from the
    /// request extensions for its limits; without it, every request counts as loopback.
    pub fn router(&self) -> axum::Router {
        axum::Router::new()
    }

    /// What the operator decided.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Follows what other processes revoke on the same database, every 500 ms (`OA-131`), until `cancel`. Run it on the
    /// app's task tracker.
    pub async fn watch_revocations(&self, cancel: CancellationToken) {
        cancel.cancelled().await;
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = (&self.0.storage, &self.0.clock, &self.0.random);
        f.debug_struct("OAuth").field("issuer", &self.0.settings.issuer).finish_non_exhaustive()
    }
}
