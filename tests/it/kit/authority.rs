//! A test's authorization server: metadata, registration, authorization with PKCE, tokens, revocation and, as an OpenID
//! provider, ID tokens and keys. It follows the specifications except where the test declares a difference, and records
//! the requests that it acts on. It has no transport: [`ScriptedAuthority::serve`] is a function of the request.

pub(crate) mod answers;
mod asked;
mod endpoints;
pub(crate) mod signing;

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{Request, StatusCode};
use lockkeeper::support::ManualClock;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use self::{answers::Answer, signing::SigningKey};

pub(crate) use self::asked::Asked;

/// The authorization server. Clones share one server.
#[derive(Clone)]
pub(crate) struct ScriptedAuthority(Arc<Inner>);

struct Inner {
    issuer: String,
    kind: Kind,
    script: Mutex<Script>,
    declared: Mutex<HashMap<Endpoint, Declared>>,
    issued: Mutex<Issued>,
    heard: Mutex<Vec<Heard>>,
    arrived: Notify,
}

enum Kind {
    /// RFC 8414 metadata.
    OAuth,
    /// OpenID Connect Discovery, and ID tokens with times from this clock.
    OpenId(Arc<ManualClock>),
}

/// An endpoint of the authorization server or of the server it protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Metadata,
    Register,
    Authorize,
    Token,
    Revoke,
    Keys,
    UserInfo,
    /// The protected server's metadata (RFC 9728).
    Resource,
    /// The protected server itself.
    Server,
}

/// Declared behaviour of the whole server.
pub(crate) struct Script {
    /// The last part of the metadata URL.
    pub(crate) well_known: &'static str,
    /// The account that logs in next.
    pub(crate) account: String,
    /// True if grants of accounts come with a refresh token.
    pub(crate) issues_refresh_tokens: bool,
    /// True if a refresh returns a new ID token.
    pub(crate) refreshes_id_token: bool,
    /// True if pages of other origins may read all answers (CORS).
    pub(crate) is_open_to_pages: bool,
    /// Claims of ID tokens about the person.
    pub(crate) person: Map<String, Value>,
    /// Changed claims of ID tokens; null removes one.
    pub(crate) claims: Value,
    pub(crate) user_info: Value,
    /// Makes a different ID token from the claims.
    pub(crate) forge: Option<fn(&Value, &SigningKey) -> String>,
    pub(crate) key: SigningKey,
}

/// An answer that replaces the endpoint's own, if there is one for this request.
type Instead = Arc<dyn Fn(&Asked) -> Option<Answer> + Send + Sync>;

/// Declared behaviour of an endpoint.
#[derive(Default)]
struct Declared {
    /// Changed members of good answers; null removes one.
    members: Map<String, Value>,
    instead: Option<Instead>,
    /// Turns good answers into the form that a service uses.
    shape: Option<fn(Answer) -> Answer>,
}

/// Everything issued by the server that is still valid.
#[derive(Default)]
struct Issued {
    /// The clients, with their secrets.
    clients: HashMap<String, Option<String>>,
    codes: HashMap<String, PendingCode>,
    access: HashMap<String, Access>,
    refresh: HashMap<String, Access>,
    /// Number of issued items of each kind.
    numbers: HashMap<&'static str, u32>,
}

/// The rights of a token.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) account: String,
    scope: String,
    client: String,
}

/// An authorization code that has not been redeemed.
struct PendingCode {
    access: Access,
    redirect_uri: String,
    challenge: String,
    nonce: Option<String>,
}

/// A request that the server acted on, or a call to the server it protects.
#[derive(Debug)]
pub(crate) struct Heard {
    /// A summary of the request: `token refresh_token resource=mcp`.
    pub(crate) line: String,
    /// The `Authorization` header; empty if it is absent.
    pub(crate) authorization: String,
    pub(crate) body: String,
}

// === impl ScriptedAuthority ===

impl ScriptedAuthority {
    pub(crate) fn oauth(issuer: &str) -> Self {
        Self::new(issuer, Kind::OAuth)
    }

    pub(crate) fn openid(issuer: &str, clock: Arc<ManualClock>) -> Self {
        Self::new(issuer, Kind::OpenId(clock))
    }

    fn new(issuer: &str, kind: Kind) -> Self {
        let well_known = match kind {
            Kind::OAuth => "oauth-authorization-server",
            Kind::OpenId(_) => "openid-configuration",
        };
        let script = Script {
            well_known,
            account: String::new(),
            issues_refresh_tokens: true,
            refreshes_id_token: false,
            is_open_to_pages: true,
            person: Map::new(),
            claims: json!({}),
            user_info: Value::Null,
            forge: None,
            key: SigningKey::new("one"),
        };
        Self(Arc::new(Inner {
            issuer: issuer.to_owned(),
            kind,
            script: Mutex::new(script),
            declared: Mutex::default(),
            issued: Mutex::default(),
            heard: Mutex::default(),
            arrived: Notify::new(),
        }))
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// The part of a token that identifies its issuer.
    pub(crate) fn label(&self) -> String {
        self.0.issuer.split("//").last().unwrap().replace(':', ".")
    }

    pub(crate) fn serve(&self, request: &Request<Bytes>) -> Answer {
        let Some(endpoint) = self.endpoint(request.uri().path()) else { return answers::status(StatusCode::NOT_FOUND) };
        if *request.method() != endpoint.method() {
            return answers::status(StatusCode::METHOD_NOT_ALLOWED);
        }
        self.act(endpoint, &Asked::read(request))
    }

    fn endpoint(&self, path: &str) -> Option<Endpoint> {
        if path.strip_prefix("/.well-known/") == Some(self.script().well_known) {
            return Some(Endpoint::Metadata);
        }
        Some(match (path, &self.0.kind) {
            ("/register", _) => Endpoint::Register,
            ("/authorize", _) => Endpoint::Authorize,
            ("/token", _) => Endpoint::Token,
            ("/revoke", _) => Endpoint::Revoke,
            ("/jwks", Kind::OpenId(_)) => Endpoint::Keys,
            ("/userinfo", Kind::OpenId(_)) => Endpoint::UserInfo,
            _ => return None,
        })
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.script.lock()
    }

    /// Makes this account log in next.
    pub(crate) fn account(&self, name: &str) {
        name.clone_into(&mut self.script().account);
    }

    /// Changes these members of an endpoint's good answers; null removes one.
    pub(crate) fn differs(&self, endpoint: Endpoint, members: Value) {
        let Value::Object(members) = members else { panic!("no members: {members}") };
        self.0.declared.lock().entry(endpoint).or_default().members.extend(members);
    }

    /// Makes an endpoint send this answer to every client that it knows.
    pub(crate) fn answers(&self, endpoint: Endpoint, answer: Answer) {
        self.answers_if(endpoint, move |_| Some(answer.clone()));
    }

    /// Makes an endpoint answer some requests differently.
    pub(crate) fn answers_if(
        &self,
        endpoint: Endpoint,
        instead: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
    ) {
        self.0.declared.lock().entry(endpoint).or_default().instead = Some(Arc::new(instead));
    }

    /// Makes an endpoint send good answers in another form.
    pub(crate) fn shapes(&self, endpoint: Endpoint, shape: fn(Answer) -> Answer) {
        self.0.declared.lock().entry(endpoint).or_default().shape = Some(shape);
    }

    /// A good answer in the declared form.
    pub(crate) fn shaped(&self, endpoint: Endpoint, answer: Answer) -> Answer {
        let shape = self.0.declared.lock().get(&endpoint).and_then(|declared| declared.shape);
        shape.map_or(answer.clone(), |shape| shape(answer))
    }

    /// Lets an endpoint answer normally again.
    pub(crate) fn recovers(&self, endpoint: Endpoint) {
        self.0.declared.lock().entry(endpoint).or_default().instead = None;
    }

    /// The declared answer to a request.
    pub(crate) fn instead(&self, endpoint: Endpoint, asked: &Asked) -> Option<Answer> {
        let instead = self.0.declared.lock().get(&endpoint).and_then(|declared| declared.instead.clone());
        instead.and_then(|instead| instead(asked))
    }

    /// A document with the declared members.
    pub(crate) fn declared(&self, endpoint: Endpoint, document: Value) -> Value {
        match self.0.declared.lock().get(&endpoint) {
            Some(declared) => answers::changed(document, &declared.members),
            None => document,
        }
    }

    /// Adds this client, as if its operator had created it.
    pub(crate) fn knows_client(&self, id: &str, secret: &str) {
        self.0.issued.lock().clients.insert(id.to_owned(), Some(secret.to_owned()));
    }

    pub(crate) fn forget_clients(&self) {
        self.0.issued.lock().clients.clear();
    }

    /// Ends all access tokens, but no refresh tokens.
    pub(crate) fn expire(&self) {
        self.0.issued.lock().access.clear();
    }

    /// Ends all tokens.
    pub(crate) fn forget(&self) {
        let mut issued = self.0.issued.lock();
        issued.access.clear();
        issued.refresh.clear();
    }

    /// The rights of a valid access token.
    pub(crate) fn access(&self, token: &str) -> Option<Access> {
        self.0.issued.lock().access.get(token).cloned()
    }

    /// A valid access token of an account.
    pub(crate) fn token_of(&self, account: &str) -> Option<String> {
        let issued = self.0.issued.lock();
        issued.access.iter().find(|(_, access)| access.account == account).map(|(token, _)| token.clone())
    }

    /// True if a refresh token of this account is valid.
    pub(crate) fn knows(&self, account: &str) -> bool {
        self.0.issued.lock().refresh.values().any(|access| access.account == account)
    }

    pub(crate) fn record(&self, line: String, asked: &Asked) {
        let heard = Heard { line, authorization: asked.authorization().to_owned(), body: asked.body.clone() };
        self.0.heard.lock().push(heard);
        self.0.arrived.notify_one();
    }

    /// The record since it was last taken.
    pub(crate) fn take_heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.heard.lock())
    }

    /// The lines of the record since it was last taken.
    pub(crate) fn take_log(&self) -> Vec<String> {
        self.take_heard().into_iter().map(|heard| heard.line).collect()
    }

    /// Waits for another entry in the record.
    pub(crate) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

// === impl Access ===

impl Access {
    pub(crate) fn has(&self, scope: &str) -> bool {
        self.scope.split(' ').any(|had| had == scope)
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn method(self) -> http::Method {
        match self {
            Self::Register | Self::Token | Self::Revoke | Self::Server => http::Method::POST,
            Self::Metadata | Self::Authorize | Self::Keys | Self::UserInfo | Self::Resource => http::Method::GET,
        }
    }
}
