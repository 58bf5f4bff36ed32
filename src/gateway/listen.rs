//! `subscriptions/listen` in front of many backends: what they tell, as one reply that never ends by itself. Knows
//! nothing of how the lists are kept.
//!
//! Where the listen names tasks, each backend is told its own, and the reply begins with the tasks that they tell of
//! (tasks extension, *Task Status Notifications*). A backend's `list_changed` is passed on when its list has come and is another than the one that was given out;
//! several within 100 ms are one.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt,
    stream::{SelectAll, select_all},
};
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{
    backends::{View, VisibleBackend},
    catalog::{Change, ListKind},
    names,
    shared::Shared,
};
use crate::{
    mcp::{Call, Event, Method, Notification, Payload, Reply, Revision, listen},
    model::{BackendId, Target},
};

/// Changes that come together are one.
const TOGETHER: Duration = Duration::from_millis(100);
/// The first and the longest pause before a backend's listen that ended is opened again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How long the backends together may take to say which tasks they tell of; what was not said then is not acknowledged.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// How much is kept of what comes before that; beyond, the oldest is dropped and counted.
const MAX_EARLY: usize = 256;

/// What one backend tells, endlessly.
type BackendEvents = Pin<Box<dyn Stream<Item = Event> + Send>>;

/// Everything that a listen hears.
struct ListenFanIn {
    shared: Arc<Shared>,
    target: Target,
    call: Call,
    view: View,
    seen: Vec<VisibleBackend>,
    told: SelectAll<BackendEvents>,
    changes: broadcast::Receiver<Change>,
    sets: watch::Receiver<u64>,
    pending: PendingChanges,
}

/// The lists whose change is to be told, and when.
#[derive(Default)]
struct PendingChanges {
    methods: Vec<Method>,
    due: Option<Instant>,
}

/// The reply to a listen at `target`.
pub(crate) fn listen(shared: Arc<Shared>, target: Target, call: Call) -> Reply {
    let changes = shared.changes.subscribe();
    let sets = shared.generation.subscribe();
    let mut ears = ListenFanIn {
        shared,
        target,
        call,
        view: View::Merged,
        seen: Vec::new(),
        told: SelectAll::new(),
        changes,
        sets,
        pending: PendingChanges::default(),
    };
    Reply::new(async_stream::stream! {
        ears.open();
        if !listen::task_ids(&ears.call.params).is_empty() {
            for event in Box::pin(ears.acknowledge()).await {
                yield event;
            }
        }
        loop {
            for event in ears.hear().await {
                if !is_acknowledgement(&event) {
                    yield event;
                }
            }
        }
    })
}

fn is_acknowledgement(event: &Event) -> bool {
    matches!(event, Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged)
}

// === impl ListenFanIn ===

impl ListenFanIn {
    /// Listens at the backends of this moment.
    fn open(&mut self) {
        self.sets.mark_unchanged();
        let (view, seen) = self.shared.backends.load().visible_at(&self.target, &self.call.context.caller);
        self.told = select_all(seen.iter().map(|one| follow(one.clone(), view, part(one, view, &self.call))));
        for one in &seen {
            let changed = one.entry.catalog.just_changed(&self.call.context);
            self.pending.add(changed.into_iter().map(ListKind::change));
        }
        (self.view, self.seen) = (view, seen);
    }

    /// The acknowledgement of the tasks that the listen names, and what came before it.
    async fn acknowledge(&mut self) -> VecDeque<Event> {
        let (mut honoured, mut early) = (Vec::new(), VecDeque::new());
        let mut waiting = self.seen.iter().filter(|one| !part(one, self.view, &self.call).params.is_absent()).count();
        let end = Instant::now() + ACKNOWLEDGE_TIMEOUT;
        while waiting > 0 {
            let Ok(events) = timeout_at(end, self.hear()).await else { break };
            for event in events {
                match event {
                    Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                        waiting -= 1;
                        honoured.extend(listen::task_ids(&told.params));
                    }
                    event => early.push_back(event),
                }
            }
            if early.len() > MAX_EARLY {
                metrics::counter!("lockkeeper_gateway_notifications_dropped_total").increment(1);
                early.pop_front();
            }
        }
        early.push_front(listen::honouring(honoured.iter().map(String::as_str)));
        early
    }

    async fn hear(&mut self) -> Vec<Event> {
        let due = self.pending.due;
        tokio::select! {
            Some(event) = self.told.next(), if !self.told.is_empty() => match event {
                Event::Notified(Notification { method, .. }) if !ListKind::changed_by(&method).is_empty() => {
                    self.pending.add([method]);
                }
                event => return vec![event],
            },
            change = self.changes.recv() => match change {
                Ok(change) if self.concerns(&change) => self.pending.add([change.method()]),
                Ok(_) => {}
                // Too many to follow: all may have changed.
                Err(_) => self.pending.add(PendingChanges::ALL),
            },
            Ok(()) = self.sets.changed() => {
                self.open();
                self.pending.add(PendingChanges::ALL);
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return self.pending.take(),
        }
        Vec::new()
    }

    /// True if this context sees the list that changed.
    fn concerns(&self, change: &Change) -> bool {
        self.seen
            .iter()
            .find(|one| one.entry.id == change.backend)
            .is_some_and(|one| one.entry.catalog.key(&self.call.context) == change.cache)
    }
}

// === impl PendingChanges ===

impl PendingChanges {
    const ALL: [Method; 3] = [Method::ToolsListChanged, Method::PromptsListChanged, Method::ResourcesListChanged];

    fn add(&mut self, methods: impl IntoIterator<Item = Method>) {
        for method in methods {
            self.due.get_or_insert_with(|| Instant::now() + TOGETHER);
            if !self.methods.contains(&method) {
                self.methods.push(method);
            }
        }
    }

    fn take(&mut self) -> Vec<Event> {
        self.due = None;
        self.methods.drain(..).map(told).collect()
    }
}

fn told(method: Method) -> Event {
    Event::Notified(Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) })
}

/// The part of the parameters of a listen on the merged endpoint that is for `backend`: its own tasks.
fn tasks_of(params: &Payload, backend: &BackendId) -> Payload {
    let own: Vec<String> = listen::task_ids(params)
        .iter()
        .filter_map(|shown| names::split_task_id(shown))
        .filter(|(of, _)| *of == backend.as_str())
        .map(|(_, id)| id.to_owned())
        .collect();
    listen::for_tasks(&own)
}

/// The listen as this backend is asked for it.
fn part(seen: &VisibleBackend, view: View, call: &Call) -> Call {
    let params = match view {
        View::Merged => tasks_of(&call.params, &seen.entry.id),
        View::Own => call.params.clone(),
    };
    Call { params, ..call.clone() }
}

/// One backend's listen, opened again where it ends. Changes of lists go to the catalog, which tells of those that are.
/// Where the listen names tasks, the first that comes to that is an acknowledgement, and none follows.
fn follow(seen: VisibleBackend, view: View, call: Call) -> BackendEvents {
    Box::pin(async_stream::stream! {
        let rewriter = seen.rewriter();
        let mut pause = PAUSE.0;
        let mut is_due = !call.params.is_absent();
        loop {
            let began = Instant::now();
            let mut reply = seen.entry.server.call(call.clone());
            while let Some(event) = StreamExt::next(&mut reply).await {
                if matches!(event, Event::Done(_)) {
                    break;
                }
                if is_acknowledgement(&event) && !std::mem::take(&mut is_due) {
                    continue;
                }
                if let Event::Notified(notification) = &event {
                    let kinds = ListKind::changed_by(&notification.method);
                    if !kinds.is_empty() && !seen.entry.catalog.changed_for(&call.context, kinds) {
                        continue;
                    }
                }
                yield match view {
                    View::Merged => rewriter.event(&Method::Listen, event),
                    View::Own => event,
                };
            }
            if std::mem::take(&mut is_due) {
                yield listen::honouring([]);
            }
            pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            sleep(pause).await;
        }
    })
}
