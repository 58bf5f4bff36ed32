//! Refusals: messages that the server did not accept, and the reason with its remedy. Knows nothing of the messages.

use bytes::Bytes;
use http::{StatusCode, header};

use super::response::{Response, is_json, read as read_body};
use crate::{
    backend::transport::interface::{TransportError, messages},
    mcp::Message,
};

/// The code that servers on the TypeScript SDK return for an unknown session, in place of the specified 404 (2025-03-26
/// to 2025-11-25, transports, *Session Management*).
const SESSION_ERROR: i64 = -32000;
/// Maximum size of a refusal that is read, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

/// A message that the server did not accept.
pub(crate) enum Refused {
    /// With a JSON-RPC error.
    Message(Message),
    /// Without one.
    Error(TransportError),
}

/// Reads the reason of an unsuccessful response; `in_session` is true if the request named a session.
pub(crate) async fn read(response: Response, in_session: bool) -> Refused {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let asks_for_login = names_authorization_server(&response);
    let json = is_json(&response);
    let text = read_body(response, MAX_REFUSAL).await.unwrap_or_default();
    let error = match status {
        StatusCode::BAD_REQUEST if in_session && blames_the_session(&text) => {
            TransportError::Gone("the server has forgotten the session (400)".to_owned())
        }
        StatusCode::NOT_FOUND if in_session => {
            TransportError::Gone("the server has forgotten the session (404)".to_owned())
        }
        StatusCode::UNAUTHORIZED if asks_for_login => TransportError::Denied(
            "the server asks for a login of its own (OAuth): set `auth = \"oauth\"`, and each user connects it"
                .to_owned(),
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TransportError::Denied(format!(
            "the server turned the gateway away ({status}): give it valid credentials in `headers`"
        )),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            TransportError::Unavailable(format!("the server is overloaded ({status})"))
        }
        status if status.is_server_error() => {
            TransportError::Unavailable(format!("the server failed ({status}): see its own log"))
        }
        status if status.is_redirection() => TransportError::Refused(format!(
            "the server redirects ({status}) to {}: put the right address into `url`",
            location.unwrap_or_else(|| "nowhere".to_owned())
        )),
        status => TransportError::Refused(format!("the server answered {status}: is `url` the MCP endpoint?")),
    };
    let speaks = json && matches!(error, TransportError::Refused(_)) && status.is_client_error();
    let message = || messages(&text).into_iter().flatten().find(|message| matches!(message, Message::Response { .. }));
    match speaks.then(message).flatten() {
        Some(message) => Refused::Message(message),
        None => Refused::Error(error),
    }
}

/// True if the response names where to log in (RFC 9728 5.1).
fn names_authorization_server(response: &Response) -> bool {
    let challenges = response.headers().get_all(header::WWW_AUTHENTICATE);
    challenges.iter().any(|challenge| challenge.to_str().is_ok_and(|text| text.contains("resource_metadata")))
}

/// True if a 400 means an unknown session: widespread servers return it instead of 404, before they read the message.
fn blames_the_session(text: &Bytes) -> bool {
    messages(text).into_iter().flatten().any(|message| match message {
        Message::Response { outcome: Err(error), .. } => {
            let told = error.message().to_lowercase();
            error.code() == SESSION_ERROR && told.contains("session") && !told.contains("initialize")
        }
        _ => false,
    })
}

// === impl Refused ===

impl Refused {
    /// The item of the request's stream.
    pub(super) fn into_item(self) -> Result<Message, TransportError> {
        match self {
            // the exchange identifies the request; servers write any id here
            Self::Message(Message::Response { outcome: Err(error), .. }) => {
                Ok(Message::Response { id: None, outcome: Err(error) })
            }
            Self::Message(_) => Err(TransportError::Refused("the server refused with a result".to_owned())),
            Self::Error(error) => Err(error),
        }
    }
}
