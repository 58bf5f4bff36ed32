//! The authorization server (OAuth 2.1, RFC 8414, RFC 7591, RFC 7009).
//!
//! A grant is one consent of one user, through one API key, to one client, for one endpoint. Codes, refresh tokens and
//! access tokens belong to it and end with it. To extend the server, add a file: another source of clients next to
//! `clients/registration.rs`, another client authentication method in `clients/client_auth.rs`, another grant type in
//! `token/`. The file of [`crate::model::ApiKey`] describes the basis of a grant.

mod accounts;
pub mod authorize;
mod backend_names;
mod clients;
pub mod cors;
mod credentials;
mod dependencies;
pub mod error;
pub mod form;
pub mod logged_reason;
mod metadata;
pub mod oauth_settings;
pub mod policy;
mod rate_limits;
mod routes;
mod secrets;
mod token;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub(crate) use self::clients::{client_assertion, client_documents};
use self::{
    accounts::users::Users,
    authorize::pushed_request_endpoint::PushedRequestEndpoint,
    clients::{client_auth::ClientAuthenticator, client_documents::ClientDocuments, registration::Registrations},
    credentials::{
        caller_token, introspection_endpoint::IntrospectionEndpoint, revocation::Revocations,
        revocation_endpoint::RevocationEndpoint, revocation_watch::RevocationWatch, usage::UsageRecorder,
        verify::Verifier,
    },
    dependencies::OAuthDeps,
    rate_limits::RateLimits,
    routes::Endpoints,
    secrets::{pepper::Pepper, signing::SigningKeys},
    token::TokenEndpoint,
};
pub use self::{
    accounts::{
        api_keys::{self, AccountEntry, KeyHolder, KeyRefusal, Keys},
        invitations::{
            AcceptedInvitation, InvitationRefusal, InvitationRequest, Invitations, NewInvitation,
            rule as invitation_rule,
        },
        provider_accounts::{ClaimedAddress, GivenRights},
    },
    authorize::{
        Authorization, AuthorizationError, BeginOutcome, Browser, ClientOrigin, DecidedRequest, DecisionOutcome,
        LoginPrompt, PendingAuthorization, Redirect, RequestDecision, RequestSource, RequestState, SentDecision,
        StoreOutcome, Transaction, TransactionId, Trust, UnsealError,
        device::{self, DeviceAuthorizations, DeviceRefusal, DeviceVerdict, PendingDevice, UserCode},
        pkce,
        server_choice::{ChoiceRefusal, ChosenServers, OfferedServers, ServerChoice},
    },
    backend_names::BackendNames,
    clients::{
        client_keys::ClientKeySet,
        initial_access_tokens::{InitialAccessTokens, NewInitialAccessToken},
        redirect_uri::{self, RedirectTarget},
        registered_clients::{NewClientKeys, OperatorClient, RegisteredClients, ServiceAccount},
    },
    credentials::{
        access_token,
        grants::{self, GrantView, Grants},
        revocation::{self, EndedAccess},
        verify::{self, CredentialAccess, VerifiedCredential},
    },
    error::OAuthError,
    oauth_settings::{MasterKeySource, OAuthSettings},
    policy::StrangerVerdict,
    secrets::{master_key, opaque, signing},
};
use crate::{
    audit::Audit,
    model::{BackendId, Groups, IdentitySigner, UserId},
    storage::{Storage, StorageError},
    support::{Clock, Random, SealingKey, Secret},
};

/// Interval between polls for revocations by other processes.
const POLL: Duration = Duration::from_millis(500);
/// Time limit for the writes between two polls. A dead connection must not stop the writes for good.
const NOTES_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between purges of expired rows.
const PURGE_EVERY: Duration = Duration::from_mins(10);

/// The authorization server: its services. Cheap to clone.
#[derive(Clone)]
pub struct OAuth(Arc<Services>);

struct Services {
    deps: OAuthDeps,
    keys: Arc<Keys>,
    grants: Grants,
    users: Users,
    clients: RegisteredClients,
    initial_access_tokens: Arc<InitialAccessTokens>,
    invitations: Invitations,
    devices: Arc<DeviceAuthorizations>,
    authorization: Arc<Authorization>,
    verifier: Verifier,
    registrations: Arc<Registrations>,
    revocations: Arc<Revocations>,
    uses: Arc<UsageRecorder>,
    signing: Arc<SigningKeys>,
    endpoints: Endpoints,
}

// === impl OAuth ===

impl OAuth {
    /// Loads or creates the pepper and the signing key, both encrypted under the master key.
    pub async fn open(
        storage: Storage,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        settings: OAuthSettings,
    ) -> Result<Self, OAuthError> {
        let audit = Audit::of_command(storage.clone(), Arc::clone(&clock), settings.operator.clone());
        let client_documents = ClientDocuments::new(&settings, Arc::clone(&clock)).map(Arc::new);
        let master = master_key::master_key(&settings.master_key, &storage, &*random).await?;
        let pepper = Arc::new(Pepper::new(master_key::pepper(&master, &storage, &*random).await?));
        let limits = RateLimits::new(&storage, Arc::clone(&pepper), settings.policy.get().rate_limits);
        let (limits, settings) = (Arc::new(limits), Arc::new(settings));
        let deps = OAuthDeps { storage, audit, clock, random, settings, limits, client_documents };
        let requests = master.for_purpose("authorization requests");
        let signing = Arc::new(SigningKeys::load(deps.clone(), master).await?);
        let uses = Arc::new(UsageRecorder::new(deps.clone()));
        let revocations = Arc::new(Revocations::open(deps.clone(), Arc::clone(&uses), Arc::clone(&signing)).await?);
        Ok(Self(Arc::new(Services::new(deps, pepper, signing, revocations, uses, requests))))
    }

    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub fn grants(&self) -> &Grants {
        &self.0.grants
    }

    pub fn users(&self) -> &Users {
        &self.0.users
    }

    pub fn audit(&self) -> &Audit {
        &self.0.deps.audit
    }

    /// The keys that sign access tokens.
    pub fn signing_keys(&self) -> &SigningKeys {
        &self.0.signing
    }

    /// Signs the identities of callers, for servers that receive them.
    pub fn identity_signer(&self) -> IdentitySigner {
        caller_token::signer(self.0.deps.clone(), Arc::clone(&self.0.signing))
    }

    pub fn clients(&self) -> &RegisteredClients {
        &self.0.clients
    }

    /// Tokens that let clients register.
    pub fn initial_access_tokens(&self) -> &InitialAccessTokens {
        &self.0.initial_access_tokens
    }

    pub fn invitations(&self) -> &Invitations {
        &self.0.invitations
    }

    /// Receives each user that is disabled or deleted, by any process. The receiver ends everything held for the user.
    pub fn gone_users(&self) -> broadcast::Receiver<UserId> {
        self.0.revocations.gone_users()
    }

    /// Receives each key and grant that ends, by any process. The receiver ends their sessions.
    pub fn ended(&self) -> broadcast::Receiver<EndedAccess> {
        self.0.revocations.ended()
    }

    /// Devices that wait for a person's decision.
    pub fn devices(&self) -> &DeviceAuthorizations {
        &self.0.devices
    }

    pub fn authorization(&self) -> &Authorization {
        &self.0.authorization
    }

    /// Replaces the backends and groups that exist.
    pub fn replace_backends(&self, backends: Vec<BackendId>, groups: Groups) {
        self.settings().backends.replace(backends, groups);
        self.0.verifier.forget();
    }

    /// Verifies an access token or API key that a request presents. Wrong ones count toward the limits of `from`.
    pub async fn verify(&self, presented: &str, from: IpAddr) -> Result<Arc<VerifiedCredential>, KeyRefusal> {
        self.0.verifier.verify(presented, from).await
    }

    /// A credential as it was last verified; `None` if it was not verified lately, or is known to have ended since. Do
    /// nothing for its caller on this basis, because the database may know more.
    pub fn remembered(&self, presented: &str) -> Option<Arc<VerifiedCredential>> {
        self.0.verifier.remembered(presented)
    }

    /// Verifies a credential again, for a request from this address.
    pub async fn verify_again(&self, verified: &VerifiedCredential, from: IpAddr) -> Result<(), KeyRefusal> {
        self.0.verifier.verify_again(verified, from).await
    }

    /// Every endpoint for clients: `/.well-known/*`,
    /// `/oauth/{token,register,revoke,introspect,device_authorization,par,jwks}` and the root aliases `/token` and
    /// `/register` (`OA-19`), with CORS, limits and `no-store`. Limits count by [`crate::model::ClientIp`] of the
    /// request extensions; without it, every request counts as loopback.
    pub fn router(&self) -> axum::Router {
        routes::router(self.0.endpoints.clone())
    }

    /// Watches for revocations by other processes on the same database (`OA-131`): by their notices, and every 500 ms.
    /// Also writes the audit trail and usage times, and purges expired rows. Ends at `cancel`. Run it on the app's task
    /// tracker.
    pub async fn watch_revocations(&self, cancel: CancellationToken) {
        let watch = RevocationWatch::new(Arc::clone(&self.0.revocations), self.0.deps.storage.revocation_notices());
        // a purge takes a while, and the other writes must not wait for it
        let (notes, purges) = (Box::pin(self.keep_notes(&cancel)), Box::pin(self.keep_purged(&cancel)));
        tokio::join!(cancel.run_until_cancelled(watch.run(POLL)), notes, purges);
    }

    /// Writes the audit trail and usage times, every 500 ms and at the end.
    async fn keep_notes(&self, cancel: &CancellationToken) {
        let mut timer = tokio::time::interval(POLL);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            let written = tokio::time::timeout(NOTES_TIMEOUT, self.write_notes()).await;
            if let Err(error) = written.unwrap_or_else(|_| Err(StorageError::Silent.into())) {
                tracing::warn!(%error, "usage times and the audit trail could not be written; next try in 500 ms");
            }
        }
        if let Err(error) = self.0.deps.audit.write().await {
            tracing::warn!(%error, "the audit trail could not be written");
        }
        if let Err(error) = self.0.uses.write().await {
            tracing::warn!(%error, "usage times could not be written");
        }
    }

    /// Purges expired rows, every 10 minutes and at the start, so that rows that expired while the gateway was stopped
    /// go first.
    async fn keep_purged(&self, cancel: &CancellationToken) {
        let mut timer = tokio::time::interval(PURGE_EVERY);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            if let Some(Err(error)) = cancel.run_until_cancelled(self.purge()).await {
                tracing::warn!(%error, "expired rows could not be purged; next try in 10 min");
            }
        }
    }

    /// One poll: applies new revocations and changed signing keys from any process, and writes usage times.
    pub async fn sync(&self) -> Result<(), OAuthError> {
        self.write_notes().await?;
        self.0.revocations.read().await
    }

    /// True if the database was read within the last second, or answers within one.
    pub async fn database_answers(&self) -> bool {
        self.0.revocations.database_answers().await
    }

    /// Writes the audit trail, usage times and counts, ends keys that are due, and reads the signing keys and the
    /// counts of other processes. The audit trail does not wait for the rest.
    async fn write_notes(&self) -> Result<(), OAuthError> {
        self.0.deps.audit.write().await?;
        if self.0.signing.sync().await? {
            self.0.revocations.index().end_tokens();
        }
        self.0.uses.write().await?;
        self.0.deps.storage.for_rounds().keys().retire(self.0.deps.now()).await?;
        self.0.deps.limits.exchange(self.0.deps.now()).await
    }

    /// Purges expired rows, and rotates the signing keys if they are old.
    pub async fn purge(&self) -> Result<(), OAuthError> {
        let now = self.0.deps.now();
        self.0.verifier.forget_ended(now);
        self.0.revocations.index().purge();
        self.0.registrations.purge(now).await?;
        self.0.clients.expire().await?;
        self.0.signing.maintain().await?;
        self.0.deps.audit.purge(self.0.deps.settings.policy.get().audit_retention).await?;
        self.0.deps.storage.expired_rows().delete(now).await?;
        Ok(self.0.deps.storage.for_purges().free_pages().give_back().await?)
    }

    /// 256 fresh random bits.
    pub fn nonce(&self) -> Secret {
        Secret::new(self.0.deps.random.token())
    }

    /// The operator's settings.
    pub fn settings(&self) -> &OAuthSettings {
        &self.0.deps.settings
    }
}

// === impl Services ===

impl Services {
    fn new(
        deps: OAuthDeps,
        pepper: Arc<Pepper>,
        signing: Arc<SigningKeys>,
        revocations: Arc<Revocations>,
        uses: Arc<UsageRecorder>,
        requests: SealingKey,
    ) -> Self {
        let (r, u) = (|| Arc::clone(&revocations), || Arc::clone(&uses));
        let keys = Arc::new(Keys::new(deps.clone(), Arc::clone(&pepper), r(), u()));
        let initial_access_tokens = Arc::new(InitialAccessTokens::new(deps.clone()));
        let registrations = Registrations::new(deps.clone(), pepper, Arc::clone(&initial_access_tokens));
        let registrations = Arc::new(registrations);
        let clients = Arc::new(ClientAuthenticator::new(deps.clone()));
        let c = || Arc::clone(&clients);
        let authorization = Arc::new(Authorization::new(Arc::clone(&keys), Arc::clone(&registrations), u(), requests));
        let devices = Arc::new(DeviceAuthorizations::new(Arc::clone(&keys), c(), Arc::clone(&registrations), u()));
        let endpoints = Endpoints {
            audit: deps.audit.clone(),
            settings: Arc::clone(&deps.settings),
            client_documents: deps.client_documents.clone(),
            token: Arc::new(TokenEndpoint::new(c(), Arc::clone(&keys), Arc::clone(&signing), r(), u())),
            registrations: Arc::clone(&registrations),
            devices: Arc::clone(&devices),
            pushed_requests: Arc::new(PushedRequestEndpoint::new(deps.clone(), c(), Arc::clone(&authorization))),
            revocation: Arc::new(RevocationEndpoint {
                deps: deps.clone(),
                clients: c(),
                signing: Arc::clone(&signing),
                revocations: r(),
            }),
            introspection: Arc::new(IntrospectionEndpoint {
                deps: deps.clone(),
                clients: c(),
                keys: Arc::clone(&keys),
                signing: Arc::clone(&signing),
            }),
            signing: Arc::clone(&signing),
        };
        Self {
            grants: Grants { deps: deps.clone(), revocations: r() },
            users: Users { deps: deps.clone(), revocations: r() },
            clients: RegisteredClients { keys: Arc::clone(&keys), deps: deps.clone(), revocations: r() },
            initial_access_tokens,
            invitations: Invitations { keys: Arc::clone(&keys) },
            devices,
            authorization,
            verifier: Verifier::new(Arc::clone(&keys), Arc::clone(&signing), r(), u()),
            deps,
            keys,
            registrations,
            revocations,
            uses,
            signing,
            endpoints,
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("issuer", &self.settings().issuer).finish_non_exhaustive()
    }
}
