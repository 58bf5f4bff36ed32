//! A metadata document of a client (`OA-48` to `OA-50`).

use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::{
    model::{Client, ClientAuth, ClientId, ClientKeys, GrantType, Registrant, Scopes},
    oauth::clients::{client_key_sets::jwks_url, client_keys::ClientKeySet, redirect_uri::RedirectUri},
    support::{Digest, Timestamp, printable_name},
};

/// Maximum length of a client name, in characters.
const LONGEST_NAME: usize = 100;

/// The members that are read; all others are ignored.
#[derive(Debug, Deserialize)]
struct DocumentMembers {
    client_id: String,
    #[serde(default)]
    client_name: String,
    #[serde(default)]
    redirect_uris: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    grant_types: Option<Vec<String>>,
    #[serde(default)]
    response_types: Option<Vec<String>>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    client_secret: Option<Value>,
    #[serde(default)]
    client_secret_expires_at: Option<Value>,
    #[serde(default)]
    jwks: Option<Value>,
    #[serde(default)]
    jwks_uri: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ClientDocument(DocumentMembers);

impl ClientDocument {
    /// Reads the document at `url`. `schemes` are private-use schemes that the operator allows in redirect URIs. The
    /// error is the reason why the document is invalid, for the log and for the client's developers.
    pub(crate) fn parse(url: &Url, body: &[u8], schemes: &[String]) -> Result<Self, String> {
        // serde reads a struct from an array too
        let is_object = body.trim_ascii_start().starts_with(b"{");
        // serde does not check the members that it ignores
        let text = str::from_utf8(body).ok().filter(|_| is_object);
        let members: Option<DocumentMembers> = text.and_then(|text| serde_json::from_str(text).ok());
        let members = members.ok_or("it is not a JSON object with the members of RFC 7591 2 in their types")?;
        if members.client_id != url.as_str() {
            return Err("its client_id is not its own URL".to_owned());
        }
        if printable_name(&members.client_name, LONGEST_NAME).is_empty() {
            return Err("it has no client_name".to_owned());
        }
        if members.redirect_uris.is_empty() {
            return Err("it has no redirect_uris".to_owned());
        }
        for uri in &members.redirect_uris {
            RedirectUri::parse(uri, schemes).map_err(|error| error.to_string())?;
        }
        if members.client_secret.is_some() || members.client_secret_expires_at.is_some() {
            return Err("it has a client secret, which everybody could read".to_owned());
        }
        let document = Self(members);
        document.check_keys()?;
        document.method()?;
        if document.grant_types().contains(&GrantType::AuthorizationCode) && document.has_code_response() {
            Ok(document)
        } else {
            Err("the client needs the grant type authorization_code and the response type code".to_owned())
        }
    }

    /// The client described by it.
    pub(crate) fn client(&self, created: Timestamp) -> Client {
        Client {
            id: ClientId::new(self.0.client_id.as_str()),
            name: printable_name(&self.0.client_name, LONGEST_NAME),
            redirect_uris: self.0.redirect_uris.clone(),
            // `parse` has checked it
            auth: self.method().unwrap_or(ClientAuth::None),
            registrant: Registrant::Document(self.consented()),
            grant_types: self.grant_types(),
            scope: self.0.scope.clone().filter(|scope| Scopes::parse(scope).is_ok()),
            metadata: Value::Object(self.metadata()).to_string(),
            created,
        }
    }

    /// Digest of the facts that a person consents to: name, redirect URIs, keys and method. If it changes, the consent
    /// no longer counts (`OA-52`).
    fn consented(&self) -> Digest {
        let mut uris = self.0.redirect_uris.clone();
        uris.sort_unstable();
        let DocumentMembers { client_name, jwks, jwks_uri, .. } = &self.0;
        let method = self.method().map_or("none", |method| method.name());
        Digest::sha256(json!([client_name, uris, method, jwks, jwks_uri]).to_string())
    }

    /// The client's authentication method, or one from its list (`OA-49`). A client that offers `none` and a signature
    /// may use either, depending on how it reads the gateway's metadata.
    fn method(&self) -> Result<ClientAuth, String> {
        let (own, list) = (&self.0.token_endpoint_auth_method, &self.0.token_endpoint_auth_methods_supported);
        if let (Some(own), Some(list)) = (own, list)
            && !list.contains(own)
        {
            return Err("its token_endpoint_auth_method is not in token_endpoint_auth_methods_supported".to_owned());
        }
        if own.is_none() && list.is_none() {
            return Ok(ClientAuth::None);
        }
        let offers = |name: &str| own.iter().chain(list.iter().flatten()).any(|offered| offered == name);
        match (offers("none"), offers("private_key_jwt")) {
            (true, true) => Ok(self.keys().map_or(ClientAuth::None, ClientAuth::NoneOrPrivateKeyJwt)),
            (true, false) => Ok(ClientAuth::None),
            (false, true) => self.keys().map(ClientAuth::PrivateKeyJwt),
            (false, false) => {
                Err("none of its authentication methods is supported; `none` and `private_key_jwt` are".to_owned())
            }
        }
    }

    /// The keys with which the client signs.
    fn keys(&self) -> Result<ClientKeys, String> {
        match (&self.0.jwks, &self.0.jwks_uri) {
            (Some(set), _) => {
                ClientKeySet::parse(set).map_err(|problem| problem.to_string())?;
                Ok(ClientKeys::Inline(set.to_string()))
            }
            (None, Some(url)) => Ok(ClientKeys::Url(jwks_url(url)?)),
            (None, None) => Err("private_key_jwt needs jwks or jwks_uri".to_owned()),
        }
    }

    fn check_keys(&self) -> Result<(), String> {
        match (&self.0.jwks, &self.0.jwks_uri) {
            (Some(_), Some(_)) => Err("jwks and jwks_uri exclude each other".to_owned()),
            (Some(jwks), None) if has_private_member(jwks) => Err("jwks has a private key".to_owned()),
            (None, Some(url)) => Ok(jwks_url(url).map(drop)?),
            _ => Ok(()),
        }
    }

    /// The supported grant types among those that the client names (`OA-50`); both if it names none.
    fn grant_types(&self) -> Vec<GrantType> {
        let Some(names) = &self.0.grant_types else {
            return vec![GrantType::AuthorizationCode, GrantType::RefreshToken];
        };
        let mut types: Vec<GrantType> = names.iter().filter_map(|name| GrantType::parse(name)).collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    fn has_code_response(&self) -> bool {
        self.0.response_types.as_ref().is_none_or(|types| types.iter().any(|name| name == "code"))
    }

    /// The members as read, so that a stored document can be read like a fetched one.
    fn metadata(&self) -> Map<String, Value> {
        let DocumentMembers { client_id, client_name, redirect_uris, .. } = &self.0;
        let mut metadata = Map::new();
        let mut add = |name: &str, value: Option<Value>| value.map(|value| metadata.insert(name.to_owned(), value));
        add("client_id", Some(json!(client_id)));
        add("client_name", Some(json!(client_name)));
        add("redirect_uris", Some(json!(redirect_uris)));
        add("token_endpoint_auth_method", self.0.token_endpoint_auth_method.as_ref().map(|own| json!(own)));
        let list = self.0.token_endpoint_auth_methods_supported.as_ref();
        add("token_endpoint_auth_methods_supported", list.map(|list| json!(list)));
        add("grant_types", self.0.grant_types.as_ref().map(|types| json!(types)));
        add("response_types", self.0.response_types.as_ref().map(|types| json!(types)));
        add("scope", self.0.scope.as_ref().map(|scope| json!(scope)));
        add("jwks", self.0.jwks.clone());
        add("jwks_uri", self.0.jwks_uri.as_ref().map(|uri| json!(uri)));
        metadata
    }
}

/// True if a key has a member of a private or symmetric key (RFC 7518 6).
fn has_private_member(jwks: &Value) -> bool {
    let keys = jwks.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    keys.iter().any(|key| ["d", "k", "p", "q"].iter().any(|member| key.get(member).is_some()))
}
