//! Verification of access tokens and API keys, with a cache (`OA-99`, `OA-113`).
//!
//! The usual case is one look-up by digest, without signature checks or SQL. A revocation invalidates the cached entry
//! at once.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{access_token::Claims, revocation::Revocations, usage::UsageRecorder};
use crate::{
    audit::RefusalEvent,
    model::{AllowedNetworks, Caller, ClientId, Direct, Endpoint, GrantId, Scopes, access},
    oauth::{
        accounts::api_keys::{KeyRefusal, Keys},
        dependencies::OAuthDeps,
        error::OAuthError,
        secrets::{opaque, signing::SigningKeys},
    },
    storage::Revocation,
    support::{DigestKey, FastHash, Timestamp},
};

/// Maximum number of cached credentials. The least used are evicted first.
const MAX_REMEMBERED: u64 = 20_000;
/// Precision of `last_used` of keys and grants (`OA-126`).
const NOTED_EVERY: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub struct VerifiedCredential {
    pub caller: Arc<Caller>,
    /// Endpoints that it opens.
    pub opens: CredentialAccess,
    /// Expiry; `None` if it does not expire.
    pub expires: Option<Timestamp>,
    /// Networks where its key may be used.
    networks: AllowedNetworks,
    /// Cancelled when the credential, its grant or its key is revoked.
    pub revoked: Arc<CancellationToken>,
    /// Time of the last recorded use.
    noted: AtomicI64,
    /// Number of the state of all keys' rights when it was looked up.
    rights: u64,
}

/// Endpoints that a credential opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialAccess {
    /// An access token: only this endpoint, with these scopes.
    Endpoint(Endpoint, Scopes),
    /// An API key: every `/sse` endpoint, and every `/mcp` endpoint if direct use is allowed.
    Key(Direct),
}

/// Verifies credentials and caches valid ones.
pub(in crate::oauth) struct Verifier {
    deps: OAuthDeps,
    keys: Arc<Keys>,
    signing: Arc<SigningKeys>,
    revocations: Arc<Revocations>,
    uses: Arc<UsageRecorder>,
    /// Verified credentials, by their digests under `key`.
    remembered: moka::sync::Cache<u128, Arc<VerifiedCredential>, FastHash>,
    key: DigestKey,
}

// === impl Verifier ===

impl Verifier {
    pub(in crate::oauth) fn new(
        keys: Arc<Keys>,
        signing: Arc<SigningKeys>,
        revocations: Arc<Revocations>,
        uses: Arc<UsageRecorder>,
    ) -> Self {
        let remembered =
            moka::sync::Cache::builder().max_capacity(MAX_REMEMBERED).build_with_hasher(FastHash::default());
        let (deps, key) = (keys.deps.clone(), DigestKey::new(&*keys.deps.random));
        Self { deps, keys, signing, revocations, uses, remembered, key }
    }

    /// Verifies an access token or API key; `from` counts toward the limits of wrong keys.
    pub(in crate::oauth) async fn verify(
        &self,
        presented: &str,
        from: IpAddr,
    ) -> Result<Arc<VerifiedCredential>, KeyRefusal> {
        let digest = self.key.digest(presented);
        let now = self.deps.now();
        if let Some(known) = self.remembered.get(&digest) {
            if !self.revocations.is_current(now) {
                Box::pin(self.revocations.catch_up()).await?;
            }
            if known.holds(now) && known.rights == self.revocations.rights() {
                self.check_network(&known, from)?;
                self.note_use(&known, now);
                return Ok(known);
            }
            self.remembered.invalidate(&digest);
        }
        // boxed, so that the future of every request does not have to hold it
        let verified = Box::pin(self.verify_anew(presented, from)).await?;
        self.remembered.insert(digest, Arc::clone(&verified));
        self.check_network(&verified, from)?;
        Ok(verified)
    }

    /// A credential as it was last verified; `None` if it is known to have ended since. The database may know more.
    pub(in crate::oauth) fn remembered(&self, presented: &str) -> Option<Arc<VerifiedCredential>> {
        let known = self.remembered.get(&self.key.digest(presented));
        known.filter(|known| known.holds(self.deps.now()))
    }

    /// Refuses a credential outside of the networks of its key (`OA-126`).
    fn check_network(&self, verified: &VerifiedCredential, from: IpAddr) -> Result<(), KeyRefusal> {
        if verified.networks.allow(from) {
            return Ok(());
        }
        verified.caller.key.iter().for_each(|key| self.keys.record_elsewhere(key, from));
        Err(KeyRefusal::Unknown)
    }

    async fn verify_anew(&self, presented: &str, from: IpAddr) -> Result<Arc<VerifiedCredential>, KeyRefusal> {
        let verified = if presented.starts_with(opaque::KEY_PREFIX) {
            self.verify_key(presented, from).await?
        } else {
            self.verify_token(presented).await?.ok_or(KeyRefusal::Unknown)?
        };
        if !verified.holds(self.deps.now()) {
            return Err(KeyRefusal::Unknown);
        }
        Ok(Arc::new(verified))
    }

    /// Makes sure that every credential is verified again at its next use, because the rights of some depend on the
    /// groups.
    pub(in crate::oauth) fn forget(&self) {
        self.remembered.invalidate_all();
    }

    /// Forgets credentials that have ended.
    pub(in crate::oauth) fn forget_ended(&self, now: Timestamp) {
        for (digest, known) in &self.remembered {
            if !known.holds(now) {
                self.remembered.invalidate(&*digest);
            }
        }
        self.remembered.run_pending_tasks();
    }

    /// Verifies a credential again.
    pub(in crate::oauth) async fn verify_again(
        &self,
        verified: &VerifiedCredential,
        from: IpAddr,
    ) -> Result<(), KeyRefusal> {
        let now = self.deps.now();
        if !self.revocations.is_current(now) {
            self.revocations.catch_up().await?;
        }
        if verified.holds(now) { self.check_network(verified, from) } else { Err(KeyRefusal::Unknown) }
    }

    async fn verify_key(&self, presented: &str, from: IpAddr) -> Result<VerifiedCredential, KeyRefusal> {
        let rights = self.revocations.rights();
        let holder = self.keys.authenticate_bearer(presented, from).await?;
        let expires = self.keys.ends(&holder.key).await?;
        let revoked = self.revocations.index().watch(Revocation::Key(holder.key.clone()));
        // again, now that the watch is registered
        let Some(holder) = self.keys.holder(&holder.key).await? else { return Err(KeyRefusal::Unknown) };
        let caller =
            Caller { user: holder.user, client: None, grant: None, key: Some(holder.key), rights: holder.rights };
        let noted = AtomicI64::new(self.deps.now().as_millis());
        Ok(VerifiedCredential {
            caller: Arc::new(caller),
            opens: CredentialAccess::Key(holder.kind.direct()),
            expires,
            networks: holder.networks,
            revoked,
            noted,
            rights,
        })
    }

    async fn verify_token(&self, presented: &str) -> Result<Option<VerifiedCredential>, OAuthError> {
        let now = self.deps.now();
        let settings = &self.deps.settings;
        let Some(claims) = Claims::verify(presented, &self.signing.current(), &settings.issuer, now) else {
            return Ok(self.refused("it is malformed, expired, or not signed by this gateway", None));
        };
        let (id, expires) = (GrantId::new(claims.gid.as_str()), Timestamp::from_seconds(claims.exp));
        let grant_revoked = self.revocations.index().watch(Revocation::Grant(id.clone()));
        let revoked = self.revocations.index().watch_token(&grant_revoked, &claims);
        let rights = self.revocations.rights();
        let Some(grant) = self.deps.storage.grants().lookup(&id).await?.filter(|grant| grant.is_live(now)) else {
            return Ok(self.refused("its grant has ended or was revoked", Some(&claims.gid)));
        };
        let Some(holder) = self.keys.holder(&grant.key).await? else {
            return Ok(self.refused("the API key behind it has ended or was revoked", Some(&claims.gid)));
        };
        // the whole audience URL is compared, so a token for another address is invalid
        let fits = settings.resource(&grant.endpoint) == claims.aud
            && holder.user.as_str() == claims.sub
            && grant.client.as_str() == claims.client_id;
        let Some(scopes) = Scopes::parse(&claims.scope).ok().filter(|_| fits) else {
            return Ok(self.refused("its audience, user, client or scope is not that of its grant", Some(&claims.gid)));
        };
        if self.deps.storage.revocations().is_token_revoked(&claims.jti, claims.generation()).await? {
            return Ok(self.refused("it was revoked", Some(&claims.gid)));
        }
        self.uses.note_generation(claims.generation());
        let caller = Caller {
            user: grant.user,
            client: Some(ClientId::new(claims.client_id)),
            grant: Some(id),
            key: Some(grant.key),
            rights: access::granted(&scopes, &grant.endpoint.target, &settings.backends.groups(), &holder.rights),
        };
        // the grant may end sooner now than when the token was issued
        let expires = expires.min(grant.expires);
        let opens = CredentialAccess::Endpoint(grant.endpoint, scopes);
        let noted = AtomicI64::new(now.as_millis());
        Ok(Some(VerifiedCredential {
            caller: Arc::new(caller),
            opens,
            expires: Some(expires),
            networks: holder.networks,
            revoked,
            noted,
            rights,
        }))
    }

    /// Refuses an access token. The reason is only recorded (`OA-108`).
    fn refused(&self, reason: &str, grant: Option<&str>) -> Option<VerifiedCredential> {
        let grant = grant.map(GrantId::new);
        self.deps.audit.record(RefusalEvent::Token { grant, reason: reason.to_owned() });
        None
    }

    fn note_use(&self, known: &VerifiedCredential, now: Timestamp) {
        let noted = Timestamp::from_millis(known.noted.load(Ordering::Relaxed));
        if now.since(noted) < NOTED_EVERY {
            return;
        }
        known.noted.store(now.as_millis(), Ordering::Relaxed);
        match (&known.caller.grant, &known.caller.key) {
            (Some(grant), _) => self.uses.note_grant(grant),
            (None, Some(key)) => self.uses.note_key(key),
            (None, None) => {}
        }
    }
}

impl CredentialAccess {
    /// The scopes of a token; a key has none.
    pub const fn scopes(&self) -> Option<&Scopes> {
        match self {
            Self::Endpoint(_, scopes) => Some(scopes),
            Self::Key(_) => None,
        }
    }
}

impl VerifiedCredential {
    /// True if it is still valid.
    pub fn holds(&self, now: Timestamp) -> bool {
        !self.revoked.is_cancelled() && self.expires.is_none_or(|expires| now < expires)
    }
}
