//! The signing keys at one moment: the key that signs, and the keys that verify (`OA-101`, `OA-102`).
//!
//! The times of a key decide its use: it signs from its start until a newer one takes over, and verifies until
//! everything it signed has expired.

use std::time::Duration;

use jsonwebtoken::{DecodingKey, EncodingKey};
use serde_json::{Value, json};

use super::sealed_key;
use crate::{
    oauth::error::OAuthError,
    storage::SigningKeyRow,
    support::{SealingKey, Timestamp},
};

/// Time that a key verifies after a newer one has taken over signing: the longest life of an access token (24 hours),
/// and clock skew.
const OVERLAP: Duration = Duration::from_mins(24 * 60 + 1);

/// The signing keys, in signing order.
pub struct KeySet {
    keys: Vec<SigningKey>,
    /// The ids of unreadable keys, with the reason.
    left_out: Vec<(String, String)>,
}

struct SigningKey {
    kid: String,
    x: String,
    y: String,
    signing: EncodingKey,
    verifying: DecodingKey,
    signs_from: Timestamp,
    withdrawn: Option<Timestamp>,
}

/// Use of a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningKeyUse {
    /// Published, so that verifiers know it before it signs.
    Next,
    Active,
    /// Only verifies, up to this time.
    Retired(Timestamp),
    /// Neither signs nor verifies.
    Ended,
}

/// A signing key, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeyView {
    pub kid: String,
    pub used: SigningKeyUse,
    /// Start of its use as the signing key.
    pub signs_from: Timestamp,
}

// === impl KeySet ===

impl KeySet {
    /// Reads the rows of the store, in order. An unreadable key is left out if another one can sign.
    pub(super) fn read(rows: Vec<SigningKeyRow>, master: &SealingKey) -> Result<Self, OAuthError> {
        let (mut keys, mut failed) = (Vec::new(), Vec::new());
        for row in rows {
            let kid = row.kid.clone();
            match SigningKey::read(row, master) {
                Ok(key) => keys.push(key),
                Err(error) => failed.push((kid, error)),
            }
        }
        let can_sign = keys.iter().any(|key: &SigningKey| key.withdrawn.is_none());
        let mut left_out = Vec::new();
        for (kid, error) in failed {
            if !can_sign {
                return Err(error);
            }
            left_out.push((kid, error.to_string()));
        }
        Ok(Self { keys, left_out })
    }

    /// Logs the unreadable keys, unless they were unreadable before.
    pub(super) fn tell_left_out(&self, before: Option<&Self>) {
        let is_known = |kid: &str| before.is_some_and(|before| before.left_out.iter().any(|(known, _)| known == kid));
        for (kid, error) in self.left_out.iter().filter(|(kid, _)| !is_known(kid)) {
            tracing::error!(kid, error, "a signing key cannot be read and is left out: its tokens are refused");
        }
    }

    /// The key that signs at `now`, with its id.
    pub fn active(&self, now: Timestamp) -> Option<(&str, &EncodingKey)> {
        let mut usable = self.keys.iter().filter(|key| key.withdrawn.is_none());
        // if the clock of this process is slow, the first key signs early
        let first = usable.next()?;
        let key = usable.rfind(|key| key.signs_from <= now).unwrap_or(first);
        Some((&key.kid, &key.signing))
    }

    /// The verification key of this id, if it verifies at `now`.
    pub fn verifying(&self, kid: &str, now: Timestamp) -> Option<&DecodingKey> {
        let at = self.keys.iter().position(|key| key.kid == kid)?;
        (self.used(at, now) != SigningKeyUse::Ended).then(|| &self.keys[at].verifying)
    }

    /// The public keys that verify at `now` or later, in the form of RFC 7517.
    pub fn jwks(&self, now: Timestamp) -> Value {
        let published = self.keys.iter().enumerate().filter(|(at, _)| self.used(*at, now) != SigningKeyUse::Ended);
        let keys: Vec<Value> = published.map(|(_, key)| key.jwk()).collect();
        json!({ "keys": keys })
    }

    /// All keys at `now`, in signing order.
    pub fn views(&self, now: Timestamp) -> Vec<SigningKeyView> {
        let view = |(at, key): (usize, &SigningKey)| SigningKeyView {
            kid: key.kid.clone(),
            used: self.used(at, now),
            signs_from: key.signs_from,
        };
        self.keys.iter().enumerate().map(view).collect()
    }

    /// True if a key is withdrawn here that was not withdrawn in `before`.
    pub(super) fn withdraws_more_than(&self, before: &Self) -> bool {
        let withdrawn = |set: &Self, kid: &str| set.keys.iter().any(|key| key.kid == kid && key.withdrawn.is_some());
        self.keys.iter().any(|key| withdrawn(self, &key.kid) && !withdrawn(before, &key.kid))
    }

    /// The ids of the keys whose tokens have all expired at `now`.
    pub(super) fn ended(&self, now: Timestamp) -> Vec<String> {
        let is_over = |(at, key): &(usize, &SigningKey)| match key.withdrawn {
            // kept as long as the others, so that every process gets to know it
            Some(withdrawn) => withdrawn + OVERLAP <= now,
            None => self.used(*at, now) == SigningKeyUse::Ended,
        };
        self.keys.iter().enumerate().filter(is_over).map(|(_, key)| key.kid.clone()).collect()
    }

    fn used(&self, at: usize, now: Timestamp) -> SigningKeyUse {
        let key = &self.keys[at];
        if key.withdrawn.is_some() {
            return SigningKeyUse::Ended;
        }
        if now < key.signs_from {
            return SigningKeyUse::Next;
        }
        let newer = self.keys[at + 1..].iter().find(|newer| newer.withdrawn.is_none());
        match newer.filter(|newer| newer.signs_from <= now).map(|newer| newer.signs_from + OVERLAP) {
            None => SigningKeyUse::Active,
            Some(until) if now < until => SigningKeyUse::Retired(until),
            Some(_) => SigningKeyUse::Ended,
        }
    }
}

// === impl SigningKey ===

impl SigningKey {
    fn read(row: SigningKeyRow, master: &SealingKey) -> Result<Self, OAuthError> {
        let pkcs8 = sealed_key::open(&row, master)?;
        let verifying = DecodingKey::from_ec_components(&row.x, &row.y).map_err(|_| OAuthError::SigningKey)?;
        let SigningKeyRow { kid, x, y, signs_from, withdrawn, .. } = row;
        Ok(Self { kid, x, y, signing: EncodingKey::from_ec_der(&pkcs8), verifying, signs_from, withdrawn })
    }

    fn jwk(&self) -> Value {
        json!({ "kty": "EC", "crv": "P-256", "x": self.x, "y": self.y, "kid": self.kid, "use": "sig", "alg": "ES256" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{oauth::secrets::signing::sealed_key, support::SeededRandom};

    #[test]
    fn a_key_that_does_not_open_is_left_out_if_another_one_signs() {
        let (master, other) = (SealingKey::new([1; 32]), SealingKey::new([2; 32]));
        let random = SeededRandom::new(7);
        let at = Timestamp::from_seconds(1);
        let key = |master: &SealingKey| sealed_key::generate(master, &random, at).unwrap();
        let good = key(&master);
        let kid = good.kid.clone();
        let keys = KeySet::read(vec![key(&other), good.clone(), key(&other)], &master).unwrap();
        assert_eq!(keys.active(at).unwrap().0, kid);
        assert_eq!(keys.views(at).len(), 1);
        assert!(KeySet::read(vec![key(&other)], &master).is_err(), "nothing signs");
        let withdrawn = SigningKeyRow { withdrawn: Some(at), ..good };
        assert!(KeySet::read(vec![key(&other), withdrawn], &master).is_err());
    }
}
