//! What was found out about the eras of all servers, over their lives and over those of the gateway. Knows nothing of how
//! it is found out, and of where it is kept while the gateway does not run.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    model::{BackendSpec, EraChoice, KnownEra},
    support::Digest,
};

/// What was found out, each server once. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct Memory(Arc<watch::Sender<Vec<KnownEra>>>);

impl Memory {
    /// What is remembered of those of these backends whose era is to be found out.
    pub(crate) fn of(specs: &[BackendSpec], mut known: Vec<KnownEra>) -> Self {
        let asked = specs.iter().filter(|spec| spec.era == EraChoice::Auto);
        let servers: Vec<Digest> = asked.filter_map(|spec| spec.transport.server()).collect();
        known.retain(|known| servers.contains(&known.server));
        Self(Arc::new(watch::Sender::new(known)))
    }

    /// What was found out about this server last.
    pub(crate) fn lookup(&self, server: &Digest) -> Option<KnownEra> {
        self.0.borrow().iter().find(|known| known.server == *server).copied()
    }

    /// Takes note of what was found out.
    pub(crate) fn add(&self, news: KnownEra) {
        self.0.send_modify(|all| {
            all.retain(|known| known.server != news.server);
            all.push(news);
        });
    }

    /// All of it, and every change.
    pub(crate) fn changes(&self) -> watch::Receiver<Vec<KnownEra>> {
        self.0.subscribe()
    }
}
