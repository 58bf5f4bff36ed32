//! Access tokens: JWTs in the profile of RFC 9068 (`OA-98` to `OA-100`).

use jsonwebtoken::{Algorithm, Header};
use serde::{Deserialize, Serialize};

use crate::{
    oauth::{error::OAuthError, secrets::signing::KeySet},
    support::{CompactToken, Secret, Timestamp},
};

/// Maximum length of a token, in bytes: four times the length of an issued token (`OA-105`).
const LONGEST: usize = 8 * 1024;

/// Clock skew allowed between processes of the same gateway, in seconds (`OA-140`).
const SKEW: i64 = 5;

/// Claims of an access token. Every member except `nbf` is required and has exactly this type. A token whose `aud` is
/// an array, for example, is not from this gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The issuer.
    pub iss: String,
    /// The user.
    pub sub: String,
    /// The URL of its endpoint.
    pub aud: String,
    pub client_id: String,
    /// Issue time, in seconds.
    pub iat: i64,
    /// Expiry, in seconds.
    pub exp: i64,
    /// Token id: the generation of the refresh token issued with it, a dot, and random characters.
    pub jti: String,
    pub scope: String,
    /// The grant.
    pub gid: String,
    /// Time of consent, in seconds.
    pub auth_time: i64,
    /// Start of validity. The gateway's own tokens have none (`OA-93`), but the gateway respects one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
}

/// The JOSE header that the gateway writes. Any other member (`jwk`, `jku`, `x5u`, `crit`) makes the token invalid
/// (`OA-100`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnHeader {
    typ: String,
    alg: String,
    kid: String,
}

impl Claims {
    /// Signs the claims with the key that signs at `now`.
    pub fn sign(&self, keys: &KeySet, now: Timestamp) -> Result<Secret, OAuthError> {
        let (kid, key) = keys.active(now).ok_or(OAuthError::SigningKey)?;
        let header =
            Header { typ: Some("at+jwt".to_owned()), kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, self, key).map(Secret::new).map_err(|_| OAuthError::SigningKey)
    }

    /// Verifies a token of this issuer at `now`. The caller checks the audience, because only the caller knows the
    /// endpoint.
    pub fn verify(token: &str, keys: &KeySet, issuer: &str, now: Timestamp) -> Option<Self> {
        let token = CompactToken::new(token, LONGEST)?;
        let header: OwnHeader = token.header()?;
        // RFC 9068 4: jsonwebtoken does not check `typ`
        if header.typ != "at+jwt" || header.alg != "ES256" {
            return None;
        }
        // times are compared below, with the given clock
        let claims: Self = token.claims(Algorithm::ES256, keys.verifying(&header.kid, now)?)?;
        let now = now.as_seconds();
        let begun = claims.iat <= now + SKEW && claims.nbf.is_none_or(|nbf| nbf <= now + SKEW);
        (claims.iss == issuer && now < claims.exp && begun).then_some(claims)
    }

    /// Generation of the refresh token issued with it.
    pub fn generation(&self) -> &str {
        self.jti.split('.').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use jsonwebtoken::EncodingKey;
    use serde_json::{Value, json};
    use zeroize::Zeroizing;

    use super::*;
    use crate::{
        audit::Audit,
        model::RateLimitScope,
        oauth::{
            OAuthSettings,
            dependencies::OAuthDeps,
            rate_limits::RateLimits,
            secrets::{pepper::Pepper, signing::SigningKeys},
        },
        storage::Storage,
        support::{ManualClock, SealingKey, SeededRandom},
    };

    const ISSUER: &str = "https://gw.example";
    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    async fn keys() -> Arc<KeySet> {
        let (storage, clock) = (Storage::empty().await, Arc::new(ManualClock::default()));
        let pepper = Arc::new(Pepper::new(Zeroizing::new(vec![1])));
        let limits = Arc::new(RateLimits::new(&storage, pepper, RateLimitScope::Replica));
        let deps = OAuthDeps {
            audit: Audit::new(storage.clone(), Arc::<ManualClock>::clone(&clock)),
            storage,
            clock,
            random: Arc::new(SeededRandom::new(1)),
            settings: Arc::new(OAuthSettings::new(ISSUER)),
            limits,
            client_documents: None,
        };
        let master = SealingKey::ephemeral(&*deps.random);
        SigningKeys::load(deps, master).await.unwrap().current()
    }

    fn claims() -> Value {
        json!({
            "iss": ISSUER, "sub": "ada", "aud": "https://gw.example/mcp", "client_id": "c", "iat": 1_000_000,
            "exp": 1_003_600, "jti": "g.r", "scope": "mcp:use", "gid": "grant", "auth_time": 1_000_000
        })
    }

    /// Signs arbitrary claims with the real key under an arbitrary header.
    fn forge(keys: &KeySet, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), keys.active(NOW).unwrap().1, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    }

    fn verify(token: &str, keys: &KeySet) -> Option<Claims> {
        Claims::verify(token, keys, ISSUER, NOW)
    }

    #[tokio::test]
    async fn oa_105_a_token_is_read_back_until_it_ends() {
        let keys = keys().await;
        let claims: Claims = serde_json::from_value(claims()).unwrap();
        let token = claims.sign(&keys, NOW).unwrap();
        assert_eq!(verify(token.expose(), &keys), Some(claims));
        let later = Timestamp::from_seconds(1_003_600);
        assert_eq!(Claims::verify(token.expose(), &keys, ISSUER, later), None);
        assert!(token.expose().len() < 2048, "OA-105: {}", token.expose().len());
    }

    // N-108
    #[tokio::test]
    async fn n_108_a_token_with_another_header_is_refused() {
        let keys = keys().await;
        let kid = keys.active(NOW).unwrap().0.to_owned();
        let good = json!({ "typ": "at+jwt", "alg": "ES256", "kid": kid });
        assert!(verify(&forge(&keys, &good, &claims()), &keys).is_some());
        for (member, value) in [
            ("typ", json!("JWT")),
            ("alg", json!("none")),
            ("alg", json!("HS256")),
            ("kid", json!("other")),
            ("jwk", keys.jwks(NOW)["keys"][0].clone()),
            ("crit", json!(["exp"])),
        ] {
            let mut header = good.clone();
            header[member] = value;
            assert_eq!(verify(&forge(&keys, &header, &claims()), &keys), None, "{header}");
        }
        let unsigned = forge(&keys, &good, &claims());
        assert_eq!(verify(unsigned.rsplit_once('.').unwrap().0, &keys), None);
        let public = keys.jwks(NOW)["keys"][0]["x"].as_str().unwrap().to_owned();
        let header = Header { typ: Some("at+jwt".to_owned()), kid: Some(kid), ..Header::new(Algorithm::HS256) };
        let confused = jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(public.as_bytes())).unwrap();
        assert_eq!(verify(&confused, &keys), None);
        assert_eq!(verify(&"x".repeat(9 * 1024), &keys), None);
    }

    #[tokio::test]
    async fn oa_140_a_token_may_be_five_seconds_ahead() {
        let keys = keys().await;
        let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": keys.active(NOW).unwrap().0 });
        let mut claims = claims();
        for (ahead, is_valid) in [(5, true), (6, false)] {
            claims["iat"] = (NOW.as_seconds() + ahead).into();
            assert_eq!(verify(&forge(&keys, &header, &claims), &keys).is_some(), is_valid, "{ahead} s");
        }
    }

    #[tokio::test]
    async fn oa_100_a_header_that_brings_a_key_is_refused() {
        let keys = keys().await;
        let kid = keys.active(NOW).unwrap().0;
        for member in ["jwk", "jku", "x5u", "crit"] {
            let mut header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": kid });
            header[member] = json!(["x"]);
            assert_eq!(verify(&forge(&keys, &header, &claims()), &keys), None, "{member}");
        }
    }

    // N-108
    #[tokio::test]
    async fn oa_099_a_token_with_other_claims_is_refused() {
        let keys = keys().await;
        let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": keys.active(NOW).unwrap().0 });
        for (member, value) in [
            ("aud", Value::Null),
            ("aud", json!(["https://gw.example/mcp", "https://evil"])),
            ("iss", json!("https://evil")),
            ("exp", json!(1_000_000)),
            ("exp", Value::Null),
            ("iat", json!(1_000_060)),
            ("nbf", json!(1_000_060)),
            ("gid", Value::Null),
        ] {
            let mut claims = claims();
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(member);
            } else {
                claims[member] = value;
            }
            assert_eq!(verify(&forge(&keys, &header, &claims), &keys), None, "{claims}");
        }
    }
}
