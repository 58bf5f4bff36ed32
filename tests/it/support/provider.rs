//! An OpenID provider in memory, with real signatures. What it says can be changed.

use std::{collections::HashMap, sync::Arc};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use lockkeeper::{
    model::{IdentityAssertions, LoginProvider, LoginRule, LoginSession, People, Rights},
    support::{Clock as _, Digest, ManualClock, Secret},
};
use parking_lot::{Mutex, MutexGuard};
use rcgen::KeyPair;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::internet::{Internet, json_response};

/// Its issuer.
pub(crate) const ISSUER: &str = "https://id.example";
/// The gateway there.
pub(crate) const CLIENT: &str = "gateway";
const SECRET: &str = "s3cret:+";
const LOGOUT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The provider.
pub(crate) struct ScriptedProvider {
    pub(crate) internet: Internet,
    clock: Arc<ManualClock>,
    script: Arc<Mutex<Script>>,
}

/// What the provider says.
pub(crate) struct Script {
    /// Members of the metadata that differ.
    pub(crate) metadata: Value,
    /// Claims of the next id tokens that differ; null is none.
    pub(crate) claims: Value,
    pub(crate) user_info: Value,
    /// Makes something else of the id token.
    pub(crate) forge: Option<fn(&Value, &SigningKey) -> String>,
    /// Error of the token endpoint.
    pub(crate) refusal: Option<&'static str>,
    pub(crate) refresh_token: Option<String>,
    pub(crate) key: SigningKey,
    codes: HashMap<String, AskedLogin>,
    /// Number of identity assertions.
    assertions: u32,
}

/// A login that was asked for.
#[derive(Clone)]
struct AskedLogin {
    nonce: String,
    challenge: String,
}

/// A key pair of the provider.
#[derive(Clone)]
pub(crate) struct SigningKey {
    id: String,
    private: EncodingKey,
}

impl ScriptedProvider {
    pub(crate) fn open(clock: Arc<ManualClock>) -> Self {
        let internet = Internet::new();
        internet.name("id.example", &[&["93.184.216.34"]]);
        let script = Arc::new(Mutex::new(Script {
            metadata: json!({}),
            claims: json!({}),
            user_info: Value::Null,
            forge: None,
            refusal: None,
            refresh_token: None,
            key: SigningKey::new("one"),
            codes: HashMap::new(),
            assertions: 0,
        }));
        let (shared, now) = (Arc::clone(&script), Arc::clone(&clock));
        internet.host("93.184.216.34", move |request| answer(&mut shared.lock(), request, now.now().as_seconds()));
        Self { internet, clock, script }
    }

    /// The configuration for it: everybody may come.
    pub(crate) fn spec() -> LoginProvider {
        LoginProvider {
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
            identity_assertions: IdentityAssertions::Refused,
        }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock()
    }

    /// Logs the person in that arrives at this URL; returns the query of the answer.
    pub(crate) fn log_in(&self, location: &str) -> String {
        let url = Url::parse(location).unwrap();
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let mut script = self.script.lock();
        let code = format!("code-{}", script.codes.len());
        let login = AskedLogin { nonce: asked["nonce"].clone(), challenge: asked["code_challenge"].clone() };
        script.codes.insert(code.clone(), login);
        encode(&[("code", &code), ("state", &asked["state"])])
    }

    /// A logout token with these claims beside the usual ones; null is none.
    pub(crate) fn logout_token(&self, changes: &Value) -> String {
        let now = self.clock.now().as_seconds();
        let claims = json!({
            "iss": ISSUER, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": "report-1", "events": { LOGOUT: {} },
        });
        let script = self.script.lock();
        script.key.sign(&changed(claims, changes))
    }

    /// An identity assertion for a client of the gateway at this address; null removes a claim.
    pub(crate) fn assertion(&self, gateway: &str, client: &str, changes: &Value) -> String {
        self.assertion_of_kind("oauth-id-jag+jwt", gateway, (client, changes))
    }

    /// The same, with this `typ`.
    pub(crate) fn assertion_of_kind(&self, kind: &str, gateway: &str, (client, changes): (&str, &Value)) -> String {
        let now = self.clock.now().as_seconds();
        let claims = json!({
            "iss": ISSUER, "sub": "s-1", "aud": gateway, "client_id": client, "iat": now, "exp": now + 300,
            "jti": format!("{}", self.script.lock().assertions), "resource": format!("{gateway}/mcp"), "scope": "mcp:use",
            "email": "ann@example.com", "email_verified": true,
        });
        let mut script = self.script.lock();
        script.assertions += 1;
        script.key.sign_as(kind, &changed(claims, changes))
    }

    /// Number of requests to a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        let seen = self.internet.seen();
        seen.requests.iter().filter(|request| request.split(' ').nth(1) == Some(path)).count()
    }
}

impl SigningKey {
    pub(crate) fn new(id: &str) -> Self {
        let pair = KeyPair::generate().unwrap();
        Self { id: id.to_owned(), private: EncodingKey::from_ec_der(&pair.serialize_der()) }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as("JWT", claims)
    }

    fn sign_as(&self, kind: &str, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.clone()), typ: Some(kind.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }

    /// The public key, as the provider publishes it.
    pub(crate) fn public(&self) -> Value {
        let mut key = json!(Jwk::from_encoding_key(&self.private, Algorithm::ES256).unwrap());
        key["kid"] = json!(self.id);
        key
    }
}

fn answer(script: &mut Script, request: &str, now: i64) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let path = head.split(' ').nth(1).unwrap();
    match path {
        "/.well-known/openid-configuration" => {
            let metadata = json!({
                "issuer": ISSUER,
                "authorization_endpoint": format!("{ISSUER}/auth?tenant=1"),
                "token_endpoint": format!("{ISSUER}/token"),
                "jwks_uri": format!("{ISSUER}/jwks"),
                "userinfo_endpoint": format!("{ISSUER}/me"),
            });
            json_response("", &changed(metadata, &script.metadata))
        }
        "/jwks" => json_response("", &json!({ "keys": [script.key.public()] })),
        "/me" => json_response("", &script.user_info),
        "/token" => token(script, head, body, now),
        _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    }
}

fn token(script: &mut Script, head: &str, body: &str, now: i64) -> String {
    let basic = STANDARD.encode(format!("{CLIENT}:{}", SECRET.replace(':', "%3A").replace('+', "%2B")));
    assert!(head.to_lowercase().contains(&format!("authorization: basic {}", basic.to_lowercase())), "{head}");
    if let Some(error) = script.refusal {
        return refusal(error);
    }
    let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let mut answer = json!({ "access_token": "access", "token_type": "Bearer", "expires_in": 300 });
    if let Some(token) = &script.refresh_token {
        answer["refresh_token"] = json!(token);
    }
    if form["grant_type"] == "refresh_token" {
        return if form["refresh_token"].starts_with("refresh") {
            json_response("", &answer)
        } else {
            refusal("invalid_grant")
        };
    }
    let Some(login) = script.codes.remove(&form["code"]) else { return refusal("invalid_grant") };
    assert_eq!(form["redirect_uri"], "https://mcp.example.com/oauth/login/callback/corp");
    let challenge = Digest::sha256(&form["code_verifier"]).to_base64url();
    assert_eq!(challenge, login.challenge, "PKCE");
    let claims = json!({
        "iss": ISSUER, "sub": "s-1", "aud": CLIENT, "nonce": login.nonce, "iat": now, "exp": now + 300,
        "email": "ann@example.com", "email_verified": true, "sid": "session-1",
    });
    let claims = changed(claims, &script.claims);
    answer["id_token"] = json!(match script.forge {
        Some(forge) => forge(&claims, &script.key),
        None => script.key.sign(&claims),
    });
    json_response("", &answer)
}

fn refusal(error: &str) -> String {
    let body = json!({ "error": error, "error_description": "<b>text of the provider</b>" }).to_string();
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A token that nobody signed.
pub(crate) fn unsigned(algorithm: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(&json!({ "alg": algorithm, "kid": "one" })), part(claims))
}

/// A token that everybody can sign: with what the provider publishes, as the secret of an HMAC.
pub(crate) fn signed_by_everybody(claims: &Value, key: &SigningKey) -> String {
    let public = key.public();
    let secret = EncodingKey::from_secret(public["x"].as_str().unwrap().as_bytes());
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, claims, &secret).unwrap()
}

fn changed(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            base.as_object_mut().unwrap().remove(name);
        } else {
            base[name] = value.clone();
        }
    }
    base
}

fn encode(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}
