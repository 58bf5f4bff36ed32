//! A login that a person could finish now: the authorization request, and the token requests that would follow.

use oauth2::{PkceCodeChallenge, PkceCodeVerifier};
use url::{Url, form_urlencoded};

use super::{
    client::ClientProfile,
    discovery::DiscoveredDocuments,
    registration::{ClientAuthMethod, KnownClient},
};
use crate::{
    oauth_client::client_secret_basic,
    support::{Random, Secret},
};

/// A login up to the page that a person sees.
pub struct OpenLogin {
    pub url: Url,
    /// The redirect URI for the answer.
    pub redirect_uri: String,
    pub state: String,
    /// The issuer that the response must name, if the server announces that it does (RFC 9207).
    pub issuer: Option<String>,
    client_id: String,
    secret: Option<Secret>,
    method: ClientAuthMethod,
    verifier: Secret,
    token_endpoint: Url,
    resource: Option<String>,
}

/// A request to the token endpoint.
pub struct TokenEndpointRequest {
    pub url: Url,
    pub authorization: Option<Secret>,
    pub form: Secret,
}

// === impl OpenLogin ===

impl OpenLogin {
    /// The login of a known client; `None` if the metadata has no endpoints.
    pub(super) fn begin(
        client: &ClientProfile,
        known: KnownClient,
        found: &DiscoveredDocuments,
        server: &Url,
        scope: Option<&str>,
        random: &dyn Random,
    ) -> Option<Self> {
        let named = found.resource.as_ref().and_then(|metadata| metadata.text("resource"));
        let resource = client.resource(server, named);
        let verifier = PkceCodeVerifier::new(random.token());
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
        let state = random.token();
        let mut url = found.server.url_of("authorization_endpoint")?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &known.id)
            .append_pair("code_challenge", challenge.as_str())
            .append_pair("code_challenge_method", "S256")
            .append_pair("redirect_uri", &known.redirect_uri)
            .append_pair("state", &state);
        for (name, value) in [("scope", scope), ("resource", resource.as_deref())] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let announces = found.server.json["authorization_response_iss_parameter_supported"] == true;
        Some(Self {
            url,
            redirect_uri: known.redirect_uri,
            state,
            issuer: announces.then(|| found.server.text("issuer").unwrap_or_default().to_owned()),
            client_id: known.id,
            secret: known.secret,
            method: known.method,
            verifier: Secret::new(verifier.secret().as_str()),
            token_endpoint: found.server.url_of("token_endpoint")?,
            resource,
        })
    }

    /// The URL of the client's metadata document, if it uses one as its id.
    pub(super) fn document(&self) -> Option<&str> {
        Some(self.client_id.as_str()).filter(|id| id.starts_with("https://"))
    }

    /// The request with an authorization code.
    pub fn redeem(&self, code: &str) -> TokenEndpointRequest {
        self.token_request(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", self.verifier.expose()),
        ])
    }

    /// The request with a refresh token.
    pub fn refresh(&self, token: &str) -> TokenEndpointRequest {
        self.token_request(&[("grant_type", "refresh_token"), ("refresh_token", token)])
    }

    fn token_request(&self, parameters: &[(&str, &str)]) -> TokenEndpointRequest {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(parameters);
        if let Some(resource) = &self.resource {
            form.append_pair("resource", resource);
        }
        let secret = self.secret.as_ref().map_or("", Secret::expose);
        let mut authorization = None;
        match self.method {
            ClientAuthMethod::SecretBasic => {
                authorization = Some(client_secret_basic(&self.client_id, secret));
            }
            ClientAuthMethod::SecretPost => {
                form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret);
            }
            ClientAuthMethod::None => {
                form.append_pair("client_id", &self.client_id);
            }
        }
        TokenEndpointRequest { url: self.token_endpoint.clone(), authorization, form: Secret::new(form.finish()) }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    use super::*;

    // RFC 6749 2.3.1: each is form-encoded before both are joined
    #[test]
    fn a_colon_in_an_id_or_a_secret_separates_nothing() {
        let login = OpenLogin {
            url: Url::parse("https://as.example/authorize").unwrap(),
            redirect_uri: "http://127.0.0.1/callback".to_owned(),
            state: "s".to_owned(),
            issuer: None,
            client_id: "urn:client".to_owned(),
            secret: Some(Secret::new("a:b c%")),
            method: ClientAuthMethod::SecretBasic,
            verifier: Secret::new("v"),
            token_endpoint: Url::parse("https://as.example/token").unwrap(),
            resource: None,
        };
        let sent = login.refresh("token").authorization.unwrap();
        let credentials = STANDARD.decode(sent.expose().strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(credentials, b"urn%3Aclient:a%3Ab+c%25");
    }
}
