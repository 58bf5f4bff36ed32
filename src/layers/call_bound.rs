//! A limit on concurrent calls at one server, for servers that break under more.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::layer::{Beneath, Layer};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Reply, Server,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// The layer that lets `calls` of clients run at once; `None`: any number. Lists and listens do not count.
pub fn call_bound(calls: Option<usize>) -> Option<Layer> {
    let max = calls?;
    Some(Arc::new(move |Beneath { backend, server, .. }| {
        Arc::new(BoundedCalls { backend: backend.clone(), server, free: Arc::new(Semaphore::new(max)), max })
    }))
}

struct BoundedCalls {
    backend: BackendId,
    server: Arc<dyn Server>,
    free: Arc<Semaphore>,
    max: usize,
}

// === impl BoundedCalls ===

impl BoundedCalls {
    /// The answer to a call above the limit.
    fn full(&self) -> ErrorObject {
        let reason =
            format!("as many calls run at it as may at once ({}); try again later, or raise `calls`", self.max);
        let unavailable =
            Unavailable { backend: &self.backend, reason: &reason, retry: Retry::Possible, supported: &[] };
        ErrorObject::unavailable(&format!("Server `{}` is busy: {reason}", self.backend), &unavailable)
    }
}

impl Server for BoundedCalls {
    fn call(&self, call: Call) -> Reply {
        if !call.method.is_bounded() {
            return self.server.call(call);
        }
        match Arc::clone(&self.free).try_acquire_owned() {
            // the place is freed when the reply is dropped
            Ok(place) => self.server.call(call).map(move |event| {
                let _ = &place;
                event
            }),
            Err(_) => Reply::failed(self.full()),
        }
    }

    fn expect(&self, client: &Context) {
        self.server.expect(client);
    }
}
