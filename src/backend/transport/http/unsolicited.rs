//! The stream for what a server says outside of calls: GET on the endpoint, where the server offers it.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};

use super::{answer::Cursor, endpoint::Endpoint, refusal::Refused, response::is_events};
use crate::{
    backend::transport::interface::{Arrival, Incoming, TransportError},
    wire::events::events,
};

/// The shortest wait between two tries; each doubles it, until a stream was of use.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A stream that lived for this long was of use, even if nothing came.
const LONG_LIFE: Duration = Duration::from_secs(5);
/// How many tries in a row may fail to connect before the session is given up.
const MOST_UNREACHABLE: u32 = 3;

/// Everything that comes on the stream, opened again whenever it ends. A server that does not offer it is asked once.
pub(super) fn incoming(endpoint: Arc<Endpoint>) -> Incoming {
    let arrivals = async_stream::stream! {
        endpoint.opening.may_ask().await;
        let mut cursor = Cursor::default();
        let mut offered = false;
        let mut unreachable = 0;
        let mut wait = SHORTEST_WAIT;
        loop {
            let asked = endpoint.stream(cursor.last.as_deref()).await;
            // a refusal is an answer as well: calls need not wait for another try
            endpoint.opening.answered();
            match asked {
                Ok(response) if is_events(&response) => {
                    unreachable = 0;
                    offered = true;
                    let began = Instant::now();
                    let mut fruitful = false;
                    let mut stream = events(response.into_body().into_data_stream()).boxed();
                    while let Some(Ok(event)) = stream.next().await {
                        cursor.note(&event);
                        if event.is_message() {
                            fruitful = true;
                            yield Arrival::Text(event.data);
                        }
                    }
                    if fruitful || began.elapsed() >= LONG_LIFE {
                        wait = SHORTEST_WAIT;
                    }
                }
                // before there was a stream, 404 may as well mean that the server knows no GET; the next call will tell
                Err(Refused::Error(TransportError::Gone(reason))) if offered => {
                    yield Arrival::Lost(reason);
                    return;
                }
                Err(Refused::Error(TransportError::Unreachable(reason))) if unreachable >= MOST_UNREACHABLE => {
                    yield Arrival::Lost(reason);
                    return;
                }
                Err(Refused::Error(TransportError::Unreachable(_))) => unreachable += 1,
                Err(Refused::Error(TransportError::Unavailable(_) | TransportError::Lost(_))) => {}
                // 405 means that there is none (2025-03-26 and later, transports), and no other refusal changes by itself
                Ok(_) | Err(Refused::Message(_) | Refused::Error(TransportError::Refused(_) | TransportError::Denied(_) | TransportError::Gone(_))) => {
                    tracing::debug!("the server offers no stream for unsolicited messages");
                    future::pending::<()>().await;
                }
            }
            sleep(wait.max(cursor.retry)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    };
    arrivals.boxed()
}
