//! The accept loop: admits connections and starts their tasks on the workers.

use std::{io, pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    ListenerSettings, Serve,
    admission::Admission,
    drive::{self, Service},
    handover::Handover,
    refuse::PendingRefusals,
    socket::Accept,
    workers::Workers,
};
use crate::support::own_waker::Woken;

/// Pause after an accept error such as `EMFILE`. The error lasts until a descriptor is closed, and the loop must not
/// spin on it.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Shutdown signals, task tracker and workers of the accept loop.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    /// Worker threads for connections.
    pub workers: Workers,
    /// Owns the task of each connection.
    pub tracker: TaskTracker,
    /// Cancelled when no more connections are accepted; open connections end with their current response.
    pub drain: CancellationToken,
    /// Cancelled to end connections at once.
    pub cancel: CancellationToken,
}

/// Accepts connections until `lifecycle.drain`, then waits until all of them have ended.
pub(super) async fn run<A: Accept>(
    mut listener: A,
    service: impl Serve,
    settings: ListenerSettings,
    lifecycle: Lifecycle,
) {
    let Lifecycle { workers, tracker, drain, cancel } = lifecycle;
    let mut admission = Admission::new(settings.connections, settings.limits.clone(), settings.proxies);
    let refusals = PendingRefusals::new(tracker.clone());
    let mut handover = Handover::new(workers, tracker);
    let foreign = Arc::default();
    let service = Service { inner: service, limits: settings.limits, drain: drain.clone(), foreign };
    while let Some(accepted) = drain.run_until_cancelled(handover.beside(listener.accept())).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                failed(&error, &admission, &drain).await;
                continue;
            }
        };
        let admitted = match admission.admit(peer.ip()).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                refusals.send(stream, refusal);
                continue;
            }
        };
        let (index, network) = (admitted.index(), admitted.network());
        let (service, end) = (service.clone(), cancel.child_token());
        admission.admitted(index, network, end.clone());
        handover.begin(Box::new(move |worker| {
            Box::pin(async move {
                // pinned here, since a future passed by value takes space on both sides
                let connection = pin!(drive::connection::<A>(stream, peer, admitted.at(worker), service));
                let ended = pin!(end.cancelled());
                select(Woken::new(ended, &Arc::default()), connection).await;
            })
        }));
    }
    drop(listener);
    handover.beside(admission.empty()).await;
}

/// Handles an error of `accept`. No error ends the loop: it concerns one connection only, or it will pass.
async fn failed(error: &io::Error, admission: &Admission, drain: &CancellationToken) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    metrics::counter!("lockkeeper_accept_errors_total").increment(1);
    tracing::error!(%error, "no connection can be accepted: are there too few descriptors (ulimit -n)?");
    admission.shed();
    drain.run_until_cancelled(sleep(ERROR_PAUSE)).await;
}
