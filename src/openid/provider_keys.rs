//! Public keys of a provider (RFC 7517).

use jsonwebtoken::{Algorithm, DecodingKey, jwk::Jwk};
use serde_json::Value;

/// Maximum number of keys of a provider.
const MAX_KEYS: usize = 64;

/// The keys of a provider that verify signatures.
pub(super) struct ProviderKeys(Vec<ProviderKey>);

struct ProviderKey {
    id: Option<String>,
    algorithm: Option<String>,
    key: DecodingKey,
}

impl ProviderKeys {
    /// Reads a key set, leaving out keys of unknown types, encryption keys, and symmetric keys, since published keys
    /// are not secret.
    pub(super) fn read(document: &[u8]) -> Result<Self, String> {
        let document: Value =
            serde_json::from_slice(document).map_err(|error| format!("the keys cannot be read: {error}"))?;
        let keys = document["keys"].as_array().ok_or("the keys are not a list")?;
        if keys.len() > MAX_KEYS {
            return Err(format!("there are more than {MAX_KEYS} keys"));
        }
        Ok(Self(keys.iter().filter_map(ProviderKey::read).collect()))
    }

    /// The key with this id, or, if the token names none, the only key that can have made the signature.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let name = format!("{algorithm:?}");
        let fits = |key: &&ProviderKey| {
            let is_named = id.is_none_or(|id| key.id.as_deref() == Some(id));
            let is_of_algorithm = key.algorithm.as_ref().is_none_or(|known| *known == name);
            is_named && is_of_algorithm && key.key.family() == algorithm.family()
        };
        let mut fitting = self.0.iter().filter(fits);
        fitting.next().filter(|_| fitting.next().is_none()).map(|found| &found.key)
    }
}

impl ProviderKey {
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str().map(str::to_owned);
        if text("use").is_some_and(|purpose| purpose != "sig") || key["kty"] == "oct" {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
        Some(Self { id: text("kid"), algorithm: text("alg"), key: DecodingKey::from_jwk(&jwk).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_found_by_its_id_or_as_the_only_one_that_fits() {
        // RFC 7517 A.1; the point need not be checked before a signature is
        let ec = |kid: &str| {
            json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
                "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM" })
        };
        let mut own = ec("own");
        own["alg"] = json!("ES256");
        let mut sealing = ec("sealing");
        sealing["use"] = json!("enc");
        let secret = json!({ "kty": "oct", "kid": "secret", "k": "c2VjcmV0" });
        let unknown = json!({ "kty": "ML-DSA", "kid": "new" });
        let set = |keys: &[&Value]| ProviderKeys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        let keys = set(&[&own, &sealing, &secret, &unknown]);
        assert!(keys.find(Some("own"), Algorithm::ES256).is_some() && keys.find(None, Algorithm::ES256).is_some());
        for (id, algorithm) in [
            (Some("other"), Algorithm::ES256),
            (Some("own"), Algorithm::RS256),
            (Some("own"), Algorithm::ES384),
            (Some("sealing"), Algorithm::ES256),
            (Some("secret"), Algorithm::HS256),
            (None, Algorithm::HS256),
        ] {
            assert!(keys.find(id, algorithm).is_none(), "{id:?} {algorithm:?}");
        }
        assert!(set(&[&own, &ec("two")]).find(None, Algorithm::ES256).is_none(), "which one?");
        assert!(ProviderKeys::read(b"{}").is_err() && ProviderKeys::read(b"[").is_err());
        assert!(ProviderKeys::read(json!({ "keys": vec![own; 65] }).to_string().as_bytes()).is_err());
    }
}
