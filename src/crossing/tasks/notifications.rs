//! Notifications of the tasks extension at a server of 2025-11-25: each has the task's result or its input requests
//! (tasks extension, *Task Status Notifications*). Ownership is checked before: the listen names only its caller's
//! tasks.
//!
//! A server of 2025-11-25 may send status notifications, but need not. So it is polled as well, at its own interval, as
//! long as there is a listen.

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

/// Interval of polling: default, minimum and maximum.
const INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_secs(5), Duration::from_secs(1), Duration::from_mins(1));
/// Number of concurrent polls of one listen.
const AT_ONCE: usize = 8;

/// The tasks of one listen.
pub(super) struct Notifications {
    /// The events of each task, until it ends.
    tasks: SelectAll<BoxStream<'static, Event>>,
    /// Status notifications of the server.
    told: SelectAll<Reply>,
    /// Receivers of those, by task id.
    pushes: HashMap<String, watch::Sender<Payload>>,
}

/// One task of a listen.
struct WatchedTask {
    tasks: CoreTasks,
    id: String,
    task: Arc<UserTask>,
    /// The last status notification.
    pushed: watch::Receiver<Payload>,
    turns: Arc<Semaphore>,
}

/// The members that show a change: status, message, time and input requests.
#[derive(Debug, PartialEq, Eq)]
struct ChangeMarks([Option<String>; 4]);

// === impl Notifications ===

impl Notifications {
    /// The stream of a listen that names these tasks: acknowledges the caller's own, then reports their status, along
    /// with the events of `heard`.
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
            let task = tasks.shared.of_users.note(&id, context, tasks.shared.clock.now());
            // the capabilities at creation select the session that has the task
            if heard.insert(task.context.client.capabilities.key().to_owned()) {
                all.told.push(tasks.status_notifications(&task.context));
            }
            let (push, pushed) = watch::channel(Payload::absent(Revision::NEWEST_LEGACY));
            all.pushes.insert(id.clone(), push);
            let watched = WatchedTask { tasks: tasks.clone(), id, task, pushed, turns: Arc::clone(&turns) };
            all.tasks.push(watched.events().boxed());
        }
        all
    }

    /// The next event; waits forever if there is none.
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

impl WatchedTask {
    /// The task at each change, until it ends. An unchanged working task is not reported at first.
    fn events(mut self) -> impl Stream<Item = Event> + Send + 'static {
        async_stream::stream! {
            let mut last: Option<ChangeMarks> = None;
            let mut pause = Duration::ZERO;
            loop {
                let task = match self.next(pause).await {
                    Outcome::Complete(task) => task,
                    Outcome::Failed(error) if error.revision().is_none() => {
                        pause = INTERVAL.0;
                        continue;
                    }
                    // the server has forgotten it
                    _ => return,
                };
                pause = interval(&task);
                let Outcome::Complete(task) = self.tasks.detailed(&self.id, &self.task, task).await else { continue };
                let status = task.string("status").and_then(|name| TaskStatus::parse(&name));
                let signs = ChangeMarks::of(&task);
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

    /// The task, at the server's next notification, or after the delay.
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

/// Delay before the next poll.
fn interval(task: &Payload) -> Duration {
    let interval = task::poll_interval(task.object().unwrap_or_default().get("pollInterval"));
    interval.unwrap_or(INTERVAL.0).clamp(INTERVAL.1, INTERVAL.2)
}

// === impl Signs ===

impl ChangeMarks {
    fn of(task: &Payload) -> Self {
        let task = task.object().unwrap_or_default();
        let members = ["status", "statusMessage", "lastUpdatedAt", "inputRequests"];
        Self(members.map(|member| task.get(member).map(str::to_owned)))
    }
}
