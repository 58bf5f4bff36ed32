//! The keys that sign access tokens: ES256, P-256 (`OA-101`, `OA-102`). Knows nothing of claims.

use std::sync::Arc;

use aws_lc_rs::{
    encoding::AsBigEndian as _,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use serde_json::{Value, json};

use super::error::OAuthError;
use crate::{
    storage::{KeyState, SigningKeyRow, Storage},
    support::{Digest, Random, SealingKey, Timestamp},
};

/// Every key that signs or verifies.
#[derive(Clone)]
pub struct SigningKeys {
    active: Arc<(String, EncodingKey)>,
    verifying: Arc<[VerifyingKey]>,
}

struct VerifyingKey {
    kid: String,
    x: String,
    y: String,
    key: DecodingKey,
}

// === impl SigningKeys ===

impl SigningKeys {
    /// Loads the keys from the store, and creates the first one if there is none. Private keys are encrypted under the
    /// master key.
    pub async fn load(
        storage: &Storage,
        master: &SealingKey,
        random: &dyn Random,
        now: Timestamp,
    ) -> Result<Self, OAuthError> {
        let mut rows = storage.signing_keys().list().await?;
        if !rows.iter().any(|row| row.state == KeyState::Active) {
            storage.signing_keys().add_active(&generate(master, random)?, now).await?;
            rows = storage.signing_keys().list().await?;
        }
        let active = rows.iter().find(|row| row.state == KeyState::Active).ok_or(OAuthError::SigningKey)?;
        let pkcs8 = master.open(&active.sealed, context(&active.kid).as_bytes())?;
        let active = Arc::new((active.kid.clone(), EncodingKey::from_ec_der(&pkcs8)));
        let verifying = rows.into_iter().map(VerifyingKey::read).collect::<Result<_, _>>()?;
        Ok(Self { active, verifying })
    }

    /// The signing key, with its id.
    pub fn active(&self) -> (&str, &EncodingKey) {
        (&self.active.0, &self.active.1)
    }

    /// The verification key of this id.
    pub fn verifying(&self, kid: &str) -> Option<&DecodingKey> {
        self.verifying.iter().find(|key| key.kid == kid).map(|key| &key.key)
    }

    /// Public keys in the form of RFC 7517.
    pub fn jwks(&self) -> Value {
        let keys: Vec<Value> = self.verifying.iter().map(VerifyingKey::jwk).collect();
        json!({ "keys": keys })
    }
}

// === impl VerifyingKey ===

impl VerifyingKey {
    fn read(row: SigningKeyRow) -> Result<Self, OAuthError> {
        let key = DecodingKey::from_ec_components(&row.x, &row.y).map_err(|_| OAuthError::SigningKey)?;
        Ok(Self { kid: row.kid, x: row.x, y: row.y, key })
    }

    fn jwk(&self) -> Value {
        json!({ "kty": "EC", "crv": "P-256", "x": self.x, "y": self.y, "kid": self.kid, "use": "sig", "alg": "ES256" })
    }
}

/// Generates a key pair. It is the only value that does not come from the given randomness: the library generates it.
fn generate(master: &SealingKey, random: &dyn Random) -> Result<SigningKeyRow, OAuthError> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).map_err(|_| OAuthError::SigningKey)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).map_err(|_| OAuthError::SigningKey)?;
    let point: aws_lc_rs::encoding::EcPublicKeyUncompressedBin<'_> =
        pair.public_key().as_be_bytes().map_err(|_| OAuthError::SigningKey)?;
    // SEC 1 2.3.3: 0x04, then both coordinates, 32 bytes each
    let coordinates = point.as_ref().get(1..65).ok_or(OAuthError::SigningKey)?;
    let (x, y) = (URL_SAFE_NO_PAD.encode(&coordinates[..32]), URL_SAFE_NO_PAD.encode(&coordinates[32..]));
    // RFC 7638 3.2: the required members alone, in lexicographic order, without spaces
    let kid = Digest::sha256(format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)).to_base64url();
    let sealed = master.seal(pkcs8.as_ref(), context(&kid).as_bytes(), random)?;
    Ok(SigningKeyRow { kid, state: KeyState::Active, x, y, sealed })
}

fn context(kid: &str) -> String {
    format!("signing-key|{kid}")
}
