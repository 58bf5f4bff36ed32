//! Standalone stream: a GET on the endpoint, if the server offers it.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};

use super::{answer::Cursor, endpoint::HttpEndpoint, refusal::Refused, response::is_events};
use crate::{
    backend::transport::interface::{Incoming, ServerInput, TransportError},
    support::Account,
    wire::events::events,
};

/// Minimum delay before reopening a stream that brought a message. The server can ask for more with `retry`.
const SHORTEST_RETRY: Duration = Duration::from_millis(10);
/// Minimum delay after any other attempt. It doubles with each, until a stream was useful.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// Maximum delay between two attempts.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A stream that lasted this long counts as useful, even without a message.
const LONG_LIFE: Duration = Duration::from_secs(5);
/// Maximum number of failures to connect in a row before the session counts as lost.
const MAX_UNREACHABLE: u32 = 3;

/// Messages of the stream, which is reopened whenever it ends. A server that does not offer it is asked once.
pub(super) fn incoming(endpoint: Arc<HttpEndpoint>, account: Account) -> Incoming {
    let arrivals = async_stream::stream! {
        endpoint.opening.may_ask().await;
        let mut cursor = Cursor::default();
        let mut offered = false;
        let mut unreachable = 0;
        let mut wait = SHORTEST_WAIT;
        loop {
            let mut asked_to_wait = None;
            let asked = endpoint.stream(cursor.last.as_deref()).await;
            // a refusal also counts as an answer: calls need not wait for another attempt
            endpoint.opening.answered();
            match asked {
                Ok(response) if is_events(&response) => {
                    unreachable = 0;
                    offered = true;
                    let began = Instant::now();
                    let mut fruitful = false;
                    let mut stream = events(response.into_body().into_data_stream(), account.clone()).boxed();
                    while let Some(Ok(event)) = stream.next().await {
                        cursor.note(&event);
                        if event.is_message() {
                            fruitful = true;
                            yield ServerInput::Text(event.data);
                        }
                    }
                    if fruitful || began.elapsed() >= LONG_LIFE {
                        wait = SHORTEST_WAIT;
                    }
                    if fruitful {
                        sleep(cursor.retry.max(SHORTEST_RETRY)).await;
                        continue;
                    }
                }
                // before the first stream, 404 may mean that the server has no GET; the next call will show
                Err(Refused::Error(TransportError::Gone(reason))) if offered => {
                    yield ServerInput::Lost(reason);
                    return;
                }
                Err(Refused::Error(TransportError::Unreachable(reason))) if unreachable >= MAX_UNREACHABLE => {
                    yield ServerInput::Lost(reason);
                    return;
                }
                Err(Refused::Error(TransportError::Unreachable(_))) => unreachable += 1,
                Err(Refused::Error(TransportError::Unavailable { retry_after, .. })) => asked_to_wait = retry_after,
                Err(Refused::Error(TransportError::Failed(_) | TransportError::Lost(_))) => {}
                // 405 means that there is no stream (2025-03-26 and later, transports), and other refusals do not
                // change either
                Ok(_) | Err(Refused::Message(_) | Refused::Error(TransportError::Refused(_) | TransportError::Denied(_) | TransportError::LoginRequired(_) | TransportError::Gone(_))) => {
                    tracing::debug!("the server offers no stream for unsolicited messages");
                    future::pending::<()>().await;
                }
            }
            sleep(wait.max(cursor.retry).max(asked_to_wait.unwrap_or_default())).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    };
    arrivals.boxed()
}
