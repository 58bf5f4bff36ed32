//! Who stands behind a presented credential: access tokens and API keys, remembered until they end (`OA-99`, `OA-113`).
//! Knows nothing of HTTP.
//!
//! The hot path is one look-up by digest: no signature check, no SQL. A revocation cancels what was remembered, and so it
//! is void at once.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    access_token::Claims,
    core::Core,
    error::Error,
    keys::{KeyRefusal, Keys},
    opaque,
    revocation::Revocations,
    signing::SigningKeys,
    uses::Uses,
};
use crate::{
    model::{Caller, ClientId, Direct, Endpoint, GrantId, Scopes},
    storage::Revocation,
    support::{Digest, Timestamp},
};

/// The most verified credentials that are remembered; the least used are forgotten first.
const MAX_REMEMBERED: u64 = 20_000;
/// How exact `last_used` of keys and grants is (`OA-126`).
const NOTED_EVERY: Duration = Duration::from_mins(1);

/// A credential that is good.
#[derive(Debug)]
pub struct Verified {
    /// Who stands behind it.
    pub caller: Arc<Caller>,
    /// What it opens.
    pub opens: Opens,
    /// When it ends; `None` where it does not.
    pub expires: Option<Timestamp>,
    /// Cancelled when it is revoked, by itself or with what it rests on.
    pub revoked: Arc<CancellationToken>,
    /// When it was last noted as used.
    noted: AtomicI64,
}

/// What a credential opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opens {
    /// An access token: this endpoint alone, with these scopes.
    Endpoint(Endpoint, Scopes),
    /// An API key: every `/sse` endpoint, and every `/mcp` endpoint where it may be sent directly.
    Key(Direct),
}

/// Verification of credentials. Remembers those that were good.
pub(super) struct Verifier {
    core: Core,
    keys: Arc<Keys>,
    signing: Arc<SigningKeys>,
    revocations: Arc<Revocations>,
    uses: Arc<Uses>,
    /// Credentials that were verified, by digest.
    remembered: moka::sync::Cache<[u8; 32], Arc<Verified>>,
}

// === impl Verifier ===

impl Verifier {
    pub(super) fn new(
        keys: Arc<Keys>,
        signing: Arc<SigningKeys>,
        revocations: Arc<Revocations>,
        uses: Arc<Uses>,
    ) -> Self {
        let remembered = moka::sync::Cache::new(MAX_REMEMBERED);
        Self { core: keys.core.clone(), keys, signing, revocations, uses, remembered }
    }

    /// Who stands behind a presented access token or API key; `from` is for the limits of wrong keys.
    pub(super) async fn verify(&self, presented: &str, from: IpAddr) -> Result<Arc<Verified>, KeyRefusal> {
        let digest = *Digest::sha256(presented).as_bytes();
        let now = self.core.now();
        if let Some(known) = self.remembered.get(&digest) {
            if known.holds(now) {
                self.note_use(&known, now);
                return Ok(known);
            }
            self.remembered.invalidate(&digest);
        }
        // boxed, so that the future of every request does not have to hold it
        let verified = Box::pin(self.verify_anew(presented, from)).await?;
        self.remembered.insert(digest, Arc::clone(&verified));
        Ok(verified)
    }

    async fn verify_anew(&self, presented: &str, from: IpAddr) -> Result<Arc<Verified>, KeyRefusal> {
        let verified = if presented.starts_with(opaque::KEY_PREFIX) {
            self.verify_key(presented, from).await?
        } else {
            self.verify_token(presented).await?.ok_or(KeyRefusal::Unknown)?
        };
        if !verified.holds(self.core.now()) {
            return Err(KeyRefusal::Unknown);
        }
        Ok(Arc::new(verified))
    }

    /// Whether a credential that was verified before may still be used.
    pub(super) fn holds(&self, verified: &Verified) -> bool {
        verified.holds(self.core.now())
    }

    async fn verify_key(&self, presented: &str, from: IpAddr) -> Result<Verified, KeyRefusal> {
        let holder = self.keys.authenticate_bearer(presented, from).await?;
        let expires = self.keys.ends(&holder.key).await?;
        let until = expires.unwrap_or(Timestamp::from_millis(i64::MAX));
        let revoked = self.revocations.index().watch(Revocation::Key(holder.key.clone()), until);
        // again, now that nothing can come in between
        if !self.keys.is_live(&holder.key).await? {
            return Err(KeyRefusal::Unknown);
        }
        let caller =
            Caller { user: holder.user, client: None, grant: None, key: Some(holder.key), rights: holder.rights };
        let noted = AtomicI64::new(self.core.now().as_millis());
        Ok(Verified {
            caller: Arc::new(caller),
            opens: Opens::Key(holder.direct),
            expires,
            revoked: Arc::new(revoked),
            noted,
        })
    }

    async fn verify_token(&self, presented: &str) -> Result<Option<Verified>, Error> {
        let now = self.core.now();
        let settings = &self.core.settings;
        let Some(claims) = Claims::verify(presented, &self.signing, &settings.issuer, now) else {
            return Ok(refused("it is malformed, expired, or not signed by this gateway", ""));
        };
        let (id, expires) = (GrantId::new(claims.gid.as_str()), Timestamp::from_seconds(claims.exp));
        let grant_revoked = self.revocations.index().watch(Revocation::Grant(id.clone()), expires);
        let revoked = self.revocations.index().watch_token(&grant_revoked, &claims, expires);
        let Some(grant) = self.core.storage.grants().lookup(&id).await?.filter(|grant| grant.is_live(now)) else {
            return Ok(refused("its grant has ended or was revoked", &claims.gid));
        };
        let Some(holder) = self.keys.holder(&grant.key).await? else {
            return Ok(refused("the API key behind it has ended or was revoked", &claims.gid));
        };
        // the audience is compared with the whole URL, so that a token of another address is none of ours
        let fits = settings.resource(&grant.endpoint) == claims.aud
            && holder.user.as_str() == claims.sub
            && grant.client.as_str() == claims.client_id;
        let Some(scopes) = Scopes::parse(&claims.scope).ok().filter(|_| fits) else {
            return Ok(refused("its audience, user, client or scope is not that of its grant", &claims.gid));
        };
        if self.core.storage.revocations().is_token_revoked(&claims.jti, claims.generation()).await? {
            return Ok(refused("it was revoked", &claims.gid));
        }
        self.uses.note_generation(claims.generation());
        let caller = Caller {
            user: grant.user,
            client: Some(ClientId::new(claims.client_id)),
            grant: Some(id),
            key: Some(grant.key),
            rights: scopes.rights().intersect(&holder.rights),
        };
        let opens = Opens::Endpoint(grant.endpoint, scopes);
        let noted = AtomicI64::new(now.as_millis());
        Ok(Some(Verified {
            caller: Arc::new(caller),
            opens,
            expires: Some(expires),
            revoked: Arc::new(revoked),
            noted,
        }))
    }

    fn note_use(&self, known: &Verified, now: Timestamp) {
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

/// No access token: the reason is for the log alone (`OA-108`).
fn refused(reason: &str, grant: &str) -> Option<Verified> {
    tracing::info!(target: "audit", reason, grant, "access token refused");
    None
}

impl Verified {
    /// Whether it may still be used.
    pub fn holds(&self, now: Timestamp) -> bool {
        !self.revoked.is_cancelled() && self.expires.is_none_or(|expires| now < expires)
    }
}
