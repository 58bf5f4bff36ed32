//! Metrics of the calls at one server: how many run, and how many have ended, by outcome and duration. Handles are
//! kept, because looking one up costs more than counting.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use metrics::{Counter, Histogram};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::{mcp::Method, model::BackendId};

/// Metrics of the calls at one server.
pub(crate) struct CallMeters {
    server: BackendId,
    running: AtomicUsize,
    /// In order of first use, so that frequent methods come early.
    methods: RwLock<Vec<MethodMeters>>,
}

/// A call that runs or waits for its server; counted while it exists.
pub(crate) struct RunningCall {
    meters: Arc<CallMeters>,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The server returned a result.
    Ok,
    /// The server returned an error, or the call failed on the way.
    Error,
    /// The connection was lost before the call ran.
    Lost,
    /// No connection could be opened.
    Unavailable,
}

/// Metrics for one method.
struct MethodMeters {
    /// `other` for every method that no version defines.
    method: Method,
    ends: [EndMeter; CallEnd::ALL.len()],
}

/// Metrics for one method and outcome.
struct EndMeter {
    count: Counter,
    /// Created with the first value: a histogram has many lines.
    seconds: OnceLock<Histogram>,
}

// === impl CallMeters ===

impl CallMeters {
    /// Creates the metrics for `server`.
    pub(crate) fn new(server: BackendId) -> Arc<Self> {
        Arc::new(Self { server, running: AtomicUsize::new(0), methods: RwLock::default() })
    }

    /// Number of calls that run or wait.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    fn count(&self, method: &Method, end: CallEnd, since: Instant) {
        tracing::debug!(server = %self.server, %method, outcome = end.word(), "a call has ended");
        let is_it = |known: &&MethodMeters| known.is_of(method);
        if let Some(known) = self.methods.read().iter().find(is_it) {
            return known.count(&self.server, end, since);
        }
        let mut methods = self.methods.write();
        if let Some(known) = methods.iter().find(is_it) {
            return known.count(&self.server, end, since);
        }
        let new = MethodMeters::new(&self.server, method.clone());
        new.count(&self.server, end, since);
        methods.push(new);
    }
}

// === impl RunningCall ===

impl RunningCall {
    /// Counts a call from now on.
    pub(crate) fn begin(meters: &Arc<CallMeters>) -> Self {
        meters.running.fetch_add(1, Ordering::Relaxed);
        Self { meters: Arc::clone(meters), since: Instant::now() }
    }

    /// Counts the end of the call, with its duration.
    pub(crate) fn ended(&self, method: &Method, end: CallEnd) {
        self.meters.count(method, end, self.since);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.meters.running.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl CallEnd ===

impl CallEnd {
    const ALL: [Self; 4] = [Self::Ok, Self::Error, Self::Lost, Self::Unavailable];

    /// Value of the label `outcome`.
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Lost => "lost",
            Self::Unavailable => "unavailable",
        }
    }
}

// === impl MethodMeters ===

impl MethodMeters {
    /// Creates the counters of all outcomes, so that each starts at zero.
    fn new(server: &BackendId, method: Method) -> Self {
        let method = if matches!(method, Method::Other(_)) { Method::Other("other".into()) } else { method };
        let ends = CallEnd::ALL.map(|end| {
            let labels = labels(server, &method, end);
            EndMeter { count: metrics::counter!("lockkeeper_server_calls_total", &labels), seconds: OnceLock::new() }
        });
        Self { method, ends }
    }

    /// True if calls of this method count here. Names that a client made up count as one method and do not become
    /// labels.
    fn is_of(&self, method: &Method) -> bool {
        self.method == *method || matches!((&self.method, method), (Method::Other(_), Method::Other(_)))
    }

    fn count(&self, server: &BackendId, end: CallEnd, since: Instant) {
        let [ok, error, lost, unavailable] = &self.ends;
        let meter = match end {
            CallEnd::Ok => ok,
            CallEnd::Error => error,
            CallEnd::Lost => lost,
            CallEnd::Unavailable => unavailable,
        };
        meter.count.increment(1);
        let seconds = meter.seconds.get_or_init(|| {
            metrics::histogram!("lockkeeper_server_call_duration_seconds", &labels(server, &self.method, end))
        });
        seconds.record(since.elapsed());
    }
}

fn labels(server: &BackendId, method: &Method, end: CallEnd) -> [(&'static str, String); 3] {
    [("server", server.to_string()), ("method", method.to_string()), ("outcome", end.word().to_owned())]
}
