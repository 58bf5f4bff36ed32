//! The default behaviour of each endpoint.

use http::StatusCode;
use lockkeeper::support::{Clock as _, Digest};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::{
    Access, Endpoint, Issued, Kind, PendingCode, ScriptedAuthority,
    answers::{self, Answer, changed, error},
    asked::Asked,
};

// === impl ScriptedAuthority ===

impl ScriptedAuthority {
    pub(super) fn act(&self, endpoint: Endpoint, asked: &Asked) -> Answer {
        let line = self.line(endpoint, asked);
        let answer = self.outcome(endpoint, asked);
        // only once it is done: tests wait for the record
        if let Some(line) = line {
            self.record(line, asked);
        }
        answer
    }

    fn outcome(&self, endpoint: Endpoint, asked: &Asked) -> Answer {
        // an unknown client learns nothing else from the token endpoint
        let client = match endpoint {
            Endpoint::Token => self.authenticated(asked),
            _ => Some(String::new()),
        };
        let Some(client) = client else {
            return answers::json(StatusCode::UNAUTHORIZED, &json!({ "error": "invalid_client" }));
        };
        if let Some(answer) = self.instead(endpoint, asked) {
            return answer;
        }
        let outcome = match endpoint {
            Endpoint::Metadata => Ok(self.metadata()),
            Endpoint::Register => Ok(self.register(asked)),
            Endpoint::Authorize => return self.authorize(asked).unwrap_or_else(error),
            Endpoint::Token => self.token(asked, &client),
            Endpoint::Revoke => {
                self.revoke(asked);
                return answers::status(StatusCode::OK);
            }
            Endpoint::Keys => Ok(json!({ "keys": [self.script().key.public()] })),
            Endpoint::UserInfo => Ok(self.script().user_info.clone()),
            Endpoint::Resource | Endpoint::Server => panic!("not of the authorization server"),
        };
        let status = if endpoint == Endpoint::Register { StatusCode::CREATED } else { StatusCode::OK };
        match outcome {
            Ok(document) => self.shaped(endpoint, answers::json(status, &self.declared(endpoint, document))),
            Err(code) => error(code),
        }
    }

    /// The record of a request, if the endpoint acts on it.
    fn line(&self, endpoint: Endpoint, asked: &Asked) -> Option<String> {
        let resource = asked.resource();
        Some(match endpoint {
            Endpoint::Register => {
                let metadata = asked.json();
                let redirect_uri = metadata["redirect_uris"][0].as_str().unwrap();
                format!("register {redirect_uri} {}", metadata["application_type"])
            }
            Endpoint::Authorize => format!("authorize scope={} resource={resource}", asked.get("scope")),
            Endpoint::Token => format!("token {} resource={resource}", asked.get("grant_type")),
            Endpoint::Revoke => {
                let issued = self.0.issued.lock();
                let account = issued.refresh.get(asked.get("token")).map_or("", |access| &access.account);
                format!("revoke {account} {}", asked.get("token_type_hint"))
            }
            Endpoint::Metadata | Endpoint::Keys | Endpoint::UserInfo | Endpoint::Resource | Endpoint::Server => {
                return None;
            }
        })
    }

    /// The published metadata.
    pub(crate) fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer());
        let mut metadata = json!({
            "issuer": self.issuer(),
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
        });
        if let Kind::OpenId(_) = self.0.kind {
            metadata["jwks_uri"] = at("/jwks").into();
            metadata["userinfo_endpoint"] = at("/userinfo").into();
        }
        self.declared(Endpoint::Metadata, metadata)
    }

    /// The methods that authenticate clients with secrets (RFC 8414 2).
    fn auth_methods(&self) -> Value {
        let supported = self.metadata()["token_endpoint_auth_methods_supported"].take();
        if supported.is_null() { json!(["client_secret_basic"]) } else { supported }
    }

    fn register(&self, asked: &Asked) -> Value {
        let (mut client, supported) = (asked.json(), self.auth_methods());
        let method = &client["token_endpoint_auth_method"];
        let is_taken = method == "none" || supported.as_array().unwrap().contains(method);
        let method = if is_taken { method.clone() } else { supported[0].clone() };
        let mut issued = self.0.issued.lock();
        let id = issued.mint("client", &self.label());
        let secret = (method != "none").then(|| format!("secret-of-{id}"));
        client["client_id"] = id.clone().into();
        client["token_endpoint_auth_method"] = method;
        if let Some(secret) = &secret {
            client["client_secret"] = secret.clone().into();
        }
        issued.clients.insert(id, secret);
        client
    }

    /// Approves the request as the account that logs in next.
    fn authorize(&self, asked: &Asked) -> Result<Answer, &'static str> {
        let client = asked.get("client_id").to_owned();
        let mut issued = self.0.issued.lock();
        if !issued.clients.contains_key(&client) {
            return Err("invalid_client");
        }
        if asked.get("code_challenge_method") != "S256" || asked.get("response_type") != "code" {
            return Err("invalid_request");
        }
        let (account, scope) = (self.script().account.clone(), asked.get("scope").to_owned());
        let (redirect_uri, challenge) = (asked.get("redirect_uri").to_owned(), asked.get("code_challenge").to_owned());
        let nonce = Some(asked.get("nonce")).filter(|nonce| !nonce.is_empty()).map(str::to_owned);
        let code = issued.mint("code", &self.label());
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("code", &code).append_pair("state", asked.get("state"));
        // RFC 9207
        if self.metadata()["authorization_response_iss_parameter_supported"] == true {
            query.append_pair("iss", self.issuer());
        }
        let location = format!("{redirect_uri}?{}", query.finish());
        let access = Access { account, scope, client };
        issued.codes.insert(code, PendingCode { access, redirect_uri, challenge, nonce });
        Ok(answers::redirect(&location))
    }

    /// The client of a request, if it authenticates with a method in the metadata.
    fn authenticated(&self, asked: &Asked) -> Option<String> {
        let ((id, proof), methods) = (asked.client(), self.auth_methods());
        let issued = self.0.issued.lock();
        let secret = issued.clients.get(&id)?.as_deref();
        let is_taken = secret.is_none() || methods.as_array().unwrap().contains(&proof.method().into());
        (is_taken && proof.is_of(&id, secret)).then_some(id)
    }

    fn token(&self, asked: &Asked, client: &str) -> Result<Value, &'static str> {
        let mut issued = self.0.issued.lock();
        let (access, id_token) = match asked.get("grant_type") {
            "authorization_code" => {
                let code = issued.codes.remove(asked.get("code")).ok_or("invalid_grant")?;
                let challenge = Digest::sha256(asked.get("code_verifier")).to_base64url();
                if challenge != code.challenge || asked.get("redirect_uri") != code.redirect_uri {
                    return Err("invalid_grant");
                }
                let id_token = self.id_token(&code.access, code.nonce.as_deref());
                (code.access, id_token)
            }
            // each can be used once
            "refresh_token" => {
                let access = issued.refresh.remove(asked.get("refresh_token")).ok_or("invalid_grant")?;
                // its nonce may be absent (Core 12.2)
                let id_token = if self.script().refreshes_id_token { self.id_token(&access, None) } else { None };
                (access, id_token)
            }
            "client_credentials" => {
                let [account, client] = [client; 2].map(str::to_owned);
                (Access { account, scope: asked.get("scope").to_owned(), client }, None)
            }
            _ => return Err("unsupported_grant_type"),
        };
        if access.client != client {
            return Err("invalid_grant");
        }
        let token = issued.mint("access", &self.label());
        let mut answer = json!({
            "access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": access.scope,
        });
        issued.access.insert(token, access.clone());
        if self.script().issues_refresh_tokens {
            let token = issued.mint("refresh", &self.label());
            answer["refresh_token"] = token.clone().into();
            issued.refresh.insert(token, access);
        }
        if let Some(token) = id_token {
            answer["id_token"] = token.into();
        }
        Ok(answer)
    }

    fn id_token(&self, access: &Access, nonce: Option<&str>) -> Option<String> {
        let Kind::OpenId(clock) = &self.0.kind else { return None };
        let (now, script) = (clock.now().as_seconds(), self.script());
        let claims = json!({
            "iss": self.issuer(), "sub": access.account, "aud": access.client, "nonce": nonce,
            "iat": now, "exp": now + 300,
        });
        let claims = changed(changed(claims, &script.person), script.claims.as_object().unwrap());
        Some(match script.forge {
            Some(forge) => forge(&claims, &script.key),
            None => script.key.sign(&claims),
        })
    }

    /// Ends the account's tokens (RFC 7009).
    fn revoke(&self, asked: &Asked) {
        let mut issued = self.0.issued.lock();
        let account = issued.refresh.remove(asked.get("token")).map(|access| access.account).unwrap_or_default();
        issued.access.retain(|_, access| access.account != account);
    }
}

// === impl Issued ===

impl Issued {
    /// A new code, token or id.
    fn mint(&mut self, kind: &'static str, label: &str) -> String {
        let number = self.numbers.entry(kind).or_default();
        *number += 1;
        format!("{kind}-{number}-of-{label}")
    }
}
