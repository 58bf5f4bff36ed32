//! The era of one backend's server, and how it is known (`translation` 2.7). `detection` finds it out.

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
        BackendSpec, EraCell, EraChoice, KnownEra,
        status::{EraSource, EraStatus},
    },
    support::{Clock, Digest, Timestamp},
};

/// Lifetime of a legacy verdict. A server that became modern may still accept a handshake, so the gateway would not
/// notice the change.
const LEGACY_FOR: Duration = Duration::from_hours(24);

/// The era of one backend. Clones share the state.
#[derive(Clone)]
pub(crate) struct BackendEra {
    verdict: Arc<watch::Sender<Option<Verdict>>>,
    /// Era of the verdict, for the call path.
    now: Arc<EraCell>,
    /// The era that the last failed start assumed; `None` once an era is detected.
    doubted: Arc<Mutex<Option<Era>>>,
    /// For a server with sessions: if it also speaks the other era.
    other: Arc<OtherEra>,
    memory: KnownEras,
    server: Option<Digest>,
    clock: Arc<dyn Clock>,
}

/// An era, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) era: Era,
    found: Source,
}

/// Result of the probe of a server with sessions for the other era.
#[derive(Debug, Default)]
struct OtherEra {
    is_asked: AtomicBool,
    is_spoken: AtomicBool,
}

/// The era to assume for a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssumedEra {
    /// The server's era is known.
    Known(Era),
    /// Not known yet: the era that a start tries first.
    Presumed(Era),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Configured,
    Probed(Timestamp),
    Cached(Timestamp),
}

/// Detected eras of all servers. Clones share the state.
#[derive(Clone)]
pub(crate) struct KnownEras {
    known: Arc<Mutex<Vec<KnownEra>>>,
    observer: Observer,
}

// === impl BackendEra ===

impl BackendEra {
    /// Starts with the configured era, if any. A stored era counts only after a start confirms it.
    pub(crate) fn new(spec: &BackendSpec, memory: &KnownEras, clock: &Arc<dyn Clock>) -> Self {
        let configured = match spec.era {
            EraChoice::Auto => None,
            EraChoice::Modern => Some(Era::Modern),
            EraChoice::Legacy => Some(Era::Legacy),
        };
        let verdict = configured.map(|era| Verdict { era, found: Source::Configured });
        Self {
            verdict: Arc::new(watch::Sender::new(verdict)),
            now: Arc::new(EraCell::new(configured)),
            doubted: Arc::default(),
            other: Arc::default(),
            memory: memory.clone(),
            server: spec.transport.server(),
            clock: Arc::clone(clock),
        }
    }

    /// The era, if it is known.
    pub(crate) fn now(&self) -> Option<Era> {
        self.now.get()
    }

    /// True if the server is known to have sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.now() == Some(Era::Legacy)
    }

    /// Waits until the era is known.
    pub(crate) async fn wait(&self) {
        let mut changes = self.verdict.subscribe();
        // cannot fail, because `self` holds the sender
        let _ = changes.wait_for(Option::is_some).await;
    }

    /// Waits until the era is known and is not `era`.
    pub(crate) async fn changed_from(self, era: Era) {
        let mut changes = self.verdict.subscribe();
        let _ = changes.wait_for(|verdict| verdict.is_some_and(|verdict| verdict.era != era)).await;
    }

    /// The era to start with: the configured one, else the last detected one, unless it is doubtful or too old. `None`
    /// means that it has to be detected.
    pub(crate) fn starting_verdict(&self) -> Option<Verdict> {
        let configured = (*self.verdict.borrow()).filter(Verdict::is_configured);
        if configured.is_some() || self.doubted().is_some() {
            return configured;
        }
        let KnownEra { era, found, .. } = self.memory.lookup(&self.server?)?;
        let now = self.clock.now();
        // a time in the future means that the clock was set back, so the age is unknown
        let is_believed = era == Era::Modern || (found <= now && now.since(found) < LEGACY_FOR);
        is_believed.then_some(Verdict { era, found: Source::Cached(found) })
    }

    /// The era to assume for a client's connection; `None` if it must wait for the base connection. A channel accepts
    /// the handshake in either era.
    pub(crate) fn assumed(&self, is_channel: bool) -> Option<AssumedEra> {
        if let Some(era) = self.now() {
            return Some(AssumedEra::Known(era));
        }
        if self.doubted().is_some() {
            return None;
        }
        let presumed = self.starting_verdict().map(|verdict| verdict.era);
        presumed.or_else(|| is_channel.then_some(Era::Legacy)).map(AssumedEra::Presumed)
    }

    /// Records the era of an opened connection: confirmed if it was expected, else detected.
    pub(crate) fn found(&self, era: Era) {
        match self.starting_verdict().filter(|verdict| verdict.era == era) {
            Some(verdict) => self.confirm(verdict),
            None => self.detected(era),
        }
    }

    /// Records that a start confirmed the era.
    pub(crate) fn confirm(&self, verdict: Verdict) {
        // set before the waiting calls wake
        self.now.set(verdict.era);
        self.verdict.send_if_modified(|known| known.replace(verdict) != Some(verdict));
    }

    /// Marks this era as doubtful: the next start detects it, and tries the other one first if it can.
    pub(crate) fn doubt(&self, assumed: Era) {
        *self.doubted.lock() = Some(assumed);
    }

    /// The era that the last failed start assumed; `None` once an era is detected.
    pub(crate) fn doubted(&self) -> Option<Era> {
        *self.doubted.lock()
    }

    /// Records a detected era.
    pub(crate) fn detected(&self, era: Era) {
        if self.is_configured() {
            return;
        }
        let found = self.clock.now();
        self.confirm(Verdict { era, found: Source::Probed(found) });
        *self.doubted.lock() = None;
        if let Some(server) = self.server {
            self.memory.add(KnownEra { server, era, found });
        }
    }

    /// True if the era is configured.
    pub(crate) fn is_configured(&self) -> bool {
        self.verdict.borrow().as_ref().is_some_and(Verdict::is_configured)
    }

    /// True once, for a server that counts as one with sessions because it accepted the handshake.
    pub(crate) fn asks_for_other(&self) -> bool {
        self.has_sessions() && !self.is_configured() && !self.other.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Records that the server also speaks the other era.
    pub(crate) fn note_other(&self) {
        self.other.is_spoken.store(true, Ordering::Relaxed);
    }

    /// The era as shown by `lockkeeper status`.
    pub(crate) fn status(&self) -> Option<EraStatus> {
        let Verdict { era, found } = (*self.verdict.borrow())?;
        let (found, since) = match found {
            Source::Configured => (EraSource::Configured, None),
            Source::Probed(at) => (EraSource::Probed, Some(at)),
            Source::Cached(at) => (EraSource::Cached, Some(at)),
        };
        let also_modern = era == Era::Legacy && self.other.is_spoken.load(Ordering::Relaxed);
        let era = if era == Era::Modern { "modern" } else { "legacy" };
        Some(EraStatus { era: era.to_owned(), found, since: since.map(|at| at.to_string()), also_modern })
    }
}

// === impl AssumedEra ===

impl AssumedEra {
    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Known(era) | Self::Presumed(era) => era,
        }
    }

    /// True if such a server has sessions.
    pub(crate) fn has_sessions(self) -> bool {
        self.era() == Era::Legacy
    }

    /// The era, if the server's is known.
    pub(crate) const fn known(self) -> Option<Era> {
        match self {
            Self::Known(era) => Some(era),
            Self::Presumed(_) => None,
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// True if the era is configured.
    pub(crate) fn is_configured(&self) -> bool {
        self.found == Source::Configured
    }
}

// === impl KnownEras ===

impl KnownEras {
    /// Keeps those of the stored eras that belong to servers in `specs` without a configured era.
    pub(crate) fn of(specs: &[BackendSpec], mut known: Vec<KnownEra>, observer: Observer) -> Self {
        let servers = detected(specs);
        known.retain(|known| servers.contains(&known.server));
        Self { known: Arc::new(Mutex::new(known)), observer }
    }

    /// Last detected era of `server`.
    pub(crate) fn lookup(&self, server: &Digest) -> Option<KnownEra> {
        self.known.lock().iter().find(|known| known.server == *server).copied()
    }

    /// Stores a detected era and notifies the observer, which saves it.
    pub(crate) fn add(&self, news: KnownEra) {
        {
            let mut all = self.known.lock();
            all.retain(|known| known.server != news.server);
            all.push(news);
        }
        self.observer.notify(LifecycleEvent::EraDetected(&news));
    }

    /// Removes servers that are not in `specs`.
    pub(crate) fn retain(&self, specs: &[BackendSpec]) {
        let servers = detected(specs);
        self.known.lock().retain(|known| servers.contains(&known.server));
    }

    pub(crate) fn all(&self) -> Vec<KnownEra> {
        self.known.lock().clone()
    }
}

/// Servers without a configured era.
fn detected(specs: &[BackendSpec]) -> Vec<Digest> {
    specs.iter().filter(|spec| spec.era == EraChoice::Auto).filter_map(|spec| spec.transport.server()).collect()
}
