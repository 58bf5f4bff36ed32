//! What a server tells from when it is listened to until that is acknowledged to the client: it is kept for after, since the
//! acknowledgement comes first (2026-07-28, subscriptions). Knows nothing of who listens.

use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};

use crate::mcp::{Event, Method, Reply, listen};

/// How many events are kept; beyond, the oldest are dropped.
const MOST: usize = 256;

/// What was told early.
#[derive(Default)]
pub(super) struct Early {
    /// The tasks that the server tells of, where it has said so.
    pub(super) tasks: Option<BTreeSet<String>>,
    events: VecDeque<Event>,
    is_over: bool,
}

impl Early {
    /// Hears what is `told`, which is listened to from the first, until `ready` is done and the server has said of which of
    /// `tasks` it tells, for which it has `patience` where there are any.
    pub(super) async fn until<T>(
        told: &mut Reply,
        tasks: &BTreeSet<String>,
        patience: Duration,
        ready: impl Future<Output = T>,
    ) -> (T, Self) {
        let (mut early, mut ready) = (Self::default(), pin!(ready));
        let (mut done, end) = (None, Instant::now() + patience);
        if tasks.is_empty() {
            early.tasks = Some(BTreeSet::new());
        }
        // before anything is asked for that it could tell of
        if let Some(event) = told.next_event().now_or_never() {
            early.take(event, tasks);
        }
        loop {
            let awaits_tasks = early.tasks.is_none() && !early.is_over;
            if let Some(done) = done.take_if(|_| !awaits_tasks) {
                return (done, early);
            }
            tokio::select! {
                event = told.next_event(), if !early.is_over => early.take(event, tasks),
                value = &mut ready, if done.is_none() => done = Some(value),
                () = sleep_until(end), if awaits_tasks => early.tasks = Some(BTreeSet::new()),
            }
        }
    }

    /// The next event: first those that are kept.
    pub(super) async fn next(&mut self, told: &mut Reply) -> Option<Event> {
        match self.events.pop_front() {
            None if !self.is_over => told.next_event().await,
            event => event,
        }
    }

    fn take(&mut self, event: Option<Event>, tasks: &BTreeSet<String>) {
        match event {
            Some(Event::Notified(told)) if told.method == Method::SubscriptionsAcknowledged => {
                let named = listen::task_ids(&told.params).into_iter();
                self.tasks = Some(named.filter(|id| tasks.contains(id)).collect());
            }
            Some(event) => {
                self.is_over = matches!(event, Event::Done(_));
                if self.events.len() == MOST {
                    metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
                    self.events.pop_front();
                }
                self.events.push_back(event);
            }
            None => self.is_over = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::mcp::{Notification, Payload, Revision};

    const PATIENCE: Duration = Duration::from_secs(5);

    fn change() -> Event {
        let params = Payload::absent(Revision::V2026_07_28);
        Event::Notified(Notification { method: Method::ToolsListChanged, params })
    }

    fn reply() -> (mpsc::UnboundedSender<Event>, Reply) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Reply::new(UnboundedReceiverStream::new(receiver)))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_before_the_acknowledgement_comes_after_it() {
        let (server, mut told) = reply();
        let (ready, is_ready) = oneshot::channel::<()>();
        let none = BTreeSet::new();
        server.send(change()).unwrap();
        let mut early = {
            let mut until = pin!(Early::until(&mut told, &none, PATIENCE, is_ready));
            assert!(until.as_mut().now_or_never().is_none());
            ready.send(()).unwrap();
            until.await.1
        };
        server.send(change()).unwrap();
        for _ in 0..2 {
            assert!(matches!(early.next(&mut told).now_or_never(), Some(Some(Event::Notified(_)))));
        }
        drop(server);
        assert!(early.next(&mut told).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_tasks_that_a_server_tells_of_are_waited_for_within_bounds() {
        let tasks = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let (server, mut told) = reply();
        server.send(change()).unwrap();
        server.send(listen::honouring(["b", "c"].into_iter())).unwrap();
        let ((), early) = Early::until(&mut told, &tasks, PATIENCE, std::future::ready(())).await;
        assert_eq!(early.tasks, Some(BTreeSet::from(["b".to_owned()])));
        assert_eq!(early.events.len(), 1);
        let (_silent, mut told) = reply();
        let ((), early) = Early::until(&mut told, &tasks, PATIENCE, std::future::ready(())).await;
        assert_eq!(early.tasks, Some(BTreeSet::new()));
    }
}
