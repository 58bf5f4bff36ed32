//! One authorization request, checked (`OA-60` to `OA-67`, `OA-75` to `OA-77`).

use serde::{Deserialize, Serialize};

use super::{
    browser::LoginPrompt,
    error_answer::ErrorAnswer,
    pkce::CodeChallenge,
    response::{AuthorizationError, Redirect, Trust},
};
use crate::{
    audit::{Audit, RefusalEvent},
    model::{Client, ClientId, ClientIp, ConsentRule, Endpoint, Registrant, Scopes},
    oauth::{
        clients::{
            client_lookup,
            redirect_uri::{RedirectTarget, RedirectUri},
        },
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError},
        form::{Params, Repeated},
        oauth_settings::OAuthSettings,
    },
    support::Secret,
};

/// A redirect URI that the client did not register.
const FOREIGN_URI: &str = "The redirect URI of the request is not registered for this client.";

/// A `resource` that is not an endpoint of this gateway (`OA-65`).
const UNKNOWN_RESOURCE: &str = "the resource is not an endpoint of this gateway, or there is more than one";

/// Maximum length of the query, in bytes.
const LONGEST_QUERY: usize = 16 * 1024;

/// Maximum length of a checked request as text, in bytes: sealed, it must fit the form of the login page (`OA-30`,
/// `OA-68`).
pub(super) const MAX_REQUEST: usize = 5 * 1024;

/// A checked authorization request. Before the login it must not reveal which backends exist, not even by its length
/// (`OA-6`). So it holds the requested names, and [`Self::resolve`] restricts them to existing ones.
#[derive(Debug)]
pub(super) struct AuthorizationRequest {
    pub(super) client: ClientId,
    /// Digest of its metadata document, if it has one: the description that a person decides about.
    document: Option<String>,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: CodeChallenge,
    /// Endpoint of `resource`; its backend need not exist.
    pub(super) named: Option<Endpoint>,
    /// Requested scopes, of any backends.
    pub(super) asked: Scopes,
    pub(super) login: LoginPrompt,
    /// The client asks for a choice of accounts (`prompt=select_account`).
    pub(super) chooses: bool,
    pub(super) consent: ConsentPrompt,
}

/// The client's rule for the consent page (`prompt`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ConsentPrompt {
    /// Shown, unless the operator vouches for the client.
    #[default]
    IfNeeded,
    /// Always shown (`prompt=consent`).
    Always,
    /// Never shown (`prompt=none`).
    Never,
}

/// The requested endpoint and scopes, restricted to what exists.
pub(super) struct Resolved {
    pub(super) endpoint: Endpoint,
    pub(super) scopes: Scopes,
}

/// Serialized form, for the store and for sealing.
#[derive(Serialize, Deserialize)]
struct Stored {
    client: ClientId,
    #[serde(default)]
    document: Option<String>,
    redirect_uri: String,
    state: Option<String>,
    challenge: String,
    named: Option<String>,
    asked: String,
    login: LoginPrompt,
    #[serde(default)]
    chooses: bool,
    #[serde(default)]
    consent: ConsentPrompt,
}

pub(super) enum Rejected {
    /// Shown on a local page; the client must not receive it.
    Page(AuthorizationError),
    /// Sent to the client.
    Client(ErrorAnswer),
}

/// The parameters of a query.
pub(super) fn parse(query: &str) -> Result<Params, Rejected> {
    if query.len() > LONGEST_QUERY {
        return Err(page("The request is too long."));
    }
    Params::parse(query).ok_or_else(|| page("The request is not UTF-8."))
}

/// The client named in a request.
pub(super) async fn client(deps: &OAuthDeps, params: &Params, from: ClientIp) -> Result<Client, Rejected> {
    let id = params.get("client_id")?.ok_or_else(|| page("The request names no client."))?;
    let client = client_lookup::of_request(deps, &ClientId::new(id), from).await;
    client.map_err(|refusal| Rejected::Page(refusal.into()))
}

/// Runs the checks in order: redirect URI (if this one fails, the error goes to a page), response type, PKCE, resource,
/// scope.
pub(super) fn check(
    settings: &OAuthSettings,
    params: &Params,
    client: &Client,
) -> Result<AuthorizationRequest, Rejected> {
    let uri = find_target(client, params.get("redirect_uri")?).map_err(Rejected::Page)?;
    // a repeated state is not sent back (N-50)
    let state = params.get("state").ok().flatten().map(str::to_owned);
    let answer = |(error, description)| {
        let (client, uri, state) = (client.id.clone(), uri.clone(), state.clone());
        Rejected::Client(ErrorAnswer { client, uri, state, error, description })
    };
    let request = read_rest(settings, params, client, &uri).map_err(answer)?;
    if request.to_text().map_err(|error| Rejected::Page(AuthorizationError::internal(&error)))?.len() > MAX_REQUEST {
        return Err(answer(("invalid_request", "the request is too long; send a shorter state".to_owned())));
    }
    Ok(request)
}

fn page(description: &str) -> Rejected {
    Rejected::Page(AuthorizationError::request("invalid_request", description))
}

/// The redirect URI, if the client registered it (`OA-63`).
pub(super) fn find_target(client: &Client, uri: Option<&str>) -> Result<RedirectUri, AuthorizationError> {
    redirect_uri(client, uri).ok_or_else(|| AuthorizationError::request("invalid_request", FOREIGN_URI))
}

/// The checks whose errors go to the client.
fn read_rest(
    settings: &OAuthSettings,
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
    if params.get("response_mode").map_err(once)?.is_some_and(|mode| mode != "query") {
        return refuse("invalid_request", "the response mode is query");
    }
    // a missing method means plain (RFC 7636 4.3), which is also refused (OA-64)
    let method = params.get("code_challenge_method").map_err(once)?;
    let challenge = params.get("code_challenge").map_err(once)?.and_then(CodeChallenge::parse);
    let (Some("S256"), Some(challenge)) = (method, challenge) else {
        return refuse("invalid_request", "PKCE with S256 is required: 43 to 128 unreserved characters");
    };
    // which backends exist is concealed before the login, so an unknown one is refused only afterwards (OA-6)
    let Ok(named) = settings.endpoint_for_strangers(params.all("resource")) else {
        return refuse("invalid_target", UNKNOWN_RESOURCE);
    };
    let asked = params.get("scope").map_err(once)?.or(client.scope.as_deref()).unwrap_or_default();
    let Ok(asked) = Scopes::parse(asked) else {
        return refuse("invalid_scope", "a scope has a character that RFC 6749 3.3 does not allow");
    };
    let prompt = params.get("prompt").map_err(once)?.unwrap_or_default();
    let prompts = |name: &str| prompt.split(' ').any(|word| word == name);
    let login = match (prompts("login"), params.get("max_age").map_err(once)?) {
        (false, None) => LoginPrompt::IfNeeded,
        (is_fresh, Some(text)) => match max_age(text) {
            None => return refuse("invalid_request", "max_age must be a whole number of seconds, 0 or more"),
            Some(0) => LoginPrompt::Fresh,
            Some(_) if is_fresh => LoginPrompt::Fresh,
            Some(seconds) => LoginPrompt::Within(seconds),
        },
        (true, None) => LoginPrompt::Fresh,
    };
    let consent = match (prompts("none"), prompts("consent")) {
        (true, _) => ConsentPrompt::Never,
        (false, true) => ConsentPrompt::Always,
        (false, false) => ConsentPrompt::IfNeeded,
    };
    let (document, redirect_uri) = (client.registrant.document(), uri.as_str().to_owned());
    Ok(AuthorizationRequest {
        client: client.id.clone(),
        document,
        redirect_uri,
        state,
        challenge,
        named,
        asked,
        login,
        chooses: prompts("select_account"),
        consent,
    })
}

/// The value of `max_age` (OpenID Connect Core 3.1.2.1).
fn max_age(text: &str) -> Option<u64> {
    // `parse` would accept a sign
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

// === impl Rejected ===

impl Rejected {
    /// Records the rejection. At most, a description repeats the client id or its host from the request.
    pub(super) fn record(&self, audit: &Audit) {
        let (error, reason) = match self {
            Self::Page(refusal) => (refusal.error, &refusal.description),
            Self::Client(answer) => (answer.error, &answer.description),
        };
        audit.record(RefusalEvent::Request { error, reason: reason.clone() });
    }
}

impl From<Repeated> for Rejected {
    fn from(repeated: Repeated) -> Self {
        page(&format!("In this request {repeated}."))
    }
}

impl From<Rejected> for ErrorResponse {
    /// The answer to a pushed request, which no person sees.
    fn from(rejected: Rejected) -> Self {
        let (error, description) = match rejected {
            Rejected::Page(AuthorizationError { status: 500.., .. }) => return Self::Internal(OAuthError::Transaction),
            Rejected::Page(AuthorizationError { error, description, .. })
            | Rejected::Client(ErrorAnswer { error, description, .. }) => (error, description),
        };
        Self::AuthorizationRequest(error, description)
    }
}

/// The registered redirect URI of the request. It may be omitted if exactly one is registered, unless that is a
/// loopback address, whose port is unknown (`OA-60`).
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
    pub(super) fn to_text(&self) -> Result<String, OAuthError> {
        let stored = Stored {
            client: self.client.clone(),
            document: self.document.clone(),
            redirect_uri: self.redirect_uri.clone(),
            state: self.state.clone(),
            challenge: self.challenge.as_str().to_owned(),
            named: self.named.as_ref().map(ToString::to_string),
            asked: self.asked.to_string(),
            login: self.login,
            chooses: self.chooses,
            consent: self.consent,
        };
        serde_json::to_string(&stored).map_err(|_| OAuthError::Transaction)
    }

    pub(super) fn from_text(text: &str) -> Result<Self, OAuthError> {
        let stored: Stored = serde_json::from_str(text).map_err(|_| OAuthError::Transaction)?;
        Ok(Self {
            client: stored.client,
            document: stored.document,
            redirect_uri: stored.redirect_uri,
            state: stored.state,
            challenge: CodeChallenge::parse(&stored.challenge).ok_or(OAuthError::Transaction)?,
            named: match stored.named {
                Some(path) => Some(Endpoint::from_path(&path).ok_or(OAuthError::Transaction)?),
                None => None,
            },
            asked: Scopes::parse(&stored.asked).map_err(|_| OAuthError::Transaction)?,
            login: stored.login,
            chooses: stored.chooses,
            consent: stored.consent,
        })
    }

    /// Refuses a request that must not show a page (`OA-77`): a person must approve every request.
    pub(super) fn with_pages(self) -> Result<Self, Rejected> {
        match self.consent {
            ConsentPrompt::IfNeeded | ConsentPrompt::Always => Ok(self),
            ConsentPrompt::Never => {
                Err(Rejected::Client(self.fail("interaction_required", "a person must approve every request")))
            }
        }
    }

    /// True if the client's description has not changed since the request was checked.
    pub(super) fn is_about(&self, client: &Client) -> bool {
        self.client == client.id && self.document == client.registrant.document()
    }

    /// The rule for the consent page. The person is asked, unless the request leaves that to the gateway, the operator
    /// vouches for the client, and the client authenticates and is at a web site (`OA-71`).
    pub(super) fn consent_rule(&self, client: &Client) -> ConsentRule {
        let is_vouched_for = client.registrant == Registrant::Operator(ConsentRule::Skipped)
            && !client.auth.is_public()
            && matches!(RedirectUri::stored(&self.redirect_uri).target(), RedirectTarget::Web(_));
        match self.consent {
            ConsentPrompt::IfNeeded if is_vouched_for => ConsentRule::Skipped,
            ConsentPrompt::IfNeeded | ConsentPrompt::Always | ConsentPrompt::Never => ConsentRule::Asked,
        }
    }

    /// The existing endpoint and scopes; `None` if the named backend does not exist.
    pub(super) fn resolve(&self, settings: &OAuthSettings) -> Option<Resolved> {
        let (endpoint, scopes) = settings.resolve(self.named.as_ref(), &self.asked)?;
        Some(Resolved { endpoint, scopes })
    }

    /// Success response: `code`, `state` as received, `iss`, each once (`OA-74`).
    pub(super) fn succeed(&self, code: &Secret, settings: &OAuthSettings) -> Redirect {
        let mut parameters = vec![("code", code.expose())];
        parameters.extend(self.state.as_deref().map(|state| ("state", state)));
        parameters.push(("iss", &settings.issuer));
        let location = RedirectUri::stored(&self.redirect_uri).with(&parameters);
        Redirect { location, trust: Trust::Automatic }
    }

    /// Error response after a denial (N-71).
    pub(super) fn deny(&self) -> ErrorAnswer {
        self.fail("access_denied", "you denied access")
    }

    /// Error response for a backend that does not exist.
    pub(super) fn unknown_target(&self) -> ErrorAnswer {
        self.fail("invalid_target", UNKNOWN_RESOURCE)
    }

    pub(super) fn fail(&self, error: &'static str, description: &str) -> ErrorAnswer {
        let uri = RedirectUri::stored(&self.redirect_uri);
        let (client, state) = (self.client.clone(), self.state.clone());
        ErrorAnswer { client, uri, state, error, description: description.to_owned() }
    }
}
