//! Entries of one backend that are hidden from clients: if there are any, and which were logged.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use crate::{
    mcp::{
        ListKind,
        translate::{LeftOut, Omitted},
    },
    model::BackendId,
};

/// Maximum number of entries of one backend that are logged by name; more are only counted.
const MAX_LOGGED: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Omissions {
    /// True once a list left out a tool; until it is, calls need not check.
    tools: AtomicBool,
    logged: Mutex<HashSet<(ListKind, LeftOut)>>,
}

impl Omissions {
    /// True if a tool may be left out.
    pub(super) fn may_have_tools(&self) -> bool {
        self.tools.load(Ordering::Relaxed)
    }

    /// Records what a list left out, and logs each entry once.
    pub(super) fn note(&self, backend: &BackendId, kind: ListKind, left_out: &Omitted) {
        if left_out.count() == 0 {
            return;
        }
        if kind == ListKind::Tools {
            self.tools.store(true, Ordering::Relaxed);
        }
        let labels = [("server", backend.to_string()), ("kind", kind.member().to_owned())];
        metrics::counter!("lockkeeper_gateway_left_out_total", &labels).increment(left_out.count() as u64);
        let mut logged = self.logged.lock();
        for LeftOut { name, reason } in left_out.first() {
            let is_new = logged.len() < MAX_LOGGED
                && logged.insert((kind, LeftOut { name: name.clone(), reason: reason.clone() }));
            if is_new {
                tracing::warn!(server = %backend, method = %kind.method(), name, reason, "an entry breaks the schema and is not listed");
            }
        }
    }
}
