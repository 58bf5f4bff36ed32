//! The answer to one POST: JSON or a stream of events, and what happens when the stream breaks off.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use http::{StatusCode, header};
use http_body_util::BodyExt as _;
use tokio::time::sleep;

use super::{Endpoint, Response, Turned, client::cause};
use crate::{
    backend::transport::interface::{TransportError, messages},
    mcp::{Message, mirrored::Mirror},
    wire::events::{Event, EventsError, MAX_EVENT, events},
};

/// How often a stream is resumed that gives nothing new.
const RESUMES: u32 = 5;
/// How long to wait before resuming where the server did not say (2025-11-25 transports).
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait that a server may ask for.
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// What servers on the TypeScript SDK say of a session that they do not know; the specification says 404 (2025-03-26 to
/// 2025-11-25, transports, *Session Management*).
const SESSION_ERROR: i64 = -32000;
/// How much of a refusal is read, in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

/// Where a stream of events stands.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// The last id, after which it can be resumed.
    pub(super) last: Option<String>,
    /// How long to wait before.
    pub(super) retry: Duration,
}

/// Posts a request and gives every message that comes back on its exchange.
pub(super) fn answer(
    endpoint: Arc<Endpoint>,
    request: Message,
    mirror: Option<Arc<Mirror>>,
) -> impl Stream<Item = Result<Message, TransportError>> + Send {
    async_stream::stream! {
        let response = match endpoint.post(&request, mirror.as_deref()).await {
            Ok(response) => response,
            Err(turned) => {
                yield turned.into_item();
                return;
            }
        };
        if !is_events(&response) {
            for item in whole(response).await {
                yield item;
            }
            return;
        }
        let mut cursor = Cursor::default();
        let mut fruitless = 0;
        let mut stream: BoxStream<'static, _> = events(response.into_body().into_data_stream()).boxed();
        loop {
            while let Some(event) = stream.next().await {
                let Ok(event) = event.inspect_err(|error| tracing::debug!(%error, "a stream broke off")) else { break };
                cursor.note(&event);
                if event.is_message() {
                    fruitless = 0;
                    for message in messages(&event.data) {
                        yield Ok(message);
                    }
                }
            }
            // still asked, so there was no answer yet
            fruitless += 1;
            stream = match resumed(&endpoint, &cursor, fruitless).await {
                Ok(stream) => stream,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
        }
    }
}

/// The rest of a stream that ended before the answer: a server may close it and be polled (2025-11-25 transports).
async fn resumed(
    endpoint: &Endpoint,
    cursor: &Cursor,
    fruitless: u32,
) -> Result<BoxStream<'static, Result<Event, EventsError>>, TransportError> {
    let lost = || TransportError::Lost("the server closed the stream before its answer".to_owned());
    let resumes = fruitless <= RESUMES && !endpoint.is_modern();
    let Some(id) = cursor.last.as_deref().filter(|_| resumes) else { return Err(lost()) };
    sleep(cursor.retry).await;
    match endpoint.stream(Some(id)).await {
        Ok(response) if is_events(&response) => Ok(events(response.into_body().into_data_stream()).boxed()),
        // the request has run, in whole or in part: what is gone is its answer
        Err(Turned::Error(TransportError::Gone(reason))) => Err(TransportError::Lost(reason)),
        Err(Turned::Error(error)) => Err(error),
        Ok(_) | Err(Turned::Message(_)) => Err(lost()),
    }
}

/// The messages of an answer that is no stream.
async fn whole(response: Response) -> Vec<Result<Message, TransportError>> {
    if response.status() == StatusCode::ACCEPTED || response.status() == StatusCode::NO_CONTENT {
        return vec![Err(TransportError::Lost("the server accepted the request and answered nothing".to_owned()))];
    }
    if !is_json(&response) {
        let text = "the answer is neither JSON nor a stream of events: is `url` the MCP endpoint?";
        return vec![Err(TransportError::Refused(text.to_owned()))];
    }
    match read(response, MAX_EVENT).await {
        Ok(text) => {
            let read = messages(&text);
            let bad =
                read.is_empty().then(|| Err(TransportError::Refused("the answer is no JSON-RPC message".to_owned())));
            let missing = Err(TransportError::Refused("the answer does not answer the request".to_owned()));
            // the reader stops at its answer: what it comes to after that was missing
            read.into_iter().map(Ok).chain(bad).chain([missing]).collect()
        }
        Err(error) => vec![Err(error)],
    }
}

/// Why a message was not taken, in words that say what to do; `in_session` tells whether it named a session.
pub(super) async fn turned(response: Response, in_session: bool) -> Turned {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let json = is_json(&response);
    let text = read(response, MAX_REFUSAL).await.unwrap_or_default();
    let error = match status {
        StatusCode::BAD_REQUEST if in_session && blames_the_session(&text) => {
            TransportError::Gone("the server has forgotten the session (400)".to_owned())
        }
        StatusCode::NOT_FOUND if in_session => {
            TransportError::Gone("the server has forgotten the session (404)".to_owned())
        }
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
    let message = || messages(&text).into_iter().find(|message| matches!(message, Message::Response { .. }));
    match speaks.then(message).flatten() {
        Some(message) => Turned::Message(message),
        None => Turned::Error(error),
    }
}

/// Whether a 400 is for a session that the server does not know: widespread servers say so instead of 404, before they
/// look at the message.
fn blames_the_session(text: &Bytes) -> bool {
    messages(text).into_iter().any(|message| match message {
        Message::Response { outcome: Err(error), .. } => {
            let told = error.message().to_lowercase();
            error.code() == SESSION_ERROR && told.contains("session") && !told.contains("initialize")
        }
        _ => false,
    })
}

async fn read(response: Response, most: usize) -> Result<Bytes, TransportError> {
    let mut body = response.into_body().into_data_stream();
    let mut text = Bytes::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| TransportError::Lost(cause(&error)))?;
        if text.len() + chunk.len() > most {
            return Err(TransportError::Refused(format!("the answer is larger than {most} bytes")));
        }
        text = if text.is_empty() { chunk } else { joined(text, &chunk) };
    }
    Ok(text)
}

/// Appends to a text without copying it, unless others hold it too.
fn joined(text: Bytes, chunk: &[u8]) -> Bytes {
    let mut text = text.try_into_mut().unwrap_or_else(|text| BytesMut::from(&text[..]));
    text.extend_from_slice(chunk);
    text.freeze()
}

pub(super) fn is_events(response: &Response) -> bool {
    has_type(response, "text/event-stream")
}

fn is_json(response: &Response) -> bool {
    has_type(response, "application/json")
}

fn has_type(response: &Response, name: &str) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(name)
}

// === impl Turned ===

impl Turned {
    fn into_item(self) -> Result<Message, TransportError> {
        match self {
            // the exchange tells which request is meant, and servers write what they like here
            Self::Message(Message::Response { outcome: Err(error), .. }) => {
                Ok(Message::Response { id: None, outcome: Err(error) })
            }
            Self::Message(_) => Err(TransportError::Refused("the server refused with a result".to_owned())),
            Self::Error(error) => Err(error),
        }
    }
}

// === impl Cursor ===

impl Cursor {
    /// Notes the id and the wait that an event carries.
    pub(super) fn note(&mut self, event: &Event) {
        if let Some(id) = &event.id {
            // an empty id takes the last one back (HTML, server-sent events)
            self.last = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = retry.min(LONGEST_RETRY);
        }
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self { last: None, retry: RETRY }
    }
}
