//! Keys of an OpenID provider, and tokens that anyone can make.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use rcgen::KeyPair;
use serde_json::{Value, json};

/// A key pair of the provider.
#[derive(Clone)]
pub(crate) struct SigningKey {
    id: String,
    private: EncodingKey,
}

impl SigningKey {
    pub(crate) fn new(id: &str) -> Self {
        let pair = KeyPair::generate().unwrap();
        Self { id: id.to_owned(), private: EncodingKey::from_ec_der(&pair.serialize_der()) }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as("JWT", claims)
    }

    /// A token with this `typ`.
    pub(crate) fn sign_as(&self, kind: &str, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.clone()), typ: Some(kind.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }

    /// The public key, as the provider publishes it.
    pub(crate) fn public(&self) -> Value {
        let mut key = json!(Jwk::from_encoding_key(&self.private, Algorithm::ES256).unwrap());
        key["kid"] = json!(self.id);
        key
    }
}

/// A token without a signature.
pub(crate) fn unsigned(algorithm: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(&json!({ "alg": algorithm, "kid": "one" })), part(claims))
}

/// A token that anyone can sign: the published key is used as the secret of an HMAC.
pub(crate) fn signed_by_everybody(claims: &Value, key: &SigningKey) -> String {
    let public = key.public();
    let secret = EncodingKey::from_secret(public["x"].as_str().unwrap().as_bytes());
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, claims, &secret).unwrap()
}
