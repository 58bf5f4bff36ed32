//! The keys that sign access tokens: ES256, P-256 (`OA-101`, `OA-102`), and their rotation.
//!
//! A key is published before it signs, and a new one takes over after 90 days. All processes on one database use the
//! same keys.

mod key_set;
mod sealed_key;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use jsonwebtoken::{Algorithm, Header};
use serde_json::Value;

use self::sealed_key::generate;
pub use self::{
    key_set::{KeySet, SigningKeyUse, SigningKeyView},
    sealed_key::sealing_context,
};
use crate::{
    audit::KeyEvent,
    oauth::{dependencies::OAuthDeps, error::OAuthError},
    support::{SealingKey, Secret},
};

/// Time that a key signs before the next one takes over by itself.
const ROTATED_AFTER: Duration = Duration::from_hours(90 * 24);
/// Time that a key is published before it signs. It is longer than the key set may be cached.
const PUBLISHED_BEFORE: Duration = Duration::from_mins(10);
/// The same for a key that must sign at once. Every process gets to know it in this time.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// The signing keys of this process.
pub struct SigningKeys {
    deps: OAuthDeps,
    master: SealingKey,
    loaded: ArcSwap<KeySet>,
}

/// Start of a new signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStart {
    /// In 10 minutes, so that programs that cache the key set get to know the key first.
    Announced,
    /// In 5 seconds, so that every process of the gateway gets to know the key first.
    AtOnce,
}

// === impl SigningKeys ===

impl SigningKeys {
    /// Loads the keys from the store, and creates the first one if there is none. Private keys are encrypted under the
    /// master key.
    pub(in crate::oauth) async fn load(deps: OAuthDeps, master: SealingKey) -> Result<Self, OAuthError> {
        if deps.storage.signing_keys().list().await?.is_empty() {
            let now = deps.now();
            let first = generate(&master, &*deps.random, now)?;
            deps.storage.signing_keys().add_behind(None, &first, now).await?;
        }
        let rows = deps.storage.signing_keys().list().await?;
        let keys = KeySet::read(rows, &master)?;
        keys.tell_left_out(None);
        let loaded = ArcSwap::from_pointee(keys);
        Ok(Self { deps, master, loaded })
    }

    pub(in crate::oauth) fn current(&self) -> Arc<KeySet> {
        self.loaded.load_full()
    }

    /// The public keys in the form of RFC 7517.
    pub(in crate::oauth) fn jwks(&self) -> Value {
        self.current().jwks(self.deps.now())
    }

    /// Signs claims with the present key, as a JWT of this type. The result is never an access token (RFC 9068 2.1).
    pub fn sign(&self, typ: &str, claims: &Value) -> Result<Secret, OAuthError> {
        let keys = self.current();
        let (kid, key) = keys.active(self.deps.now()).ok_or(OAuthError::SigningKey)?;
        let header = Header { typ: Some(typ.to_owned()), kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, key).map(Secret::new).map_err(|_| OAuthError::SigningKey)
    }

    /// The keys in the store, with their present use.
    pub async fn list(&self) -> Result<Vec<SigningKeyView>, OAuthError> {
        let rows = self.deps.storage.signing_keys().list().await?;
        Ok(KeySet::read(rows, &self.master)?.views(self.deps.now()))
    }

    /// Adds a key that signs from `start` on. The present key verifies for as long as its tokens live. Returns the next
    /// key; if one was waiting already, that one.
    pub async fn rotate(&self, start: RotationStart) -> Result<SigningKeyView, OAuthError> {
        let now = self.deps.now();
        let signs_from = now + if start == RotationStart::AtOnce { KNOWN_WITHIN } else { PUBLISHED_BEFORE };
        loop {
            let keys = self.list().await?;
            let waits = |key: &SigningKeyView| key.used == SigningKeyUse::Next && key.signs_from <= signs_from;
            if let Some(next) = keys.iter().find(|key| waits(key)) {
                return Ok(next.clone());
            }
            let key = generate(&self.master, &*self.deps.random, signs_from)?;
            let last = keys.last().map(|last| last.kid.as_str());
            if self.deps.storage.signing_keys().add_behind(last, &key, now).await? {
                self.deps.audit.record(KeyEvent::SigningCreated(key.kid));
            }
        }
    }

    /// Withdraws a key, whose tokens are refused from now on. If it was signing, a new key takes over. Returns false if
    /// there is no such key.
    pub async fn withdraw(&self, kid: &str) -> Result<bool, OAuthError> {
        let now = self.deps.now();
        let other = generate(&self.master, &*self.deps.random, now)?;
        let done = self.deps.storage.signing_keys().withdraw(kid, &other, now).await?;
        if done {
            self.deps.audit.record(KeyEvent::SigningWithdrawn(kid.to_owned()));
        }
        Ok(done)
    }

    /// Reads the keys from the store. Returns true if one was withdrawn since the last reading.
    pub(in crate::oauth) async fn sync(&self) -> Result<bool, OAuthError> {
        let read = Arc::new(KeySet::read(self.deps.storage.for_rounds().signing_keys().list().await?, &self.master)?);
        let before = self.loaded.swap(Arc::clone(&read));
        read.tell_left_out(Some(&before));
        Ok(read.withdraws_more_than(&before))
    }

    /// Rotates the keys if they are old, and deletes keys that are no longer needed.
    pub(in crate::oauth) async fn maintain(&self) -> Result<(), OAuthError> {
        let now = self.deps.now();
        let newest = self.list().await?.into_iter().map(|key| key.signs_from).max();
        if newest.is_none_or(|newest| now.since(newest) >= ROTATED_AFTER) {
            self.rotate(RotationStart::Announced).await?;
        }
        let ended = self.current().ended(now);
        Ok(self.deps.storage.signing_keys().delete(&ended).await?)
    }
}
