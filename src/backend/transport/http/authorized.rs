//! Requests with the token of a login: a token that the server rejects is replaced, and the request is sent again.

use http::{HeaderValue, Method as Verb, StatusCode, header};

use super::{
    response::Response,
    target::{HttpTarget, RequestContent, secret},
};
use crate::{
    backend::transport::interface::TransportError,
    model::{Bearer, RenewalError},
};

/// Maximum number of rejected tokens for one request: one that was issued a moment ago is tried again, then a refreshed
/// one, then one from a new login.
const RENEWALS: usize = 3;

// === impl HttpTarget ===

impl HttpTarget {
    /// Sends a request with the current token. If the server rejects the token, it has not processed the request, so
    /// the request is sent again with another token.
    pub(super) async fn send_authorized(
        &self,
        bearer: &Bearer,
        verb: Verb,
        content: &RequestContent<'_>,
    ) -> Result<Response, TransportError> {
        let mut renewals = 0;
        loop {
            let token = bearer.current();
            let value = token.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {}", token.expose())));
            let value = value.and_then(Result::ok).map(secret);
            let authorized = || {
                let (mut headers, body) = content();
                if let Some(value) = &value {
                    headers.insert(header::AUTHORIZATION, value.clone());
                }
                (headers, body)
            };
            let response = self.request(verb.clone(), &authorized).await?;
            let challenges = challenges(&response);
            if renewals == RENEWALS || !rejects_token(&response, &challenges) {
                return Ok(response);
            }
            renewals += 1;
            bearer.renew(token, challenges).await?;
        }
    }
}

impl From<RenewalError> for TransportError {
    fn from(error: RenewalError) -> Self {
        match error {
            RenewalError::LoginRequired(reason) => Self::LoginRequired(reason),
            RenewalError::Failed(reason) => Self::Denied(reason),
        }
    }
}

/// True for a 401, and for a 403 that another login could change (RFC 6750 3.1).
fn rejects_token(response: &Response, challenges: &[String]) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => challenges.iter().any(|challenge| challenge.contains("insufficient_scope")),
        _ => false,
    }
}

fn challenges(response: &Response) -> Vec<String> {
    let headers = response.headers().get_all(header::WWW_AUTHENTICATE);
    headers.iter().filter_map(|value| value.to_str().ok().map(str::to_owned)).collect()
}
