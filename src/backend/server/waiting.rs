//! Calls that wait for a server's start or for a slot. The client gets progress (`translation` 6.7, 4b.1), which
//! extends its timeout. Knows nothing of the cause.

use std::time::Duration;

use tokio::time::{Instant, interval_at};

use crate::mcp::{Call, Event, Method, Reply, meta, monotonic_progress::MonotonicProgress};

/// Interval of progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// The progress token of a call, as JSON text; `None` if it has none.
pub(super) fn token(call: &Call) -> Option<String> {
    if call.method == Method::Listen {
        return None;
    }
    String::from_utf8(meta::progress_token(&call.params)?.into()).ok()
}

/// Adds progress with `message` under `token` to a reply, until `is_there`.
pub(super) fn with_progress(
    reply: Reply,
    token: String,
    message: String,
    is_there: impl Fn() -> bool + Send + 'static,
) -> Reply {
    Reply::new(async_stream::stream! {
        let (mut reply, mut rising) = (reply, MonotonicProgress::new());
        let mut ticks = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        let mut waits = true;
        loop {
            tokio::select! {
                biased;
                event = reply.next_event() => match event {
                    Some(Event::Notified(told)) => {
                        if let Some(told) = rising.pass(told) {
                            yield Event::Notified(told);
                        }
                    }
                    Some(event) => yield event,
                    None => return,
                },
                _ = ticks.tick(), if waits => {
                    waits = !is_there();
                    if waits && let Some(told) = rising.waiting(&token, &message) {
                        yield Event::Notified(told);
                        rising.next_call();
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use futures_util::FutureExt as _;
    use serde_json::json;
    use tokio::{sync::mpsc, time::advance};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::mcp::{Notification, Outcome, Payload, Revision};

    fn progress(value: u8) -> Event {
        let params = Payload::of(Revision::V2025_11_25, &json!({ "progressToken": "p", "progress": value }));
        Event::Notified(Notification { method: Method::Progress, params })
    }

    fn next(reply: &mut Reply) -> Option<String> {
        match reply.next_event().now_or_never()?? {
            Event::Notified(told) => Some(String::from_utf8_lossy(told.params.json()).into_owned()),
            event => Some(format!("{event:?}")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_gets_rising_progress_until_the_server_is_ready() {
        let (events, told_later) = mpsc::unbounded_channel();
        let there = Arc::new(AtomicBool::new(false));
        let is_there = {
            let there = Arc::clone(&there);
            move || there.load(Ordering::SeqCst)
        };
        let reply = Reply::new(UnboundedReceiverStream::new(told_later));
        let mut reply = with_progress(reply, "\"p\"".to_owned(), "waiting for `slow` to start".to_owned(), is_there);
        assert_eq!(next(&mut reply), None);
        advance(PROGRESS_INTERVAL).await;
        let waits = r#"{"progressToken":"p","progress":0,"message":"waiting for `slow` to start"}"#;
        assert_eq!(next(&mut reply).as_deref(), Some(waits));
        assert_eq!(next(&mut reply), None);
        there.store(true, Ordering::SeqCst);
        advance(PROGRESS_INTERVAL).await;
        assert_eq!(next(&mut reply), None);
        events.send(progress(0)).unwrap();
        assert_eq!(next(&mut reply).as_deref(), Some(r#"{"progress":1,"progressToken":"p"}"#));
        events.send(Event::Done(Outcome::Complete(Payload::empty(Revision::V2025_11_25)))).unwrap();
        assert!(next(&mut reply).unwrap().contains("Done"));
    }
}
