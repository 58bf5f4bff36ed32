//! Responses to refused requests (RFC 6750 3, RFC 9728 5.1; `OA-107` to `OA-111`).

use std::{borrow::Cow, time::Duration};

use axum::{
    Extension, Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::credential::Arrived;
use crate::model::{RefusalReason, Scopes};

/// Data of the `WWW-Authenticate` challenge.
#[derive(Debug, Clone)]
pub(super) struct Challenge {
    /// The URL of the endpoint's metadata.
    pub(super) metadata: String,
    /// Every ordinary scope of the endpoint: some clients never request more later (`OA-111`).
    pub(super) scopes: Scopes,
    /// The URL of the endpoint, for a client that has another.
    pub(super) meant: Option<String>,
}

/// Description of a path where this caller has no endpoint.
const NO_ENDPOINT: &str = "there is no such endpoint here";

/// Reason for refusing a request.
#[derive(Debug)]
pub(super) enum ResourceRefusal {
    /// No credential: the bare challenge, without an error. The body names what came in its place.
    NoCredential(Arrived),
    /// The credential is wrong, ended, revoked, or for another endpoint: the response never says which.
    InvalidToken,
    /// A ticket of a closed stream: the client opens another, so this does not count as a wrong credential.
    EndedStream,
    /// A header that cannot hold a token: an invalid one, which the body describes.
    Malformed,
    Ambiguous,
    /// The token has no scope for a server of this name, whether there is one or not (`OA-158`).
    NoSuchServer,
    /// The token lacks these scopes.
    InsufficientScope(Scopes),
    /// The key lacks the rights. A new login with that key would not help, so no scope is named (`OA-110`).
    NotAllowed,
    /// Too many wrong keys.
    Limited(Duration),
    /// The user has reached the maximum of connections.
    TooManyConnections,
    Unavailable,
}

impl ResourceRefusal {
    /// Response for a path that cannot be an endpoint, with or without a credential.
    pub(super) fn no_endpoint() -> Response {
        let body = json!({ "error": "not_found", "error_description": NO_ENDPOINT });
        (StatusCode::NOT_FOUND, Extension(RefusalReason::new(NO_ENDPOINT)), Json(body)).into_response()
    }

    /// The response: identical for the same operation, byte for byte (`OA-111`).
    pub(super) fn answer(self, challenge: &Challenge) -> Response {
        let (status, error, description) = self.words();
        metrics::counter!("lockkeeper_gate_refusals_total", "error" => error).increment(1);
        let mut told = self.told(description);
        if let Some(url) = challenge.meant.as_ref().filter(|_| status == StatusCode::UNAUTHORIZED) {
            told = Cow::Owned(format!("{told}. The MCP endpoint of this gateway is {url}: use that URL"));
        }
        let body = Json(json!({ "error": error, "error_description": told }));
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(RefusalReason::new(format!("{error}: {told}")));
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(value) = self.challenge(challenge, error, description) {
            headers.insert(header::WWW_AUTHENTICATE, value);
        }
        let wait = match self {
            Self::Limited(wait) => Some(wait.as_secs() + 1),
            Self::TooManyConnections | Self::Unavailable => Some(1),
            _ => None,
        };
        if let Some(seconds) = wait {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// The description in the body: with what arrived, where that helps. The challenge stays the same.
    fn told(&self, description: &'static str) -> Cow<'static, str> {
        match self {
            Self::NoCredential(arrived) => Cow::Owned(format!("{description}. {arrived}")),
            Self::Malformed => Cow::Owned(format!(
                "{description}. The Authorization header came without one whole token after the word Bearer"
            )),
            _ => Cow::Borrowed(description),
        }
    }

    /// One line that every client's parser accepts: quoted values in a fixed order, no `=` and no `"` in the
    /// description (`OA-109`).
    fn challenge(&self, challenge: &Challenge, error: &str, description: &str) -> Option<HeaderValue> {
        let Challenge { metadata, scopes, meant: _ } = challenge;
        let text = match self {
            Self::NoCredential(_) => format!(r#"Bearer scope="{scopes}", resource_metadata="{metadata}""#),
            Self::InvalidToken | Self::Malformed => format!(
                r#"Bearer error="{error}", scope="{scopes}", resource_metadata="{metadata}", error_description="{description}""#
            ),
            Self::InsufficientScope(all) => format!(
                r#"Bearer error="{error}", scope="{all}", resource_metadata="{metadata}", error_description="{description}""#
            ),
            _ => return None,
        };
        HeaderValue::try_from(text).ok()
    }

    const fn words(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NoCredential(_) => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this endpoint needs an access token; resource_metadata in WWW-Authenticate says where to get one",
            ),
            Self::InvalidToken | Self::Malformed => (
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                "the credential is unknown, ended, revoked, for another endpoint, or a key without --direct; authorize again",
            ),
            Self::NoSuchServer => (StatusCode::NOT_FOUND, "not_found", NO_ENDPOINT),
            Self::EndedStream => (
                StatusCode::NOT_FOUND,
                "not_found",
                "the stream that this address belongs to has ended; open /sse again",
            ),
            Self::Ambiguous => (
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "the request carries credentials that differ; send one, in the Authorization header or as api_key",
            ),
            Self::InsufficientScope(_) => {
                (StatusCode::FORBIDDEN, "insufficient_scope", "the access token lacks a scope that this needs")
            }
            Self::NotAllowed => {
                (StatusCode::FORBIDDEN, "access_denied", "the API key behind this request does not reach this endpoint")
            }
            Self::Limited(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable", "too many wrong API keys; try again later")
            }
            Self::TooManyConnections => (
                StatusCode::TOO_MANY_REQUESTS,
                "temporarily_unavailable",
                "you have so many connections to this gateway that the others are kept for other users; close some, or use \
                 those that are open",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "temporarily_unavailable",
                "the database of the gateway does not answer: nothing was done; try again in a few seconds",
            ),
        }
    }
}
