//! The one `subscriptions/listen` of a connection, which all who listen share: what they want together is asked for, and
//! what comes is given to whom it is for (`translation` 4d).
//!
//! When what is wanted changes, the new listen is acknowledged before the old one is closed, so that nothing is missed;
//! what comes on both is told once.

use std::{
    collections::{BTreeSet, HashSet},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Peer, call::Asked, peer::SPOKEN};
use crate::{
    backend::link::NotRun,
    mcp::{Event, Method, Notification, Outcome, Payload, Revision, listen::LISTS},
};

/// The first and the longest wait before a listen that ended is opened again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How long an acknowledgement is waited for.
const ACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How long a server has to acknowledge what a client subscribes to.
const PATIENCE: Duration = Duration::from_secs(5);
/// What came on the old listen within this time may come on the new one too.
const OVERLAP: Duration = Duration::from_secs(1);
/// A listen is never cancelled for its silence.
const EVER: Duration = Duration::from_hours(24 * 365);

/// What is wanted of the listen, and what the server has acknowledged.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Counts the changes of what is wanted.
    wanted: watch::Sender<u64>,
    heard: watch::Sender<Heard>,
}

/// What the server has acknowledged.
#[derive(Debug, Clone, Default)]
struct Heard {
    /// The count up to which it did.
    upto: u64,
    uris: HashSet<String>,
}

/// A listen that is open.
type Events = Pin<Box<dyn Stream<Item = Result<Event, NotRun>> + Send>>;

impl Default for Listening {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(0), heard: watch::Sender::new(Heard::default()) }
    }
}

impl Peer {
    /// Sees to it that updates of what the clients want are listened to; whether the server tells of `uri`.
    pub(crate) async fn subscribe(&self, uri: &str) -> bool {
        let count = self.want_anew();
        let mut heard = self.listening.heard.subscribe();
        let acknowledged =
            async { heard.wait_for(|heard| heard.upto >= count).await.is_ok_and(|heard| heard.uris.contains(uri)) };
        timeout(PATIENCE, acknowledged).await.unwrap_or(false)
    }

    /// Notes that what the clients want has changed.
    pub(crate) fn want_anew(&self) -> u64 {
        let mut count = 0;
        self.listening.wanted.send_modify(|wanted| {
            *wanted += 1;
            count = *wanted;
        });
        count
    }

    /// Listens for as long as the connection lasts.
    pub(super) async fn listen(self: Arc<Self>) {
        let mut wanted = self.listening.wanted.subscribe();
        let mut open: Option<Events> = None;
        let mut pause = PAUSE.0;
        let mut is_first = true;
        loop {
            let count = *wanted.borrow_and_update();
            let uris = self.about.wants.uris(&self.about.key);
            let Some(filter) = self.filter(&uris) else {
                open = None;
                self.listening.heard.send_replace(Heard { upto: count, uris: HashSet::new() });
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let began = Instant::now();
            let mut next = self.events(&filter);
            let was_open = open.is_some();
            let mut told = Told::default();
            let acknowledged = timeout(ACKNOWLEDGED, self.acknowledged(&mut next, &mut open, &mut told)).await;
            open = None;
            if let Ok(Some(heard)) = acknowledged {
                self.listening.heard.send_replace(Heard { upto: count, uris: heard });
                if !was_open {
                    let is_lost_one = !std::mem::take(&mut is_first);
                    // that a connection is another than before was told when it was made, as far as lists go
                    if is_lost_one {
                        self.about.listens.tell_all_changed(&self.about.key);
                    }
                    if is_lost_one || self.about.is_another {
                        self.tell_updated(&uris);
                    }
                }
                tokio::select! {
                    () = self.follow(&mut next, &mut told) => {}
                    _ = wanted.changed() => {
                        open = Some(next);
                        continue;
                    }
                }
            }
            drop(next);
            pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { pause };
            tracing::debug!(backend = %self.about.backend, wait = pause.as_secs(), "a listen ended and is opened again");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn events(self: &Arc<Self>, filter: &Value) -> Events {
        let params = Payload::of(Revision::NEWEST_LEGACY, &json!({ "notifications": filter }));
        Box::pin(self.call(Asked::of_gateway(Method::Listen, params), EVER))
    }

    /// What is to be listened to; `None` where there is nothing.
    fn filter(&self, uris: &[String]) -> Option<Value> {
        let introduction = self.introduction()?;
        let lists = LISTS.iter().filter(|(_, capability, _)| introduction.offers(capability, Some("listChanged")));
        let mut filter: serde_json::Map<String, Value> =
            lists.map(|(member, ..)| ((*member).to_owned(), Value::Bool(true))).collect();
        if !uris.is_empty() && introduction.offers("resources", Some("subscribe")) {
            filter.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }

    /// Waits for the acknowledgement of `next` while `open` goes on; gives the resources that it tells of.
    async fn acknowledged(
        &self,
        next: &mut Events,
        open: &mut Option<Events>,
        told: &mut Told,
    ) -> Option<HashSet<String>> {
        loop {
            let event = tokio::select! {
                biased;
                event = async {
                    match open {
                        Some(open) => open.next().await,
                        None => std::future::pending().await,
                    }
                } => {
                    match event {
                        Some(Ok(Event::Notified(notification))) => {
                            told.note(&notification);
                            self.give(&notification);
                        }
                        _ => *open = None,
                    }
                    continue;
                }
                event = next.next() => event,
            };
            match event {
                Some(Ok(Event::Notified(notification))) if notification.method == Method::SubscriptionsAcknowledged => {
                    let all: Value = notification.params.view().unwrap_or_default();
                    let uris = all["notifications"]["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
                    return Some(uris.iter().filter_map(Value::as_str).map(str::to_owned).collect());
                }
                Some(Ok(Event::Notified(notification))) => self.give(&notification),
                Some(Ok(Event::Done(Outcome::Failed(error)))) => {
                    tracing::debug!(backend = %self.about.backend, %error, "the server does not let itself be listened to");
                    return None;
                }
                _ => return None,
            }
        }
    }

    /// Gives what comes to whom it is for, until the listen ends.
    async fn follow(&self, events: &mut Events, told: &mut Told) {
        let since = Instant::now();
        while let Some(Ok(Event::Notified(notification))) = events.next().await {
            if since.elapsed() > OVERLAP || !told.has(&notification) {
                self.give(&notification);
            }
        }
    }

    fn give(&self, told: &Notification) {
        let (listens, wants, key) = (&self.about.listens, &self.about.wants, &self.about.key);
        if told.method == Method::ResourceUpdated {
            let Some(uri) = told.params.string("uri") else { return };
            listens.tell(key, told, |holder| wants.is_subscribed(key, holder, &uri));
        } else if LISTS.iter().any(|(.., method)| *method == told.method) {
            listens.tell(key, told, |_| true);
        }
    }

    /// What nobody listened to for a while may have changed.
    fn tell_updated(&self, uris: &[String]) {
        for uri in uris {
            let params = Payload::of(SPOKEN, &json!({ "uri": uri }));
            self.give(&Notification { method: Method::ResourceUpdated, params });
        }
    }
}

/// What was told of late.
#[derive(Debug, Default)]
struct Told(BTreeSet<(String, Option<String>)>);

impl Told {
    fn of(told: &Notification) -> (String, Option<String>) {
        (told.method.as_str().to_owned(), told.params.string("uri"))
    }

    fn note(&mut self, told: &Notification) {
        self.0.insert(Self::of(told));
    }

    /// Whether this was told, which counts once.
    fn has(&mut self, told: &Notification) -> bool {
        self.0.remove(&Self::of(told))
    }
}
