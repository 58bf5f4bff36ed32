//! A server of both eras: with sessions until a client asks what it supports, and without them after that.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{session::LegacySession, stateless::StatelessServer};
use crate::kit::{
    carriers::{Received, Session},
    outlet::Outlet,
};

/// One session with a client; both eras end together.
pub(super) struct BothEras {
    legacy: Arc<LegacySession>,
    modern: Arc<StatelessServer>,
    is_modern: AtomicBool,
}

impl BothEras {
    pub(super) fn new(legacy: LegacySession, modern: StatelessServer) -> Self {
        Self { legacy: Arc::new(legacy), modern: Arc::new(modern), is_modern: AtomicBool::new(false) }
    }
}

impl Session for BothEras {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let asks = received.message["method"] == "server/discover";
        if self.is_modern.fetch_or(asks, Ordering::Relaxed) || asks {
            Arc::clone(&self.modern).take(received, outlet)
        } else {
            Arc::clone(&self.legacy).take(received, outlet)
        }
    }

    fn misused(&self, verb: &str) {
        self.legacy.misused(verb);
    }

    fn is_deaf(&self) -> bool {
        self.legacy.is_deaf()
    }

    fn end(&self) -> &CancellationToken {
        self.legacy.end()
    }
}
