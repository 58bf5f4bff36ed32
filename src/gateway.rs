//! One server made of many (`translation` section 5): policy, routing, merging. Knows nothing of transports and sessions.
//!
//! Each call goes to exactly one backend, with the backend's own names, and what comes back is shown in the gateway's.
//! Lists are served from a catalog in memory, so that no backend delays another. Every byte that is no name and no URI
//! stays as it was written.
//!
//! The backends of one moment are one immutable set behind an atomic pointer: a call takes no lock, and
//! [`Gateway::replace`] puts another set in place while calls run.

mod calling;
mod catalog;
mod cursor;
mod discover;
mod face;
mod fanout;
mod gather;
mod hints;
mod listen;
mod lists;
mod mirrored;
mod names;
mod only_tasks;
mod owner;
mod paths;
mod rewrite;
mod route;
mod set;
mod tasks;
mod uris;
mod watch;
mod written;

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, watch as channel};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    catalog::{Change, Kind},
    cursor::Cursors,
    face::{Face, Target},
    set::{Mounted, Set},
};
use crate::{
    mcp::{Payload, Server, translate},
    model::{
        BackendId, SessionId, Share,
        status::{Counts, LeftOut},
    },
    support::Random,
};

/// How many changes a listen may be behind before it is told that everything changed.
const CHANGES: usize = 256;
/// The most omitted entries of one backend that its status names.
const MAX_LEFT_OUT: usize = 100;

/// A server made of servers.
pub struct Gateway {
    set: ArcSwap<Set>,
    /// Counts the sets that were put in place.
    generation: channel::Sender<u64>,
    changes: broadcast::Sender<Change>,
    cursors: Cursors,
    settings: Settings,
    deps: Deps,
}

/// One backend and what the operator says of it.
#[derive(Clone)]
pub struct Mount {
    /// Its name on this gateway.
    pub id: BackendId,
    /// What it is called in front of people.
    pub title: String,
    /// The backend itself.
    pub server: Arc<dyn Server>,
    /// Who shares a session of it, and with it what it offers.
    pub share: Share,
    /// The tools that a read-only right reaches.
    pub read_only_tools: Vec<String>,
    /// What it said of itself when it was last asked, in an earlier life of the gateway perhaps: given to clients at once
    /// until it answers (`translation` 6.7).
    pub introduction: Option<Payload>,
}

/// How the gateway presents its backends.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The names on the merged endpoint.
    pub naming: Naming,
    /// The most entries of one page of a list.
    pub page_size: usize,
    /// How long a list waits for backends that have not been listed yet, where others have.
    pub cold_budget: Duration,
    /// How old a list may be before it is refreshed behind.
    pub refresh: Duration,
}

/// The names on the merged endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `<backend>__<name>`.
    Prefixed,
    /// The backend's own, where there is exactly one backend: the gateway was started for it alone.
    Plain,
}

/// What the gateway is given.
#[derive(Clone)]
pub struct Deps {
    /// For the key of the cursors.
    pub random: Arc<dyn Random>,
    /// What each backend last said of itself to the gateway: its answers to `server/discover`. One for each backend.
    pub introductions: channel::Sender<HashMap<BackendId, Payload>>,
    /// Who owns the tasks that keep the catalog.
    pub tracker: TaskTracker,
    /// What ends them.
    pub cancel: CancellationToken,
}

// === impl Gateway ===

impl Gateway {
    /// A gateway in front of these backends, in this order. It begins at once to ask them what they offer, on tasks of
    /// the tracker; so it must be called within a tokio runtime.
    pub fn new(mounts: Vec<Mount>, settings: Settings, deps: Deps) -> Arc<Self> {
        let gateway = Arc::new(Self {
            set: ArcSwap::default(),
            generation: channel::Sender::new(0),
            changes: broadcast::Sender::new(CHANGES),
            cursors: Cursors::new(&*deps.random),
            settings,
            deps,
        });
        gateway.replace(mounts);
        gateway
    }

    /// Puts other backends in place. What is known of a backend whose server stays the same object is kept; calls that
    /// run go on; clients that listen are told that the lists changed.
    pub fn replace(&self, mounts: Vec<Mount>) {
        let old = self.set.load_full();
        let settings = catalog::Settings {
            refresh: self.settings.refresh,
            changes: self.changes.clone(),
            introductions: self.deps.introductions.clone(),
            tracker: self.deps.tracker.clone(),
            cancel: self.deps.cancel.clone(),
        };
        let mounted: Vec<Arc<Mounted>> = mounts
            .into_iter()
            .map(|mount| {
                let kept = old.find(mount.id.as_str()).filter(|kept| kept.is(&mount));
                kept.cloned().unwrap_or_else(|| Arc::new(Mounted::new(mount, settings.clone())))
            })
            .collect();
        let here = |one: &Arc<Mounted>, set: &[Arc<Mounted>]| set.iter().any(|other| Arc::ptr_eq(one, other));
        for new in mounted.iter().filter(|new| !here(new, &old.mounts)) {
            self.deps.tracker.spawn(watch::watch(Arc::clone(new)));
        }
        for gone in old.mounts.iter().filter(|gone| !here(gone, &mounted)) {
            gone.stop.cancel();
        }
        self.set.store(Arc::new(Set::new(mounted)));
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// All backends as one server.
    pub fn merged(self: &Arc<Self>) -> Arc<dyn Server> {
        Arc::new(Face { gateway: Arc::clone(self), target: Target::Merged })
    }

    /// One backend with its own names; `None` where there is none of this name now.
    pub fn single(self: &Arc<Self>, id: &BackendId) -> Option<Arc<dyn Server>> {
        self.set.load().find(id.as_str())?;
        Some(Arc::new(Face { gateway: Arc::clone(self), target: Target::One(id.clone()) }))
    }

    /// How much a backend offers to a client without capabilities, as far as it was listed.
    pub fn counts(&self, id: &BackendId) -> Counts {
        let set = self.set.load();
        let Some(mounted) = set.find(id.as_str()) else { return Counts::default() };
        let count = |kind| mounted.catalog.count(kind);
        Counts {
            tools: count(Kind::Tools),
            prompts: count(Kind::Prompts),
            resources: count(Kind::Resources) + count(Kind::Templates),
        }
    }

    /// The entries of a backend's lists that clients are not shown, with the reasons; at most 100.
    pub fn left_out(&self, id: &BackendId) -> Vec<LeftOut> {
        let set = self.set.load();
        let Some(mounted) = set.find(id.as_str()) else { return Vec::new() };
        let status = |(kind, one): (Kind, translate::LeftOut)| LeftOut {
            list: kind.method().as_str().to_owned(),
            name: one.name,
            reason: one.reason,
        };
        mounted.catalog.left_out().into_iter().take(MAX_LEFT_OUT).map(status).collect()
    }

    /// Forgets what was kept for a client session that ended.
    pub fn session_ended(&self, session: &SessionId) {
        for mounted in &self.set.load().mounts {
            mounted.catalog.forget(session);
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    /// Prefixed names, pages of 1,000 entries, 2 s for a cold start, refreshed after a minute.
    fn default() -> Self {
        Self {
            naming: Naming::Prefixed,
            page_size: 1_000,
            cold_budget: Duration::from_secs(2),
            refresh: Duration::from_mins(1),
        }
    }
}
