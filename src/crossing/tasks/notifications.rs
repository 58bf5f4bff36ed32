//! Notifications of the extension for tasks at a server of 2025-11-25: each has what the task came to, or its input requests
//! (tasks extension, *Task Status Notifications*). Knows nothing of whose a task is.
//!
//! A server of 2025-11-25 may tell that a task changed, and need not: so it is asked as well, as often as it wishes, for as
//! long as somebody listens.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use super::{core_tasks::CoreTasks, user_tasks::UserTask};
use crate::mcp::{
    Context, Event, Method, Notification, Outcome, Payload, Reply, Revision, listen,
    task::{self, TaskStatus},
};

/// How often a server is asked how a task is: where it does not say, at most, and at least.
const INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_secs(5), Duration::from_secs(1), Duration::from_mins(1));
/// How many tasks of one listen are asked for at once.
const AT_ONCE: usize = 8;

/// The tasks of one listen.
pub(super) struct Notifications {
    /// What comes of each, until it ends.
    tasks: SelectAll<BoxStream<'static, Event>>,
    /// What the server tells of its own accord.
    told: SelectAll<Reply>,
    /// Where that goes, by the id of the task.
    pushes: HashMap<String, watch::Sender<Payload>>,
}

/// One task of a listen.
struct Watched {
    tasks: CoreTasks,
    id: String,
    task: Arc<UserTask>,
    /// What the server told of its own accord.
    pushed: watch::Receiver<Payload>,
    /// The turn to ask.
    turns: Arc<Semaphore>,
}

/// What makes a task another than before: its status, message, time and questions.
#[derive(Debug, PartialEq, Eq)]
struct Signs([Option<String>; 4]);

// === impl Notifications ===

impl Notifications {
    /// What is `heard` by a listen that names these tasks: first which of them are the caller's, then how they are.
    pub(super) fn beside(mut heard: Reply, tasks: CoreTasks, ids: Vec<String>, context: Context) -> Reply {
        Reply::new(async_stream::stream! {
            let mut notifications = Self::of(&tasks, ids, &context);
            yield listen::honouring(notifications.pushes.keys().map(String::as_str));
            loop {
                tokio::select! {
                    event = heard.next_event() => match event {
                        Some(event) => yield event,
                        None => return,
                    },
                    event = notifications.next() => yield event,
                }
            }
        })
    }

    fn of(tasks: &CoreTasks, ids: Vec<String>, context: &Context) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut all = Self { tasks: SelectAll::new(), told: SelectAll::new(), pushes: HashMap::new() };
        let mut heard = HashSet::new();
        for id in ids {
            let Ok(Some(task)) = tasks.shared.of_users.find(&id, context) else { continue };
            // what the client said when it made the task leads to the session that the task is in
            if heard.insert(task.context.client.capabilities.key().to_owned()) {
                all.told.push(tasks.told_of_tasks(&task.context));
            }
            let (push, pushed) = watch::channel(Payload::absent(Revision::NEWEST_LEGACY));
            all.pushes.insert(id.clone(), push);
            let watched = Watched { tasks: tasks.clone(), id, task, pushed, turns: Arc::clone(&turns) };
            all.tasks.push(watched.events().boxed());
        }
        all
    }

    /// The next that there is to tell. It waits for good where there is nothing.
    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                Some(event) = self.tasks.next(), if !self.tasks.is_empty() => return event,
                Some(event) = self.told.next(), if !self.told.is_empty() => self.push(event),
                else => return std::future::pending().await,
            }
        }
    }

    fn push(&self, event: Event) {
        let Event::Notified(Notification { params, .. }) = event else { return };
        if let Some(push) = params.string("taskId").and_then(|id| self.pushes.get(&id)) {
            push.send_replace(params);
        }
    }
}

// === impl Watched ===

impl Watched {
    /// How the task is, each time that this changes, until it is over. That it goes on is no news at first.
    fn events(mut self) -> impl Stream<Item = Event> + Send + 'static {
        async_stream::stream! {
            let mut last: Option<Signs> = None;
            let mut pause = Duration::ZERO;
            loop {
                let task = match self.next(pause).await {
                    Outcome::Complete(task) => task,
                    Outcome::Failed(error) if error.revision().is_none() => {
                        pause = INTERVAL.0;
                        continue;
                    }
                    // the server knows nothing of it any more
                    _ => return,
                };
                pause = interval(&task);
                let Outcome::Complete(task) = self.tasks.detailed(&self.id, &self.task, task).await else { continue };
                let status = task.string("status").and_then(|name| TaskStatus::parse(&name));
                let signs = Signs::of(&task);
                let is_news = match &last {
                    Some(last) => *last != signs,
                    None => status != Some(TaskStatus::Working),
                };
                last = Some(signs);
                if is_news {
                    yield Event::Notified(Notification { method: Method::Tasks, params: task });
                }
                if status.is_some_and(TaskStatus::is_final) {
                    return;
                }
            }
        }
    }

    /// How the task is, when the server tells of its own accord, or else after the pause.
    async fn next(&mut self, pause: Duration) -> Outcome {
        let asked = async {
            sleep(pause).await;
            let _turn = self.turns.acquire().await;
            self.tasks.ask(Method::TasksGet, &self.id, &self.task.context).await
        };
        tokio::select! {
            biased;
            Ok(()) = self.pushed.changed() => {}
            outcome = asked => return outcome,
        }
        Outcome::Complete(self.pushed.borrow_and_update().clone())
    }
}

/// How long to wait before the task is asked for again.
fn interval(task: &Payload) -> Duration {
    let interval = task::poll_interval(task.object().unwrap_or_default().get("pollInterval"));
    interval.unwrap_or(INTERVAL.0).clamp(INTERVAL.1, INTERVAL.2)
}

// === impl Signs ===

impl Signs {
    fn of(task: &Payload) -> Self {
        let task = task.object().unwrap_or_default();
        let members = ["status", "statusMessage", "lastUpdatedAt", "inputRequests"];
        Self(members.map(|member| task.get(member).map(str::to_owned)))
    }
}
