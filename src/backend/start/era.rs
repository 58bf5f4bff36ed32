//! The era of one backend's server, and its source (`translation` 2.7). Knows nothing of detection.

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

/// Lifetime of a legacy verdict. A server that became modern may still accept a handshake, so the change would stay
/// unnoticed.
const LEGACY_FOR: Duration = Duration::from_hours(24);

/// The era of one backend. Clones share the state.
#[derive(Clone)]
pub(crate) struct BackendEra {
    verdict: Arc<watch::Sender<Option<Verdict>>>,
    /// That of the verdict, for calls.
    now: Arc<EraCell>,
    /// The era that a start assumed last, if it failed since.
    doubted: Arc<Mutex<Option<Era>>>,
    /// The words of a server with sessions about the other era.
    other: Arc<OtherEra>,
    memory: KnownEras,
    server: Option<Digest>,
    clock: Arc<dyn Clock>,
}

/// An era and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The era.
    pub(crate) era: Era,
    found: Source,
}

/// The knowledge of the other era of a server with sessions.
#[derive(Debug, Default)]
struct OtherEra {
    is_asked: AtomicBool,
    is_spoken: AtomicBool,
}

/// The era to open a client's connection with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssumedEra {
    /// The era of the server.
    Known(Era),
    /// The one that a start tries first, while it is not known.
    Presumed(Era),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Configured,
    Probed(Timestamp),
    Cached(Timestamp),
}

/// Detected eras, one for each server. Clones share the state.
#[derive(Clone)]
pub(crate) struct KnownEras {
    known: Arc<Mutex<Vec<KnownEra>>>,
    observer: Observer,
}

// === impl BackendEra ===

impl BackendEra {
    /// Takes the configured era, if any. A stored era counts only once a start confirms it.
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
        // no failure: `self` holds the sender
        let _ = changes.wait_for(Option::is_some).await;
    }

    /// Waits until the era is known and is not `era`.
    pub(crate) async fn changed_from(self, era: Era) {
        let mut changes = self.verdict.subscribe();
        let _ = changes.wait_for(|verdict| verdict.is_some_and(|verdict| verdict.era != era)).await;
    }

    /// The era to start with: the configured one, else the one that was detected last, unless it is doubted or too old.
    /// `None` if it has to be detected.
    pub(crate) fn starting_verdict(&self) -> Option<Verdict> {
        let configured = (*self.verdict.borrow()).filter(Verdict::is_configured);
        if configured.is_some() || self.doubted().is_some() {
            return configured;
        }
        let KnownEra { era, found, .. } = self.memory.lookup(&self.server?)?;
        let now = self.clock.now();
        // a time in the future means that the clock was set back: the age is unknown
        let is_believed = era == Era::Modern || (found <= now && now.since(found) < LEGACY_FOR);
        is_believed.then_some(Verdict { era, found: Source::Cached(found) })
    }

    /// The era to open a client's connection with; `None` if the base connection has to find it out. A channel takes the
    /// handshake of either era.
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

    /// Stores the era of a connection that a start opened: the expected one is confirmed, another one detected.
    pub(crate) fn found(&self, era: Era) {
        match self.starting_verdict().filter(|verdict| verdict.era == era) {
            Some(verdict) => self.confirm(verdict),
            None => self.detected(era),
        }
    }

    /// Confirms the era after a successful start.
    pub(crate) fn confirm(&self, verdict: Verdict) {
        // first, for those who wait for the verdict
        self.now.set(verdict.era);
        self.verdict.send_if_modified(|known| known.replace(verdict) != Some(verdict));
    }

    /// Marks this era as doubtful: the next start detects, and tries the other one first where it can choose.
    pub(crate) fn doubt(&self, assumed: Era) {
        *self.doubted.lock() = Some(assumed);
    }

    /// The era that failed last; `None` if one was detected since.
    pub(crate) fn doubted(&self) -> Option<Era> {
        *self.doubted.lock()
    }

    /// Stores a detected era.
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

    /// True the first time, for a server with sessions that was taken for one because it took the handshake.
    pub(crate) fn asks_for_other(&self) -> bool {
        self.has_sessions() && !self.is_configured() && !self.other.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Notes that the server speaks the other era too.
    pub(crate) fn note_other(&self) {
        self.other.is_spoken.store(true, Ordering::Relaxed);
    }

    /// The era for `lockkeeper status`.
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
    /// The era.
    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Known(era) | Self::Presumed(era) => era,
        }
    }

    /// True if a server of it has sessions.
    pub(crate) fn has_sessions(self) -> bool {
        self.era() == Era::Legacy
    }

    /// The era, if it is known.
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
    /// Stored eras of those `specs` whose era has to be detected.
    pub(crate) fn of(specs: &[BackendSpec], mut known: Vec<KnownEra>, observer: Observer) -> Self {
        let servers = detected(specs);
        known.retain(|known| servers.contains(&known.server));
        Self { known: Arc::new(Mutex::new(known)), observer }
    }

    /// The last detected era of `server`.
    pub(crate) fn lookup(&self, server: &Digest) -> Option<KnownEra> {
        self.known.lock().iter().find(|known| known.server == *server).copied()
    }

    /// Stores a detected era.
    pub(crate) fn add(&self, news: KnownEra) {
        {
            let mut all = self.known.lock();
            all.retain(|known| known.server != news.server);
            all.push(news);
        }
        self.observer.notify(LifecycleEvent::EraDetected(&news));
    }

    /// Forgets the servers that are not among `specs`.
    pub(crate) fn retain(&self, specs: &[BackendSpec]) {
        let servers = detected(specs);
        self.known.lock().retain(|known| servers.contains(&known.server));
    }

    /// All detected eras.
    pub(crate) fn all(&self) -> Vec<KnownEra> {
        self.known.lock().clone()
    }
}

/// The servers whose era has to be detected.
fn detected(specs: &[BackendSpec]) -> Vec<Digest> {
    specs.iter().filter(|spec| spec.era == EraChoice::Auto).filter_map(|spec| spec.transport.server()).collect()
}
