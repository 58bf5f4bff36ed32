//! Client authentication at the token endpoint (`OA-81` to `OA-83`).

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;

use super::{
    client_assertion::{ASSERTION_TYPE, ClientAssertion, VerifiedAssertion},
    client_key_sets::{ClientKeySets, NoKeys},
    client_lookup::{self, ClientRefusal},
};
use crate::{
    fetch::DocumentError,
    model::{AssertionAudience, Client, ClientAuth, ClientId, ClientIp, ClientKeys},
    oauth::{
        dependencies::OAuthDeps,
        error::{ErrorResponse, Scheme},
        form::{self, Params},
        logged_reason::{ClientProblem, NamedClient},
        rate_limits::RateLimit,
    },
    support::{Digest, Secret},
};

pub(in crate::oauth) struct ClientAuthenticator {
    deps: OAuthDeps,
    keys: ClientKeySets,
    /// Assertions of each client: each leaves a row until it expires.
    assertions: RateLimit,
}

/// A request of a client that authenticates itself.
#[derive(Clone, Copy)]
pub(in crate::oauth) struct ClientRequest<'a> {
    pub(in crate::oauth) headers: &'a HeaderMap,
    pub(in crate::oauth) form: &'a Params,
    pub(in crate::oauth) from: ClientIp,
}

/// Clients among which to look for the client of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oauth) enum SoughtClient {
    /// Only clients with a consent.
    Consented,
    /// Any client, even a new one. If a document must be read for it, the address of the request is charged.
    Any,
    /// Clients with a consent, then any client, for a device that waits for its first consent.
    Device,
}

/// The credentials of a request, of exactly one kind: the client's id and its proof.
enum ClientCredentials<'a> {
    /// An id, perhaps with a secret.
    Secret { scheme: Scheme, id: String, secret: Option<Secret> },
    /// An assertion, perhaps with the id in the form.
    Assertion { body_id: Option<&'a str>, text: &'a str },
}

// === impl ClientAuthenticator ===

impl ClientAuthenticator {
    /// One client may authenticate with assertions 60 times at once, then once a second.
    pub(in crate::oauth) fn new(deps: OAuthDeps) -> Self {
        let keys = ClientKeySets::new(&deps.settings, Arc::clone(&deps.clock));
        let assertions = deps.limits.limit("client assertions", 60, Duration::from_secs(1));
        Self { deps, keys, assertions }
    }

    /// Authenticates the client. It must use exactly the method that it registered.
    pub(in crate::oauth) async fn authenticate(
        &self,
        request: ClientRequest<'_>,
        sought: SoughtClient,
    ) -> Result<Client, ErrorResponse> {
        let from = request.from;
        match ClientCredentials::of(request.headers, request.form)? {
            ClientCredentials::Secret { scheme, id, secret } => {
                self.by_secret(scheme, &id, secret.as_ref(), sought, from).await
            }
            ClientCredentials::Assertion { body_id, text } => self.by_assertion(body_id, text, sought, from).await,
        }
    }

    async fn by_secret(
        &self,
        scheme: Scheme,
        id: &str,
        given: Option<&Secret>,
        sought: SoughtClient,
        from: ClientIp,
    ) -> Result<Client, ErrorResponse> {
        let client = self.find(id, scheme, sought, from).await?;
        let problem = match (&client.auth, scheme, given) {
            (ClientAuth::None | ClientAuth::NoneOrPrivateKeyJwt(_), Scheme::Form, None) => return Ok(client),
            (ClientAuth::Basic(secret), Scheme::Basic, Some(given))
            | (ClientAuth::Post(secret), Scheme::Form, Some(given))
            | (ClientAuth::AnySecret(secret), _, Some(given)) => {
                if *secret == given.digest() {
                    return Ok(client);
                }
                ClientProblem::Secret(client.id)
            }
            (registered, ..) => ClientProblem::Method(client.id, registered.name()),
        };
        Err(ErrorResponse::InvalidClient(scheme, problem))
    }

    /// RFC 7523 3. The assertion is recorded after all other checks, so that only the client itself can add a row.
    async fn by_assertion(
        &self,
        body_id: Option<&str>,
        text: &str,
        sought: SoughtClient,
        from: ClientIp,
    ) -> Result<Client, ErrorResponse> {
        let refused = |problem| ErrorResponse::InvalidClient(Scheme::Form, problem);
        let assertion = ClientAssertion::parse(text).map_err(|reason| refused(ClientProblem::AssertionForm(reason)))?;
        if body_id.is_some_and(|id| id != assertion.client) {
            return Err(refused(ClientProblem::Contradiction));
        }
        let client = self.find(&assertion.client, Scheme::Form, sought, from).await?;
        let (ClientAuth::PrivateKeyJwt(keys) | ClientAuth::NoneOrPrivateKeyJwt(keys)) = &client.auth else {
            let registered = client.auth.name();
            return Err(refused(ClientProblem::Method(client.id, registered)));
        };
        let verified = self.verified(&assertion, &client.id, keys, from).await?;
        let now = self.deps.now();
        // before the await, so that concurrent requests cannot all pass
        self.assertions.take(&client.id, now).map_err(ErrorResponse::Limited)?;
        let digest = Digest::sha256(format!("{} {}", client.id, verified.id));
        if !self.deps.storage.assertions().add(&digest, verified.expires).await? {
            return Err(refused(ClientProblem::Assertion(client.id, "it was used before")));
        }
        Ok(client)
    }

    /// Checks an assertion with the keys of the client.
    async fn verified(
        &self,
        assertion: &ClientAssertion<'_>,
        client: &ClientId,
        keys: &ClientKeys,
        from: ClientIp,
    ) -> Result<VerifiedAssertion, ErrorResponse> {
        let refused = |problem| ErrorResponse::InvalidClient(Scheme::Form, problem);
        let mut set = self.keys.of(keys, from).await.map_err(|error| match error {
            NoKeys::Document(DocumentError::Limited(limit)) => ErrorResponse::Limited(limit.wait),
            error => refused(ClientProblem::Keys(client.clone(), error.to_string())),
        })?;
        if !assertion.may_be_of(&set) {
            // a key that the client has started to use since then
            set = self.keys.again(keys, from).await.unwrap_or(set);
        }
        let verified = assertion.verify(&set, &self.audiences(), self.deps.now());
        verified.map_err(|reason| refused(ClientProblem::Assertion(client.clone(), reason)))
    }

    async fn find(
        &self,
        id: &str,
        scheme: Scheme,
        sought: SoughtClient,
        from: ClientIp,
    ) -> Result<Client, ErrorResponse> {
        let unknown = || ErrorResponse::InvalidClient(scheme, ClientProblem::Unknown(NamedClient::new(id)));
        let id = ClientId::new(id);
        if matches!(sought, SoughtClient::Consented | SoughtClient::Device)
            && let Some(client) = client_lookup::of_consent(&self.deps, &id).await?
        {
            return Ok(client);
        }
        if sought == SoughtClient::Consented {
            return Err(unknown());
        }
        client_lookup::of_request(&self.deps, &id, from).await.map_err(|refusal| match refusal {
            ClientRefusal::Limited(wait) | ClientRefusal::HostLimited(_, wait) => ErrorResponse::Limited(wait),
            ClientRefusal::Failed(error) => ErrorResponse::Internal(error),
            _ => unknown(),
        })
    }

    /// Accepted values of `aud`: the issuer, and the URLs of endpoints if the operator allows them.
    fn audiences(&self) -> Vec<String> {
        let settings = &self.deps.settings;
        let mut audiences = vec![settings.issuer.clone()];
        if settings.policy.get().assertion_audience == AssertionAudience::IssuerOrTokenEndpoint {
            audiences.extend(["token", "par"].map(|endpoint| format!("{}/oauth/{endpoint}", settings.issuer)));
        }
        audiences
    }
}

// === impl ClientCredentials ===

impl<'a> ClientCredentials<'a> {
    /// Reads the credentials. More than one kind is an error (RFC 6749 2.3).
    fn of(headers: &HeaderMap, form: &'a Params) -> Result<Self, ErrorResponse> {
        let (body_id, body_secret) = (form.get("client_id")?, form.get("client_secret")?);
        let (kind, assertion) = (form.get("client_assertion_type")?, form.get("client_assertion")?);
        // some clients send the token of another server to every endpoint; it does not identify them
        let is_named = body_id.is_some() || assertion.is_some();
        let basic = if is_named && has_bearer(headers) { None } else { basic(headers)? };
        let ways = [basic.is_some(), body_secret.is_some(), assertion.is_some()];
        if ways.into_iter().filter(|used| *used).count() > 1 {
            return Err(ErrorResponse::InvalidRequest("the client authenticates in two ways; use one".to_owned()));
        }
        let refused = |scheme, problem| Err(ErrorResponse::InvalidClient(scheme, problem));
        match (assertion, kind) {
            (Some(text), Some(ASSERTION_TYPE)) => return Ok(Self::Assertion { body_id, text }),
            (Some(_), _) => return refused(Scheme::Form, ClientProblem::AssertionType),
            (None, _) => {}
        }
        match (basic, body_id) {
            (Some((id, _)), Some(other)) if id != other => refused(Scheme::Basic, ClientProblem::Contradiction),
            (Some((id, secret)), _) => Ok(Self::Secret { scheme: Scheme::Basic, id, secret: Some(secret) }),
            (None, Some(id)) => {
                Ok(Self::Secret { scheme: Scheme::Form, id: id.to_owned(), secret: body_secret.map(Secret::new) })
            }
            (None, None) => refused(Scheme::Form, ClientProblem::Unnamed),
        }
    }
}

/// True if there is one `Authorization` header, with a bearer token.
fn has_bearer(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
    let scheme =
        |value: &http::HeaderValue| value.to_str().ok().and_then(|text| Some(text.split_once(' ')?.0.to_owned()));
    let scheme = values.next().and_then(scheme);
    values.next().is_none() && scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
}

/// Credentials of the `Authorization` header, form-decoded (RFC 6749 2.3.1); `None` if it is absent.
fn basic(headers: &HeaderMap) -> Result<Option<(String, Secret)>, ErrorResponse> {
    let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ErrorResponse::InvalidRequest("there are two Authorization headers".to_owned()));
    }
    let parse = || {
        let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
        let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (id, secret) = decoded.split_once(':')?;
        let right_scheme = scheme.eq_ignore_ascii_case("basic") && has_whole_escapes(&decoded);
        right_scheme.then_some((form::decode(id)?, Secret::new(form::decode(secret)?)))
    };
    parse().map(Some).ok_or(ErrorResponse::InvalidClient(Scheme::Basic, ClientProblem::Malformed))
}

/// True if every `%` begins an escape: N-82.
fn has_whole_escapes(text: &str) -> bool {
    let hex = |part: &str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(hex)
}
