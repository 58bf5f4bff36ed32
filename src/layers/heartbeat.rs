//! Progress on behalf of a silent server, so that clients with a fixed time-out keep waiting. Many give up after 60 s
//! without progress.
//!
//! A heartbeat has a value below zero, since servers count from zero or more: later reports of the server increase
//! without a change (all versions, *Progress*). It claims no `total`. Once the server reports progress itself, the
//! heartbeat stops. Other notifications count as silence: clients extend their time-out only on progress.
//!
//! While a call waits for its server to start, or for a free process, the heartbeat says so (`translation` 6.7, 4b.1),
//! for any setting of the operator.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::layer::{Beneath, Layer};
use crate::{
    mcp::{Call, Context, Event, Method, Notification, Payload, Reply, Revision, Server, WaitNotice, json, meta},
    model::BackendId,
};

/// Interval of progress while a call waits for its server.
const WAIT_INTERVAL: Duration = Duration::from_secs(15);

/// The layer that reports progress after each `interval` of silence, to clients that gave a token; `None`: only while a
/// call waits for its server.
pub fn heartbeat(interval: Option<Duration>) -> Layer {
    Arc::new(move |Beneath { backend, server, .. }| Arc::new(Heartbeats { backend: backend.clone(), server, interval }))
}

struct Heartbeats {
    backend: BackendId,
    server: Arc<dyn Server>,
    interval: Option<Duration>,
}

/// The heartbeats of one call.
struct Pulse {
    backend: BackendId,
    /// The client's token, as JSON text.
    token: String,
    interval: Option<Duration>,
    wait: WaitNotice,
    began: Instant,
    /// The time of the last heartbeat, or of the call.
    last: Instant,
    /// The time of the last look at `wait`, or of the call.
    looked: Instant,
    beats: u32,
}

impl Server for Heartbeats {
    fn call(&self, mut call: Call) -> Reply {
        // a listen stays open for as long as its client wants
        let token = if call.method == Method::Listen { None } else { meta::progress_token(&call.params) };
        let Some(token) = token.and_then(|token| String::from_utf8(token.into()).ok()) else {
            return self.server.call(call);
        };
        let wait = WaitNotice::read();
        call.context.wait = wait.clone();
        let (backend, began) = (self.backend.clone(), Instant::now());
        let interval = self.interval;
        let pulse = Pulse { backend, token, interval, wait, began, last: began, looked: began, beats: 0 };
        pulse.bridge(self.server.call(call))
    }

    fn expect(&self, client: &Context) {
        self.server.expect(client);
    }
}

// === impl Pulse ===

impl Pulse {
    /// The same reply with heartbeats, until the server reports progress.
    fn bridge(mut self, mut reply: Reply) -> Reply {
        Reply::new(async_stream::stream! {
            let mut due = pin!(sleep_until(self.next()));
            loop {
                let event = tokio::select! {
                    // first, since a flood of other events does not extend time-outs
                    biased;
                    () = due.as_mut() => {
                        if let Some(beat) = self.beat() {
                            yield beat;
                        }
                        due.as_mut().reset(self.next());
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

    /// The next time a heartbeat may be due.
    fn next(&self) -> Instant {
        let look = self.looked + WAIT_INTERVAL;
        self.interval.map_or(look, |interval| look.min(self.last + interval))
    }

    /// The heartbeat, if one is due.
    fn beat(&mut self) -> Option<Event> {
        let now = Instant::now();
        self.looked = now;
        let message = match (self.wait.text(), self.interval) {
            (Some(waits), _) => waits,
            (None, Some(interval)) if now >= self.last + interval => {
                format!("`{}` is working ({} s)", self.backend, self.began.elapsed().as_secs())
            }
            _ => return None,
        };
        self.last = now;
        self.beats = self.beats.saturating_add(1);
        // keeps rising, and stays below zero
        let value = -1.0 / f64::from(self.beats);
        let (token, message) = (&self.token, json::quote(&message));
        let params = format!(r#"{{"progressToken":{token},"progress":{value},"message":{message}}}"#);
        let params = Payload::new(Revision::V2026_07_28, params.into());
        Some(Event::Notified(Notification { method: Method::Progress, params }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::{sync::mpsc, time::advance};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::{
        mcp::{ClientInfo, Context, Outcome},
        support::Account,
    };

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

    /// A server whose replies come from the channel of events, and which waits for what it is given.
    struct Scripted {
        reply: Mutex<Option<Reply>>,
        wait: Mutex<Option<WaitText>>,
    }

    type WaitText = Box<dyn Fn() -> Option<String> + Send>;

    impl Server for Scripted {
        fn call(&self, call: Call) -> Reply {
            if let Some(wait) = self.wait.lock().take() {
                call.context.wait.set(wait);
            }
            self.reply.lock().take().unwrap()
        }
    }

    fn bridged(interval: Option<Duration>, wait: Option<WaitText>) -> (mpsc::UnboundedSender<Event>, Reply) {
        let (events, later) = mpsc::unbounded_channel();
        let reply = Mutex::new(Some(Reply::new(UnboundedReceiverStream::new(later))));
        let server = Arc::new(Scripted { reply, wait: Mutex::new(wait) });
        let (backend, facts) = (BackendId::parse("slow").unwrap(), Arc::default());
        let server = heartbeat(interval)(Beneath { backend: &backend, server, facts: &facts });
        let params = Payload::of(Revision::V2025_11_25, &json!({ "_meta": { "progressToken": "p" } }));
        let context = Context::of_gateway(ClientInfo::gateway(), Account::unbounded());
        (events, server.call(Call { method: Method::ToolsCall, params, context }))
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_bridged_until_the_server_reports_progress_which_passes_unchanged() {
        let (events, mut reply) = bridged(Some(INTERVAL), None);
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
    async fn a_waiting_call_is_told_what_it_waits_for_though_heartbeats_are_off() {
        let waits = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&waits);
        let text: WaitText =
            Box::new(move || seen.load(Ordering::SeqCst).then(|| "waiting for `slow` to start".to_owned()));
        let (events, mut reply) = bridged(None, Some(text));
        assert_eq!(next(&mut reply), None);
        advance(WAIT_INTERVAL).await;
        let beat = r#"{"progressToken":"p","progress":-1,"message":"waiting for `slow` to start"}"#;
        assert_eq!(next(&mut reply).unwrap(), beat);
        assert_eq!(next(&mut reply), None);
        waits.store(false, Ordering::SeqCst);
        advance(WAIT_INTERVAL * 2).await;
        assert_eq!(next(&mut reply), None, "it runs now");
        let zero = json!({ "progressToken": "p", "progress": 0 });
        events.send(told(Method::Progress, &zero)).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&next(&mut reply).unwrap()).unwrap(), zero);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_waited_gets_heartbeats_once_it_runs() {
        let waits = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&waits);
        let text: WaitText = Box::new(move || seen.load(Ordering::SeqCst).then(|| "waiting".to_owned()));
        let (_events, mut reply) = bridged(Some(INTERVAL), Some(text));
        assert_eq!(next(&mut reply), None);
        advance(WAIT_INTERVAL).await;
        assert_eq!(next(&mut reply).unwrap(), r#"{"progressToken":"p","progress":-1,"message":"waiting"}"#);
        waits.store(false, Ordering::SeqCst);
        assert_eq!(next(&mut reply), None);
        advance(INTERVAL).await;
        let works = r#"{"progressToken":"p","progress":-0.5,"message":"`slow` is working (35 s)"}"#;
        assert_eq!(next(&mut reply).unwrap(), works);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_stay_below_zero_however_long_it_takes() {
        let (_events, mut reply) = bridged(Some(INTERVAL), None);
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
