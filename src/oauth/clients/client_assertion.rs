//! Client assertions (`private_key_jwt`, RFC 7523; `OA-83`). The caller must make sure that each is used only once.

use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde::Deserialize;

use super::client_keys::{self, ClientKeySet};
use crate::support::{CompactToken, Timestamp};

/// The type of a client assertion (RFC 7523 2.2).
pub(crate) const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Maximum length, in bytes.
const LONGEST: usize = 8 * 1024;
/// Maximum life of an assertion.
const LIFETIME: Duration = Duration::from_mins(5);
/// Difference allowed between the clocks of the client and the gateway (`OA-140`).
const SKEW: Duration = Duration::from_mins(1);
/// Maximum length of `jti`, in bytes.
const LONGEST_ID: usize = 256;

/// An assertion whose signature is not checked yet.
pub(crate) struct ClientAssertion<'a> {
    token: CompactToken<'a>,
    algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    /// The client that it names.
    pub(crate) client: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VerifiedAssertion {
    /// Its id, used once by the client.
    pub(crate) id: String,
    /// The assertion is not accepted after this time.
    pub(crate) expires: Timestamp,
}

/// The JOSE header. A member that carries its own key, or that must be understood, makes the assertion invalid
/// (`OA-100`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssertionHeader {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    iss: String,
    sub: String,
}

/// The claims. `aud` must be a single string, because an assertion for several servers could be used at each of them.
#[derive(Deserialize)]
struct AssertionClaims {
    aud: String,
    exp: i64,
    #[serde(default)]
    iat: Option<i64>,
    #[serde(default)]
    nbf: Option<i64>,
    jti: String,
}

impl<'a> ClientAssertion<'a> {
    /// Reads the header, and the client that the assertion names. The error is the reason why it is invalid.
    pub(crate) fn parse(text: &'a str) -> Result<Self, &'static str> {
        let token = CompactToken::new(text, LONGEST).ok_or("it is longer than 8 KiB")?;
        let header: AssertionHeader =
            token.header().ok_or("its header is not a JSON object with alg, and at most kid and typ")?;
        let typ = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
        if !matches!(typ.as_str(), "jwt" | "client-authentication+jwt") {
            return Err("its typ is that of another kind of token");
        }
        let algorithm =
            client_keys::algorithm(&header.alg).ok_or("its alg is not one of ES256, EdDSA, PS256 and RS256")?;
        let named: Named = token.unverified_claims().ok_or("its claims are not a JSON object with iss and sub")?;
        if named.iss != named.sub {
            return Err("its iss and sub differ");
        }
        Ok(Self { token, algorithm, kid: header.kid, client: named.iss })
    }

    /// True if one of these keys may have signed the assertion: they have the key id that it names, or it names none.
    pub(crate) fn may_be_of(&self, keys: &ClientKeySet) -> bool {
        self.kid.as_deref().is_none_or(|kid| keys.has(kid))
    }

    /// Checks the signature and then the claims, at `now`. The error is the reason why the assertion is invalid.
    pub(crate) fn verify(
        &self,
        keys: &ClientKeySet,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedAssertion, &'static str> {
        // times and audience are compared below
        let mut claims = keys
            .verifying(self.kid.as_deref(), self.algorithm)
            .map(|key| self.token.claims::<serde_json::Value>(self.algorithm, &key));
        let claims = claims.find_map(|claims| claims).ok_or("no key of the client made its signature")?;
        let claims: AssertionClaims =
            serde_json::from_value(claims).map_err(|_| "it lacks exp or jti, or its aud is not one string")?;
        if !audiences.contains(&claims.aud) {
            return Err("its aud is not this authorization server");
        }
        let at = Timestamp::from_seconds;
        if claims.exp <= (now - SKEW).as_seconds() {
            return Err("it has expired");
        }
        if claims.exp > (now + LIFETIME + SKEW).as_seconds() {
            return Err("it lasts for more than 5 minutes");
        }
        let latest = (now + SKEW).as_seconds();
        if [claims.iat, claims.nbf].into_iter().flatten().any(|start| start > latest) {
            return Err("it is from the future");
        }
        if !(1..=LONGEST_ID).contains(&claims.jti.len()) {
            return Err("its jti is empty or longer than 256 bytes");
        }
        Ok(VerifiedAssertion { id: claims.jti, expires: at(claims.exp) + SKEW })
    }
}
