//! Supervision of one backend's base connection: started at once, restarted when lost, with growing delays.

mod backend;
pub(crate) mod health;
pub(crate) mod supervisor;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{
    sync::watch,
    time::{Instant, interval, timeout},
};

use super::{
    connection::{ServerConnection, calls::ClientUse},
    context::BackendContext,
    error::StartError,
    server::external_backend::{ExternalBackend, RESTARTED},
    sharing::{
        connection_key::ConnectionKey,
        connection_slot::{Slot, SlotState},
    },
    start::{
        connection_start::{ConnectionStart, Succession},
        opener::Failure,
        spares::SpareProcess,
    },
    task_group::TaskGroup,
    transport,
};
use crate::{
    mcp::observer::LifecycleEvent,
    model::{
        BackendSpec, OnLoss, ServerHome,
        status::{OutputLine, last_output_text},
    },
};

/// Delay before the next start after an error that a retry can hardly fix.
const LASTING_DELAY: Duration = Duration::from_mins(5);
/// Maximum delay before the next start after other errors.
const MAX_DELAY: Duration = Duration::from_mins(1);
/// A connection that ends sooner counts as a failure, unless it answered a client's call.
const SHORT_LIFE: Duration = Duration::from_secs(10);
/// Maximum interval between searches for idle connections.
const SWEEP: Duration = Duration::from_secs(30);

/// Time to keep spare processes after the last connection of a client.
const SPARE_LIFE: Duration = Duration::from_mins(1);

/// Maximum wait for the programs of a restarted server to end.
const END_TIMEOUT: Duration = Duration::from_secs(6);

/// Restarts by the operator: the process ids that ran at that moment.
type Restarts = watch::Receiver<Vec<u32>>;

struct Supervision(Arc<ExternalBackend>);

/// Starts a server in a task group of its own, and returns at once.
pub(super) fn start(spec: BackendSpec, context: BackendContext) -> Arc<ExternalBackend> {
    let tasks = TaskGroup::new(context.tasks.end().child_token());
    let backend = Arc::new(ExternalBackend::new(spec, BackendContext { tasks: tasks.clone(), ..context }));
    tasks.spawn(Supervision(Arc::clone(&backend)).supervise());
    tasks.spawn(Supervision(Arc::clone(&backend)).sweep());
    backend
}

// === impl Supervision ===

impl Supervision {
    /// Keeps the base connection open until the backend ends. If only one replica runs the server, starts once this
    /// replica is its home.
    async fn supervise(self) {
        let end = self.0.context.tasks.end().clone();
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = async { self.at_home().await; self.hold_base().await } => {}
        }
        // wake waiting calls
        self.0.pool.base().set(SlotState::Failed(StartError::Stopping));
    }

    /// Ends idle connections, unless a lost one would end the client's session (`on_loss = "end"`), and spare processes
    /// that clients no longer need.
    async fn sweep(self) {
        let end = self.0.context.tasks.end().clone();
        let period = (self.0.spec.idle_timeout / 2).clamp(Duration::from_millis(10), SWEEP);
        let mut ticks = interval(period);
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                _ = ticks.tick() => {
                    if self.0.spec.on_loss != OnLoss::End {
                        self.0.pool.sweep(self.0.spec.idle_timeout, |key| self.0.interests.waits(key));
                    }
                    self.end_spares().await;
                }
            }
        }
    }

    /// Ends spare processes once no client has had a connection for [`SPARE_LIFE`].
    async fn end_spares(&self) {
        if self.0.pool.has_clients() {
            self.0.opener.transport.spares.needed();
        }
        join_all(self.0.opener.transport.spares.unneeded(SPARE_LIFE).into_iter().map(SpareProcess::close)).await;
    }

    async fn at_home(&self) {
        let ExternalBackend { spec, health, context, .. } = &*self.0;
        if spec.home == ServerHome::One && !context.home.is_open() {
            health.elsewhere();
            context.home.wait().await;
            health.starts_here();
            context.observer.notify(LifecycleEvent::ServerMovedHere(&spec.id));
        }
    }

    async fn hold_base(&self) {
        let mut failures = 0;
        let mut turned: Option<Instant> = None;
        let mut restarts = self.0.restarts.subscribe();
        loop {
            let ended = match self.run_once(failures, &mut restarts).await {
                SessionEnded::EraChanged(failure) if turned.is_some_and(|last| last.elapsed() < SHORT_LIFE) => {
                    SessionEnded::Failed(failure)
                }
                ended => ended,
            };
            failures = match ended {
                SessionEnded::Lived | SessionEnded::Restarted => 0,
                SessionEnded::Brief => failures + 1,
                SessionEnded::EraChanged(_) => {
                    turned = Some(Instant::now());
                    0
                }
                SessionEnded::InCall(failure) => {
                    self.failed(failure, delay_after(0));
                    self.pause(delay_after(0), &mut restarts).await;
                    failures
                }
                SessionEnded::Failed(failure) => {
                    let wait = if failure.error.is_lasting() { LASTING_DELAY } else { delay_after(failures) };
                    self.failed(failure, wait);
                    if self.pause(wait, &mut restarts).await == Pause::Over { failures + 1 } else { 0 }
                }
            };
            metrics::counter!("lockkeeper_server_restarts_total", "server" => self.0.spec.id.to_string()).increment(1);
        }
    }

    /// Records and logs a failed start.
    fn failed(&self, failure: Failure, retry_in: Duration) {
        let error = failure.error.clone().printing_text(self.0.opener.transport.output.has_stray());
        // the server may lack network settings
        let advice = transport::advice(&self.0.spec, &self.0.context.environment).filter(|_| !error.is_lasting());
        let output = last_output_text(&failure.output);
        tracing::warn!(
            server = %self.0.spec.id, %error, retry_in = retry_in.as_secs(), output, advice,
            "the server failed to start"
        );
        self.0.health.failed(Failure { error: error.clone(), output: failure.output }, advice, retry_in);
        self.0.pool.base().set(SlotState::Failed(error.postponed(retry_in)));
    }

    /// Waits until the next start is due.
    async fn pause(&self, wait: Duration, restarts: &mut Restarts) -> Pause {
        tokio::select! {
            () = self.0.health.pause(wait) => Pause::Over,
            Ok(()) = restarts.changed() => {
                self.started_anew(restarts, Vec::new()).await;
                Pause::Cut
            }
        }
    }

    /// Waits for the end of the programs that ran when the operator restarted the server: they may hold something that
    /// only one process can have.
    async fn started_anew(&self, restarts: &mut Restarts, output: Vec<OutputLine>) -> SessionEnded {
        let pids = restarts.borrow_and_update().clone();
        self.0.health.lost(RESTARTED.to_owned(), output);
        let _ = timeout(END_TIMEOUT, self.0.context.spawner.running().end(&pids)).await;
        SessionEnded::Restarted
    }

    /// Makes a new base connection available to calls.
    async fn serve(&self, base: &Slot, key: &ConnectionKey, connection: &Arc<ServerConnection>) {
        self.0.crossing.set_server_tasks(connection.tasks());
        connection.follow_interests().await;
        let lived = base.has_lived();
        // before the connection is set: clients' calls are refused while the server counts as failed
        if let Some(summary) = connection.summary() {
            self.0.health.ready(summary);
        }
        base.set(SlotState::Ready(Arc::clone(connection)));
        self.0.opener.transport.demand.met();
        // clients may have an earlier connection's lists, or none because the server failed
        if lived && connection.context.is_of_one_client {
            self.0.notify_restarted(key, connection);
        } else if lived || self.0.health.has_failed() {
            self.0.listens.notify_lists_changed(key);
        }
    }

    /// Runs the base connection from start to end; `failures` is the number of failures in a row before it.
    async fn run_once(&self, failures: u32, restarts: &mut Restarts) -> SessionEnded {
        let base = self.0.pool.base();
        let (client, key) = (self.0.base_client().await, self.0.base_key());
        base.set(SlotState::Starting(Arc::clone(&client)));
        self.0.health.tries_again();
        let succession = if base.has_lived() { Succession::Another } else { Succession::First };
        let start = ConnectionStart { key: &key, succession, user: None };
        let detection = self.0.detection(start, &key);
        let opened = tokio::select! {
            biased;
            Ok(()) = restarts.changed() => return self.started_anew(restarts, Vec::new()).await,
            opened = detection.open_base(&client) => opened,
        };
        let connection = match opened {
            Ok(connection) => connection,
            Err(failure) => return SessionEnded::Failed(failure),
        };
        self.serve(base, &key, &connection).await;
        let began = Instant::now();
        let ended = tokio::select! {
            biased;
            Ok(()) = restarts.changed() => {
                connection.end(RESTARTED);
                None
            }
            reason = connection.over() => Some(reason),
        };
        self.0.lost(base);
        let output = connection.output();
        let Some(reason) = ended else { return self.started_anew(restarts, output).await };
        if self.0.era.doubted().is_some() {
            tracing::info!(server = %self.0.spec.id, reason, "the server's protocol era is detected again");
            return SessionEnded::EraChanged(Failure { error: StartError::Unreachable(reason), output });
        }
        let (is_brief, used) = (began.elapsed() < SHORT_LIFE, connection.client_use());
        if is_brief && used != ClientUse::Answered && (failures > 0 || !connection.context.is_of_one_client) {
            let failure = Failure { error: StartError::Unreachable(reason), output };
            // a client's call may be the cause, and other clients should not wait longer and longer for that
            let is_in_call = used == ClientUse::CutOff;
            return if is_in_call { SessionEnded::InCall(failure) } else { SessionEnded::Failed(failure) };
        }
        let lines = last_output_text(&output);
        tracing::warn!(server = %self.0.spec.id, reason, output = lines, "the connection to the server was lost");
        self.0.health.lost(reason, output);
        if is_brief && used != ClientUse::Answered { SessionEnded::Brief } else { SessionEnded::Lived }
    }
}

/// Delay after so many failures in a row: 1, 2, 4 … 60 seconds (`translation` 6.4). A call that waits cuts it short.
fn delay_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6)).min(MAX_DELAY)
}

/// Why a pause before a start ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// The start is due, or a call waits for it.
    Over,
    /// The operator restarted the server.
    Cut,
}

/// How a base connection ended.
enum SessionEnded {
    /// After a while: restart at once.
    Lived,
    /// Soon, and it was the session of the only client: restart at once, the first time.
    Brief,
    /// The server's era has changed: restart at once, unless that has just been done.
    EraChanged(Failure),
    /// Soon, and during a client's call: restart after a second, however often that happens.
    InCall(Failure),
    /// The operator restarted the server: restart at once.
    Restarted,
    /// It did not start, or it ended soon: restart after a growing delay.
    Failed(Failure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_minute() {
        let waits: Vec<u64> = [0, 1, 2, 5, 6, 100].map(|failures| delay_after(failures).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 32, 60, 60]);
    }
}
