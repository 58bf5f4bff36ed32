//! The resource of the demonstration that changes, and who is told of it. Nothing runs while nobody is subscribed.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::broadcast, time::interval};

use super::results::REVISION;
use crate::{
    mcp::{Event, Level, Method, Notification, Payload, Reply},
    model::Requester,
};

/// Its URI.
pub(super) const URI: &str = "demo://counter";
/// How often it changes by itself while a client is subscribed.
const EVERY: Duration = Duration::from_secs(5);
/// How many changes a listen may be behind.
const BEHIND: usize = 16;

/// A counter, and what client sessions want of this backend.
#[derive(Debug)]
pub(super) struct Counter {
    value: AtomicU64,
    subscribed: Mutex<HashSet<Requester>>,
    levels: Mutex<HashMap<Requester, Level>>,
    /// Says that the counter moved, or that somebody subscribed.
    changed: broadcast::Sender<()>,
}

impl Counter {
    /// At 0, with nobody subscribed.
    pub(super) fn new() -> Arc<Self> {
        let changed = broadcast::Sender::new(BEHIND);
        Arc::new(Self { value: AtomicU64::new(0), subscribed: Mutex::default(), levels: Mutex::default(), changed })
    }

    /// Where it is.
    pub(super) fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Moves it, and tells all who are subscribed.
    pub(super) fn advance(&self) -> u64 {
        let value = self.value.fetch_add(1, Ordering::AcqRel) + 1;
        let _ = self.changed.send(());
        value
    }

    /// Subscribes a client session.
    pub(super) fn subscribe(&self, holder: Requester) {
        self.subscribed.lock().insert(holder);
        let _ = self.changed.send(());
    }

    /// Ends its subscription.
    pub(super) fn unsubscribe(&self, holder: &Requester) {
        self.subscribed.lock().remove(holder);
    }

    /// Notes its level.
    pub(super) fn set_level(&self, holder: Requester, level: Level) {
        self.levels.lock().insert(holder, level);
    }

    /// Its level, where it has said.
    pub(super) fn level(&self, holder: &Requester) -> Option<Level> {
        self.levels.lock().get(holder).copied()
    }

    /// Forgets a client that is over.
    pub(super) fn forget(&self, holder: &Requester) {
        self.subscribed.lock().remove(holder);
        self.levels.lock().remove(holder);
    }

    /// What this client session is told: each change while it is subscribed, its own clock's included.
    pub(super) fn listen(self: &Arc<Self>, holder: Requester) -> Reply {
        let (counter, mut changes) = (Arc::clone(self), self.changed.subscribe());
        // what moves between the call and its first poll is told too
        let mut seen = self.value();
        Reply::new(async_stream::stream! {
            let mut ticks = interval(EVERY);
            ticks.reset();
            loop {
                let subscribed = counter.subscribed.lock().contains(&holder);
                tokio::select! {
                    _ = changes.recv() => {}
                    _ = ticks.tick(), if subscribed => { counter.advance(); }
                }
                let value = counter.value();
                if value != std::mem::replace(&mut seen, value) && counter.subscribed.lock().contains(&holder) {
                    let params = Payload::of(REVISION, &json!({ "uri": URI }));
                    yield Event::Notified(Notification { method: Method::ResourceUpdated, params });
                }
            }
        })
    }
}
