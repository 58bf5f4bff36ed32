//! One authorization request with PKCE (RFC 6749 4.1.1, RFC 7636, RFC 8707), and its response (RFC 9207).

use oauth2::{CsrfToken, PkceCodeChallenge, PkceCodeVerifier, Scope};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use super::{
    discovery::AuthorizationServer,
    error::LoginError,
    kept_secret::KeptSecret,
    parameters::{OfflineAccess, service_needs, with_operators},
    refusal::OAuthRefusal,
    registration::RegisteredClient,
    tokens::TokenSource,
};
use crate::support::{Random, Timestamp};

/// An authorization request that was shown to a person. Any process that holds it can take its response, so a login
/// survives the process that began it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenAuthorization {
    /// The URL to open in the browser.
    pub url: Url,
    pub state: String,
    pub verifier: KeptSecret,
    /// True if the response names the issuer (RFC 9207).
    pub returns_issuer: bool,
    /// Start of the request.
    pub begun: Timestamp,
}

/// Values that the response must contain.
#[derive(Debug, Clone)]
pub struct ExpectedResponse {
    pub state: String,
    /// The authorization server's issuer.
    pub issuer: String,
    /// True if the response must have `iss` (RFC 9207 2.4).
    pub returns_issuer: bool,
}

/// Parameters of an authorization request.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationParameters<'a> {
    pub state: &'a str,
    /// The PKCE code verifier; the challenge is derived from it.
    pub verifier: &'a str,
    /// Scopes, separated by spaces.
    pub scope: Option<&'a str>,
    pub further: &'a [(String, String)],
}

/// The login that the caller wants.
#[derive(Debug, Clone, Copy)]
pub struct LoginWish<'a> {
    /// Scopes, separated by spaces.
    pub scope: Option<&'a str>,
    /// Further parameters, set by the operator.
    pub authorize_params: &'a [(String, String)],
    /// Access while the person is away.
    pub offline: OfflineAccess,
}

/// The authorization code, or the reason for its absence.
pub type CodeOutcome = Result<String, LoginError>;

// === impl TokenSource ===

impl TokenSource {
    /// The URL where a person logs in.
    ///
    /// # Errors
    ///
    /// If the redirect URI is not a URL.
    pub fn authorization_url(
        &self,
        client: &RegisteredClient,
        parameters: AuthorizationParameters<'_>,
    ) -> Result<Url, LoginError> {
        let AuthorizationParameters { state, verifier, scope, further } = parameters;
        let oauth = self.client(client)?;
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(verifier.to_owned()));
        let scopes = scope.into_iter().flat_map(|scope| scope.split_ascii_whitespace());
        let mut request = oauth
            .authorize_url(|| CsrfToken::new(state.to_owned()))
            .set_pkce_challenge(challenge)
            .add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in further {
            request = request.add_extra_param(name.as_str(), value.as_str());
        }
        Ok(request.url().0)
    }
}

// === impl OpenAuthorization ===

impl OpenAuthorization {
    /// Creates a request.
    ///
    /// # Errors
    ///
    /// If the redirect URI is not a URL.
    pub fn new(
        source: &TokenSource,
        server: &AuthorizationServer,
        client: &RegisteredClient,
        wish: LoginWish<'_>,
        random: &dyn Random,
        now: Timestamp,
    ) -> Result<Self, LoginError> {
        let (state, verifier) = (random.token(), random.token());
        let needs = service_needs(&source.issuer, wish.offline);
        let mut own = needs.parameters.to_vec();
        own.extend(source.resource.iter().map(|resource| ("resource", resource.as_str())));
        let further = with_operators(&own, needs.prompts, wish.authorize_params);
        let scope = wish.scope;
        let parameters = AuthorizationParameters { state: &state, verifier: &verifier, scope, further: &further };
        let url = source.authorization_url(client, parameters)?;
        let verifier = KeptSecret::new(&verifier);
        Ok(Self { url, state, verifier, returns_issuer: server.returns_issuer, begun: now })
    }

    /// The requested scopes, separated by spaces.
    pub fn scope(&self) -> Option<String> {
        self.url.query_pairs().find(|(name, _)| name == "scope").map(|(_, scope)| scope.into_owned())
    }

    /// Values that its response must contain.
    pub fn expected(&self, source: &TokenSource) -> ExpectedResponse {
        let (state, issuer) = (self.state.clone(), source.issuer.clone());
        ExpectedResponse { state, issuer, returns_issuer: self.returns_issuer }
    }
}

// === impl ExpectedResponse ===

impl ExpectedResponse {
    /// The outcome in a query; `None` if the query belongs to another request.
    pub fn read(&self, query: &str) -> Option<CodeOutcome> {
        let parameter = |name: &str| {
            form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if parameter("state").as_ref() != Some(&self.state) {
            return None;
        }
        // RFC 9207 2.4: a missing `iss` matters only if the server promises to send it
        let issuer = parameter("iss");
        if issuer.as_ref().map_or(self.returns_issuer, |issuer| *issuer != self.issuer) {
            let reason = "the response comes from another authorization server than the one that was asked";
            return Some(Err(LoginError::Untrusted(reason.to_owned())));
        }
        Some(match (parameter("code"), parameter("error")) {
            (_, Some(code)) => {
                let description = parameter("error_description");
                Err(LoginError::Refused(OAuthRefusal::of_response(&code, description.as_deref())))
            }
            (Some(code), None) => Ok(code),
            (None, None) => Err(LoginError::Untrusted("the response has neither `code` nor `error`".to_owned())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, returns_issuer: bool) -> Option<CodeOutcome> {
        let issuer = "https://as.example".to_owned();
        ExpectedResponse { state: "s".to_owned(), issuer, returns_issuer }.read(query)
    }

    #[test]
    fn a_response_is_taken_only_with_its_state_and_issuer() {
        assert_eq!(read("code=c&state=s&iss=https%3A%2F%2Fas.example", true), Some(Ok("c".to_owned())));
        assert_eq!(read("code=c&state=s", false), Some(Ok("c".to_owned())));
        for foreign in ["code=c", "code=c&state=t", "", "state=&code=c"] {
            assert_eq!(read(foreign, false), None, "{foreign}");
        }
        for mixed_up in [("code=c&state=s", true), ("code=c&state=s&iss=https%3A%2F%2Fother.example", false)] {
            assert!(matches!(read(mixed_up.0, mixed_up.1), Some(Err(LoginError::Untrusted(_)))), "{mixed_up:?}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_code() {
        let refused = read("error=access_denied&error_description=no+way&state=s", false);
        let refusal = OAuthRefusal::of_response("access_denied", Some("no way"));
        assert_eq!(refused, Some(Err(LoginError::Refused(refusal))));
    }
}
