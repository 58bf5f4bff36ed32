//! The answer to one POST: JSON or a stream of events, and what happens when the stream breaks off.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::time::sleep;

use super::{
    endpoint::HttpEndpoint,
    refusal::Refused,
    response::{Response, is_events, is_json, read},
};
use crate::{
    backend::transport::interface::{BrokenAnswer, RequestTerms, TransportError, messages},
    mcp::{Message, large_messages::off_worker, mirrored_params::Mirror},
    model::BackendId,
    support::{Account, memory::Claim},
    wire::events::{EventsError, MAX_EVENT, SseEvent, events},
};

/// Maximum number of resumptions in a row that bring neither a message nor a new event id.
const RESUMES: u32 = 5;
/// Delay before a resumption, if the server sent no `retry` (2025-11-25, transports).
const RETRY: Duration = Duration::from_secs(1);
/// Bounds for the delay that a server asks for.
const SHORTEST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// Position in an event stream.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// The last event id; `None` if there is nothing to resume after.
    pub(super) last: Option<String>,
    /// Delay before a resumption.
    pub(super) retry: Duration,
}

/// Resumptions of one stream: a server may close it before the answer and let the client poll (2025-11-25, transports).
/// While new events arrive, only the call's own timeout ends this.
#[derive(Debug, Default)]
struct Resumptions {
    /// Number of resumptions in a row that brought nothing new.
    fruitless: u32,
    /// Event id after which the last one resumed.
    after: Option<String>,
}

/// Posts a request, and yields every message of its exchange.
pub(super) fn answer(
    endpoint: Arc<HttpEndpoint>,
    request: Message,
    RequestTerms { mirror, account }: RequestTerms,
) -> impl Stream<Item = Result<Message, TransportError>> + Send {
    async_stream::stream! {
        let posted = post(&endpoint, &request, mirror.as_deref(), &account).await;
        let own = number(&request);
        drop(request);
        let response = match posted {
            Ok(response) => response,
            Err(refused) => {
                yield refused.into_item();
                return;
            }
        };
        if !is_events(&response) {
            match whole(response, endpoint.server(), &account).await {
                Ok(messages) => {
                    for message in messages {
                        yield Ok(message);
                    }
                    // a caller stops reading at its answer, so the answer was not among these
                    yield Err(TransportError::Refused("the answer does not answer the request".to_owned()));
                }
                Err(error) => yield Err(error),
            }
            return;
        }
        let (mut cursor, mut resumptions) = (Cursor::default(), Resumptions::default());
        let mut stream: BoxStream<'static, _> = events(response.into_body().into_data_stream(), account.clone()).boxed();
        loop {
            while let Some(event) = stream.next().await {
                let event = match event {
                    Ok(event) => event,
                    // resuming would bring the same event again
                    Err(error @ (EventsError::TooLarge | EventsError::Exhausted(_))) => {
                        yield Err(TransportError::Lost(error.to_string()));
                        return;
                    }
                    Err(error @ EventsError::Broken(_)) => {
                        tracing::debug!(%error, "a stream broke off");
                        break;
                    }
                };
                cursor.note(&event);
                if event.is_message() {
                    resumptions.fruitless = 0;
                    off_worker(event.data.len()).await;
                    for message in messages(&event.data, endpoint.server()) {
                        match message {
                            Ok(message) => yield Ok(message),
                            Err(broken) if broken.number() == own => yield Err(broken.error()),
                            // it answers no request of this exchange
                            Err(_) => {}
                        }
                    }
                }
            }
            // the caller still reads, so the answer has not arrived
            stream = match resumptions.next(&endpoint, &cursor, &account).await {
                Ok(stream) => stream,
                Err(reason) => {
                    yield Err(TransportError::Lost(reason));
                    return;
                }
            };
        }
    }
}

/// The request's id, if it is one of the gateway's numbers.
fn number(request: &Message) -> Option<u64> {
    match request {
        Message::Request { id, .. } => id.as_number(),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}

/// Posts a request, charged to `account` until the server has answered.
async fn post(
    endpoint: &HttpEndpoint,
    request: &Message,
    mirror: Option<&Mirror>,
    account: &Account,
) -> Result<Response, Refused> {
    let mut claim = Claim::nothing(account.clone());
    claim.grow_soon(request.payload_len()).await.map_err(|exhausted| {
        Refused::Error(TransportError::Unavailable { reason: exhausted.to_string(), retry_after: None })
    })?;
    tokio::select! {
        posted = endpoint.post(request, mirror) => posted,
        exhausted = claim.reclaimed() => Err(Refused::Error(TransportError::Failed(exhausted.to_string()))),
    }
}

/// Messages in a response that is not an event stream.
async fn whole(response: Response, server: &BackendId, account: &Account) -> Result<Vec<Message>, TransportError> {
    if response.status() == StatusCode::ACCEPTED || response.status() == StatusCode::NO_CONTENT {
        return Err(TransportError::Lost("the server accepted the request and answered nothing".to_owned()));
    }
    if !is_json(&response) {
        let text = "the answer is neither JSON nor a stream of events: is its URL the MCP endpoint?";
        return Err(TransportError::Refused(text.to_owned()));
    }
    let (text, _claim) = read(response, MAX_EVENT, account).await?;
    off_worker(text.len()).await;
    let messages = messages(&text, server);
    if messages.is_empty() {
        return Err(TransportError::Refused("the answer is no JSON-RPC message".to_owned()));
    }
    messages.into_iter().map(|message| message.map_err(BrokenAnswer::error)).collect()
}

// === impl Resumptions ===

impl Resumptions {
    /// Resumes a stream that ended at `cursor`.
    ///
    /// # Errors
    ///
    /// Why it cannot be resumed. The request has run, at least in part, so the error never says that it can be
    /// repeated.
    async fn next(
        &mut self,
        endpoint: &HttpEndpoint,
        cursor: &Cursor,
        account: &Account,
    ) -> Result<BoxStream<'static, Result<SseEvent, EventsError>>, String> {
        let mut reason = "the server closed the stream before its answer".to_owned();
        let Some(id) = cursor.last.as_deref().filter(|_| !endpoint.is_sessionless()) else { return Err(reason) };
        if self.after.as_deref() != Some(id) {
            *self = Self { fruitless: 0, after: Some(id.to_owned()) };
        }
        let mut wait = cursor.retry.max(SHORTEST_RETRY);
        while self.fruitless < RESUMES {
            self.fruitless += 1;
            sleep(wait).await;
            match endpoint.stream(Some(id)).await {
                Ok(response) if is_events(&response) => {
                    return Ok(events(response.into_body().into_data_stream(), account.clone()).boxed());
                }
                // the server may be restarting or busy
                Err(Refused::Error(
                    TransportError::Unreachable(failed) | TransportError::Failed(failed) | TransportError::Lost(failed),
                )) => reason = failed,
                Err(Refused::Error(TransportError::Unavailable { reason: failed, retry_after })) => {
                    reason = failed;
                    wait = wait.max(retry_after.unwrap_or_default());
                }
                Err(Refused::Error(refused)) => return Err(refused.to_string()),
                Ok(_) | Err(Refused::Message(_)) => return Err(reason),
            }
        }
        Err(reason)
    }
}

// === impl Cursor ===

impl Cursor {
    /// Records the id and the `retry` of an event.
    pub(super) fn note(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            // an empty id resets the last one (HTML, server-sent events)
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
