//! The authorization server (OAuth 2.1, RFC 8414, RFC 7591, RFC 7009). Knows nothing of MCP messages and of pages.
//!
//! A grant is one consent of one user, through one API key, to one client, for one endpoint. Codes, refresh tokens and
//! access tokens rest on it and die with it. What completes the requirements adds files here: a further source of
//! clients beside `registration`, a further way to authenticate in `client_auth`, a further grant type in `token/`.

pub mod access_token;
pub mod authorize;
mod client_auth;
mod clients;
mod core;
pub mod cors;
pub mod error;
pub mod form;
pub mod grants;
pub mod keys;
pub mod limits;
mod metadata;
pub mod opaque;
mod pepper;
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
mod uses;
pub mod verify;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

pub use self::{
    authorize::{
        Authorization, Begun, Browser, ClientOrigin, Kept, Login, Pending, Redirect, Refusal, Transaction,
        TransactionId, Trust, Unusable,
    },
    clients::Clients,
    error::Error,
    grants::{GrantView, Grants},
    keys::{KeyHolder, KeyRefusal, Keys},
    redirect_uri::RedirectTarget,
    settings::{MasterKeySource, Settings},
    verify::{Opens, Verified},
};
use self::{
    core::Core, pepper::Pepper, registration::Registrations, revocation::Revocations, revoke::RevocationEndpoint,
    routes::Endpoints, signing::SigningKeys, token::TokenEndpoint, uses::Uses, verify::Verifier,
};
use crate::{
    storage::Storage,
    support::{Clock, Random, SealingKey, Secret},
};

/// The pause between two looks for other processes' revocations.
const POLL: Duration = Duration::from_millis(500);
/// The number of polls after which what lapsed is cleared away: every 10 minutes.
const PURGE_EVERY: u32 = 1200;

/// The authorization server: its services. Cheap to clone.
#[derive(Clone)]
pub struct OAuth(Arc<Services>);

struct Services {
    core: Core,
    keys: Arc<Keys>,
    grants: Grants,
    clients: Clients,
    authorization: Authorization,
    verifier: Verifier,
    registrations: Arc<Registrations>,
    revocations: Arc<Revocations>,
    uses: Arc<Uses>,
    endpoints: Endpoints,
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
        let core = Core { storage, clock, random, settings: Arc::new(settings) };
        let master = seal::master_key(&core.settings.master_key, &*core.random)?;
        let pepper = Arc::new(Pepper::new(seal::kept(&master, &core.storage, "pepper", &*core.random).await?));
        let signing = SigningKeys::load(&core.storage, &master, &*core.random, core.now()).await?;
        let requests = master.for_purpose("authorization requests");
        let uses = Arc::new(Uses::new(core.clone()));
        let revocations = Arc::new(Revocations::open(core.clone(), Arc::clone(&uses)).await?);
        Ok(Self(Arc::new(Services::new(core, pepper, Arc::new(signing), (revocations, uses), requests))))
    }

    /// API keys.
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// Grants.
    pub fn grants(&self) -> &Grants {
        &self.0.grants
    }

    /// Registered clients.
    pub fn clients(&self) -> &Clients {
        &self.0.clients
    }

    /// The authorization endpoint.
    pub fn authorization(&self) -> &Authorization {
        &self.0.authorization
    }

    /// The person or program behind a presented access token or API key; `from` is for the limits of wrong keys.
    pub async fn verify(&self, presented: &str, from: IpAddr) -> Result<Arc<Verified>, KeyRefusal> {
        self.0.verifier.verify(presented, from).await
    }

    /// True if a credential that was verified before may still be used.
    pub fn holds(&self, verified: &Verified) -> bool {
        self.0.verifier.holds(verified)
    }

    /// Every endpoint for machines: `/.well-known/*`, `/oauth/{token,register,revoke,jwks}` and the root aliases
    /// `/token` and `/register` (`OA-19`), with CORS, limits and `no-store`. Reads [`crate::model::ClientIp`] from the
    /// request extensions for its limits; without it, every request counts as loopback.
    pub fn router(&self) -> axum::Router {
        routes::router(self.0.endpoints.clone())
    }

    /// Follows what other processes revoke on the same database, every 500 ms (`OA-131`), writes down what was used, and
    /// clears away what lapsed, until `cancel`. Run it on the app's task tracker.
    pub async fn watch_revocations(&self, cancel: CancellationToken) {
        let mut timer = tokio::time::interval(POLL);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut round: u32 = 0;
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            if let Err(error) = self.sync().await {
                tracing::warn!(%error, "revocations could not be read; tried again in 500 ms");
            }
            // at the start too: what expired while nothing ran goes before it is in the way
            let due = round.is_multiple_of(PURGE_EVERY);
            round = round.wrapping_add(1);
            if due && let Err(error) = self.purge().await {
                tracing::warn!(%error, "what lapsed could not be cleared away; tried again in 10 min");
            }
        }
        if let Err(error) = self.0.uses.write().await {
            tracing::warn!(%error, "what was used last could not be written down");
        }
    }

    /// One round: reads what was revoked since the last, by whomever, and writes down what was used.
    pub async fn sync(&self) -> Result<(), Error> {
        self.0.revocations.sync().await
    }

    /// Clears away what lapsed.
    pub async fn purge(&self) -> Result<(), Error> {
        let now = self.0.core.now();
        self.0.revocations.index().purge(now);
        self.0.registrations.purge(now).await?;
        Ok(self.0.core.storage.transactions().purge_authorization(now).await?)
    }

    /// 256 fresh random bits.
    pub fn nonce(&self) -> Secret {
        Secret::new(self.0.core.random.token())
    }

    /// The operator's settings.
    pub fn settings(&self) -> &Settings {
        &self.0.core.settings
    }
}

// === impl Services ===

impl Services {
    fn new(
        core: Core,
        pepper: Arc<Pepper>,
        signing: Arc<SigningKeys>,
        (revocations, uses): (Arc<Revocations>, Arc<Uses>),
        requests: SealingKey,
    ) -> Self {
        let (r, u) = (|| Arc::clone(&revocations), || Arc::clone(&uses));
        let keys = Arc::new(Keys::new(core.clone(), Arc::clone(&pepper), r(), u()));
        let registrations = Arc::new(Registrations::new(core.clone(), pepper));
        let endpoints = Endpoints {
            settings: Arc::clone(&core.settings),
            token: Arc::new(TokenEndpoint::new(Arc::clone(&keys), Arc::clone(&signing), r(), u())),
            registrations: Arc::clone(&registrations),
            revocation: Arc::new(RevocationEndpoint {
                core: core.clone(),
                signing: Arc::clone(&signing),
                revocations: r(),
            }),
            signing: Arc::clone(&signing),
        };
        Self {
            grants: Grants { core: core.clone(), revocations: r() },
            clients: Clients { core: core.clone(), revocations: r() },
            authorization: Authorization::new(Arc::clone(&keys), Arc::clone(&registrations), u(), requests),
            verifier: Verifier::new(Arc::clone(&keys), signing, r(), u()),
            core,
            keys,
            registrations,
            revocations,
            uses,
            endpoints,
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("issuer", &self.settings().issuer).finish_non_exhaustive()
    }
}
