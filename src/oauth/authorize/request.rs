//! One authorization request, checked (`OA-60` to `OA-67`, `OA-75` to `OA-77`). Knows nothing of people and browsers.

use serde::{Deserialize, Serialize};

use super::{
    answer::{Redirect, Refusal, Trust},
    browser::Login,
};
use crate::{
    model::{Client, ClientId, ConcealBackends, Endpoint, Scopes},
    oauth::{
        core::Core,
        error::Error,
        form::{Params, Repeated},
        pkce::Challenge,
        redirect_uri::{RedirectTarget, RedirectUri},
        settings::Settings,
    },
    support::Secret,
};

/// What a person cannot do about a client that the gateway does not know, and what they can.
const UNKNOWN_CLIENT: &str = "The gateway does not know this client. Remove the server from your MCP client, clear the \
                              authorization it has stored for it, and add it again.";

/// A redirect URI that the client did not register.
const FOREIGN_URI: &str = "The request asks for an answer at an address that the client has not registered.";

/// A `resource` that is no endpoint of this gateway (`OA-65`).
const UNKNOWN_RESOURCE: &str = "the resource is none of this gateway, or there is more than one";

/// The longest query that is read, in bytes.
const LONGEST_QUERY: usize = 16 * 1024;

/// The longest text of a checked request, in bytes: sealed, it must fit the form of the login page (`OA-30`, `OA-68`).
pub(super) const MAX_REQUEST: usize = 5 * 1024;

/// A checked authorization request. Which backends exist must not show before the login, not even by its length
/// (`OA-6`): so it holds what was asked for, and [`Self::resolve`] cuts that to what there is.
#[derive(Debug)]
pub(super) struct AuthorizationRequest {
    pub(super) client: ClientId,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: Challenge,
    /// The endpoint that `resource` names; its backend need not exist.
    pub(super) named: Option<Endpoint>,
    /// The scopes that the client asks for, of any backends.
    pub(super) asked: Scopes,
    pub(super) login: Login,
}

/// What a request asks for of what there is.
pub(super) struct Resolved {
    pub(super) endpoint: Endpoint,
    pub(super) scopes: Scopes,
}

/// How the store and the sealed form keep it.
#[derive(Serialize, Deserialize)]
struct Stored {
    client: ClientId,
    redirect_uri: String,
    state: Option<String>,
    challenge: String,
    named: Option<String>,
    asked: String,
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

/// Reads and checks a request; a refusal is logged with its reason.
pub(super) async fn read(core: &Core, query: &str) -> Result<(AuthorizationRequest, String), Rejected> {
    let checked = check(core, query).await;
    if let Err(rejected) = &checked {
        rejected.log();
    }
    checked
}

/// The checks in their order: client, redirect URI (both failing on a page), response type, PKCE, resource, scope.
/// Gives the request and the name of its client.
async fn check(core: &Core, query: &str) -> Result<(AuthorizationRequest, String), Rejected> {
    let page = |error, description: &str| Rejected::Page(Refusal::request(error, description));
    if query.len() > LONGEST_QUERY {
        return Err(page("invalid_request", "The request is too long."));
    }
    let params = Params::parse(query).ok_or_else(|| page("invalid_request", "The request is not UTF-8."))?;
    let once = |repeated: Repeated| page("invalid_request", &format!("In this request {repeated}."));
    let id = params.get("client_id").map_err(once)?;
    let id = id.ok_or_else(|| page("invalid_request", "The request names no client."))?;
    let given = params.get("redirect_uri").map_err(once)?;
    let (client, uri) = find_target(core, id, given).await.map_err(Rejected::Page)?;
    // given twice, it is sent back not at all (N-50)
    let state = params.get("state").ok().flatten().map(str::to_owned);
    let answer = |(error, description)| {
        Rejected::Client(ErrorAnswer { uri: uri.clone(), state: state.clone(), error, description })
    };
    let request = read_rest(&core.settings, &params, &client, &uri).map_err(answer)?;
    if request.to_text().map_err(|error| Rejected::Page(Refusal::internal(&error)))?.len() > MAX_REQUEST {
        return Err(answer(("invalid_request", "the request is too long; send a shorter state".to_owned())));
    }
    Ok((request, client.name))
}

/// The client of this id, and the redirect URI of the request as far as it registered that (`OA-63`).
pub(super) async fn find_target(core: &Core, id: &str, uri: Option<&str>) -> Result<(Client, RedirectUri), Refusal> {
    let client =
        core.storage.clients().lookup(&ClientId::new(id)).await.map_err(|error| Refusal::internal(&error.into()))?;
    let client = client.ok_or_else(|| Refusal::request("invalid_client", UNKNOWN_CLIENT))?;
    let uri = redirect_uri(&client, uri).ok_or_else(|| Refusal::request("invalid_request", FOREIGN_URI))?;
    Ok((client, uri))
}

/// What is checked once the client can be told.
fn read_rest(
    settings: &Settings,
    params: &Params,
    client: &Client,
    uri: &RedirectUri,
) -> Result<AuthorizationRequest, (&'static str, String)> {
    let once = |repeated: Repeated| ("invalid_request", repeated.to_string());
    let refuse = |error, text: &str| Err((error, text.to_owned()));
    let state = params.get("state").map_err(once)?.map(str::to_owned);
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
    let named = settings.named_endpoint(params.all("resource")).ok();
    // strangers are not told which backends exist: this one is refused after the login (OA-6)
    let told = settings.policy.conceal_backends == ConcealBackends::No;
    let Some(named) = named.filter(|named| !told || named.as_ref().is_none_or(|named| settings.knows(named))) else {
        return refuse("invalid_target", UNKNOWN_RESOURCE);
    };
    let asked = params.get("scope").map_err(once)?.or(client.scope.as_deref()).unwrap_or_default();
    let Ok(asked) = Scopes::parse(asked) else {
        return refuse("invalid_scope", "a scope holds a character that RFC 6749 3.3 does not allow");
    };
    let login = match params.get("prompt").map_err(once)? {
        Some(prompt) if prompt.split(' ').any(|word| word == "none") => {
            return refuse("interaction_required", "a person must approve every request");
        }
        Some(prompt) if prompt.split(' ').any(|word| word == "login") => Login::Fresh,
        _ => Login::IfNeeded,
    };
    let (client, redirect_uri) = (client.id.clone(), uri.as_str().to_owned());
    Ok(AuthorizationRequest { client, redirect_uri, state, challenge, named, asked, login })
}

impl Rejected {
    /// The descriptions are the gateway's own words and quote nothing of the request.
    fn log(&self) {
        let (error, reason) = match self {
            Self::Page(refusal) => (refusal.error, &refusal.description),
            Self::Client(answer) => (answer.error, &answer.description),
        };
        tracing::info!(target: "audit", error, %reason, "OAuth request refused");
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
            named: self.named.as_ref().map(ToString::to_string),
            asked: self.asked.to_string(),
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
            named: match stored.named {
                Some(path) => Some(Endpoint::from_path(&path).ok_or(Error::Transaction)?),
                None => None,
            },
            asked: Scopes::parse(&stored.asked).map_err(|_| Error::Transaction)?,
            login: stored.login,
        })
    }

    /// The endpoint and the scopes that there are; `None` if the backend that the request names does not exist.
    pub(super) fn resolve(&self, settings: &Settings) -> Option<Resolved> {
        let endpoint = match &self.named {
            Some(named) => Some(named.clone()).filter(|named| settings.knows(named))?,
            None => settings.inferred_endpoint(&self.asked),
        };
        let scopes = settings.scopes_at(&endpoint, &self.asked);
        Some(Resolved { endpoint, scopes })
    }

    /// The answer with a code: `code`, `state` as it was sent, `iss`, each once (`OA-74`).
    pub(super) fn succeed(&self, code: &Secret, settings: &Settings) -> Redirect {
        let mut parameters = vec![("code", code.expose())];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters.push(("iss", &settings.issuer));
        let location = RedirectUri::stored(&self.redirect_uri).with(&parameters);
        Redirect { location, trust: Trust::Automatic }
    }

    /// The answer where the person does not approve (N-71).
    pub(super) fn deny(&self) -> ErrorAnswer {
        self.fail("access_denied", "the person did not approve")
    }

    /// The answer where the resource is a backend that does not exist.
    pub(super) fn unknown_target(&self) -> ErrorAnswer {
        self.fail("invalid_target", UNKNOWN_RESOURCE)
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
            RedirectTarget::Web(host) if !settings.policy.trusted_redirect_hosts.contains(host) => {
                let reason = format!("The request was not accepted: {}.", self.description);
                Trust::ShowLink { host: host.clone(), reason }
            }
            RedirectTarget::Web(_) | RedirectTarget::Loopback(_) | RedirectTarget::App(_) => Trust::Automatic,
        };
        Redirect { location, trust }
    }
}
