//! Counters of the calls to one backend, by method and outcome. They are kept, since looking one up takes longer than
//! counting.

use metrics::Counter;
use parking_lot::RwLock;

use crate::{mcp::Method, model::BackendId};

/// Counters of the calls to one backend.
pub(super) struct CallCounters {
    backend: String,
    /// In the order of their first calls, so that the frequent ones come early.
    counters: RwLock<Vec<(Method, &'static str, Counter)>>,
}

// === impl CallCounters ===

impl CallCounters {
    /// No calls yet.
    pub(super) fn new(backend: &BackendId) -> Self {
        Self { backend: backend.to_string(), counters: RwLock::default() }
    }

    /// Counts a call.
    pub(super) fn add(&self, method: &Method, outcome: &'static str) {
        // a name that no version knows would let a client make up metrics
        let is_other = matches!(method, Method::Other(_));
        let is_it = |known: &Method| known == method || is_other && matches!(known, Method::Other(_));
        if let Some((.., counter)) = self.counters.read().iter().find(|(known, end, _)| *end == outcome && is_it(known))
        {
            counter.increment(1);
            return;
        }
        let method = if is_other { Method::Other("other".into()) } else { method.clone() };
        let (backend, name) = (self.backend.clone(), method.to_string());
        let counter = metrics::counter!("lockkeeper_backend_calls_total", "backend" => backend, "method" => name, "outcome" => outcome);
        counter.increment(1);
        self.counters.write().push((method, outcome, counter));
    }
}
