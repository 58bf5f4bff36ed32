//! Overlapping `subscriptions/listen` requests to one server: the newest, and the older ones that it replaces.
//!
//! A server acknowledges a listen before it sends notifications on it, sometimes a moment later. So the older listen
//! stays open for a while, and duplicates are dropped. In case of doubt, a notification is delivered twice rather than
//! not at all.

use std::{collections::HashMap, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _, future::select_all};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::{
    backend::transport::NotSent,
    mcp::{Event, Method, Notification, Outcome},
};

/// Time to keep a listen open after its replacement is acknowledged (`translation` 4d).
const OVERLAP: Duration = Duration::from_secs(1);
/// Maximum number of open listens; one more closes the oldest at once.
const MAX_LISTENS: usize = 4;

/// Events of one listen.
pub(super) type ListenEvents = Pin<Box<dyn Stream<Item = Result<Event, NotSent>> + Send>>;

/// The subject of a notification: its method, and its resource or task, if any.
type Subject = (String, Option<String>);

/// Number of notifications by subject.
type EventCounts = HashMap<Subject, u64>;

/// The open listens, the newest last.
#[derive(Default)]
pub(super) struct ListenFanIn {
    open: Vec<FanInListener>,
    /// How often each notification was delivered, while several listens are open.
    delivered: EventCounts,
    /// True if an acknowledged listen broke off before its replacement was acknowledged.
    has_broken: bool,
}

struct FanInListener {
    events: ListenEvents,
    state: FanInState,
    /// How often each notification arrived on this listen. Starts with the counts of `delivered`.
    came: EventCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FanInState {
    Asked,
    Acknowledged,
    ClosingAt(Instant),
}

#[derive(Debug)]
pub(super) enum FanInEvent {
    /// The server acknowledged the newest listen; the filter that it honours.
    Acknowledged(Value),
    /// A notification, without duplicates.
    Notified(Notification),
    /// The server rejected the newest listen.
    Refused,
    /// The newest listen ended.
    Ended,
}

enum FanInStep {
    Came(usize, Option<Result<Event, NotSent>>),
    Due,
}

impl ListenFanIn {
    /// True if no listen is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// True if notifications may have been missed since the last call: a listen broke off before its replacement was
    /// acknowledged.
    pub(super) fn take_broken(&mut self) -> bool {
        std::mem::take(&mut self.has_broken)
    }

    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// Adds a listen, which replaces the others.
    pub(super) fn add(&mut self, events: ListenEvents) {
        if self.open.len() >= MAX_LISTENS {
            self.remove(0);
        }
        self.open.push(FanInListener { events, state: FanInState::Asked, came: self.delivered.clone() });
    }

    /// Waits for the next event; forever if no listen is open. Cancel safe.
    pub(super) async fn hear(&mut self) -> FanInEvent {
        loop {
            let (at, event) = match self.step().await {
                FanInStep::Due => {
                    let now = Instant::now();
                    let due =
                        |listener: &FanInListener| matches!(listener.state, FanInState::ClosingAt(at) if at <= now);
                    while let Some(at) = self.open.iter().position(due) {
                        self.remove(at);
                    }
                    continue;
                }
                FanInStep::Came(at, event) => (at, event),
            };
            match event {
                Some(Ok(Event::Notified(told))) if told.method == Method::SubscriptionsAcknowledged => {
                    if let Some(filter) = self.acknowledged(at, &told) {
                        return FanInEvent::Acknowledged(filter);
                    }
                }
                Some(Ok(Event::Notified(told))) => {
                    if self.is_news(at, &told) {
                        return FanInEvent::Notified(told);
                    }
                }
                // a listen has no server requests; dropping this one refuses it
                Some(Ok(Event::Asked(_))) => {}
                Some(Ok(Event::Done(_)) | Err(_)) | None => {
                    let mut heard = FanInEvent::Ended;
                    if let Some(Ok(Event::Done(Outcome::Failed(error)))) = event {
                        tracing::debug!(%error, "the server rejected `subscriptions/listen`");
                        // the server sent this error; the connection is not lost
                        if error.revision().is_some() {
                            heard = FanInEvent::Refused;
                        }
                    }
                    let is_newest = at + 1 == self.open.len();
                    self.has_broken |= !is_newest && self.open[at].state == FanInState::Acknowledged;
                    self.remove(at);
                    if is_newest {
                        return heard;
                    }
                }
            }
        }
    }

    /// The next item of any listen, checking the oldest first.
    async fn step(&mut self) -> FanInStep {
        let due = self.open.iter().filter_map(|listener| match listener.state {
            FanInState::ClosingAt(at) => Some(at),
            FanInState::Asked | FanInState::Acknowledged => None,
        });
        let due = due.min();
        if self.open.is_empty() {
            return std::future::pending().await;
        }
        let next = select_all(self.open.iter_mut().map(|listener| listener.events.next()));
        tokio::select! {
            biased;
            (event, at, _) = next => FanInStep::Came(at, event),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => FanInStep::Due,
        }
    }

    /// Handles an acknowledgement of the newest listen and returns its filter. Older listens close after [`OVERLAP`].
    fn acknowledged(&mut self, at: usize, told: &Notification) -> Option<Value> {
        let (newest, older) = self.open.split_last_mut()?;
        if at != older.len() || newest.state != FanInState::Asked {
            return None;
        }
        newest.state = FanInState::Acknowledged;
        let end = Instant::now() + OVERLAP;
        for listener in older {
            if !matches!(listener.state, FanInState::ClosingAt(_)) {
                listener.state = FanInState::ClosingAt(end);
            }
        }
        let mut params: Value = told.params.view().unwrap_or_default();
        Some(params["notifications"].take())
    }

    /// True unless another listen has delivered this notification.
    fn is_news(&mut self, at: usize, told: &Notification) -> bool {
        if self.open.len() == 1 {
            return true;
        }
        let Some(listener) = self.open.get_mut(at) else { return false };
        let of = told.params.string("uri").or_else(|| told.params.string("taskId"));
        let subject = (told.method.as_str().to_owned(), of);
        let came = listener.came.entry(subject.clone()).or_default();
        *came += 1;
        let given = self.delivered.entry(subject).or_default();
        let is_news = *came > *given;
        *given = (*given).max(*came);
        is_news
    }

    /// Closes one listen. The others may never send what they have not sent yet, so all counts restart.
    fn remove(&mut self, at: usize) {
        drop(self.open.remove(at));
        self.delivered.clear();
        self.open.iter_mut().for_each(|listener| listener.came.clear());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use serde_json::json;
    use tokio::{sync::mpsc, time::advance};

    use super::*;
    use crate::mcp::{Payload, Revision};

    fn told(method: Method, params: &Value) -> Event {
        Event::Notified(Notification { method, params: Payload::of(Revision::V2026_07_28, params) })
    }

    fn change() -> Event {
        told(Method::ToolsListChanged, &json!({}))
    }

    fn acknowledged() -> Event {
        told(Method::SubscriptionsAcknowledged, &json!({ "notifications": {} }))
    }

    fn events(receiver: mpsc::UnboundedReceiver<Event>) -> ListenEvents {
        Box::pin(stream::unfold(receiver, async |mut come| come.recv().await.map(|event| (Ok(event), come))))
    }

    /// Adds an acknowledged listen; returns its sender.
    async fn listen(fan_in: &mut ListenFanIn) -> mpsc::UnboundedSender<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        fan_in.add(events(receiver));
        sender.send(acknowledged()).unwrap();
        assert!(matches!(fan_in.hear().await, FanInEvent::Acknowledged(_)));
        sender
    }

    fn is_told(fan_in: &mut ListenFanIn) -> bool {
        matches!(fan_in.hear().now_or_never(), Some(FanInEvent::Notified(_)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_notification_on_two_listens_is_delivered_once_for_each_occurrence() {
        let mut fan_in = ListenFanIn::default();
        let old = listen(&mut fan_in).await;
        let new = listen(&mut fan_in).await;
        for senders in [[&old, &new], [&new, &old]] {
            senders[0].send(change()).unwrap();
            assert!(is_told(&mut fan_in));
            senders[1].send(change()).unwrap();
            assert!(!is_told(&mut fan_in));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_notification_only_on_the_older_listen_is_delivered_until_it_is_closed() {
        let mut fan_in = ListenFanIn::default();
        let old = listen(&mut fan_in).await;
        let new = listen(&mut fan_in).await;
        old.send(change()).unwrap();
        assert!(is_told(&mut fan_in));
        advance(OVERLAP).await;
        assert!(!is_told(&mut fan_in));
        assert!(old.is_closed());
        new.send(change()).unwrap();
        assert!(is_told(&mut fan_in));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listen_that_breaks_off_before_its_replacement_is_acknowledged_may_have_missed_notifications() {
        let mut fan_in = ListenFanIn::default();
        let old = listen(&mut fan_in).await;
        let (next, receiver) = mpsc::unbounded_channel();
        fan_in.add(events(receiver));
        drop(old);
        assert!(fan_in.hear().now_or_never().is_none());
        next.send(acknowledged()).unwrap();
        assert!(matches!(fan_in.hear().await, FanInEvent::Acknowledged(_)));
        assert!(fan_in.take_broken() && !fan_in.take_broken());
        let newest = listen(&mut fan_in).await;
        drop(next);
        assert!(fan_in.hear().now_or_never().is_none());
        assert!(!fan_in.take_broken());
        drop(newest);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_open_listens_is_limited_and_the_newest_one_ends_the_fan_in() {
        let mut fan_in = ListenFanIn::default();
        let mut senders = Vec::new();
        for _ in 0..10 {
            senders.push(listen(&mut fan_in).await);
        }
        assert_eq!(senders.iter().filter(|sender| !sender.is_closed()).count(), MAX_LISTENS);
        senders[8].send(change()).unwrap();
        assert!(is_told(&mut fan_in));
        drop(senders.remove(8));
        assert!(fan_in.hear().now_or_never().is_none());
        drop(senders);
        assert!(matches!(fan_in.hear().await, FanInEvent::Ended));
    }
}
