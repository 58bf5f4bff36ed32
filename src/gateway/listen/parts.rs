//! The part of a listen at each backend: lists that can change, its own resources and tasks, and its events while the
//! listen is open.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::Stream;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    gateway::{
        access::VisibleBackend,
        backends::NameView,
        discover,
        names::{self, UriOwner},
        shared::GatewayState,
        uri_owner,
    },
    mcp::{
        Call, Event, ListKind, Method, Outcome,
        listen::{self, Filter},
    },
    model::{BackendId, Target},
};

/// Minimum and maximum pause before an ended listen at a backend is reopened.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The events of one backend, each with the backend's name. Ends only if the backend does not support such a listen.
pub(super) type BackendEvents = Pin<Box<dyn Stream<Item = (BackendId, Event)> + Send>>;

/// The part of a filter that concerns the backends: lists that can change, and resources by owner.
pub(super) struct Prepared {
    pub(super) lists: BTreeSet<&'static str>,
    pub(super) resources: BTreeMap<BackendId, Vec<(String, String)>>,
}

/// Determines which lists of the filter can change, and which backend owns each resource.
pub(super) async fn prepare(shared: Arc<GatewayState>, target: Target, call: Call, chosen: &Filter) -> Prepared {
    let (view, seen) = shared.backends.load().visible_at(&target, &call.context.caller);
    let context = &call.context;
    let mut prepared = Prepared { lists: BTreeSet::new(), resources: BTreeMap::new() };
    if chosen.lists.is_empty() && chosen.resources.is_empty() {
        return prepared;
    }
    let described = match (view, seen.first()) {
        (NameView::Own, Some(one)) => discover::own(one, context).await,
        _ => discover::merged(&shared, &target, context).await,
    };
    let described = match described {
        Outcome::Complete(result) => result.view::<Value>().unwrap_or_default(),
        Outcome::InputRequired(_) | Outcome::Failed(_) => Value::Null,
    };
    let has = |name: &str, part: &str| described["capabilities"][name][part] == true;
    let lists = ListKind::CHANGING.into_iter().filter(|kind| has(kind.capability(), "listChanged"));
    prepared.lists = lists.map(ListKind::filter_member).filter(|member| chosen.lists.contains(member)).collect();
    if !has("resources", "subscribe") {
        return prepared;
    }
    for shown in &chosen.resources {
        let owner = match (view, names::uri_owner(shown)) {
            (NameView::Own, _) => seen.first().map(|one| (one.entry.id.clone(), shown.clone())),
            (NameView::Merged, UriOwner::Backend(backend, own)) => {
                let visible = seen.iter().find(|one| one.entry.id.as_str() == backend);
                visible.map(|one| (one.entry.id.clone(), own))
            }
            (NameView::Merged, UriOwner::Listed) => {
                let one = uri_owner::of(&shared.settings, &seen, shown, context).await;
                one.map(|one| (one.entry.id.clone(), shown.clone()))
            }
            (NameView::Merged, UriOwner::Unknown) => None,
        };
        if let Some((backend, own)) = owner {
            prepared.resources.entry(backend).or_default().push((own, shown.clone()));
        }
    }
    prepared
}

/// The call that listens at one backend, for its own tasks. Events that no filter selects arrive on it too.
pub(super) fn part(seen: &VisibleBackend, view: NameView, call: &Call) -> Call {
    let ids = listen::task_ids(&call.params);
    let own = ids.iter().filter_map(|shown| match view {
        NameView::Merged => {
            names::split_task_id(shown).filter(|(of, _)| *of == seen.entry.id.as_str()).map(|(_, id)| id)
        }
        NameView::Own => Some(shown.as_str()),
    });
    let own: Vec<String> = own.map(str::to_owned).collect();
    Call { params: listen::for_tasks(&own), ..call.clone() }
}

/// The listen at one backend, reopened when it ends. If it names tasks or resources, it yields exactly one
/// acknowledgement, as the first notification.
pub(super) fn follow(seen: VisibleBackend, view: NameView, call: Call) -> BackendEvents {
    Box::pin(async_stream::stream! {
        let rewriter = seen.rewriter();
        let mut pause = PAUSE.0;
        let mut is_due = !call.params.is_absent();
        loop {
            let began = Instant::now();
            let mut reply = seen.entry.server.call(call.clone());
            while let Some(event) = reply.next_event().await {
                if matches!(event, Event::Done(_)) {
                    break;
                }
                if is_acknowledgement(&event) && !std::mem::take(&mut is_due) {
                    continue;
                }
                let event = match view {
                    NameView::Merged => rewriter.event(&Method::Listen, event),
                    NameView::Own => event,
                };
                yield (seen.entry.id.clone(), event);
            }
            if std::mem::take(&mut is_due) {
                yield (seen.entry.id.clone(), listen::honouring([]));
            }
            pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            sleep(pause).await;
        }
    })
}

/// The listen at one backend for notifications outside of MCP, reopened if it ends after it was acknowledged. It yields
/// the acknowledgement and these notifications; all others arrive on the listen that clients share.
pub(super) fn follow_others(seen: VisibleBackend, call: Call) -> BackendEvents {
    Box::pin(async_stream::stream! {
        let (mut pause, mut is_due) = (PAUSE.0, true);
        loop {
            let (began, mut is_acknowledged) = (Instant::now(), false);
            let mut reply = seen.entry.server.call(call.clone());
            while let Some(event) = reply.next_event().await {
                match event {
                    Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                        is_acknowledged = true;
                        if std::mem::take(&mut is_due) {
                            yield (seen.entry.id.clone(), listen::others_in(&told.params).acknowledged());
                        }
                    }
                    Event::Notified(told) if told.method.is_of_extension() => {
                        yield (seen.entry.id.clone(), Event::Notified(told));
                    }
                    Event::Notified(_) | Event::Asked(_) => {}
                    Event::Done(_) => break,
                }
            }
            if std::mem::take(&mut is_due) {
                yield (seen.entry.id.clone(), listen::honouring([]));
            }
            if !is_acknowledged {
                // the server does not support such a listen
                return;
            }
            if began.elapsed() > PAUSE.1 {
                pause = PAUSE.0;
                continue;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    })
}

pub(super) fn is_acknowledgement(event: &Event) -> bool {
    matches!(event, Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged)
}
