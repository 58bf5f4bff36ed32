//! Metadata of a provider (OpenID Connect Discovery 1.0): the part every OAuth client reads, and the rest that a login
//! needs.

use serde_json::Value;
use url::Url;

use crate::{
    model::PkceSupport,
    oauth_client::{AuthorizationServer, LoginError, appended},
};

/// Metadata that a login needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderMetadata {
    pub(super) server: AuthorizationServer,
    pub(super) jwks_uri: Url,
    pub(super) userinfo_endpoint: Option<Url>,
}

/// The URL of the metadata of an issuer (Discovery 4).
pub(super) fn location(issuer: &str) -> Option<Url> {
    Some(appended(&Url::parse(issuer).ok()?, "openid-configuration"))
}

impl ProviderMetadata {
    /// Reads the metadata of this issuer; the error says what is wrong.
    pub(super) fn read(issuer: &str, document: &[u8]) -> Result<Self, String> {
        let document: Value =
            serde_json::from_slice(document).map_err(|error| format!("the metadata cannot be read: {error}"))?;
        let trust = |text: &str, name: &str| endpoint(text, issuer, name);
        // many providers accept PKCE without announcing it
        let server = AuthorizationServer::read(&document, issuer, PkceSupport::Assumed, trust)
            .map_err(|fault| fault.error.to_string())?;
        // byte for byte (Discovery 4.3): otherwise another issuer could answer for this one
        if server.issuer != issuer {
            return Err(format!("the metadata is of another issuer, `{}`", server.issuer));
        }
        let further = |name: &str| {
            let text = document[name].as_str();
            text.map(|text| trust(text, name).map_err(|error| error.to_string())).transpose()
        };
        let jwks_uri = further("jwks_uri")?.ok_or_else(|| "the metadata has no `jwks_uri`".to_owned())?;
        Ok(Self { server, jwks_uri, userinfo_endpoint: further("userinfo_endpoint")? })
    }
}

/// A URL of the metadata: https, or the origin of the issuer, which the operator chose.
fn endpoint(text: &str, issuer: &str, name: &str) -> Result<Url, LoginError> {
    let refuse = |reason: &str| LoginError::Untrusted(format!("`{name}` in the metadata, `{text}`, is {reason}"));
    let url = Url::parse(text).map_err(|_| refuse("not a URL"))?;
    let is_own = Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == url.origin());
    if url.scheme() == "https" || is_own { Ok(url) } else { Err(refuse("not https")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(change: &[(&str, Value)]) -> Result<ProviderMetadata, String> {
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
        assert!(!metadata.server.returns_issuer && metadata.server.auth_methods.is_empty());
        let metadata = read(&[
            ("authorization_response_iss_parameter_supported", json!(true)),
            ("token_endpoint_auth_methods_supported", json!(["client_secret_post"])),
            ("code_challenge_methods_supported", json!(["plain", "S256"])),
        ]);
        let metadata = metadata.unwrap();
        assert!(metadata.server.returns_issuer);
        assert_eq!(metadata.server.auth_methods, ["client_secret_post"]);
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
            ("jwks_uri", json!(null)),
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
