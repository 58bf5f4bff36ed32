//! Counters of the calls to one backend, by method and outcome. They are kept, since looking one up takes longer than
//! counting.

use dashmap::DashMap;
use metrics::Counter;

use crate::{mcp::Method, model::BackendId};

/// Counters of the calls to one backend.
pub(super) struct CallCounters {
    backend: String,
    counters: DashMap<(Method, &'static str), Counter>,
}

// === impl CallCounters ===

impl CallCounters {
    /// No calls yet.
    pub(super) fn new(backend: &BackendId) -> Self {
        Self { backend: backend.to_string(), counters: DashMap::new() }
    }

    /// Counts a call.
    pub(super) fn add(&self, method: &Method, outcome: &'static str) {
        let method = match method {
            // a name that no version knows would let a client make up metrics
            Method::Other(_) => Method::Other("other".into()),
            known => known.clone(),
        };
        let key = (method, outcome);
        if let Some(counter) = self.counters.get(&key) {
            counter.increment(1);
            return;
        }
        let (backend, method) = (self.backend.clone(), key.0.to_string());
        let counter = metrics::counter!("lockkeeper_backend_calls_total", "backend" => backend, "method" => method, "outcome" => outcome);
        counter.increment(1);
        self.counters.insert(key, counter);
    }
}
