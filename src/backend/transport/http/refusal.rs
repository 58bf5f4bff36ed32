//! Refusals: messages that the server did not accept, with the reason and what to do.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

use super::response::{Response, is_json, read_small};
use crate::{
    backend::transport::interface::{TransportError, messages},
    mcp::Message,
    model::{BackendId, status::ASKS_FOR_LOGIN},
};

/// The code that servers on the TypeScript SDK return for an unknown session, instead of the specified 404 (2025-03-26
/// to 2025-11-25, transports, *Session Management*).
const SESSION_ERROR: i64 = -32000;
/// Maximum delay accepted from `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Maximum size of a refusal's body, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

/// A message that the server did not accept.
pub(crate) enum Refused {
    /// The server answered with a JSON-RPC error.
    Message(Message),
    /// The server answered without one.
    Error(TransportError),
}

/// Reads an unsuccessful response; `in_session` is true if the request named a session.
pub(crate) async fn read(response: Response, server: &BackendId, in_session: bool) -> Refused {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let asks_for_login = names_authorization_server(&response);
    let retry_after = retry_after(response.headers());
    let json = is_json(&response);
    let text = read_small(response, MAX_REFUSAL).await.unwrap_or_default();
    let error = match status {
        StatusCode::BAD_REQUEST if in_session && blames_the_session(&text, server) => {
            TransportError::Gone("the server has forgotten the session (400)".to_owned())
        }
        StatusCode::NOT_FOUND if in_session => {
            TransportError::Gone("the server has forgotten the session (404)".to_owned())
        }
        StatusCode::UNAUTHORIZED if asks_for_login => TransportError::Denied(ASKS_FOR_LOGIN.to_owned()),
        StatusCode::TOO_MANY_REQUESTS => unavailable(format!("the server is overloaded ({status})"), retry_after),
        // some servers send 403 for rate limits
        status if status.is_client_error() && retry_after.is_some() && status != StatusCode::REQUEST_TIMEOUT => {
            unavailable(format!("the server limits the gateway ({status})"), retry_after)
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TransportError::Denied(format!(
            "the server turned the gateway away ({status}): give it valid credentials in a header"
        )),
        StatusCode::SERVICE_UNAVAILABLE => unavailable(server_failed(status), retry_after),
        // the server, or a proxy in front of it, gave up on a request that it had accepted
        StatusCode::REQUEST_TIMEOUT => TransportError::Failed(format!("the server gave up on the request ({status})")),
        status if status.is_server_error() => TransportError::Failed(server_failed(status)),
        status if status.is_redirection() => TransportError::Refused(format!(
            "the server redirects ({status}) to {}: give the right address",
            location.unwrap_or_else(|| "nowhere".to_owned())
        )),
        status => TransportError::Refused(format!("the server answered {status}: is its URL the MCP endpoint?")),
    };
    let speaks = json && matches!(error, TransportError::Refused(_)) && status.is_client_error();
    let is_answer = |message: &Message| matches!(message, Message::Response { .. });
    let message = || messages(&text, server).into_iter().flatten().find(is_answer);
    match speaks.then(message).flatten() {
        Some(message) => Refused::Message(message),
        None => Refused::Error(error),
    }
}

fn unavailable(reason: String, retry_after: Option<Duration>) -> TransportError {
    let reason = match retry_after {
        Some(wait) => format!("{reason}; it asks to wait {} s", wait.as_secs()),
        None => reason,
    };
    TransportError::Unavailable { reason, retry_after }
}

/// The delay in `Retry-After` (RFC 9110 10.2.3), at most an hour. A date is measured from the response's own `Date`.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let told = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = told.parse() {
        Duration::from_secs(seconds)
    } else {
        let sent = httpdate::parse_http_date(headers.get(header::DATE)?.to_str().ok()?).ok()?;
        httpdate::parse_http_date(told).ok()?.duration_since(sent).unwrap_or_default()
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

fn server_failed(status: StatusCode) -> String {
    format!("the server failed ({status}): see its own log")
}

/// True if the response points to an authorization server (RFC 9728 5.1).
fn names_authorization_server(response: &Response) -> bool {
    let challenges = response.headers().get_all(header::WWW_AUTHENTICATE);
    challenges.iter().any(|challenge| challenge.to_str().is_ok_and(|text| text.contains("resource_metadata")))
}

/// True if a 400 means an unknown session: common servers return it instead of 404, before they read the message.
fn blames_the_session(text: &Bytes, server: &BackendId) -> bool {
    messages(text, server).into_iter().flatten().any(|message| match message {
        Message::Response { outcome: Err(error), .. } => {
            let told = error.message().to_lowercase();
            error.code() == SESSION_ERROR && told.contains("session") && !told.contains("initialize")
        }
        _ => false,
    })
}

// === impl Refused ===

impl Refused {
    /// The refusal as the last item of the request's exchange.
    pub(super) fn into_item(self) -> Result<Message, TransportError> {
        match self {
            // the exchange identifies the request; servers put any id here
            Self::Message(Message::Response { outcome: Err(error), .. }) => {
                Ok(Message::Response { id: None, outcome: Err(error) })
            }
            Self::Message(_) => Err(TransportError::Refused("the server refused with a result".to_owned())),
            Self::Error(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(headers: &[(&str, &str)]) -> Option<u64> {
        let pair = |(name, value): &(&str, &str)| {
            (header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        retry_after(&headers.iter().map(pair).collect()).map(|wait| wait.as_secs())
    }

    #[test]
    fn the_time_to_wait_is_a_number_or_a_date_and_bounded() {
        let (sent, later) = ("Sat, 28 Nov 2026 03:00:00 GMT", "Sat, 28 Nov 2026 03:00:45 GMT");
        assert_eq!(told(&[("retry-after", " 7 ")]), Some(7));
        assert_eq!(told(&[("retry-after", later), ("date", sent)]), Some(45));
        assert_eq!(told(&[("retry-after", sent), ("date", later)]), Some(0), "in the past");
        assert_eq!(told(&[("retry-after", later)]), None, "from when on?");
        assert_eq!(told(&[("retry-after", "18446744073709551615")]), Some(3600));
        for unreadable in ["-1", "soon", "7.5", ""] {
            assert_eq!(told(&[("retry-after", unreadable), ("date", sent)]), None, "{unreadable}");
        }
        assert_eq!(told(&[]), None);
    }
}
