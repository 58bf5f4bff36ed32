//! The listens that are open at one time at one server: the newest, and those that it takes the place of. Knows nothing
//! of what is wanted, nor of whom what comes is for.
//!
//! A server acknowledges a listen, and then begins to tell on it: some a moment later. So an older listen is heard for a
//! while longer, and what comes on several is told once. Where that cannot be known it is told twice rather than never.

use std::{collections::HashMap, pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _, future::select_all};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::{
    backend::transport::NotSent,
    mcp::{Event, Method, Notification, Outcome},
};

/// For how long a listen is heard after the one that takes its place is acknowledged (`translation` 4d).
const OVERLAP: Duration = Duration::from_secs(1);
/// How many listens are open at once; beyond, the oldest is closed at once.
const MOST: usize = 4;

/// Events of one listen.
pub(super) type ListenEvents = Pin<Box<dyn Stream<Item = Result<Event, NotSent>> + Send>>;

/// What something told is about: the method, and the resource or task where it is of one.
type Subject = (String, Option<String>);

/// Counts of what was told.
type EventCounts = HashMap<Subject, u64>;

/// The listens that are open, the newest last.
#[derive(Default)]
pub(super) struct ListenFanIn {
    open: Vec<FanInListener>,
    /// How often each was told to those behind, while several are open.
    told: EventCounts,
    /// Whether one broke off before the one that was to take its place told anything.
    has_broken: bool,
}

/// One listen.
struct FanInListener {
    events: ListenEvents,
    state: FanInState,
    /// How often each came on this one; what had come when it was opened counts as come.
    came: EventCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FanInState {
    Asked,
    Acknowledged,
    ClosingAt(Instant),
}

/// Something that was heard.
#[derive(Debug)]
pub(super) enum FanInEvent {
    /// The server acknowledges the newest listen: the filter that it honours.
    Acknowledged(Value),
    /// Something was told, for the first time.
    Told(Notification),
    /// The server answers the newest listen with an error.
    Refused,
    /// The newest listen is over.
    Ended,
}

/// What the listens come to in one step.
enum FanInStep {
    Came(usize, Option<Result<Event, NotSent>>),
    Due,
}

impl ListenFanIn {
    /// Whether nothing is heard.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether something may have gone unheard since this was last asked: a listen broke off before the one that was to take
    /// its place was acknowledged.
    pub(super) fn take_broken(&mut self) -> bool {
        std::mem::take(&mut self.has_broken)
    }

    /// Closes all.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// Adds a listen that was asked for, which is to take the place of the others.
    pub(super) fn add(&mut self, events: ListenEvents) {
        if self.open.len() >= MOST {
            self.remove(0);
        }
        self.open.push(FanInListener { events, state: FanInState::Asked, came: self.told.clone() });
    }

    /// The next that is heard. It waits for good where nothing is open; dropping the wait loses nothing.
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
                        return FanInEvent::Told(told);
                    }
                }
                // a listen cannot be asked: a question that is dropped is refused
                Some(Ok(Event::Asked(_))) => {}
                Some(Ok(Event::Done(_)) | Err(_)) | None => {
                    let mut heard = FanInEvent::Ended;
                    if let Some(Ok(Event::Done(Outcome::Failed(error)))) = event {
                        tracing::debug!(%error, "the server does not let itself be listened to");
                        // the server's own, and not that the connection was lost
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

    /// What comes on any of them, the oldest first.
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

    /// The filter that the newest listen is acknowledged with; the older ones are heard for a while longer.
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

    /// Whether none of the others has told this.
    fn is_news(&mut self, at: usize, told: &Notification) -> bool {
        if self.open.len() == 1 {
            return true;
        }
        let Some(listener) = self.open.get_mut(at) else { return false };
        let of = told.params.string("uri").or_else(|| told.params.string("taskId"));
        let subject = (told.method.as_str().to_owned(), of);
        let came = listener.came.entry(subject.clone()).or_default();
        *came += 1;
        let given = self.told.entry(subject).or_default();
        let is_news = *came > *given;
        *given = (*given).max(*came);
        is_news
    }

    /// Closes one. What the others have not told yet they may never tell, so all begin to count anew.
    fn remove(&mut self, at: usize) {
        drop(self.open.remove(at));
        self.told.clear();
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

    /// One more listen, acknowledged; what is sent comes on it.
    async fn listen(fan_in: &mut ListenFanIn) -> mpsc::UnboundedSender<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        fan_in.add(events(receiver));
        sender.send(acknowledged()).unwrap();
        assert!(matches!(fan_in.hear().await, FanInEvent::Acknowledged(_)));
        sender
    }

    fn is_told(fan_in: &mut ListenFanIn) -> bool {
        matches!(fan_in.hear().now_or_never(), Some(FanInEvent::Told(_)))
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_on_two_is_told_once_as_often_as_it_happens() {
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
    async fn what_the_old_one_alone_tells_is_told_until_it_is_closed_and_nothing_is_lost_after() {
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
    async fn one_that_breaks_off_before_the_next_is_acknowledged_has_left_something_unheard() {
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
    async fn however_many_are_opened_in_a_row_few_are_open_and_the_newest_ends_it() {
        let mut fan_in = ListenFanIn::default();
        let mut senders = Vec::new();
        for _ in 0..10 {
            senders.push(listen(&mut fan_in).await);
        }
        assert_eq!(senders.iter().filter(|sender| !sender.is_closed()).count(), MOST);
        senders[8].send(change()).unwrap();
        assert!(is_told(&mut fan_in));
        drop(senders.remove(8));
        assert!(fan_in.hear().now_or_never().is_none());
        drop(senders);
        assert!(matches!(fan_in.hear().await, FanInEvent::Ended));
    }
}
