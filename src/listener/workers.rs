//! Worker threads. Each runs its own runtime, where connections live from their first to their last byte.
//!
//! Each runtime has a single thread, so that a request, its tasks and its connections to servers stay on one thread and
//! wake no other. Everything outside of connections runs on the runtime that starts the threads: the accept loop, which
//! a busy worker must not delay, supervision and maintenance. Nothing moves between threads. All runtimes run until no
//! work is left, so that a timer or socket of one can be polled on another until the end.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Interval at which each runtime checks its timers, even if none is due. Calls set timers that end later, and setting
/// a timer that ends before the next check costs a system call.
const TIMER_INTERVAL: Duration = Duration::from_secs(1);

/// The runtimes that share the connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workers(Arc<[Worker]>);

/// The threads of [`Workers`]. Dropping this ends them, and drops everything still running on them.
#[derive(Debug)]
pub struct WorkerThreads {
    workers: Workers,
    threads: Vec<thread::JoinHandle<Runtime>>,
    stop: CancellationToken,
    /// Cancelled when any of the threads ends.
    ended: CancellationToken,
}

/// One runtime, and how many connections it has.
#[derive(Debug)]
struct Worker {
    runtime: Handle,
    open: AtomicUsize,
    /// Number of connections that it has not started to serve yet, because it is busy.
    waiting: AtomicUsize,
}

/// The worker of one connection, which counts there until this is dropped.
#[derive(Debug)]
pub(super) struct Assignment {
    workers: Workers,
    index: usize,
    begun: bool,
}

// === impl WorkerThreads ===

impl WorkerThreads {
    /// Starts `count` threads; at least one.
    pub fn start(count: usize) -> io::Result<Self> {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let (mut workers, mut threads) = (Vec::new(), Vec::new());
        for index in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            workers.push(Worker::on(runtime.handle().clone()));
            threads.push(run(index, runtime, stop.clone().cancelled_owned(), ended.clone())?);
        }
        Ok(Self { workers: Workers(workers.into()), threads, stop, ended })
    }

    pub fn workers(&self) -> Workers {
        self.workers.clone()
    }

    /// Waits until a thread ends without being stopped, which means a panic that no task caught.
    pub async fn failed(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        self.stop.cancel();
        // all must stop before the first runtime is dropped, because a task may poll a resource of another
        let stopped: Vec<_> = self.threads.drain(..).filter_map(|thread| thread.join().ok()).collect();
        stopped.into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Starts a thread that drives `runtime` until `stop`.
fn run(
    index: usize,
    runtime: Runtime,
    stop: impl Future<Output = ()> + Send + 'static,
    ended: CancellationToken,
) -> io::Result<thread::JoinHandle<Runtime>> {
    thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        let _ended = ended.drop_guard();
        runtime.block_on(async {
            tokio::pin!(stop);
            while timeout(TIMER_INTERVAL, &mut stop).await.is_err() {}
        });
        runtime
    })
}

// === impl Workers ===

impl Workers {
    /// Only the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn present() -> Self {
        Self(Arc::new([Worker::on(Handle::current())]))
    }

    /// Assigns a connection to the worker with the fewest, preferring workers without waiting connections.
    pub(super) fn assign(&self) -> Assignment {
        let load = |worker: &Worker| (worker.waiting.load(Ordering::Relaxed), worker.open.load(Ordering::Relaxed));
        let least = self.0.iter().enumerate().min_by_key(|(_, worker)| load(worker));
        self.assign_to(least.map_or(0, |(index, _)| index))
    }

    /// Assigns a connection to a worker without waiting connections, if there is one.
    pub(super) fn assign_promptly(&self) -> Option<Assignment> {
        let prompt = |(_, worker): &(usize, &Worker)| worker.waiting.load(Ordering::Relaxed) == 0;
        let open = |(_, worker): &(usize, &Worker)| worker.open.load(Ordering::Relaxed);
        let (index, _) = self.0.iter().enumerate().filter(prompt).min_by_key(open)?;
        Some(self.assign_to(index))
    }

    fn assign_to(&self, index: usize) -> Assignment {
        self.0[index].open.fetch_add(1, Ordering::Relaxed);
        self.0[index].waiting.fetch_add(1, Ordering::Relaxed);
        Assignment { workers: self.clone(), index, begun: false }
    }
}

// === impl Worker ===

impl Worker {
    const fn on(runtime: Handle) -> Self {
        Self { runtime, open: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }
}

// === impl Assignment ===

impl Assignment {
    pub(super) fn runtime(&self) -> &Handle {
        &self.worker().runtime
    }

    /// The worker begins to serve the connection.
    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.worker().waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn worker(&self) -> &Worker {
        &self.workers.0[self.index]
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        self.begin();
        self.worker().open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(assignments: &[Assignment]) -> Vec<usize> {
        assignments.iter().map(|assignment| assignment.index).collect()
    }

    #[test]
    fn connections_go_to_the_worker_that_has_the_fewest() {
        let threads = WorkerThreads::start(3).unwrap();
        let workers = threads.workers();
        let mut assigned: Vec<_> = std::iter::repeat_with(|| workers.assign()).take(6).collect();
        assert_eq!(indexes(&assigned), [0, 1, 2, 0, 1, 2]);
        assigned.iter_mut().for_each(Assignment::begin);
        assigned.remove(4);
        assigned.remove(1);
        for _ in 0..3 {
            let mut next = workers.assign();
            next.begin();
            assigned.push(next);
        }
        assert_eq!(indexes(&assigned), [0, 2, 0, 2, 1, 1, 0]);
    }

    #[test]
    fn a_worker_that_leaves_a_connection_waiting_gets_no_more_while_others_begin_theirs() {
        let threads = WorkerThreads::start(2).unwrap();
        let workers = threads.workers();
        let waiting = workers.assign();
        let mut others = Vec::new();
        for _ in 0..5 {
            let mut assigned = workers.assign();
            assigned.begin();
            others.push(assigned);
        }
        assert_eq!((waiting.index, indexes(&others)), (0, vec![1; 5]));
        drop(waiting);
        assert_eq!(workers.assign().index, 0);
    }

    #[tokio::test]
    async fn a_thread_that_panics_is_noticed() {
        let mut threads = WorkerThreads::start(2).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let panicking = async { panic!("a thread that panics, as this test wants") };
        threads.threads.push(run(2, runtime, panicking, threads.ended.clone()).unwrap());
        threads.failed().await;
    }

    #[tokio::test]
    async fn what_waits_for_another_worker_is_dropped_at_the_end() {
        let threads = WorkerThreads::start(2).unwrap();
        let workers = threads.workers();
        let (first, second) = (&workers.0[0].runtime, &workers.0[1].runtime);
        let (created, sleeping) = tokio::sync::oneshot::channel();
        let (dropped, gone) = tokio::sync::oneshot::channel::<()>();
        first.spawn(async move {
            let _ = created.send(Box::pin(tokio::time::sleep(Duration::from_hours(1))));
        });
        let sleep = sleeping.await.unwrap();
        second.spawn(async move {
            let _dropped = dropped;
            sleep.await;
        });
        drop(threads);
        assert!(gone.await.is_err());
    }
}
