//! Progress on behalf of a silent server, so that clients with a fixed time-out go on waiting. Many give up after 60 s
//! without any, whatever the server does. Knows nothing of routes.
//!
//! A heartbeat has a value below zero, since servers count from zero or more: nothing that the server reports later has to
//! be changed to increase (all versions, *Progress*). It claims no `total`. Once the server reports progress by itself,
//! it is left to it. Other notifications are silence too: clients extend their time-out on progress alone.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::{
    mcp::{Call, Event, Method, Notification, Payload, Reply, Revision, Server, json, meta},
    model::BackendId,
};

/// A server whose silence is bridged.
pub(crate) struct Heartbeats {
    backend: BackendId,
    server: Arc<dyn Server>,
    /// Time without progress before a heartbeat.
    interval: Duration,
}

/// The heartbeats of one call.
struct Pulse {
    backend: BackendId,
    /// The client's token, as JSON text.
    token: String,
    interval: Duration,
    began: Instant,
    beats: u32,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// Reports progress for a backend after each `interval` of silence, to clients that gave a token.
    pub(crate) fn new((backend, server): (&BackendId, Arc<dyn Server>), interval: Duration) -> Self {
        Self { backend: backend.clone(), server, interval }
    }
}

impl Server for Heartbeats {
    fn call(&self, call: Call) -> Reply {
        // a listen is open for as long as its client wants it
        let token = if call.method == Method::Listen { None } else { meta::progress_token(&call.params) };
        let token = token.and_then(|token| String::from_utf8(token.into()).ok());
        let reply = self.server.call(call);
        match token {
            Some(token) => {
                let backend = self.backend.clone();
                Pulse { backend, token, interval: self.interval, began: Instant::now(), beats: 0 }.bridge(reply)
            }
            None => reply,
        }
    }

    fn expect(&self) {
        self.server.expect();
    }
}

// === impl Pulse ===

impl Pulse {
    /// The same reply with heartbeats, until the server reports progress.
    fn bridge(mut self, mut reply: Reply) -> Reply {
        Reply::new(async_stream::stream! {
            let mut silence = pin!(sleep_until(Instant::now() + self.interval));
            loop {
                let event = tokio::select! {
                    // first, since a flood of other events extends no time-out
                    biased;
                    () = silence.as_mut() => {
                        silence.as_mut().reset(Instant::now() + self.interval);
                        yield self.beat();
                        continue;
                    }
                    event = reply.next_event() => event,
                };
                let Some(event) = event else { return };
                let reports = matches!(&event, Event::Notified(told) if told.method == Method::Progress);
                yield event;
                if reports {
                    break;
                }
            }
            while let Some(event) = reply.next_event().await {
                yield event;
            }
        })
    }

    fn beat(&mut self) -> Event {
        self.beats = self.beats.saturating_add(1);
        // rises for ever, and stays below zero
        let value = -1.0 / f64::from(self.beats);
        let message = format!("`{}` is working ({} s)", self.backend, self.began.elapsed().as_secs());
        let (token, message) = (&self.token, json::quote(&message));
        let params = format!(r#"{{"progressToken":{token},"progress":{value},"message":{message}}}"#);
        let params = Payload::new(Revision::V2026_07_28, params.into());
        Event::Notified(Notification { method: Method::Progress, params })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use serde_json::json;
    use tokio::{sync::mpsc, time::advance};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::mcp::Outcome;

    const INTERVAL: Duration = Duration::from_secs(20);

    fn told(method: Method, params: &serde_json::Value) -> Event {
        Event::Notified(Notification { method, params: Payload::of(Revision::V2025_11_25, params) })
    }

    fn next(reply: &mut Reply) -> Option<Bytes> {
        match reply.next_event().now_or_never()?? {
            Event::Notified(told) => Some(told.params.into_json()),
            event => Some(Bytes::from(format!("{event:?}"))),
        }
    }

    fn bridged() -> (mpsc::UnboundedSender<Event>, Reply) {
        let (events, later) = mpsc::unbounded_channel();
        let backend = BackendId::parse("slow").unwrap();
        let pulse = Pulse { backend, token: "\"p\"".to_owned(), interval: INTERVAL, began: Instant::now(), beats: 0 };
        (events, pulse.bridge(Reply::new(UnboundedReceiverStream::new(later))))
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_bridged_until_the_server_reports_progress_which_passes_unchanged() {
        let (events, mut reply) = bridged();
        assert_eq!(next(&mut reply), None);
        advance(INTERVAL).await;
        let first = r#"{"progressToken":"p","progress":-1,"message":"`slow` is working (20 s)"}"#;
        assert_eq!(next(&mut reply).unwrap(), first);
        assert_eq!(next(&mut reply), None);
        advance(INTERVAL / 2).await;
        events.send(told(Method::LoggingMessage, &json!({ "data": "x" }))).unwrap();
        assert_eq!(next(&mut reply).unwrap(), r#"{"data":"x"}"#);
        advance(INTERVAL / 2).await;
        let second = r#"{"progressToken":"p","progress":-0.5,"message":"`slow` is working (40 s)"}"#;
        assert_eq!(next(&mut reply).unwrap(), second);
        let zero = json!({ "progressToken": "p", "progress": 0, "total": 5 });
        events.send(told(Method::Progress, &zero)).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&next(&mut reply).unwrap()).unwrap(), zero);
        advance(INTERVAL * 10).await;
        assert_eq!(next(&mut reply), None, "it reports by itself");
        events.send(Event::Done(Outcome::Complete(Payload::empty(Revision::V2025_11_25)))).unwrap();
        assert!(next(&mut reply).unwrap().starts_with(b"Done"));
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_stay_below_zero_however_long_it_takes() {
        let (_events, mut reply) = bridged();
        assert_eq!(next(&mut reply), None);
        let mut last = -2.0;
        for _ in 0..10_000 {
            advance(INTERVAL).await;
            let beat: serde_json::Value = serde_json::from_slice(&next(&mut reply).unwrap()).unwrap();
            let value = beat["progress"].as_f64().unwrap();
            assert!(value > last && value < 0.0, "{beat}");
            last = value;
        }
    }
}
