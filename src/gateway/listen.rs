//! `subscriptions/listen` for many backends: their notifications in one reply that does not end by itself. Knows
//! nothing of how lists are cached.
//!
//! A listen with a filter begins with a single acknowledgement for all backends, each of which gets its own tasks and
//! resources. A backend's `list_changed` is forwarded once the new list has been fetched and differs from the one that
//! was served; several within 100 ms are merged. A server that tells the gateway and a session of the same change tells
//! it twice: a session hears of it again if its own list is another than the gateway's that it heard of.

mod parts;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::ready,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    StreamExt as _,
    stream::{SelectAll, select_all},
};
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep_until},
};

use self::parts::{BackendEvents, follow, is_acknowledgement, part, prepare};
use super::{
    access::VisibleBackend,
    backends::NameView,
    catalog::{Change, List},
    shared::GatewayState,
};
use crate::{
    mcp::{
        Call, Event, ListKind, Method, Notification, Payload, Reply, Revision,
        listen::{self, Filter},
    },
    model::{BackendId, Target},
};

/// Changes that come together are one.
const TOGETHER: Duration = Duration::from_millis(100);
/// Time for the backends to acknowledge; later acknowledgements are left out.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// Events buffered before that; the oldest are dropped and counted.
const MAX_EARLY: usize = 256;

/// Event sources of one listen.
struct ListenSources {
    shared: Arc<GatewayState>,
    target: Target,
    call: Call,
    view: NameView,
    seen: Vec<VisibleBackend>,
    told: SelectAll<BackendEvents>,
    changes: broadcast::Receiver<Change>,
    sets: watch::Receiver<u64>,
    pending: PendingChanges,
    /// The gateway's lists that were reported as changed to a client whose own connection may report that too.
    reported: HashMap<(BackendId, ListKind), Arc<List>>,
    /// The resources that are listened to: by backend, its own URIs and as the client names them.
    resources: BTreeMap<BackendId, Vec<(String, String)>>,
}

/// Lists with a change to report, and the time of the report.
#[derive(Default)]
struct PendingChanges {
    methods: Vec<Method>,
    due: Option<Instant>,
}

/// The reply to a listen at `target`.
pub(crate) fn listen(shared: Arc<GatewayState>, target: Target, call: Call) -> Reply {
    let changes = shared.changes.subscribe();
    let sets = shared.generation.subscribe();
    let mut ears = ListenSources {
        shared,
        target,
        call,
        view: NameView::Merged,
        seen: Vec::new(),
        told: SelectAll::new(),
        changes,
        sets,
        pending: PendingChanges::default(),
        reported: HashMap::new(),
        resources: BTreeMap::new(),
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
    /// Listens at the backends of this moment.
    fn open(&mut self) {
        self.sets.mark_unchanged();
        let (view, seen) = self.shared.backends.load().visible_at(&self.target, &self.call.context.caller);
        self.told = select_all(seen.iter().map(|one| follow(one.clone(), view, part(one, view, &self.call))));
        let subscriptions: Vec<_> = seen.iter().filter_map(|one| self.subscriptions(one)).collect();
        self.told.extend(subscriptions);
        for one in &seen {
            let changed = one.entry.catalog.just_changed(&self.call.context);
            self.pending.add(changed.into_iter().map(ListKind::change));
        }
        (self.view, self.seen) = (view, seen);
    }

    /// The acknowledgement of `chosen`, and what came before it.
    async fn acknowledge(&mut self, chosen: Filter) -> VecDeque<Event> {
        let (mut honoured, mut early) = (Filter::default(), VecDeque::new());
        let mut waiting = self.seen.iter().filter(|one| !part(one, self.view, &self.call).params.is_absent()).count();
        let mut preparing =
            pin!(prepare(Arc::clone(&self.shared), (self.view, self.seen.clone()), self.call.clone(), &chosen));
        let (mut is_prepared, mut end) = (false, None);
        while !is_prepared || waiting > 0 {
            let due = end.unwrap_or_else(Instant::now);
            let events = tokio::select! {
                // before any request whose result it could concern
                biased;
                events = self.hear() => events,
                prepared = &mut preparing, if !is_prepared => {
                    is_prepared = true;
                    end = Some(Instant::now() + ACKNOWLEDGE_TIMEOUT);
                    honoured.lists = prepared.lists;
                    self.resources = prepared.resources;
                    let added: Vec<_> = self.seen.iter().filter_map(|one| self.subscriptions(one)).collect();
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

    /// The listen with the subscriptions at a backend, if there are any: acknowledged in the client's names.
    fn subscriptions(&self, one: &VisibleBackend) -> Option<BackendEvents> {
        let uris = self.resources.get(&one.entry.id)?.clone();
        let own: Vec<&str> = uris.iter().map(|(own, _)| own.as_str()).collect();
        let call = Call { params: listen::for_resources(&own), ..self.call.clone() };
        let told = follow(one.clone(), NameView::Own, call);
        Some(Box::pin(told.filter_map(move |(backend, event)| {
            let honoured = match event {
                Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                    listen::resources(&told.params)
                }
                // updates come on the listen for all notifications
                _ => return ready(None),
            };
            let shown = uris.iter().filter(|(own, _)| honoured.contains(own)).map(|(_, shown)| shown.clone());
            ready(Some((backend, Filter { resources: shown.collect(), ..Filter::default() }.acknowledged())))
        })))
    }

    async fn hear(&mut self) -> Vec<Event> {
        let due = self.pending.due;
        tokio::select! {
            Some((backend, event)) = self.told.next(), if !self.told.is_empty() => match event {
                Event::Notified(Notification { method, .. }) if !ListKind::changed_by(&method).is_empty() => {
                    self.heard_change(&backend, method);
                }
                event => return vec![event],
            },
            change = self.changes.recv() => match change {
                Ok(change) => self.changed(&change),
                // Too many to follow: all may have changed.
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

    /// Handles a change that the client's own connection reports: the catalog decides whether it is news.
    fn heard_change(&mut self, backend: &BackendId, method: Method) {
        let Some(seen) = self.seen.iter().find(|one| one.entry.id == *backend) else { return };
        let kinds = ListKind::changed_by(&method);
        let reported = &mut self.reported;
        let reported =
            kinds.iter().filter_map(|kind| reported.remove(&(backend.clone(), *kind)).map(|list| (*kind, list)));
        if seen.entry.catalog.changed_for(&self.call.context, kinds, &reported.collect::<Vec<_>>()) {
            self.pending.add([method]);
        }
    }

    /// Handles a list that has changed in the catalog, if this client sees it.
    fn changed(&mut self, change: &Change) {
        let Some(seen) = self.seen.iter().find(|one| one.entry.id == change.backend) else { return };
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
    /// Reports these lists soon, with what else is due.
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
