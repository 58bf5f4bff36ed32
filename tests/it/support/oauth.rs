//! An authorization server in memory, and a client for its flows.

use std::{net::IpAddr, sync::Arc};

use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use lockkeeper::{
    model::{AllowedNetworks, BackendId, ClientIp, Direct, NewKey, Rights, UserId},
    oauth::{
        AuthorizationError, BeginOutcome, Browser, DecisionOutcome, KeyHolder, OAuth, OAuthSettings,
        PendingAuthorization, Redirect, RequestSource, RequestState, SentDecision, ServerChoice, StoreOutcome,
        Transaction, TransactionId,
    },
    storage::Storage,
    support::{Clock, Digest, ManualClock, Random, Secret, SeededRandom},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use url::{Url, form_urlencoded};

use super::http::Serve;

/// The public URL of the gateway in tests.
pub(crate) const ISSUER: &str = "https://gw.example";
/// The redirect URI of the tests' client.
pub(crate) const CALLBACK: &str = "http://127.0.0.1:7777/callback";
/// A PKCE verifier, and its challenge (RFC 7636, appendix B).
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(crate) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// The address of all clients.
pub(crate) const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Who sends authorization requests.
pub(crate) const FROM: RequestSource<'static> = RequestSource { from: ClientIp(HOME), holder: None };

/// An authorization server in memory with the backends `git` and `time`, a user, and the user's API key.
pub(crate) struct Authority {
    pub(crate) oauth: OAuth,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) router: Router,
    pub(crate) key: Secret,
    pub(crate) holder: KeyHolder,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Authority {
    pub(crate) async fn new() -> Self {
        Self::with(Self::settings()).await
    }

    pub(crate) fn settings() -> OAuthSettings {
        let backends = ["git", "time"].into_iter().map(|id| BackendId::parse(id).unwrap()).collect();
        OAuthSettings { backends, ..OAuthSettings::new(ISSUER) }
    }

    pub(crate) async fn with(settings: OAuthSettings) -> Self {
        Self::on(crate::support::empty_storage().await, settings, 1).await
    }

    /// One of several processes on this store; each needs its own seed.
    pub(crate) async fn on(storage: Storage, settings: OAuthSettings, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
        let given: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let oauth = OAuth::open(storage, given, random, settings).await.unwrap();
        let (router, (key, holder)) = (oauth.router(), Self::key(&oauth, "ada", Rights::all_backends()).await);
        Self { oauth, clock, router, key, holder }
    }

    /// A direct key of this user.
    pub(crate) async fn key(oauth: &OAuth, user: &str, rights: Rights) -> (Secret, KeyHolder) {
        let user = Some(UserId::new(user));
        let new = NewKey {
            name: "a key".to_owned(),
            user,
            rights,
            direct: Direct::Allowed,
            expires: None,
            networks: AllowedNetworks::default(),
        };
        let (_, secret) = oauth.keys().create(new).await.unwrap();
        let holder = oauth.keys().authenticate(secret.expose(), HOME).await.unwrap();
        (secret, holder)
    }

    /// Sends a request to the endpoints for machines.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        send(&self.router, request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Registers with this metadata.
    pub(crate) async fn register(&self, metadata: &Value) -> Answer {
        let request = Request::post("/oauth/register").header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(metadata.to_string())).unwrap()).await
    }

    /// The id of a public client with the redirect URI [`CALLBACK`].
    pub(crate) async fn client(&self) -> String {
        let answer = self.register(&json!({ "client_name": "A test", "redirect_uris": [CALLBACK] })).await;
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    /// A valid authorization request of this client; `changes` replace parameters, and an empty value removes one.
    pub(crate) fn query(client: &str, changes: &[(&str, &str)]) -> String {
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", CALLBACK),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "xyz"),
            ("resource", "https://gw.example/mcp"),
        ];
        parameters.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        parameters.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
    }

    /// A valid authorization request before a login.
    pub(crate) async fn begin(&self, query: &str) -> Transaction {
        let begun = self.oauth.authorization().begin(query, FROM).await;
        let BeginOutcome::Valid(transaction) = begun else { panic!("not valid: {begun:?}") };
        *transaction
    }

    /// Takes an authorization request to the decision, in the browser `a`.
    pub(crate) async fn waiting(&self, query: &str) -> TransactionId {
        let transaction = self.begin(query).await;
        let kept = self.oauth.authorization().keep(&transaction, &browser("a"), &self.holder).await.unwrap();
        assert!(matches!(kept, StoreOutcome::Waiting), "{kept:?}");
        transaction.id
    }

    /// Takes an authorization request to the approval.
    pub(crate) async fn approve(&self, query: &str) -> Redirect {
        let id = self.waiting(query).await;
        approve(&self.oauth, &id, &browser("a"), &self.holder).await.unwrap()
    }

    /// The request of this id, as long as it waits in this browser.
    pub(crate) async fn pending(&self, id: &TransactionId, browser: &Browser) -> Option<PendingAuthorization> {
        match self.oauth.authorization().look_up(id, browser).await.unwrap() {
            RequestState::Waiting(pending) => Some(*pending),
            RequestState::Decided(_) | RequestState::Unknown => None,
        }
    }

    /// Takes an authorization request to its code.
    pub(crate) async fn code(&self, query: &str) -> String {
        parameter(&self.approve(query).await.location, "code").unwrap()
    }

    /// Sends a form to the token endpoint.
    pub(crate) async fn token(&self, parameters: &[(&str, &str)]) -> Answer {
        self.form("/oauth/token", parameters).await
    }

    pub(crate) async fn form(&self, path: &str, parameters: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    pub(crate) async fn redeem(&self, client: &str, code: &str) -> Answer {
        let form = [("grant_type", "authorization_code"), ("client_id", client), ("code", code)];
        self.token(&[&form[..], &[("code_verifier", VERIFIER), ("redirect_uri", CALLBACK)]].concat()).await
    }

    pub(crate) async fn refresh(&self, client: &str, token: &str) -> Answer {
        self.token(&[("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)]).await
    }

    /// The whole flow for the endpoint at `path`: the client, and the response of the token endpoint.
    pub(crate) async fn tokens(&self, path: &str) -> (String, Value) {
        let client = self.client().await;
        let code = self.code(&Self::query(&client, &[("resource", &format!("{ISSUER}{path}"))])).await;
        let answer = self.redeem(&client, &code).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        (client, answer.json())
    }

    /// A valid access token for the endpoint at `path`.
    pub(crate) async fn access_token(&self, path: &str) -> String {
        self.tokens(path).await.1["access_token"].as_str().unwrap().to_owned()
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Status and error code in one line.
    pub(crate) fn error(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.json()["error"].as_str().unwrap_or("-"))
    }
}

/// Sends a request through a router and reads the whole response.
pub(crate) async fn send(service: &impl Serve, request: Request<Body>) -> Answer {
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

pub(crate) fn browser(name: &str) -> Browser {
    Browser(Digest::sha256(name))
}

/// Approves with a form of its own, before anybody else decides.
pub(crate) async fn approve(
    oauth: &OAuth,
    id: &TransactionId,
    browser: &Browser,
    holder: &KeyHolder,
) -> Result<Redirect, AuthorizationError> {
    let form = Secret::new("form");
    let sent = SentDecision { id, browser, form: &form };
    oauth.authorization().approve(sent, holder, ServerChoice::AsAsked).await.map(first)
}

/// Denies with a form of its own, before anybody else decides.
pub(crate) async fn deny(
    oauth: &OAuth,
    id: &TransactionId,
    browser: &Browser,
    holder: Option<&KeyHolder>,
) -> Result<Redirect, AuthorizationError> {
    let form = Secret::new("form");
    oauth.authorization().deny(SentDecision { id, browser, form: &form }, holder).await.map(first)
}

fn first(outcome: DecisionOutcome) -> Redirect {
    match outcome {
        DecisionOutcome::Answer { redirect, .. } => redirect,
        other => panic!("it was decided before: {other:?}"),
    }
}

/// A query parameter of a URL, which must not be repeated.
pub(crate) fn parameter(location: &str, name: &str) -> Option<String> {
    let url = Url::parse(location).unwrap();
    let mut found = url.query_pairs().filter(|(found, _)| found == name).map(|(_, value)| value.into_owned());
    let first = found.next();
    assert_eq!(found.next(), None, "{name} is given twice in {location}");
    first
}
