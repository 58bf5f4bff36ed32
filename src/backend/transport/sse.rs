//! A server over HTTP+SSE (2024-11-05, transports). Its messages are events of one stream, which is also the session.
//! Messages for the server are posted to the endpoint that the first event names.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};
use http::{HeaderMap, HeaderValue, Method as Verb, Uri, header};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    connector::Connector,
    http::{HttpTarget, Refused, Response, is_events, read_refusal, read_small},
    interface::{Incoming, ServerInput, Transport, TransportError},
};
use crate::{
    backend::{error::StartError, task_group::TaskGroup},
    mcp::{Feature, Message, Revision},
    model::HttpSpec,
    support::Account,
    wire::{
        events::{EventsError, SseEvent, events},
        headers::PROTOCOL_VERSION,
    },
};

/// Maximum time from the start of the stream to its `endpoint` event.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of the endpoint's URI, in bytes.
const MAX_ENDPOINT: usize = 8 * 1024;
/// How long a POST may go on after its sender stopped waiting: the answer may have arrived on the stream already.
const FAREWELL: Duration = Duration::from_secs(5);
/// Maximum size of the body of an accepted POST. It is read so that the connection can be reused.
const MAX_ACCEPTED: usize = 64 * 1024;

/// One event stream, and its endpoint for messages.
pub(crate) struct SseTransport {
    /// URI for messages; `None` until the server names it. Closed when the stream ends.
    endpoint: watch::Receiver<Option<Arc<HttpTarget>>>,
    revision: OnceLock<Revision>,
    tasks: TaskGroup,
    /// Cancelled when the connection ends.
    stop: CancellationToken,
}

/// Prepares a connection. The stream is opened when the incoming messages are first polled.
pub(super) fn connect(with: &Connector<'_>, spec: &HttpSpec) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let (named, endpoint) = watch::channel(None);
    let incoming = incoming(HttpTarget::new(with.backend, with.client, spec)?, named, with.account.clone());
    let stop = with.tasks.end().child_token();
    let transport = SseTransport { endpoint, revision: OnceLock::new(), tasks: with.tasks.clone(), stop };
    Ok((Arc::new(transport), incoming))
}

/// Messages on the stream, until it ends.
fn incoming(target: HttpTarget, named: watch::Sender<Option<Arc<HttpTarget>>>, account: Account) -> Incoming {
    let arrivals = async_stream::stream! {
        let mut stream = match open(&target).await {
            Ok(response) => events(response.into_body().into_data_stream(), account).boxed(),
            Err(reason) => {
                yield ServerInput::Lost(reason);
                return;
            }
        };
        let first = timeout(ENDPOINT_TIMEOUT, first_endpoint(&mut stream, target.uri())).await;
        match first.unwrap_or_else(|_| Err(NO_ENDPOINT.to_owned())) {
            Ok(uri) => drop(named.send_replace(Some(Arc::new(target.at(uri))))),
            Err(reason) => {
                yield ServerInput::Lost(reason);
                return;
            }
        }
        loop {
            match stream.next().await {
                Some(Ok(event)) if event.is_message() => yield ServerInput::Text(event.data),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    yield ServerInput::Lost(error.to_string());
                    return;
                }
                None => {
                    yield ServerInput::Lost("the server closed the event stream".to_owned());
                    return;
                }
            }
        }
    };
    arrivals.boxed()
}

const NO_ENDPOINT: &str =
    "the server opened an event stream without an `endpoint` event: is its URL the HTTP+SSE endpoint?";

/// Opens the stream.
///
/// # Errors
///
/// Why the server opens no stream, as a text for people.
async fn open(target: &HttpTarget) -> Result<Response, String> {
    let content = || {
        let mut headers = target.headers().clone();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        (headers, Bytes::new())
    };
    let response = target.send(Verb::GET, &content).await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(match read_refusal(response, target.server(), false).await {
            Refused::Error(error) => error.to_string(),
            Refused::Message(_) => "the server refused an event stream with a JSON-RPC error".to_owned(),
        });
    }
    if !is_events(&response) {
        return Err("the server answered without an event stream: is its URL the HTTP+SSE endpoint?".to_owned());
    }
    Ok(response)
}

/// The URI in the `endpoint` event, which comes first.
async fn first_endpoint<S>(stream: &mut S, base: &Uri) -> Result<Uri, String>
where
    S: Stream<Item = Result<SseEvent, EventsError>> + Unpin,
{
    while let Some(event) = stream.next().await {
        let event = event.map_err(|error| error.to_string())?;
        if event.name.as_deref() == Some("endpoint") {
            return endpoint(&base.to_string(), &event.data);
        }
    }
    Err(NO_ENDPOINT.to_owned())
}

/// The URI for messages: `reference` resolved against the URL of the stream. Another origin is refused: it would
/// receive the configured credentials.
fn endpoint(base: &str, reference: &[u8]) -> Result<Uri, String> {
    let reference = std::str::from_utf8(reference).ok().filter(|text| text.len() <= MAX_ENDPOINT);
    let wrong = || "the `endpoint` event of the server holds no URI".to_owned();
    let base = Url::parse(base).map_err(|_| wrong())?;
    let mut url = base.join(reference.ok_or_else(wrong)?.trim()).map_err(|_| wrong())?;
    if url.origin() != base.origin() {
        let (other, own) = (url.origin().ascii_serialization(), base.origin().ascii_serialization());
        return Err(format!(
            "the server wants messages at {other}, but only {own} is used, the origin of its URL: \
             let the server name a relative endpoint, or correct its URL"
        ));
    }
    url.set_fragment(None);
    Uri::try_from(url.as_str()).map_err(|_| wrong())
}

// === impl SseTransport ===

impl Transport for SseTransport {
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (mut endpoint, tasks, stop) = (self.endpoint.clone(), self.tasks.clone(), self.stop.clone());
        let revision = self.revision.get().copied();
        async move {
            let closed = || TransportError::Gone("the event stream is closed".to_owned());
            let named = endpoint.wait_for(Option::is_some).await.ok().and_then(|target| target.clone());
            let target = named.ok_or_else(closed)?;
            let (posted, outcome) = oneshot::channel();
            // the answer may arrive on the stream before the POST ends, so a task of its own finishes the POST
            tasks.spawn(async move {
                stop.run_until_cancelled(post(&target, revision, message, posted)).await;
            });
            // the message may have been sent
            let lost = "the connection was closed before the server had accepted the message";
            outcome.await.unwrap_or_else(|_| Err(TransportError::Lost(lost.to_owned())))
        }
        .boxed()
    }

    fn negotiated(&self, revision: Revision) {
        let _ = self.revision.set(revision);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        // the reader holds the stream; its end ends the session
        self.stop.cancel();
        std::future::ready(()).boxed()
    }
}

/// Posts one message, and sends the outcome to `posted`.
async fn post(
    target: &HttpTarget,
    revision: Option<Revision>,
    message: Message,
    mut posted: oneshot::Sender<Result<(), TransportError>>,
) {
    let content = || (headers(target, revision), message.encode());
    let sent = tokio::select! {
        sent = target.send(Verb::POST, &content) => sent,
        () = async {
            posted.closed().await;
            sleep(FAREWELL).await;
        } => return,
    };
    let outcome = match sent {
        Ok(response) if response.status().is_success() => {
            let _ = posted.send(Ok(()));
            let _ = timeout(FAREWELL, read_small(response, MAX_ACCEPTED)).await;
            return;
        }
        Ok(response) => match read_refusal(response, target.server(), true).await {
            Refused::Error(error) => error,
            Refused::Message(Message::Response { outcome: Err(error), .. }) => {
                TransportError::Refused(error.to_string())
            }
            Refused::Message(_) => TransportError::Refused("it answered with no success".to_owned()),
        },
        Err(error) => error,
    };
    let _ = posted.send(Err(outcome));
}

/// Headers of a POST.
fn headers(target: &HttpTarget, revision: Option<Revision>) -> HeaderMap {
    let mut headers = target.headers().clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(revision) = revision.filter(|revision| revision.has(Feature::ProtocolVersionHeader)) {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_origin_of_the_stream_alone() {
        let base = "https://mcp.example.com/a/sse?key=1";
        let same = [
            ("/messages?id=1", "https://mcp.example.com/messages?id=1"),
            ("messages", "https://mcp.example.com/a/messages"),
            (" ?session=2\n", "https://mcp.example.com/a/sse?session=2"),
            ("https://MCP.example.com:443/m#part", "https://mcp.example.com/m"),
            ("//mcp.example.com/m", "https://mcp.example.com/m"),
        ];
        for (reference, expected) in same {
            assert_eq!(endpoint(base, reference.as_bytes()).unwrap(), expected, "{reference}");
        }
        let others = [
            "http://mcp.example.com/m",
            "https://mcp.example.com:8443/m",
            "//evil.test/m",
            "https://mcp.example.com@evil.test/m",
            "\\\\evil.test/m",
            "file:///etc/passwd",
            "data:,x",
        ];
        for reference in others {
            let reason = endpoint(base, reference.as_bytes()).unwrap_err();
            assert!(reason.contains("only https://mcp.example.com is used"), "{reference}: {reason}");
        }
        assert!(endpoint(base, &[0xff]).unwrap_err().contains("no URI"));
        assert!(endpoint(base, &[b'a'; MAX_ENDPOINT + 1]).unwrap_err().contains("no URI"));
    }
}
