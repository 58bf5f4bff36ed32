//! The one `subscriptions/listen` of a connection, which all who listen share: what they want together is asked for, and
//! what comes is given to whom it is for (`translation` 4d).
//!
//! When what is wanted changes, the new listen is heard before the old one is closed, so that nothing is missed
//! ([`ears`]).

mod ears;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use self::ears::{Ears, Events};
use super::{Peer, call::Asked, peer::SPOKEN};
use crate::{
    backend::wants::Topic,
    mcp::{
        ErrorObject, Event, Method, Notification, Outcome, Payload, Revision,
        listen::{LISTS, TASK_IDS, strings},
        task::{self, DetailedTask},
    },
};

/// The first and the longest wait before a listen that ended is opened again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How long an acknowledgement is waited for.
const ACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How long a server has to acknowledge what a client subscribes to.
const PATIENCE: Duration = Duration::from_secs(5);
/// A listen is never cancelled for its silence.
const EVER: Duration = Duration::from_hours(24 * 365);

/// What is wanted of the listen, and what the server has acknowledged.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Counts the changes of what is wanted.
    wanted: watch::Sender<u64>,
    heard: watch::Sender<Heard>,
}

/// What becomes of a listen that was asked for.
enum Answer {
    /// It tells of these.
    Acknowledged(HashSet<Topic>),
    /// The server answers with an error.
    Refused,
    /// It ended, or nothing came in time.
    Lost,
}

/// What the server has acknowledged.
#[derive(Debug, Clone, Default)]
struct Heard {
    /// The count up to which it did.
    upto: u64,
    topics: HashSet<Topic>,
}

impl Default for Listening {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(0), heard: watch::Sender::new(Heard::default()) }
    }
}

impl Peer {
    /// Sees to it that what the clients want is listened to; gives those of `topics` that the server tells of, or `None` where
    /// it does not say so in time.
    pub(crate) async fn honoured(&self, topics: Vec<Topic>) -> Option<Vec<Topic>> {
        let count = self.want_anew();
        let mut heard = self.listening.heard.subscribe();
        let acknowledged = async {
            let heard = heard.wait_for(|heard| heard.upto >= count).await.ok()?;
            Some(topics.into_iter().filter(|topic| heard.topics.contains(topic)).collect())
        };
        timeout(PATIENCE, acknowledged).await.ok().flatten()
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
        let mut ears = Ears::default();
        let mut pause = PAUSE.0;
        let mut is_first = true;
        let mut refused_at = None;
        loop {
            let count = *wanted.borrow_and_update();
            let mut topics = self.about.wants.topics(&self.about.key);
            if refused_at == Some(count) {
                topics.retain(|topic| !self.is_new_task(topic));
            }
            let Some(filter) = self.filter(&topics) else {
                ears.close();
                self.listening.heard.send_replace(Heard { upto: count, topics: HashSet::new() });
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let (began, was_lost) = (Instant::now(), ears.is_empty() && !is_first);
            let is_another = ears.is_empty() && self.about.is_another;
            ears.add(self.events(&filter));
            let answer = timeout(ACKNOWLEDGED, self.answer(&mut ears)).await.unwrap_or(Answer::Lost);
            if matches!(answer, Answer::Refused) && topics.iter().any(|topic| self.is_new_task(topic)) {
                // it may be for a task that one client names: that must cost nobody else theirs
                refused_at = Some(count);
                continue;
            }
            if let Answer::Acknowledged(heard) = answer {
                self.listening.heard.send_replace(Heard { upto: count, topics: heard });
                is_first = false;
                let is_lost_one = ears.take_broken() || was_lost;
                // that a connection is another than before was told when it was made, as far as lists go
                if is_lost_one {
                    self.about.listens.tell_all_changed(&self.about.key);
                }
                if is_lost_one || is_another {
                    self.tell_updated(&topics);
                }
                tokio::select! {
                    () = self.follow(&mut ears) => {}
                    _ = wanted.changed() => continue,
                }
            }
            ears.close();
            pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { pause };
            tracing::debug!(backend = %self.about.backend, wait = pause.as_secs(), "a listen ended and is opened again");
            tokio::select! {
                () = sleep(pause) => {}
                // who wants something is not kept waiting for what others met with
                _ = wanted.changed() => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Whether it is a task that the server has not acknowledged yet.
    fn is_new_task(&self, topic: &Topic) -> bool {
        topic.task().is_some() && !self.listening.heard.borrow().topics.contains(topic)
    }

    fn events(self: &Arc<Self>, filter: &Value) -> Events {
        let params = Payload::of(Revision::NEWEST_LEGACY, &json!({ "notifications": filter }));
        Box::pin(self.call(Asked::of_gateway(Method::Listen, params), EVER))
    }

    /// What is to be listened to; `None` where there is nothing.
    fn filter(&self, topics: &[Topic]) -> Option<Value> {
        let introduction = self.introduction()?;
        let lists = LISTS.iter().filter(|(_, capability, _)| introduction.offers(capability, Some("listChanged")));
        let mut filter: serde_json::Map<String, Value> =
            lists.map(|(member, ..)| ((*member).to_owned(), Value::Bool(true))).collect();
        let uris: Vec<&str> = topics.iter().filter_map(Topic::uri).collect();
        if !uris.is_empty() && introduction.offers("resources", Some("subscribe")) {
            filter.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        let tasks: Vec<&str> = topics.iter().filter_map(Topic::task).collect();
        if !tasks.is_empty() && introduction.tasks().has_tasks() {
            filter.insert(TASK_IDS.to_owned(), json!(tasks));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }

    /// Waits for what becomes of the newest listen while the others go on.
    async fn answer(&self, ears: &mut Ears) -> Answer {
        loop {
            match ears.hear().await {
                ears::Heard::Acknowledged(filter) => {
                    let uris = strings(&filter["resourceSubscriptions"]).into_iter().map(Topic::Resource);
                    let tasks = strings(&filter[TASK_IDS]).into_iter().map(Topic::Task);
                    return Answer::Acknowledged(uris.chain(tasks).collect());
                }
                ears::Heard::Told(notification) => self.give(&notification),
                ears::Heard::Refused => return Answer::Refused,
                ears::Heard::Ended => return Answer::Lost,
            }
        }
    }

    /// Gives what comes to whom it is for, until the newest listen ends.
    async fn follow(&self, ears: &mut Ears) {
        loop {
            match ears.hear().await {
                ears::Heard::Told(notification) => self.give(&notification),
                ears::Heard::Acknowledged(_) => {}
                ears::Heard::Refused | ears::Heard::Ended => return,
            }
        }
    }

    fn give(&self, told: &Notification) {
        let (listens, wants, key) = (&self.about.listens, &self.about.wants, &self.about.key);
        let topic = match told.method {
            Method::ResourceUpdated => told.params.string("uri").map(Topic::Resource),
            Method::Tasks => told.params.string("taskId").map(Topic::Task),
            _ => None,
        };
        if let Some(topic) = topic {
            listens.tell(key, told, |holder| wants.is_subscribed(key, holder, &topic));
            let is_over = told.method == Method::Tasks
                && DetailedTask::read(&told.params).is_some_and(|task| task.status.is_final());
            if is_over {
                self.leave(&topic);
            }
        } else if LISTS.iter().any(|(.., method)| *method == told.method) {
            listens.tell(key, told, |_| true);
        }
    }

    /// Listens no more for what is over.
    fn leave(&self, topic: &Topic) {
        if self.about.wants.is_over(&self.about.key, topic) {
            self.want_anew();
        }
    }

    /// What nobody listened to for a while may have changed.
    fn tell_updated(self: &Arc<Self>, topics: &[Topic]) {
        for uri in topics.iter().filter_map(Topic::uri) {
            let params = Payload::of(SPOKEN, &json!({ "uri": uri }));
            self.give(&Notification { method: Method::ResourceUpdated, params });
        }
        let tasks: Vec<String> = topics.iter().filter_map(Topic::task).map(str::to_owned).collect();
        let (peer, end) = (Arc::clone(self), self.end_token());
        if !tasks.is_empty() {
            self.about.tasks.spawn(async move {
                end.run_until_cancelled(peer.tell_tasks(tasks)).await;
            });
        }
    }

    /// Asks how these tasks are, and tells it.
    async fn tell_tasks(self: Arc<Self>, ids: Vec<String>) {
        for id in ids {
            let mut events = Box::pin(self.call(Asked::of_gateway(Method::TasksGet, task::params(&id)), ACKNOWLEDGED));
            while let Some(Ok(event)) = events.next().await {
                match event {
                    Event::Done(Outcome::Complete(task)) => {
                        self.give(&Notification { method: Method::Tasks, params: task.without("resultType") });
                    }
                    // the server knows nothing of it any more
                    Event::Done(Outcome::Failed(error)) if error.code() == ErrorObject::INVALID_PARAMS => {
                        self.leave(&Topic::Task(id.clone()));
                    }
                    _ => {}
                }
            }
        }
    }
}
