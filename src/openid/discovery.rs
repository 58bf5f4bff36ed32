//! Metadata of a provider (OpenID Connect Discovery 1.0, RFC 8414, RFC 9207). Knows nothing of requests.

use serde::Deserialize;
use url::Url;

/// Metadata that a login needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderMetadata {
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) jwks_uri: Url,
    pub(super) userinfo_endpoint: Option<Url>,
    pub(super) issuer_parameter: IssuerParameter,
    pub(super) client_auth: ProviderClientAuth,
}

/// The parameter `iss` of responses (RFC 9207).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuerParameter {
    /// Every response has it.
    Always,
    /// Not announced; it is checked if it comes.
    Maybe,
}

/// Place of the gateway's secret in requests for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderClientAuth {
    /// `client_secret_basic`, the default (Discovery 3).
    Basic,
    /// `client_secret_post`.
    Body,
}

#[derive(Deserialize)]
struct ProviderDocument {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    authorization_response_iss_parameter_supported: Option<bool>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
}

/// The URL of the metadata of an issuer (Discovery 4).
pub(super) fn location(issuer: &str) -> Option<Url> {
    Url::parse(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))).ok()
}

impl ProviderMetadata {
    /// Reads the metadata of this issuer; the error says what is wrong.
    pub(super) fn read(issuer: &str, document: &[u8]) -> Result<Self, String> {
        let document: ProviderDocument =
            serde_json::from_slice(document).map_err(|error| format!("the metadata cannot be read: {error}"))?;
        // byte for byte (Discovery 4.3): otherwise another issuer could answer for this one
        if document.issuer != issuer {
            return Err(format!("the metadata is of another issuer, `{}`", document.issuer));
        }
        let has = |methods: &Option<Vec<String>>, method: &str| {
            methods.as_ref().is_none_or(|methods| methods.iter().any(|known| known == method))
        };
        // many providers accept PKCE without announcing it
        if !has(&document.code_challenge_methods_supported, "S256") {
            return Err("the provider does not support PKCE with S256".to_owned());
        }
        let basic = has(&document.token_endpoint_auth_methods_supported, "client_secret_basic");
        let endpoint = |text: &str| endpoint(text, issuer);
        Ok(Self {
            authorization_endpoint: endpoint(&document.authorization_endpoint)?,
            token_endpoint: endpoint(&document.token_endpoint)?,
            jwks_uri: endpoint(&document.jwks_uri)?,
            userinfo_endpoint: document.userinfo_endpoint.as_deref().map(endpoint).transpose()?,
            issuer_parameter: if document.authorization_response_iss_parameter_supported == Some(true) {
                IssuerParameter::Always
            } else {
                IssuerParameter::Maybe
            },
            client_auth: if basic { ProviderClientAuth::Basic } else { ProviderClientAuth::Body },
        })
    }
}

/// A URL of the metadata: https, or the origin of the issuer, which the operator chose.
fn endpoint(text: &str, issuer: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|_| format!("`{text}` in the metadata is no URL"))?;
    let is_own = Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == url.origin());
    if url.scheme() == "https" || is_own { Ok(url) } else { Err(format!("`{text}` in the metadata is not https")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(change: &[(&str, serde_json::Value)]) -> Result<ProviderMetadata, String> {
        let mut document = json!({
            "issuer": "https://id.example",
            "authorization_endpoint": "https://id.example/auth",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://keys.example/jwks",
        });
        for (name, value) in change {
            document[name] = value.clone();
        }
        ProviderMetadata::read("https://id.example", document.to_string().as_bytes())
    }

    #[test]
    fn up_012_the_metadata_is_of_the_configured_issuer_and_has_safe_urls() {
        let metadata = read(&[]).unwrap();
        assert_eq!(
            (metadata.issuer_parameter, metadata.client_auth),
            (IssuerParameter::Maybe, ProviderClientAuth::Basic)
        );
        let metadata = read(&[
            ("authorization_response_iss_parameter_supported", json!(true)),
            ("token_endpoint_auth_methods_supported", json!(["client_secret_post"])),
            ("code_challenge_methods_supported", json!(["plain", "S256"])),
        ]);
        let metadata = metadata.unwrap();
        assert_eq!(
            (metadata.issuer_parameter, metadata.client_auth),
            (IssuerParameter::Always, ProviderClientAuth::Body)
        );
        // null is like absent
        let nulls = [
            "authorization_response_iss_parameter_supported",
            "token_endpoint_auth_methods_supported",
            "code_challenge_methods_supported",
            "userinfo_endpoint",
        ];
        assert_eq!(read(&nulls.map(|name| (name, json!(null)))).unwrap(), read(&[]).unwrap());
        for change in [
            ("issuer", json!("https://id.example/")),
            ("issuer", json!("https://evil.example")),
            ("authorization_endpoint", json!("http://id.example/auth")),
            ("token_endpoint", json!("http://10.0.0.1/token")),
            ("jwks_uri", json!("file:///etc/passwd")),
            ("userinfo_endpoint", json!("userinfo")),
            ("code_challenge_methods_supported", json!(["plain"])),
        ] {
            assert!(read(std::slice::from_ref(&change)).is_err(), "{change:?}");
        }
    }

    #[test]
    fn the_metadata_is_below_the_issuer() {
        let at = |issuer| location(issuer).unwrap().to_string();
        assert_eq!(at("https://id.example/realms/x"), "https://id.example/realms/x/.well-known/openid-configuration");
        assert_eq!(at("https://id.example/"), "https://id.example/.well-known/openid-configuration");
    }
}
