//! In which manner one backend is spoken to, and how that is known (`translation` 2.7). Knows nothing of asking.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    mcp::{
        Era,
        observer::{LifecycleEvent, Observer},
    },
    model::{
        BackendSpec, EraChoice, KnownEra,
        status::{EraSource, EraStatus},
    },
    support::{Clock, Digest, Timestamp},
};

/// How long it is believed that a server is of the older kind: it would go on to work when it is not, and nobody would know.
const LEGACY_FOR: Duration = Duration::from_hours(24);

/// In which manner a backend is spoken to. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct BackendEra {
    verdict: Arc<watch::Sender<Option<Verdict>>>,
    /// Whether what was found out has failed since.
    doubted: Arc<AtomicBool>,
    memory: KnownEras,
    server: Option<Digest>,
    clock: Arc<dyn Clock>,
}

/// The manner, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The manner.
    pub(crate) era: Era,
    found: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Configured,
    Probed(Timestamp),
    Cached(Timestamp),
}

/// What was found out, each server once. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct KnownEras {
    known: Arc<Mutex<Vec<KnownEra>>>,
    observer: Observer,
}

// === impl BackendEra ===

impl BackendEra {
    /// What the operator says, if anything. What is remembered is not known before a start has borne it out.
    pub(crate) fn new(spec: &BackendSpec, memory: &KnownEras, clock: &Arc<dyn Clock>) -> Self {
        let configured = |era| Some(Verdict { era, found: Source::Configured });
        let verdict = watch::Sender::new(match spec.era {
            EraChoice::Auto => None,
            EraChoice::Modern => configured(Era::Modern),
            EraChoice::Legacy => configured(Era::Legacy),
        });
        Self {
            verdict: Arc::new(verdict),
            doubted: Arc::default(),
            memory: memory.clone(),
            server: spec.transport.server(),
            clock: Arc::clone(clock),
        }
    }

    /// The era, where it is known.
    pub(crate) fn now(&self) -> Option<Era> {
        self.verdict.borrow().map(|verdict| verdict.era)
    }

    /// Whether the server is known to have sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.now() == Some(Era::Legacy)
    }

    /// Waits until the era is known.
    pub(crate) async fn wait(&self) -> Era {
        let mut changes = self.verdict.subscribe();
        let known = changes.wait_for(Option::is_some).await.ok().and_then(|verdict| *verdict);
        match known {
            Some(verdict) => verdict.era,
            // the sender is this one
            None => std::future::pending().await,
        }
    }

    /// Waits until the era is another than `era`.
    pub(crate) async fn turned_from(self, era: Era) {
        let mut changes = self.verdict.subscribe();
        let _ = changes.wait_for(|verdict| verdict.is_some_and(|verdict| verdict.era != era)).await;
    }

    /// What to begin the next life with: what the operator says, else what was found out in an earlier one, of this gateway
    /// or one before it, for as long as that can be believed. `None` where it is to be found out.
    pub(crate) fn again(&self) -> Option<Verdict> {
        let configured = (*self.verdict.borrow()).filter(Verdict::is_configured);
        if configured.is_some() || self.is_doubted() {
            return configured;
        }
        let KnownEra { era, found, .. } = self.memory.lookup(&self.server?)?;
        let now = self.clock.now();
        // the clock may have been put back, and then for as long as nobody knows
        let is_believed = era == Era::Modern || (found <= now && now.since(found) < LEGACY_FOR);
        is_believed.then_some(Verdict { era, found: Source::Cached(found) })
    }

    /// A start has borne this out.
    pub(crate) fn holds(&self, verdict: Verdict) {
        self.verdict.send_if_modified(|known| known.replace(verdict) != Some(verdict));
    }

    /// What was found out has failed: it is not believed again.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
    }

    /// Whether it has failed, and nothing was found out since.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Acquire)
    }

    /// Notes what was found out.
    pub(crate) fn found(&self, era: Era) {
        if self.is_configured() {
            return;
        }
        let found = self.clock.now();
        self.holds(Verdict { era, found: Source::Probed(found) });
        self.doubted.store(false, Ordering::Release);
        if let Some(server) = self.server {
            self.memory.add(KnownEra { server, era, found });
        }
    }

    /// Whether the operator has said it.
    pub(crate) fn is_configured(&self) -> bool {
        self.verdict.borrow().as_ref().is_some_and(Verdict::is_configured)
    }

    /// What people and machines are shown.
    pub(crate) fn status(&self) -> Option<EraStatus> {
        let Verdict { era, found } = (*self.verdict.borrow())?;
        let (found, since) = match found {
            Source::Configured => (EraSource::Configured, None),
            Source::Probed(at) => (EraSource::Probed, Some(at)),
            Source::Cached(at) => (EraSource::Cached, Some(at)),
        };
        let era = if era == Era::Modern { "modern" } else { "legacy" };
        Some(EraStatus { era: era.to_owned(), found, since: since.map(|at| at.to_string()) })
    }
}

// === impl Verdict ===

impl Verdict {
    /// Whether the operator has said it.
    pub(crate) fn is_configured(&self) -> bool {
        self.found == Source::Configured
    }
}

// === impl KnownEras ===

impl KnownEras {
    /// What is remembered of those of these backends whose era is to be found out.
    pub(crate) fn of(specs: &[BackendSpec], mut known: Vec<KnownEra>, observer: Observer) -> Self {
        let asked = specs.iter().filter(|spec| spec.era == EraChoice::Auto);
        let servers: Vec<Digest> = asked.filter_map(|spec| spec.transport.server()).collect();
        known.retain(|known| servers.contains(&known.server));
        Self { known: Arc::new(Mutex::new(known)), observer }
    }

    /// What was found out about this server last.
    pub(crate) fn lookup(&self, server: &Digest) -> Option<KnownEra> {
        self.known.lock().iter().find(|known| known.server == *server).copied()
    }

    /// Takes note of what was found out.
    pub(crate) fn add(&self, news: KnownEra) {
        {
            let mut all = self.known.lock();
            all.retain(|known| known.server != news.server);
            all.push(news);
        }
        self.observer.notify(LifecycleEvent::EraDetected(&news));
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<KnownEra> {
        self.known.lock().clone()
    }
}
