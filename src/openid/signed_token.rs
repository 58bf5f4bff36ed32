//! Signatures of a provider's tokens (RFC 7515, RFC 8725).

use jsonwebtoken::{Algorithm, DecodingKey};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::error::TokenProblem;
use crate::support::CompactToken;

/// Maximum length of a token, in bytes: some providers put hundreds of groups into it.
const MAX_TOKEN: usize = 32 * 1024;

/// Head of a signed token that may be verified.
pub(crate) struct TokenHead {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) kind: Option<String>,
}

/// A JOSE header. Keys that it carries (`jwk`, `jku`, `x5u`) are ignored.
#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

impl TokenHead {
    /// Reads the head of a token, which must name one of these algorithms.
    pub(crate) fn read(token: &str, accepted: &[Algorithm]) -> Result<Self, TokenProblem> {
        let token = CompactToken::new(token, MAX_TOKEN);
        let head: JoseHeader = token.and_then(|token| token.header()).ok_or(TokenProblem::Malformed)?;
        if head.crit.is_some() {
            return Err(TokenProblem::Malformed);
        }
        let named = accepted.iter().find(|algorithm| format!("{algorithm:?}") == head.alg);
        Ok(Self { algorithm: *named.ok_or(TokenProblem::Algorithm)?, key_id: head.kid, kind: head.typ })
    }

    /// The claims of the token, if this key signed it.
    pub(crate) fn claims(&self, token: &str, key: &DecodingKey) -> Result<Value, TokenProblem> {
        let token = CompactToken::new(token, MAX_TOKEN);
        token.and_then(|token| token.claims(self.algorithm, key)).ok_or(TokenProblem::Signature)
    }
}

/// The unverified issuer of a token.
pub(crate) fn claimed_issuer(token: &str) -> Option<String> {
    let claims: Value = CompactToken::new(token, MAX_TOKEN)?.unverified_claims()?;
    claims["iss"].as_str().map(str::to_owned)
}
