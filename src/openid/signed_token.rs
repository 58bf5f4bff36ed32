//! Signatures of a provider's tokens (RFC 7515, RFC 8725). Knows nothing of their claims.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::error::TokenProblem;

/// Maximum length of a token, in bytes: some providers put hundreds of groups into it.
const MAX_TOKEN: usize = 32 * 1024;

/// Head of a signed token that may be verified.
pub(crate) struct TokenHead {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) kind: Option<String>,
}

/// A JOSE header. Keys that it brings along (`jwk`, `jku`, `x5u`) are not looked at.
#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

impl TokenHead {
    /// Reads the head of a token, whose algorithm must be one of these.
    pub(crate) fn read(token: &str, accepted: &[Algorithm]) -> Result<Self, TokenProblem> {
        if token.len() > MAX_TOKEN {
            return Err(TokenProblem::Malformed);
        }
        let head = token.split('.').next().and_then(|head| URL_SAFE_NO_PAD.decode(head).ok());
        // serde reads a struct from an array too
        let head = head.filter(|head| head.trim_ascii_start().starts_with(b"{"));
        let head: JoseHeader =
            head.and_then(|head| serde_json::from_slice(&head).ok()).ok_or(TokenProblem::Malformed)?;
        if head.crit.is_some() {
            return Err(TokenProblem::Malformed);
        }
        let named = accepted.iter().find(|algorithm| format!("{algorithm:?}") == head.alg);
        Ok(Self { algorithm: *named.ok_or(TokenProblem::Algorithm)?, key_id: head.kid, kind: head.typ })
    }

    /// The claims of the token, if this key signed it.
    pub(crate) fn claims(&self, token: &str, key: &DecodingKey) -> Result<Value, TokenProblem> {
        // the claims are checked by the caller: by the given clock, and as the kind of token demands
        let mut validation = Validation::new(self.algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        jsonwebtoken::decode(token, key, &validation).map(|token| token.claims).map_err(|_| TokenProblem::Signature)
    }
}

/// The issuer that a token claims to be from, which nobody has checked.
pub(crate) fn claimed_issuer(token: &str) -> Option<String> {
    let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok())?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["iss"].as_str().map(str::to_owned)
}
