//! The public keys of a client that signs its assertions: a JWK Set (RFC 7517).

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde_json::Value;

/// Algorithms of assertions (`OA-83`), for the metadata.
pub(in crate::oauth) const ALGORITHMS: [(Algorithm, &str); 4] = [
    (Algorithm::ES256, "ES256"),
    (Algorithm::EdDSA, "EdDSA"),
    (Algorithm::PS256, "PS256"),
    (Algorithm::RS256, "RS256"),
];
/// Maximum number of keys, because each may cost a signature check.
const MAX_KEYS: usize = 10;
/// Characters of a modulus of 2048 and of 8192 bits, in base64url.
const MODULUS: std::ops::RangeInclusive<usize> = 341..=1366;
/// Members of private and of symmetric keys (RFC 7518 6).
const PRIVATE: [&str; 7] = ["d", "k", "p", "q", "dp", "dq", "qi"];

/// The keys of a client that can verify an assertion.
#[derive(Debug, Clone)]
pub struct ClientKeySet(Vec<Jwk>);

/// Why a set of keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeySetProblem {
    /// Not an object with up to ten keys.
    #[error("jwks is not an object with 1 to 10 keys (RFC 7517 5)")]
    Form,
    /// A private or symmetric key.
    #[error("jwks has a private key; send only the public one")]
    Private,
    /// It has no key for a supported algorithm.
    #[error("jwks has no key for ES256, EdDSA, PS256 or RS256: use P-256, Ed25519, or RSA with 2048 to 8192 bits")]
    Unusable,
}

// === impl ClientKeySet ===

impl ClientKeySet {
    /// Reads a set. Keys of other kinds and keys for encryption are left out.
    pub fn parse(set: &Value) -> Result<Self, KeySetProblem> {
        let keys = set.get("keys").and_then(Value::as_array).ok_or(KeySetProblem::Form)?;
        if !(1..=MAX_KEYS).contains(&keys.len()) || !keys.iter().all(Value::is_object) {
            return Err(KeySetProblem::Form);
        }
        if keys.iter().any(|key| PRIVATE.iter().any(|member| key.get(member).is_some())) {
            return Err(KeySetProblem::Private);
        }
        let parsed = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        let usable: Vec<Jwk> = parsed.filter(is_usable).collect();
        if usable.is_empty() { Err(KeySetProblem::Unusable) } else { Ok(Self(usable)) }
    }

    /// True if a key has this id.
    pub(super) fn has(&self, kid: &str) -> bool {
        self.0.iter().any(|key| key.common.key_id.as_deref() == Some(kid))
    }

    /// The keys that may have signed with this algorithm: keys with this id, and keys without an id.
    pub(super) fn verifying(&self, kid: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = DecodingKey> {
        let named = move |key: &&Jwk| match (kid, key.common.key_id.as_deref()) {
            (Some(kid), Some(own)) => kid == own,
            (None, _) | (_, None) => true,
        };
        let fits = move |key: &&Jwk| fits(&key.algorithm, algorithm) && names(key, algorithm);
        self.0.iter().filter(named).filter(fits).filter_map(|key| DecodingKey::from_jwk(key).ok())
    }
}

/// The algorithm with this name; `None` if assertions may not use it, such as `none` or an algorithm with a shared
/// secret.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    ALGORITHMS.into_iter().find(|(_, own)| *own == name).map(|(algorithm, _)| algorithm)
}

fn is_usable(key: &Jwk) -> bool {
    let signs = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let strong = match &key.algorithm {
        AlgorithmParameters::RSA(key) => MODULUS.contains(&key.n.len()),
        AlgorithmParameters::EllipticCurve(_) | AlgorithmParameters::OctetKeyPair(_) => true,
        _ => false,
    };
    signs
        && strong
        && ALGORITHMS.iter().any(|(algorithm, _)| fits(&key.algorithm, *algorithm) && names(key, *algorithm))
        && DecodingKey::from_jwk(key).is_ok()
}

/// True if a key of this kind makes signatures with the algorithm.
fn fits(key: &AlgorithmParameters, algorithm: Algorithm) -> bool {
    match key {
        AlgorithmParameters::EllipticCurve(key) => key.curve == EllipticCurve::P256 && algorithm == Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) => key.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA,
        AlgorithmParameters::RSA(_) => matches!(algorithm, Algorithm::PS256 | Algorithm::RS256),
        _ => false,
    }
}

/// True if the key is for this algorithm or names none.
fn names(key: &Jwk, algorithm: Algorithm) -> bool {
    key.common
        .key_algorithm
        .is_none_or(|own| ALGORITHMS.iter().any(|(known, name)| *known == algorithm && own.to_string() == *name))
}
