//! An OpenID provider for logging in at a gateway: the scripted authorization server on an in-memory internet, with
//! real signatures.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use jsonwebtoken::Algorithm;
use lockkeeper::{
    model::{IdentityAssertions, LoginProvider, LoginRule, LoginSession, People, Rights},
    support::{Clock as _, ManualClock, Secret},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use url::Url;

use super::authority::{
    Endpoint, Script, ScriptedAuthority,
    answers::{self, changed},
};
use crate::support::internet::Internet;

pub(crate) const ISSUER: &str = "https://id.example";
/// The gateway as a client of the provider.
pub(crate) const CLIENT: &str = "gateway";
const SECRET: &str = "s3cret:+";
const LOGOUT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The provider. Its person is `s-1` until the script makes another account log in.
pub(crate) struct OpenIdProvider {
    pub(crate) internet: Internet,
    pub(crate) authority: ScriptedAuthority,
    clock: Arc<ManualClock>,
    /// Number of identity assertions.
    assertions: Mutex<u32>,
}

impl OpenIdProvider {
    pub(crate) fn open(clock: Arc<ManualClock>) -> Self {
        let (internet, authority) = (Internet::new(), ScriptedAuthority::openid(ISSUER, Arc::clone(&clock)));
        internet.name("id.example", &[&["93.184.216.34"]]);
        let served = authority.clone();
        internet.host("93.184.216.34", move |text| answers::text(&served.serve(&request(text))));
        authority.knows_client(CLIENT, SECRET);
        authority.account("s-1");
        let at = format!("{ISSUER}/authorize?tenant=1");
        authority.differs(Endpoint::Metadata, json!({ "authorization_endpoint": at }));
        authority.differs(Endpoint::Token, json!({ "expires_in": 300 }));
        let mut script = authority.script();
        script.issues_refresh_tokens = false;
        script.person = [about(), members(json!({ "sid": "session-1" }))].into_iter().flatten().collect();
        drop(script);
        Self { internet, authority, clock, assertions: Mutex::default() }
    }

    /// Its configuration, which admits everyone.
    pub(crate) fn spec() -> LoginProvider {
        LoginProvider {
            authorize_params: Vec::new(),
            name: "corp".to_owned(),
            issuer: ISSUER.to_owned(),
            client_id: CLIENT.to_owned(),
            client_secret: Some(Secret::new(SECRET)),
            label: "Example Corp".to_owned(),
            scopes: vec!["openid".to_owned(), "email".to_owned()],
            algorithms: vec![Algorithm::ES256, Algorithm::RS256],
            groups_claim: "groups".to_owned(),
            rules: vec![LoginRule { people: People::Everybody, rights: Rights::all_backends() }],
            session: LoginSession::Independent,
            trust: Duration::from_hours(7 * 24),
            identity_assertions: IdentityAssertions::Refused,
        }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.authority.script()
    }

    /// Makes the token endpoint answer with this error and its own description.
    pub(crate) fn refuses(&self, error: &str) {
        let body = json!({ "error": error, "error_description": "<b>text of the provider</b>" });
        self.authority.answers(Endpoint::Token, answers::json(http::StatusCode::BAD_REQUEST, &body));
    }

    /// Logs in the person who arrives at this URL; returns the query of the answer.
    pub(crate) fn log_in(&self, location: &str) -> String {
        let answer = self.authority.serve(&Request::get(location).body(Bytes::new()).unwrap());
        let location = answer.headers().get("location").unwrap_or_else(|| panic!("{answer:?}"));
        Url::parse(location.to_str().unwrap()).unwrap().query().unwrap().to_owned()
    }

    /// A logout token with these claims in addition to the usual ones; null removes one.
    pub(crate) fn logout_token(&self, changes: &Value) -> String {
        let now = self.clock.now().as_seconds();
        let claims = json!({
            "iss": ISSUER, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": "report-1", "events": { LOGOUT: {} },
        });
        self.script().key.sign(&changed(claims, changes.as_object().unwrap()))
    }

    /// An identity assertion for a client of the gateway at this address; null removes a claim.
    pub(crate) fn assertion(&self, gateway: &str, client: &str, changes: &Value) -> String {
        self.assertion_of_kind("oauth-id-jag+jwt", gateway, (client, changes))
    }

    /// The same, with this `typ`.
    pub(crate) fn assertion_of_kind(&self, kind: &str, gateway: &str, (client, changes): (&str, &Value)) -> String {
        let now = self.clock.now().as_seconds();
        let mut assertions = self.assertions.lock();
        let claims = json!({
            "iss": ISSUER, "sub": "s-1", "aud": gateway, "client_id": client, "iat": now, "exp": now + 300,
            "jti": assertions.to_string(), "resource": format!("{gateway}/mcp"), "scope": "mcp:use",
        });
        *assertions += 1;
        self.script().key.sign_as(kind, &changed(changed(claims, &about()), changes.as_object().unwrap()))
    }

    /// Number of requests to a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        let seen = self.internet.seen();
        seen.requests.iter().filter(|request| request.split(' ').nth(1) == Some(path)).count()
    }
}

/// The claims about the person.
fn about() -> Map<String, Value> {
    members(json!({ "email": "ann@example.com", "email_verified": true }))
}

fn members(claims: Value) -> Map<String, Value> {
    let Value::Object(members) = claims else { panic!("no claims: {claims}") };
    members
}

/// A request on the in-memory internet.
fn request(text: &str) -> Request<Bytes> {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let first: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let request = Request::builder().method(first[0]).uri(first[1]);
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let request = headers.fold(request, |request, (name, value)| request.header(name, value));
    request.body(Bytes::from(body.to_owned())).unwrap()
}
