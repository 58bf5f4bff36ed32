//! Client authentication at the token endpoint (`OA-81`, `OA-82`). Knows nothing of grants.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;

use super::{
    client_lookup,
    dependencies::OAuthDeps,
    error::{ErrorResponse, Scheme},
    form::{self, Params},
    logged_reason::{ClientProblem, NamedClient},
};
use crate::{
    model::{Client, ClientAuth, ClientId},
    support::Secret,
};

/// Authenticates the client with exactly the method that it registered.
pub(super) async fn authenticate(
    deps: &OAuthDeps,
    headers: &HeaderMap,
    form: &Params,
) -> Result<Client, ErrorResponse> {
    let basic = basic(headers)?;
    let (body_id, body_secret) = (form.get("client_id")?, form.get("client_secret")?);
    if basic.is_some() && body_secret.is_some() {
        return Err(ErrorResponse::InvalidRequest("the client authenticates in two ways; use one".to_owned()));
    }
    let scheme = if basic.is_some() { Scheme::Basic } else { Scheme::Form };
    let id = match (&basic, body_id) {
        (Some((id, _)), None) => id.as_str(),
        (Some((id, _)), Some(other)) if id == other => id.as_str(),
        (None, Some(id)) => id,
        (Some(_), Some(_)) => return Err(ErrorResponse::InvalidClient(scheme, ClientProblem::Contradiction)),
        (None, None) => return Err(ErrorResponse::InvalidClient(scheme, ClientProblem::Unnamed)),
    };
    let unknown = || ErrorResponse::InvalidClient(scheme, ClientProblem::Unknown(NamedClient::new(id)));
    let client = client_lookup::of_consent(deps, &ClientId::new(id)).await?.ok_or_else(unknown)?;
    let presented = basic.as_ref().map(|(_, secret)| secret.expose()).or(body_secret);
    let problem = match (&client.auth, scheme, presented) {
        (ClientAuth::None, Scheme::Form, None) => return Ok(client),
        (ClientAuth::Basic(secret), Scheme::Basic, Some(given))
        | (ClientAuth::Post(secret), Scheme::Form, Some(given)) => {
            if *secret == Secret::new(given).digest() {
                return Ok(client);
            }
            ClientProblem::Secret(client.id)
        }
        (registered, ..) => ClientProblem::Method(client.id, registered.name()),
    };
    Err(ErrorResponse::InvalidClient(scheme, problem))
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
