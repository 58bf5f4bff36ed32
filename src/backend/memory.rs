//! What was found out about the eras of all servers, over their lives and over those of the gateway. Knows nothing of how
//! it is found out, and of where it is kept while the gateway does not run.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    mcp::observer::{LifecycleEvent, Observer},
    model::{BackendSpec, EraChoice, KnownEra},
    support::Digest,
};

/// What was found out, each server once. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct Memory {
    known: Arc<Mutex<Vec<KnownEra>>>,
    observer: Observer,
}

impl Memory {
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
