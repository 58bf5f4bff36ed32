//! The one `subscriptions/listen` of a connection, which all who listen share: what they want together is asked for, and
//! what comes is given to whom it is for (`translation` 4d).
//!
//! When what is wanted changes, the new listen is heard before the old one is closed, so that nothing is missed.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    call::OutboundCall,
    fan_in::{FanInEvent, ListenEvents, ListenFanIn},
    listen_state::ListenState,
    state::ServerConnection,
};
use crate::{
    backend::subscriptions::Topic,
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
/// A listen is never cancelled for its silence.
const EVER: Duration = Duration::from_hours(24 * 365);

/// The listen of one connection.
struct ConnectionListen {
    connection: Arc<ServerConnection>,
    listening: Arc<ListenState>,
}

/// What becomes of a listen that was asked for.
enum ListenAnswer {
    /// It tells of these.
    Acknowledged(HashSet<Topic>),
    /// The server answers with an error.
    Refused,
    /// It ended, or nothing came in time.
    Lost,
}

/// Listens for as long as the connection lasts.
pub(super) async fn run(connection: Arc<ServerConnection>, listening: Arc<ListenState>) {
    ConnectionListen { connection, listening }.run().await;
}

// === impl ConnectionListen ===

impl ConnectionListen {
    async fn run(&self) {
        let listening = &self.listening;
        let about = &self.connection.about;
        let mut wanted = listening.wanted.subscribe();
        let mut fan_in = ListenFanIn::default();
        let mut pause = PAUSE.0;
        let mut is_first = true;
        let mut refused_at = None;
        loop {
            let count = *wanted.borrow_and_update();
            let mut topics = about.subscriptions.topics(&about.key);
            if refused_at == Some(count) {
                topics.retain(|topic| !self.is_new_task(topic));
            }
            let Some(filter) = self.filter(&topics) else {
                fan_in.close();
                listening.acknowledge(count, HashSet::new());
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let (began, was_lost) = (Instant::now(), fan_in.is_empty() && !is_first);
            let is_another = fan_in.is_empty() && about.is_another;
            fan_in.add(self.events(&filter));
            let answer = timeout(ACKNOWLEDGED, self.answer(&mut fan_in)).await.unwrap_or(ListenAnswer::Lost);
            if matches!(answer, ListenAnswer::Refused) && topics.iter().any(|topic| self.is_new_task(topic)) {
                // it may be for a task that one client names: that must cost nobody else theirs
                refused_at = Some(count);
                continue;
            }
            if let ListenAnswer::Acknowledged(heard) = answer {
                listening.acknowledge(count, heard);
                is_first = false;
                let is_lost_one = fan_in.take_broken() || was_lost;
                // that a connection is another than before was told when it was made, as far as lists go
                if is_lost_one {
                    about.listens.tell_all_changed(&about.key);
                }
                if is_lost_one || is_another {
                    self.tell_updated(&topics);
                }
                tokio::select! {
                    () = self.follow(&mut fan_in) => {}
                    _ = wanted.changed() => continue,
                }
            }
            fan_in.close();
            pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { pause };
            tracing::debug!(backend = %about.backend, wait = pause.as_secs(), "a listen ended and is opened again");
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
        topic.task().is_some() && !self.listening.has_acknowledged(topic)
    }

    fn events(&self, filter: &Value) -> ListenEvents {
        let params = Payload::of(Revision::NEWEST_LEGACY, &json!({ "notifications": filter }));
        Box::pin(self.connection.call(OutboundCall::of_gateway(Method::Listen, params), EVER))
    }

    /// What is to be listened to; `None` where there is nothing.
    fn filter(&self, topics: &[Topic]) -> Option<Value> {
        let server = self.connection.server()?;
        let lists = LISTS.iter().filter(|(_, capability, _)| server.offers(capability, "listChanged"));
        let mut filter: serde_json::Map<String, Value> =
            lists.map(|(member, ..)| ((*member).to_owned(), Value::Bool(true))).collect();
        let uris: Vec<&str> = topics.iter().filter_map(Topic::uri).collect();
        if !uris.is_empty() && server.offers("resources", "subscribe") {
            filter.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        let tasks: Vec<&str> = topics.iter().filter_map(Topic::task).collect();
        if !tasks.is_empty() && server.tasks().has_tasks() {
            filter.insert(TASK_IDS.to_owned(), json!(tasks));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }

    /// Waits for what becomes of the newest listen while the others go on.
    async fn answer(&self, fan_in: &mut ListenFanIn) -> ListenAnswer {
        loop {
            match fan_in.hear().await {
                FanInEvent::Acknowledged(filter) => {
                    let uris = strings(&filter["resourceSubscriptions"]).into_iter().map(Topic::Resource);
                    let tasks = strings(&filter[TASK_IDS]).into_iter().map(Topic::Task);
                    return ListenAnswer::Acknowledged(uris.chain(tasks).collect());
                }
                FanInEvent::Told(notification) => self.give(&notification),
                FanInEvent::Refused => return ListenAnswer::Refused,
                FanInEvent::Ended => return ListenAnswer::Lost,
            }
        }
    }

    /// Gives what comes to whom it is for, until the newest listen ends.
    async fn follow(&self, fan_in: &mut ListenFanIn) {
        loop {
            match fan_in.hear().await {
                FanInEvent::Told(notification) => self.give(&notification),
                FanInEvent::Acknowledged(_) => {}
                FanInEvent::Refused | FanInEvent::Ended => return,
            }
        }
    }

    fn give(&self, told: &Notification) {
        let (listens, subscriptions, key) =
            (&self.connection.about.listens, &self.connection.about.subscriptions, &self.connection.about.key);
        let topic = match told.method {
            Method::ResourceUpdated => told.params.string("uri").map(Topic::Resource),
            Method::Tasks => told.params.string("taskId").map(Topic::Task),
            _ => None,
        };
        if let Some(topic) = topic {
            listens.tell(key, told, |holder| subscriptions.is_subscribed(key, holder, &topic));
            if told.method == Method::Tasks
                && DetailedTask::read(&told.params).is_some_and(|task| task.status.is_final())
            {
                self.leave(&topic);
            }
        } else if LISTS.iter().any(|(.., method)| *method == told.method) {
            listens.tell(key, told, |_| true);
        }
    }

    /// Listens no more for what is over.
    fn leave(&self, topic: &Topic) {
        let about = &self.connection.about;
        if about.subscriptions.is_over(&about.key, topic) {
            self.listening.want_anew();
        }
    }

    /// What nobody listened to for a while may have changed.
    fn tell_updated(&self, topics: &[Topic]) {
        for uri in topics.iter().filter_map(Topic::uri) {
            let params = Payload::of(self.connection.revision(), &json!({ "uri": uri }));
            self.give(&Notification { method: Method::ResourceUpdated, params });
        }
        let tasks: Vec<String> = topics.iter().filter_map(Topic::task).map(str::to_owned).collect();
        let (listen, end) = (
            Self { connection: Arc::clone(&self.connection), listening: Arc::clone(&self.listening) },
            self.connection.end.token().clone(),
        );
        if !tasks.is_empty() {
            self.connection.about.tasks.spawn(async move {
                end.run_until_cancelled(listen.tell_tasks(tasks)).await;
            });
        }
    }

    /// Asks how these tasks are, and tells it.
    async fn tell_tasks(&self, ids: Vec<String>) {
        for id in ids {
            let call = OutboundCall::of_gateway(Method::TasksGet, task::params(&id));
            let mut events = Box::pin(self.connection.call(call, ACKNOWLEDGED));
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
