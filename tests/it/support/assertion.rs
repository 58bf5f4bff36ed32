//! A client that signs its assertions (`private_key_jwt`), with a key of any of the four algorithms.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::oauth::ISSUER;

/// The type of a client assertion.
pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A private key with its public form.
pub(crate) struct Signer {
    algorithm: &'static str,
    key: PrivateKey,
    pub(crate) public: Value,
}

enum PrivateKey {
    Ec(signature::EcdsaKeyPair),
    Ed(signature::Ed25519KeyPair),
    Rsa(signature::RsaKeyPair),
}

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn new(algorithm: &'static str) -> Self {
        let (key, mut public) = match algorithm {
            "ES256" => {
                let key = signature::EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
                let point = key.public_key().as_ref();
                let public =
                    json!({ "kty": "EC", "crv": "P-256", "x": base64url(&point[1..33]), "y": base64url(&point[33..]) });
                (PrivateKey::Ec(key), public)
            }
            "EdDSA" => {
                let key = signature::Ed25519KeyPair::generate().unwrap();
                let public = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(key.public_key()) });
                (PrivateKey::Ed(key), public)
            }
            _ => {
                let key = signature::RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
                let components = signature::RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                let public = json!({ "kty": "RSA", "n": base64url(components.n), "e": base64url(components.e) });
                (PrivateKey::Rsa(key), public)
            }
        };
        public["kid"] = json!("k1");
        Self { algorithm, key, public }
    }

    /// The public key as a set.
    pub(crate) fn jwks(&self) -> Value {
        json!({ "keys": [self.public] })
    }

    /// Good claims of this client at `now`, in seconds.
    pub(crate) fn claims(client: &str, now: i64, jti: &str) -> Value {
        json!({ "iss": client, "sub": client, "aud": ISSUER, "iat": now, "exp": now + 60, "jti": jti })
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({ "alg": self.algorithm, "kid": "k1", "typ": "JWT" }), claims)
    }

    /// Signs under any header.
    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match &self.key {
            PrivateKey::Ec(key) => key.sign(&random, bytes).unwrap().as_ref().to_vec(),
            PrivateKey::Ed(key) => key.sign(bytes).as_ref().to_vec(),
            PrivateKey::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                let padding: &'static dyn signature::RsaEncoding =
                    if self.algorithm == "PS256" { &signature::RSA_PSS_SHA256 } else { &signature::RSA_PKCS1_SHA256 };
                key.sign(padding, &random, bytes, &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", base64url(signature))
    }
}
