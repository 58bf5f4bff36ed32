//! The authorization server (OAuth 2.1, RFC 8414, RFC 7591, RFC 7009). Knows nothing of MCP messages and of pages.
//!
//! A grant is one consent of one user, through one API key, to one client, for one endpoint. Codes, refresh tokens and
//! access tokens rest on it and die with it. What completes the requirements adds files here: a further source of
//! clients beside `registration`, a further way to authenticate in `client_auth`, a further grant type in `token/`.

pub mod access_token;
pub mod authorize;
mod client_auth;
pub mod cors;
pub mod error;
pub mod form;
pub mod grants;
pub mod keys;
pub mod limits;
mod metadata;
pub mod opaque;
pub mod pkce;
pub mod policy;
pub mod problem;
pub mod redirect_uri;
mod registration;
pub mod revocation;
mod revoke;
mod rotation;
mod routes;
pub mod seal;
pub mod settings;
pub mod signing;
mod token;
pub mod verify;

use std::{fmt, sync::Arc};

pub use authorize::{
    Begun, Browser, ClientOrigin, Kept, Login, Pending, Redirect, RedirectTarget, Refusal, Transaction, TransactionId,
    Trust, Unusable,
};
pub use error::Error;
pub use grants::GrantView;
pub use keys::{KeyHolder, KeyRefusal};
use parking_lot::Mutex;
pub use settings::{MasterKeySource, Settings};
pub use verify::{Opens, Verified};
use zeroize::Zeroizing;

use crate::{
    model::GrantId,
    storage::Storage,
    support::{Clock, Digest, Random, Secret},
};

/// The authorization server. Cheap to clone.
#[derive(Clone)]
pub struct OAuth(Arc<Inner>);

struct Inner {
    storage: Storage,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    settings: Settings,
    /// What API keys are hashed with, so that a copy of the database alone cannot be searched for them.
    pepper: Zeroizing<Vec<u8>>,
    signing: signing::SigningKeys,
    /// What authorization requests are sealed under that wait for a login.
    transactions: seal::SealingKey,
    index: revocation::RevocationIndex,
    /// The number of the newest revocation that the index knows.
    seen: tokio::sync::Mutex<i64>,
    remembered: verify::Remembered,
    uses: Mutex<verify::Uses>,
    key_limits: keys::KeyLimits,
    registrations: limits::Buckets<Digest>,
    refreshes: limits::Buckets<GrantId>,
}

// === impl OAuth ===

impl OAuth {
    /// Loads or creates what it needs in the store: the pepper and the signing key, both under the master key.
    pub async fn open(
        storage: Storage,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let master = seal::SealingKey::master(&settings.master_key, &*random)?;
        let pepper = master.kept(&storage, "pepper", &*random).await?;
        let signing = signing::SigningKeys::load(&storage, &master, &*random, clock.now()).await?;
        let transactions = master.for_purpose("authorization requests");
        let seen = storage.newest_revocation().await?;
        Ok(Self(Arc::new(Inner {
            storage,
            clock,
            random,
            settings,
            pepper,
            signing,
            transactions,
            index: revocation::RevocationIndex::default(),
            seen: tokio::sync::Mutex::new(seen),
            remembered: verify::remembered(),
            uses: Mutex::default(),
            key_limits: keys::KeyLimits::default(),
            registrations: registration::limits(),
            refreshes: token::refresh_limits(),
        })))
    }

    /// Every endpoint for machines: `/.well-known/*`, `/oauth/{token,register,revoke,jwks}` and the root aliases
    /// `/token` and `/register` (`OA-19`), with CORS, limits and `no-store`. Reads [`crate::model::ClientIp`] from the
    /// request extensions for its limits; without it, every request counts as loopback.
    pub fn router(&self) -> axum::Router {
        routes::router(self.clone())
    }

    /// 256 fresh random bits.
    pub fn nonce(&self) -> Secret {
        Secret::new(self.0.random.token())
    }

    /// What the operator decided.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("issuer", &self.0.settings.issuer).finish_non_exhaustive()
    }
}
