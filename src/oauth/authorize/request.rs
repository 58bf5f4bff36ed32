//! One authorization request, checked (`OA-60` to `OA-67`, `OA-75` to `OA-77`). Knows nothing of people and browsers.

use serde::{Deserialize, Serialize};

use super::{Login, Redirect, RedirectTarget, Refusal, Trust, grantable};
use crate::{
    model::{Client, ClientId, Endpoint, Scopes},
    oauth::{
        Error, KeyHolder, OAuth, Settings,
        form::{Params, Repeated},
        pkce::Challenge,
        redirect_uri::RedirectUri,
    },
    support::Secret,
};

/// What a person cannot do about a client that the gateway does not know, and what they can.
const UNKNOWN_CLIENT: &str = "The gateway does not know this client. Remove the server from your MCP client, clear the \
                              authorization it has stored for it, and add it again.";

/// The longest query that is read, in bytes: strangers send them, and they are stored.
const LONGEST_QUERY: usize = 16 * 1024;

/// A checked authorization request.
pub(super) struct AuthorizationRequest {
    pub(super) client: ClientId,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: Challenge,
    pub(super) endpoint: Endpoint,
    pub(super) scopes: Scopes,
    pub(super) login: Login,
}

/// How the store keeps it.
#[derive(Serialize, Deserialize)]
struct Stored {
    client: ClientId,
    redirect_uri: String,
    state: Option<String>,
    challenge: String,
    endpoint: String,
    scopes: String,
    login: Login,
}

/// Why a request is not accepted.
pub(super) enum Rejected {
    /// The client cannot be told: on a local page.
    Page(Refusal),
    /// The client is told.
    Client(ErrorAnswer),
}

/// An error that is sent to the client.
pub(super) struct ErrorAnswer {
    uri: RedirectUri,
    state: Option<String>,
    error: &'static str,
    description: String,
}

impl OAuth {
    /// The checks in their order: client, redirect URI (both failing on a page), response type, PKCE, resource, scope.
    pub(super) async fn read_request(&self, query: &str) -> Result<AuthorizationRequest, Rejected> {
        let page = |error, description: &str| Rejected::Page(Refusal::request(error, description));
        if query.len() > LONGEST_QUERY {
            return Err(page("invalid_request", "The request is too long."));
        }
        let params = Params::parse(query).ok_or_else(|| page("invalid_request", "The request is not UTF-8."))?;
        let once = |repeated: Repeated| page("invalid_request", &format!("In this request {repeated}."));
        let id = params.get("client_id").map_err(once)?;
        let id = id.ok_or_else(|| page("invalid_request", "The request names no client."))?;
        let client = self.find_client(id).await.map_err(|error| Rejected::Page(Refusal::internal(&error)))?;
        let client = client.ok_or_else(|| page("invalid_client", UNKNOWN_CLIENT))?;
        let uri = redirect_uri(&client, params.get("redirect_uri").map_err(once)?);
        let uri = uri.ok_or_else(|| {
            page("invalid_request", "The request asks for an answer at an address that the client has not registered.")
        })?;
        // given twice, it is sent back not at all (N-50)
        let state = params.get("state").ok().flatten().map(str::to_owned);
        let answer = |(error, description)| {
            Rejected::Client(ErrorAnswer { uri: uri.clone(), state: state.clone(), error, description })
        };
        let (challenge, endpoint, scopes, login) = self.read_rest(&params, &client).map_err(answer)?;
        let redirect_uri = uri.as_str().to_owned();
        Ok(AuthorizationRequest { client: client.id, redirect_uri, state, challenge, endpoint, scopes, login })
    }

    /// What is checked once the client can be told.
    fn read_rest(
        &self,
        params: &Params,
        client: &Client,
    ) -> Result<(Challenge, Endpoint, Scopes, Login), (&'static str, String)> {
        let once = |repeated: Repeated| ("invalid_request", repeated.to_string());
        let refuse = |error, text: &str| Err((error, text.to_owned()));
        params.get("state").map_err(once)?;
        match params.get("response_type").map_err(once)? {
            Some("code") => {}
            Some(_) => return refuse("unsupported_response_type", "the response type is code"),
            None => return refuse("invalid_request", "the parameter response_type is missing"),
        }
        if params.get("request").map_err(once)?.is_some() {
            return refuse("request_not_supported", "request objects are not supported");
        }
        if params.get("request_uri").map_err(once)?.is_some() {
            return refuse("request_uri_not_supported", "request objects are not supported");
        }
        // absent means plain (RFC 7636 4.3), which is refused too (OA-64)
        let method = params.get("code_challenge_method").map_err(once)?;
        let challenge = params.get("code_challenge").map_err(once)?.and_then(Challenge::parse);
        let (Some("S256"), Some(challenge)) = (method, challenge) else {
            return refuse("invalid_request", "PKCE with S256 is required: 43 to 128 unreserved characters");
        };
        let settings = self.settings();
        let Ok(named) = settings.endpoint_of(params.all("resource")) else {
            return refuse("invalid_target", "the resource is none of this gateway, or there is more than one");
        };
        let asked = params.get("scope").map_err(once)?.or(client.scope.as_deref()).unwrap_or_default();
        let Ok(asked) = Scopes::parse(asked) else {
            return refuse("invalid_scope", "a scope holds a character that RFC 6749 3.3 does not allow");
        };
        let endpoint = named.unwrap_or_else(|| settings.inferred_endpoint(&asked));
        let scopes = settings.scopes_at(&endpoint, &asked);
        let login = match params.get("prompt").map_err(once)? {
            Some(prompt) if prompt.split(' ').any(|word| word == "none") => {
                return refuse("interaction_required", "a person must approve every request");
            }
            Some(prompt) if prompt.split(' ').any(|word| word == "login") => Login::Fresh,
            _ => Login::IfNeeded,
        };
        Ok((challenge, endpoint, scopes, login))
    }
}

/// The registered redirect URI that the request means; it may be left out where there is exactly one, and that no
/// loopback address, whose port nobody would know (`OA-60`).
fn redirect_uri(client: &Client, given: Option<&str>) -> Option<RedirectUri> {
    let mut registered = client.redirect_uris.iter().map(|uri| RedirectUri::stored(uri));
    match given {
        Some(given) => registered.find(|uri| uri.matches(given)).map(|_| RedirectUri::stored(given)),
        None if client.redirect_uris.len() == 1 => {
            registered.next().filter(|uri| !matches!(uri.target(), RedirectTarget::Loopback(_)))
        }
        None => None,
    }
}

// === impl AuthorizationRequest ===

impl AuthorizationRequest {
    pub(super) fn to_text(&self) -> Result<String, Error> {
        let stored = Stored {
            client: self.client.clone(),
            redirect_uri: self.redirect_uri.clone(),
            state: self.state.clone(),
            challenge: self.challenge.as_str().to_owned(),
            endpoint: self.endpoint.to_string(),
            scopes: self.scopes.to_string(),
            login: self.login,
        };
        serde_json::to_string(&stored).map_err(|_| Error::Transaction)
    }

    pub(super) fn from_text(text: &str) -> Result<Self, Error> {
        let stored: Stored = serde_json::from_str(text).map_err(|_| Error::Transaction)?;
        Ok(Self {
            client: stored.client,
            redirect_uri: stored.redirect_uri,
            state: stored.state,
            challenge: Challenge::parse(&stored.challenge).ok_or(Error::Transaction)?,
            endpoint: Endpoint::from_path(&stored.endpoint).ok_or(Error::Transaction)?,
            scopes: Scopes::parse(&stored.scopes).map_err(|_| Error::Transaction)?,
            login: stored.login,
        })
    }

    pub(super) fn scopes_for(&self, holder: &KeyHolder) -> Scopes {
        grantable(&self.scopes, holder)
    }

    /// The answer with a code: `code`, `state` as it was sent, `iss`, each once (`OA-74`).
    pub(super) fn succeed(&self, code: &Secret, settings: &Settings) -> Redirect {
        let mut parameters = vec![("code", code.expose())];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters.push(("iss", &settings.issuer));
        let location = RedirectUri::stored(&self.redirect_uri).with(&parameters);
        Redirect { location, trust: Trust::Automatic }
    }

    pub(super) fn fail(&self, error: &'static str, description: &str) -> ErrorAnswer {
        let uri = RedirectUri::stored(&self.redirect_uri);
        ErrorAnswer { uri, state: self.state.clone(), error, description: description.to_owned() }
    }
}

// === impl ErrorAnswer ===

impl ErrorAnswer {
    /// The answer with an error (RFC 6749 4.1.2.1, RFC 9207). The browser is sent by itself to this computer and to hosts
    /// that the operator trusts alone: since anybody may register, anything else would be an open redirector (`OA-75`).
    pub(super) fn redirect(self, settings: &Settings) -> Redirect {
        let mut parameters = vec![("error", self.error), ("error_description", &self.description)];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters.push(("iss", &settings.issuer));
        let location = self.uri.with(&parameters);
        let trust = match self.uri.target() {
            RedirectTarget::Web(host) if !settings.trusted_redirect_hosts.contains(host) => {
                let reason = format!("The request was not accepted: {}.", self.description);
                Trust::ShowLink { host: host.clone(), reason }
            }
            RedirectTarget::Web(_) | RedirectTarget::Loopback(_) | RedirectTarget::App(_) => Trust::Automatic,
        };
        Redirect { location, trust }
    }
}
