//! Processes that were started before anybody needed them, so that a client does not wait for a start. Nothing has been
//! sent to them. Knows nothing of sessions.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    backend::transport::{Incoming, ServerInput, Transport},
    model::TransportSpec,
};

/// The spare processes of one backend, oldest first.
pub(crate) struct Spares {
    /// The number of processes to keep.
    wanted: usize,
    state: Mutex<SparesState>,
}

#[derive(Default)]
struct SparesState {
    ready: VecDeque<SpareProcess>,
    /// The number of those that are being started.
    starting: usize,
    /// The last time at which a client needed a process.
    needed: Option<Instant>,
}

/// A process without a connection.
pub(crate) struct SpareProcess {
    /// The command that it runs.
    to: TransportSpec,
    transport: Arc<dyn Transport>,
    incoming: Incoming,
}

/// The right to start one spare process. Dropping it gives it back.
pub(crate) struct SpareStart<'a>(&'a Spares);

// === impl Spares ===

impl Spares {
    /// No process yet, and `wanted` of them later.
    pub(crate) const fn new(wanted: usize) -> Self {
        let state = SparesState { ready: VecDeque::new(), starting: 0, needed: None };
        Self { wanted, state: Mutex::new(state) }
    }

    /// True if processes are to be kept ready.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Takes a process that runs this command and has not ended.
    pub(crate) fn take(&self, to: &TransportSpec) -> Option<(Arc<dyn Transport>, Incoming)> {
        loop {
            let spare = self.state.lock().ready.pop_front()?;
            if spare.to == *to
                && let Some(living) = spare.living()
            {
                return Some(living);
            }
        }
    }

    /// Notes that clients need processes.
    pub(crate) fn needed(&self) {
        self.state.lock().needed = Some(Instant::now());
    }

    /// Notes that a client needed a process; returns the right to start another, if one is missing.
    pub(crate) fn claim(&self) -> Option<SpareStart<'_>> {
        self.needed();
        let mut state = self.state.lock();
        (state.ready.len() + state.starting < self.wanted).then(|| {
            state.starting += 1;
            SpareStart(self)
        })
    }

    /// Takes all of them if no client needed one for this time.
    pub(crate) fn unneeded(&self, time: Duration) -> Vec<SpareProcess> {
        let mut state = self.state.lock();
        let is_needed = state.needed.is_some_and(|needed| needed.elapsed() < time);
        if is_needed { Vec::new() } else { state.ready.drain(..).collect() }
    }
}

// === impl SpareProcess ===

impl SpareProcess {
    /// A process that was just started.
    pub(crate) fn fresh(to: TransportSpec, (transport, incoming): (Arc<dyn Transport>, Incoming)) -> Self {
        Self { to, transport, incoming }
    }

    /// The process, unless it has ended.
    fn living(self) -> Option<(Arc<dyn Transport>, Incoming)> {
        let Self { transport, mut incoming, .. } = self;
        match incoming.next().now_or_never() {
            None => Some((transport, incoming)),
            Some(Some(text @ ServerInput::Text(_))) => Some((transport, stream::iter([text]).chain(incoming).boxed())),
            Some(Some(ServerInput::Lost(_)) | None) => None,
        }
    }

    /// Ends it, within seconds.
    pub(crate) async fn close(self) {
        self.transport.close().await;
    }
}

// === impl SpareStart ===

impl SpareStart<'_> {
    /// Keeps the process that was started.
    pub(crate) fn keep(self, process: SpareProcess) {
        self.0.state.lock().ready.push_back(process);
    }
}

impl Drop for SpareStart<'_> {
    fn drop(&mut self) {
        self.0.state.lock().starting -= 1;
    }
}
