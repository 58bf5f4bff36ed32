//! `subscriptions/listen` for many backends: merges their notifications into one endless reply.
//!
//! A listen with a filter begins with a single acknowledgement for all backends, each of which gets its own tasks and
//! resources. A backend's `list_changed` is forwarded once the new list has been fetched and differs from the old one;
//! several within 100 ms are merged. A server may report one change to both the gateway and a session: the session is
//! then notified again if its own list differs from the gateway's.

mod parts;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::{pending, ready},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    StreamExt as _,
    stream::{SelectAll, select_all},
};
use serde_json::Value;
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep_until},
};

use self::parts::{BackendEvents, follow, follow_others, is_acknowledgement, part, prepare};
use super::{
    access::VisibleBackend,
    backends::NameView,
    catalog::{Change, List},
    shared::GatewayState,
};
use crate::{
    mcp::{
        Call, Context, Event, HeardEvent, ListKind, LogLevel, Method, Notification, Payload, Reply, Revision,
        hearers::{HearerPlace, Hearers, HeldLevel},
        json,
        listen::{self, Filter},
    },
    model::{BackendId, Target},
};

/// Changes within this time are merged.
const TOGETHER: Duration = Duration::from_millis(100);
/// Time for the backends to acknowledge; later acknowledgements are ignored.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// Events buffered before the acknowledgement; the oldest are dropped and counted.
const MAX_EARLY: usize = 256;

struct ListenSources {
    shared: Arc<GatewayState>,
    target: Target,
    call: Call,
    /// Registration for events of all announcing servers. `None` if no server announces its events, or if the listen
    /// names tasks, which needs a listen at each server.
    place: Option<HearerPlace>,
    /// An event of an announcing server that is passing through the server's layers.
    passing: Option<(VisibleBackend, Reply)>,
    /// Events of all other servers.
    told: SelectAll<BackendEvents>,
    /// Number of servers expected to acknowledge tasks.
    waiting: usize,
    /// Log level of the session.
    level: LogLevel,
    held: Vec<Box<dyn HeldLevel>>,
    changes: broadcast::Receiver<Change>,
    sets: watch::Receiver<u64>,
    pending: PendingChanges,
    /// The gateway's lists whose change was reported to this client, while the client's own connection may report it
    /// too.
    reported: HashMap<(BackendId, ListKind), Arc<List>>,
    /// Subscribed resources by backend, each with the backend's own URI and the client's URI.
    resources: BTreeMap<BackendId, Vec<(String, String)>>,
    /// Members of the filter outside of MCP.
    others: BTreeMap<String, Value>,
}

/// Changes to report, and when to report them.
#[derive(Default)]
struct PendingChanges {
    methods: Vec<Method>,
    due: Option<Instant>,
}

/// The reply to a listen at `target`.
pub(crate) fn listen(shared: Arc<GatewayState>, target: Target, call: Call) -> Reply {
    let changes = shared.changes.subscribe();
    let sets = shared.generation.subscribe();
    let level = call.context.level.clone();
    let mut ears = ListenSources {
        shared,
        target,
        call,
        place: None,
        passing: None,
        told: SelectAll::new(),
        waiting: 0,
        level,
        held: Vec::new(),
        changes,
        sets,
        pending: PendingChanges::default(),
        reported: HashMap::new(),
        resources: BTreeMap::new(),
        others: BTreeMap::new(),
    };
    Reply::new(async_stream::stream! {
        ears.open();
        if !ears.call.params.is_absent() {
            for event in Box::pin(ears.acknowledge(Filter::of(&ears.call.params))).await {
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

// === impl ListenSources ===

impl ListenSources {
    /// Listens to the current backends. Announcing servers cause no work.
    fn open(&mut self) {
        self.sets.mark_unchanged();
        let backends = self.shared.backends.load_full();
        let (view, names_tasks) = (backends.view(&self.target), !listen::task_ids(&self.call.params).is_empty());
        let hearers = backends.hearers().filter(|_| !names_tasks);
        let followed: Vec<VisibleBackend> = if let Some(hearers) = hearers {
            self.take_place(hearers);
            backends.silent().filter_map(|one| self.visible(&one.id)).collect()
        } else {
            self.place = None;
            backends.visible_at(&self.target, &self.call.context.caller).1
        };
        let parts: Vec<_> = followed.into_iter().map(|one| (part(&one, view, &self.call), one)).collect();
        self.waiting = parts.iter().filter(|(part, _)| !part.params.is_absent()).count();
        self.told = select_all(parts.into_iter().map(|(part, one)| follow(one, view, part)));
        self.told.extend(self.subscriptions());
        for backend in self.shared.changes.recent() {
            if let Some(one) = self.visible(&backend) {
                let changed = one.entry.catalog.just_changed(&self.call.context);
                self.pending.add(changed.into_iter().map(ListKind::change));
            }
        }
        if self.level.get().is_some() {
            self.hold_level();
        }
    }

    /// Registers for events of announcing servers, unless already done.
    fn take_place(&mut self, hearers: &Arc<Hearers>) {
        if self.place.as_ref().is_some_and(|place| place.is_at(hearers)) {
            return;
        }
        let (shared, target) = (Arc::clone(&self.shared), self.target.clone());
        let caller = Arc::clone(&self.call.context.caller);
        let sees = move |id: &BackendId| shared.backends.load().visible_one(&target, &caller, id).is_some();
        self.place = Some(hearers.register(self.call.context.clone(), sees));
    }

    /// Asks announcing servers for log messages of the session's level.
    fn hold_level(&mut self) {
        if self.place.is_none() {
            return;
        }
        let (_, seen) = self.shared.backends.load().visible_at(&self.target, &self.call.context.caller);
        let announcers = seen.iter().filter_map(|one| one.entry.configured.announcer.as_ref());
        self.held = announcers.map(|server| server.hold_level(&self.call.context)).collect();
    }

    /// The backend with this name, if the client sees it.
    fn visible(&self, id: &BackendId) -> Option<VisibleBackend> {
        self.shared.backends.load().visible_one(&self.target, &self.call.context.caller, id)
    }

    /// The acknowledgement for the filter `chosen`, followed by the events that arrived before it.
    async fn acknowledge(&mut self, chosen: Filter) -> VecDeque<Event> {
        let (mut honoured, mut early) = (Filter::default(), VecDeque::new());
        let mut waiting = self.waiting;
        let (shared, target) = (Arc::clone(&self.shared), self.target.clone());
        let mut preparing = pin!(prepare(shared, target, self.call.clone(), &chosen));
        let (mut is_prepared, mut end) = (false, None);
        while !is_prepared || waiting > 0 {
            let due = end.unwrap_or_else(Instant::now);
            let events = tokio::select! {
                // polled first: its events may belong to the results of the requests below
                biased;
                events = self.hear() => events,
                prepared = &mut preparing, if !is_prepared => {
                    is_prepared = true;
                    end = Some(Instant::now() + ACKNOWLEDGE_TIMEOUT);
                    honoured.lists = prepared.lists;
                    self.resources = prepared.resources;
                    self.others.clone_from(&chosen.others);
                    let added = self.subscriptions();
                    waiting += added.len();
                    self.told.extend(added);
                    continue;
                }
                () = sleep_until(due), if end.is_some() => break,
            };
            for event in events {
                match event {
                    Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                        waiting = waiting.saturating_sub(1);
                        honoured.add(Filter::of(&told.params));
                    }
                    event => early.push_back(event),
                }
            }
            if early.len() > MAX_EARLY {
                metrics::counter!("lockkeeper_gateway_notifications_dropped_total").increment(1);
                early.pop_front();
            }
        }
        early.push_front(honoured.within(&chosen).acknowledged());
        early
    }

    /// Listens for the subscriptions at each backend, and one for notifications outside of MCP.
    fn subscriptions(&self) -> Vec<BackendEvents> {
        let listen = |(id, uris): (&BackendId, &Vec<_>)| Some(self.subscribed(self.visible(id)?, uris.clone()));
        self.resources.iter().filter_map(listen).chain(self.others()).collect()
    }

    /// The listen for notifications outside of MCP: only at a server's own endpoint, and for a caller who may send it
    /// anything.
    fn others(&self) -> Option<BackendEvents> {
        if self.others.is_empty() {
            return None;
        }
        let backends = self.shared.backends.load();
        let own = matches!(backends.view(&self.target), NameView::Own);
        let one =
            backends.one_at(&self.target, &self.call.context.caller).filter(|one| own && one.takes_any_method())?;
        let (method, params) = listen::for_others(&self.others);
        Some(follow_others(one, Call { method, params, ..self.call.clone() }))
    }

    /// The listen for these subscriptions at a backend. It only yields the acknowledgement, with the client's URIs.
    fn subscribed(&self, one: VisibleBackend, uris: Vec<(String, String)>) -> BackendEvents {
        let own: Vec<&str> = uris.iter().map(|(own, _)| own.as_str()).collect();
        let call = Call { params: listen::for_resources(&own), ..self.call.clone() };
        let told = follow(one, NameView::Own, call);
        Box::pin(told.filter_map(move |(backend, event)| {
            let honoured = match event {
                Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                    listen::resources(&told.params)
                }
                // updates arrive on the listen for all notifications
                _ => return ready(None),
            };
            let shown = uris.iter().filter(|(own, _)| honoured.contains(own)).map(|(_, shown)| shown.clone());
            ready(Some((backend, Filter { resources: shown.collect(), ..Filter::default() }.acknowledged())))
        }))
    }

    async fn hear(&mut self) -> Vec<Event> {
        let due = self.pending.due;
        tokio::select! {
            Some((backend, event)) = self.told.next(), if !self.told.is_empty() => {
                return self.told(&backend, event);
            }
            event = next_of(&mut self.passing), if self.passing.is_some() => return self.passed(event),
            heard = next_heard(&mut self.place), if self.passing.is_none() => self.pass(heard),
            () = self.level.changed() => match self.held.as_slice() {
                [] => self.hold_level(),
                held => held.iter().for_each(|held| held.changed()),
            },
            change = self.changes.recv() => match change {
                Ok(change) => self.changed(&change),
                // too many to follow, so everything may have changed
                Err(_) => self.pending.add(ListKind::CHANGES),
            },
            Ok(()) = self.sets.changed() => {
                self.open();
                self.pending.add(ListKind::CHANGES);
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return self.pending.take(),
        }
        Vec::new()
    }

    /// Handles an event from a backend: collects changes, and returns everything else for the client.
    fn told(&mut self, backend: &BackendId, event: Event) -> Vec<Event> {
        match event {
            Event::Notified(Notification { method, .. }) if !ListKind::changed_by(&method).is_empty() => {
                self.heard_change(backend, method);
                Vec::new()
            }
            Event::Notified(told) if told.method == Method::ResourceUpdated => self.updated(backend, told),
            event => vec![event],
        }
    }

    /// Sends an announced event through the server's layers, as a listen for this event only.
    fn pass(&mut self, heard: HeardEvent) {
        let Some(seen) = self.visible(heard.backend()) else { return };
        let params = Payload::absent(self.call.params.revision);
        let context = Context { heard: Some(heard), ..self.call.context.clone() };
        let reply = seen.entry.server.call(Call { method: Method::Listen, params, context });
        self.passing = Some((seen, reply));
    }

    /// Handles an event that has passed the server's layers.
    fn passed(&mut self, event: Option<Event>) -> Vec<Event> {
        match (event, &self.passing) {
            (None | Some(Event::Done(_)), _) | (_, None) => {
                self.passing = None;
                Vec::new()
            }
            (Some(event), Some((seen, _))) => {
                let event = match self.shared.backends.load().view(&self.target) {
                    NameView::Merged => seen.rewriter().event(&Method::Listen, event),
                    NameView::Own => event,
                };
                let backend = seen.entry.id.clone();
                self.told(&backend, event)
            }
        }
    }

    /// Repeats an update for each URI with which the client subscribed to the resource. A web address keeps its URI, so
    /// there may be two: the address itself, and one from a template that begins with an expression.
    fn updated(&self, backend: &BackendId, Notification { method, params }: Notification) -> Vec<Event> {
        let told = params.string("uri").unwrap_or_default();
        let resources = self.resources.get(backend).map(Vec::as_slice).unwrap_or_default();
        let shown: Vec<_> = resources.iter().filter(|(own, _)| *own == told).map(|(_, shown)| shown).collect();
        if shown.is_empty() {
            return vec![Event::Notified(Notification { method, params })];
        }
        let named = |uri: &String| {
            let params = params.with("uri", &json::quote(uri));
            Event::Notified(Notification { method: method.clone(), params })
        };
        shown.into_iter().map(named).collect()
    }

    /// Handles a change reported by the client's own connection: the catalog decides if it is news.
    fn heard_change(&mut self, backend: &BackendId, method: Method) {
        let Some(seen) = self.visible(backend) else { return };
        let kinds = ListKind::changed_by(&method);
        let reported = &mut self.reported;
        let reported =
            kinds.iter().filter_map(|kind| reported.remove(&(backend.clone(), *kind)).map(|list| (*kind, list)));
        if seen.entry.catalog.changed_for(&self.call.context, kinds, &reported.collect::<Vec<_>>()) {
            self.pending.add([method]);
        }
    }

    /// Handles a list that changed in the catalog, if this client sees it.
    fn changed(&mut self, change: &Change) {
        let Some(seen) = self.visible(&change.backend) else { return };
        let (catalog, context) = (&seen.entry.catalog, &self.call.context);
        if catalog.key(context) != change.cache {
            return;
        }
        if catalog.hears_own_changes(context)
            && let Some(list) = catalog.cached(context, change.kind)
        {
            self.reported.insert((change.backend.clone(), change.kind), list);
        }
        self.pending.add([change.method()]);
    }
}

// === impl PendingChanges ===

impl PendingChanges {
    /// Schedules a report of these changes, together with others.
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

/// The next event that has passed the server's layers.
async fn next_of(passing: &mut Option<(VisibleBackend, Reply)>) -> Option<Event> {
    match passing {
        Some((_, reply)) => reply.next_event().await,
        None => None,
    }
}

/// The next announced event; pending forever without a registration.
async fn next_heard(place: &mut Option<HearerPlace>) -> HeardEvent {
    match place {
        Some(place) => place.next().await,
        None => pending().await,
    }
}

fn told(method: Method) -> Event {
    Event::Notified(Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) })
}
