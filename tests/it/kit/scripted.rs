//! A server that does what the call says, step by step. It speaks its version whatever it is offered, and offers every member
//! that the version has (`scripted/offers.json`). Its tools take `steps`, a list of lists: see [`steps`]. All that it receives
//! is in a record.

mod headers;
mod listens;
mod offers;
mod rounds;
mod session;
mod state;
mod stateless;
mod steps;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lockkeeper::mcp::{Era, Revision};
use tokio_util::sync::CancellationToken;

use self::{
    session::LegacySession,
    state::{Core, State},
    stateless::StatelessServer,
};
use super::{
    carriers::{Actor, Session},
    outlet::Outlet,
    record::Record,
};

pub(crate) use self::offers::Offers;

/// A scripted server of one version.
pub(crate) struct ScriptedServer {
    offers: Arc<Offers>,
    record: Arc<Record>,
    /// The number of gateways that ask it: each counts its requests from one.
    gateways: usize,
}

impl ScriptedServer {
    pub(crate) fn new(version: Revision, record: Arc<Record>, gateways: usize) -> Self {
        Self { offers: Arc::new(Offers::of(version)), record, gateways }
    }
}

impl Actor for ScriptedServer {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let core = Core {
            name: format!("{:08x}", LAST.fetch_add(1, Ordering::Relaxed)),
            aside,
            notes: self.record.begin(self.offers.version),
            offers: Arc::clone(&self.offers),
            gateways: self.gateways,
            state: State::new(),
            end: CancellationToken::new(),
        };
        match self.offers.version.era() {
            Era::Legacy => Arc::new(LegacySession(Arc::new(core))),
            Era::Modern => Arc::new(StatelessServer(Arc::new(core))),
        }
    }

    fn has_sessions(&self) -> bool {
        self.offers.version.era() == Era::Legacy
    }
}
