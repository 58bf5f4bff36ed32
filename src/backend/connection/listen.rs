//! The `subscriptions/listen` of a connection, shared by all its listeners: its filter is the union of theirs, and each
//! notification goes to the clients that it concerns (`translation` 4d).
//!
//! When the filter changes, the old listen closes after the new one is acknowledged, so that nothing is missed.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    call::OutboundCall,
    fan_in::{FanInEvent, ListenEvents, ListenFanIn},
    known_interests::Granted,
    state::ServerConnection,
};
use crate::{
    backend::interests::Topic,
    mcp::{
        ErrorObject, Event, ListKind, Method, Notification, Outcome, Payload, Revision,
        hearers::Addressees,
        listen::strings,
        methods::{RESOURCE_SUBSCRIPTIONS, TASK_IDS},
        task::{self, DetailedTask},
    },
};

/// Minimum and maximum delay before a listen is reopened.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Maximum wait for an acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a listen: silence never cancels it.
const NO_TIMEOUT: Duration = Duration::from_hours(24 * 365);

struct ConnectionListen {
    connection: Arc<ServerConnection>,
}

enum ListenAnswer {
    /// The server acknowledged it, with these topics.
    Acknowledged(HashSet<Topic>),
    /// The server rejected it.
    Refused,
    /// It ended, or was not acknowledged in time.
    Lost,
}

/// Keeps the listen open while the connection lives.
pub(super) async fn run(connection: Arc<ServerConnection>) {
    ConnectionListen { connection }.run().await;
}

// === impl ConnectionListen ===

impl ConnectionListen {
    async fn run(&self) {
        let (context, known) = (&self.connection.context, self.connection.interests());
        // a modern server is used before it has acknowledged anything
        known.set_begun();
        let mut view = context.interests.view(&context.key);
        let mut fan_in = ListenFanIn::default();
        let mut pause = BACKOFF.0;
        let mut is_first = true;
        let mut refused_at = None;
        loop {
            // the change up to which this listen has what clients want
            let count = view.seen();
            known.set_level(count);
            let wanted = context.interests.topics(&context.key);
            let mut topics = wanted.clone();
            // the server refused this listen with the new tasks in it
            if refused_at == Some(count) {
                topics.retain(|topic| !self.is_new_task(topic));
            }
            let Some(filter) = self.filter(&topics) else {
                fan_in.close();
                known.set_all(count, wanted.into_iter().map(|topic| (topic, Granted::LeftOut)));
                view.changed().await;
                continue;
            };
            let (began, was_lost) = (Instant::now(), fan_in.is_empty() && !is_first);
            let is_another = fan_in.is_empty() && context.is_another;
            fan_in.add(self.events(&filter));
            let answer = timeout(ACKNOWLEDGE_TIMEOUT, self.answer(&mut fan_in)).await.unwrap_or(ListenAnswer::Lost);
            if matches!(answer, ListenAnswer::Refused) && topics.iter().any(|topic| self.is_new_task(topic)) {
                // one client's task may be the reason: try again without new tasks
                refused_at = Some(count);
                continue;
            }
            if let ListenAnswer::Acknowledged(heard) = answer {
                known.set_all(count, wanted.into_iter().map(|topic| granted(topic, &heard)));
                is_first = false;
                let is_lost_one = fan_in.take_broken() || was_lost;
                // for a replaced connection, changed lists have been reported already
                if is_lost_one {
                    context.listens.notify_lists_changed(&context.key);
                }
                if is_lost_one || is_another {
                    self.report_updated(&topics);
                }
                tokio::select! {
                    () = self.follow(&mut fan_in) => {}
                    () = view.changed() => continue,
                }
            }
            fan_in.close();
            pause = if began.elapsed() > BACKOFF.1 { BACKOFF.0 } else { pause };
            tracing::debug!(server = %context.backend, wait = pause.as_secs(), "a listen ended and is opened again");
            tokio::select! {
                () = sleep(pause) => {}
                // a new subscriber does not wait for the delay after earlier failures
                () = view.changed() => {}
            }
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    /// True if the topic is a task that the server has not acknowledged yet.
    fn is_new_task(&self, topic: &Topic) -> bool {
        topic.task().is_some() && !self.connection.interests().has(topic)
    }

    fn events(&self, filter: &Value) -> ListenEvents {
        let params = Payload::of(Revision::NEWEST_LEGACY, &json!({ "notifications": filter }));
        Box::pin(self.connection.call(OutboundCall::of_gateway(Method::Listen, params), NO_TIMEOUT))
    }

    /// The filter to ask for; `None` if the server supports none of it.
    fn filter(&self, topics: &[Topic]) -> Option<Value> {
        let server = self.connection.server()?;
        let lists = ListKind::CHANGING.into_iter().filter(|kind| server.offers(kind.capability(), "listChanged"));
        let mut filter: serde_json::Map<String, Value> =
            lists.map(|kind| (kind.filter_member().to_owned(), Value::Bool(true))).collect();
        let uris: Vec<&str> = topics.iter().filter_map(Topic::uri).collect();
        if !uris.is_empty() && server.offers("resources", "subscribe") {
            filter.insert(RESOURCE_SUBSCRIPTIONS.to_owned(), json!(uris));
        }
        let tasks: Vec<&str> = topics.iter().filter_map(Topic::task).collect();
        if !tasks.is_empty() && server.tasks().has_tasks() {
            filter.insert(TASK_IDS.to_owned(), json!(tasks));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }

    /// Waits for the answer to the newest listen, and delivers notifications of the older ones.
    async fn answer(&self, fan_in: &mut ListenFanIn) -> ListenAnswer {
        loop {
            match fan_in.hear().await {
                FanInEvent::Acknowledged(filter) => {
                    let uris = strings(&filter[RESOURCE_SUBSCRIPTIONS]).into_iter().map(Topic::Resource);
                    let tasks = strings(&filter[TASK_IDS]).into_iter().map(Topic::Task);
                    return ListenAnswer::Acknowledged(uris.chain(tasks).collect());
                }
                FanInEvent::Notified(notification) => self.deliver(&notification),
                FanInEvent::Refused => return ListenAnswer::Refused,
                FanInEvent::Ended => return ListenAnswer::Lost,
            }
        }
    }

    /// Delivers notifications until the newest listen ends.
    async fn follow(&self, fan_in: &mut ListenFanIn) {
        loop {
            match fan_in.hear().await {
                FanInEvent::Notified(notification) => self.deliver(&notification),
                FanInEvent::Acknowledged(_) => {}
                FanInEvent::Refused | FanInEvent::Ended => return,
            }
        }
    }

    fn deliver(&self, told: &Notification) {
        let (listens, interests, key) =
            (&self.connection.context.listens, &self.connection.context.interests, &self.connection.context.key);
        let topic = match told.method {
            Method::ResourceUpdated => told.params.string("uri").map(Topic::Resource),
            Method::Tasks => told.params.string("taskId").map(Topic::Task),
            _ => None,
        };
        if let Some(topic) = topic {
            listens.notify(key, told, &Addressees::Only(interests.holders(key, &topic)));
            if told.method == Method::Tasks
                && DetailedTask::read(&told.params).is_some_and(|task| task.status.is_final())
            {
                self.leave(&topic);
            }
        } else if !ListKind::changed_by(&told.method).is_empty() {
            listens.notify(key, told, &Addressees::All);
        }
    }

    /// Unsubscribes from a task that has ended.
    fn leave(&self, topic: &Topic) {
        let context = &self.connection.context;
        context.interests.is_over(&context.key, topic);
    }

    /// Sends clients notifications for topics that may have changed while no listen was open. For tasks it asks the
    /// server first, in the background.
    fn report_updated(&self, topics: &[Topic]) {
        for uri in topics.iter().filter_map(Topic::uri) {
            let params = Payload::of(self.connection.revision(), &json!({ "uri": uri }));
            self.deliver(&Notification { method: Method::ResourceUpdated, params });
        }
        let tasks: Vec<String> = topics.iter().filter_map(Topic::task).map(str::to_owned).collect();
        let listen = Self { connection: Arc::clone(&self.connection) };
        let end = self.connection.end.token().clone();
        if !tasks.is_empty() {
            self.connection.context.tasks.spawn(async move {
                end.run_until_cancelled(listen.report_tasks(tasks)).await;
            });
        }
    }

    /// Asks the server for the status of these tasks, and reports it to their clients.
    async fn report_tasks(&self, ids: Vec<String>) {
        for id in ids {
            let call = OutboundCall::of_gateway(Method::TasksGet, task::params(&id));
            let mut events = Box::pin(self.connection.call(call, ACKNOWLEDGE_TIMEOUT));
            while let Some(Ok(event)) = events.next().await {
                match event {
                    Event::Done(Outcome::Complete(task)) => {
                        self.deliver(&Notification { method: Method::Tasks, params: task.without("resultType") });
                    }
                    // the server does not know the task any more
                    Event::Done(Outcome::Failed(error)) if error.code() == ErrorObject::INVALID_PARAMS => {
                        self.leave(&Topic::Task(id.clone()));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The answer about a topic; `heard` are the topics that the server acknowledged.
fn granted(topic: Topic, heard: &HashSet<Topic>) -> (Topic, Granted) {
    let granted = if heard.contains(&topic) { Granted::Yes } else { Granted::LeftOut };
    (topic, granted)
}
