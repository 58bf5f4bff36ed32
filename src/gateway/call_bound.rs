//! A bound on the calls that run at one server at once, for servers that break under more. Knows nothing of routes.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::{
    mcp::{
        Call, ErrorObject, Reply, Server,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// A server that serves a bounded number of calls at once.
pub(crate) struct BoundedCalls {
    backend: BackendId,
    server: Arc<dyn Server>,
    free: Arc<Semaphore>,
    max: usize,
}

// === impl BoundedCalls ===

impl BoundedCalls {
    /// Lets `max` calls of clients run at a backend at once. Lists and listens do not count.
    pub(crate) fn new((backend, server): (&BackendId, Arc<dyn Server>), max: usize) -> Self {
        Self { backend: backend.clone(), server, free: Arc::new(Semaphore::new(max)), max }
    }

    /// The answer to a call above the bound.
    fn full(&self) -> ErrorObject {
        let reason =
            format!("as many calls run at it as may at once ({}); try again later, or raise `calls`", self.max);
        let unavailable =
            Unavailable { backend: &self.backend, reason: &reason, retry: Retry::Possible, supported: &[] };
        ErrorObject::unavailable(&format!("Backend `{}` is busy: {reason}", self.backend), &unavailable)
    }
}

impl Server for BoundedCalls {
    fn call(&self, call: Call) -> Reply {
        if !call.method.is_bounded() {
            return self.server.call(call);
        }
        match Arc::clone(&self.free).try_acquire_owned() {
            // the place is free again when the reply is dropped
            Ok(place) => self.server.call(call).map(move |event| {
                let _ = &place;
                event
            }),
            Err(_) => Reply::failed(self.full()),
        }
    }

    fn expect(&self) {
        self.server.expect();
    }
}
