//! How tasks at a server of 2025-11-25 are told of to who listens for them in the manner of 2026-07-28: each time with what
//! the task came to or wants to know (tasks extension, *Task Status Notifications*). Knows nothing of whose a task is.
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

use super::{of_user, table::Job};
use crate::{
    backend::{extension::detail::Status, key::Key, served::Backend},
    mcp::{Context, Event, Method, Notification, Outcome, Payload, Reply, Revision, listen},
};

/// How often a server is asked how a task is: where it does not say, at most, and at least.
const INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_secs(5), Duration::from_secs(1), Duration::from_mins(1));
/// How many tasks of one listen are asked for at once.
const AT_ONCE: usize = 8;

/// The tasks of one listen.
struct Watch {
    /// What comes of each, until it ends.
    tasks: SelectAll<BoxStream<'static, Event>>,
    /// What the server tells of its own accord.
    told: SelectAll<BoxStream<'static, Event>>,
    /// Where that goes, by the id of the task.
    pushes: HashMap<String, watch::Sender<Payload>>,
}

/// One task of a listen.
struct Watched {
    backend: Arc<Backend>,
    id: String,
    job: Arc<Job>,
    /// What the server told of its own accord.
    pushed: watch::Receiver<Payload>,
    /// The turn to ask.
    turns: Arc<Semaphore>,
}

/// What makes a task another than before: its status, message, time and questions.
#[derive(Debug, PartialEq, Eq)]
struct Signs([Option<String>; 4]);

impl Backend {
    /// What is `heard` by a listen that names these tasks: first which of them are the caller's, then how they are.
    pub(in crate::backend) fn watch_jobs(
        self: Arc<Self>,
        ids: Vec<String>,
        context: Context,
        heard: impl Stream<Item = Event> + Send + 'static,
    ) -> Reply {
        if ids.is_empty() {
            return Reply::new(heard);
        }
        Reply::new(async_stream::stream! {
            let mut watch = Watch::of(&self, ids, context);
            yield listen::honouring(watch.pushes.keys().map(String::as_str));
            tokio::pin!(heard);
            loop {
                tokio::select! {
                    event = heard.next() => match event {
                        Some(event) => yield event,
                        None => return,
                    },
                    event = watch.next() => yield event,
                }
            }
        })
    }
}

// === impl Watch ===

impl Watch {
    fn of(backend: &Arc<Backend>, ids: Vec<String>, context: Context) -> Self {
        let context = of_user(context);
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut watch = Self { tasks: SelectAll::new(), told: SelectAll::new(), pushes: HashMap::new() };
        let mut keys = HashSet::new();
        for id in ids {
            let Ok(Some(job)) = backend.jobs.find(&id, &context) else { continue };
            let key = Key::of(backend.spec.share, &job.context);
            if keys.insert(key.clone()) {
                let told = backend.listens.listen_for(Method::TaskStatus, &key, job.context.requester.clone());
                watch.told.push(told.boxed());
            }
            let (push, pushed) = watch::channel(Payload::absent(Revision::NEWEST_LEGACY));
            watch.pushes.insert(id.clone(), push);
            let watched = Watched { backend: Arc::clone(backend), id, job, pushed, turns: Arc::clone(&turns) };
            watch.tasks.push(watched.events().boxed());
        }
        watch
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
                let Outcome::Complete(task) = self.backend.detailed_job(&self.id, &self.job, task).await else { continue };
                let status = task.string("status").and_then(|name| Status::parse(&name));
                let signs = Signs::of(&task);
                let is_news = match &last {
                    Some(last) => *last != signs,
                    None => status != Some(Status::Working),
                };
                last = Some(signs);
                if is_news {
                    yield Event::Notified(Notification { method: Method::Tasks, params: task });
                }
                if status.is_some_and(Status::is_final) {
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
            self.backend.ask_old(Method::TasksGet, &self.id, &self.job.context).await
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
    let millis = task.object().and_then(|task| task.get("pollInterval")?.parse::<f64>().ok());
    let millis = millis.filter(|millis| millis.is_finite() && *millis >= 0.0);
    let interval = millis.map_or(INTERVAL.0, |millis| Duration::from_secs_f64((millis / 1000.0).min(1e6)));
    interval.clamp(INTERVAL.1, INTERVAL.2)
}

// === impl Signs ===

impl Signs {
    fn of(task: &Payload) -> Self {
        let task = task.object().unwrap_or_default();
        let members = ["status", "statusMessage", "lastUpdatedAt", "inputRequests"];
        Self(members.map(|member| task.get(member).map(str::to_owned)))
    }
}
