//! Processes started before a client needs them, so that it does not wait for a start. Nothing has been sent to them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    backend::transport::{Incoming, ServerInput, Transport},
    model::TransportSpec,
};

/// Spare processes of one backend, oldest first.
pub(crate) struct Spares {
    /// Number of processes to keep.
    wanted: usize,
    state: Mutex<SparesState>,
}

#[derive(Default)]
struct SparesState {
    ready: VecDeque<SpareProcess>,
    /// Number of processes being started.
    starting: usize,
    /// The time when a client last needed a process.
    needed: Option<Instant>,
}

/// A process that is started and has no connection yet.
pub(crate) struct SpareProcess {
    /// The transport that it was started for.
    to: TransportSpec,
    transport: Arc<dyn Transport>,
    incoming: Incoming,
}

/// The right to start one spare process. Drop it when the start is over.
pub(crate) struct SpareStart<'a>(&'a Spares);

// === impl Spares ===

impl Spares {
    /// Creates the set without processes.
    pub(crate) const fn new(wanted: usize) -> Self {
        let state = SparesState { ready: VecDeque::new(), starting: 0, needed: None };
        Self { wanted, state: Mutex::new(state) }
    }

    /// True if the configuration asks for spare processes.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Takes a process that was started for the transport `to` and still runs.
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

    /// Records that clients need processes now.
    pub(crate) fn needed(&self) {
        self.state.lock().needed = Some(Instant::now());
    }

    /// Records that a client needed a process. Returns the right to start another, if one is missing.
    pub(crate) fn claim(&self) -> Option<SpareStart<'_>> {
        self.needed();
        let mut state = self.state.lock();
        (state.ready.len() + state.starting < self.wanted).then(|| {
            state.starting += 1;
            SpareStart(self)
        })
    }

    /// Takes all processes, if no client has needed one for `time`.
    pub(crate) fn unneeded(&self, time: Duration) -> Vec<SpareProcess> {
        let mut state = self.state.lock();
        let is_needed = state.needed.is_some_and(|needed| needed.elapsed() < time);
        if is_needed { Vec::new() } else { state.ready.drain(..).collect() }
    }
}

// === impl SpareProcess ===

impl SpareProcess {
    /// A process that has just been started.
    pub(crate) fn fresh(to: TransportSpec, transport: Arc<dyn Transport>, incoming: Incoming) -> Self {
        Self { to, transport, incoming }
    }

    /// The process; `None` if it has ended.
    fn living(self) -> Option<(Arc<dyn Transport>, Incoming)> {
        let Self { transport, mut incoming, .. } = self;
        match incoming.next().now_or_never() {
            None => Some((transport, incoming)),
            Some(Some(text @ ServerInput::Text(_))) => Some((transport, stream::iter([text]).chain(incoming).boxed())),
            Some(Some(ServerInput::Lost(_)) | None) => None,
        }
    }

    /// Ends the process, within seconds.
    pub(crate) async fn close(self) {
        self.transport.close().await;
    }
}

// === impl SpareStart ===

impl SpareStart<'_> {
    /// Adds the started process to the spare ones.
    pub(crate) fn keep(self, process: SpareProcess) {
        self.0.state.lock().ready.push_back(process);
    }
}

impl Drop for SpareStart<'_> {
    fn drop(&mut self) {
        self.0.state.lock().starting -= 1;
    }
}
