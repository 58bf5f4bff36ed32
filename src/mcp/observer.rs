//! Events in one part of the gateway that other parts react to.
//!
//! Each part gets an observer when it is created, and the application handles the events. So the parts need not know
//! each other.

use std::{fmt, sync::Arc};

use super::Payload;
use crate::model::{BackendId, KnownEra, Requester, SessionId};

/// An event about a server that other parts react to.
#[derive(Debug, Clone, Copy)]
pub enum LifecycleEvent<'a> {
    /// A backend lost its part of a client session that ends with it ([`crate::model::OnLoss::End`]).
    SessionLost(&'a SessionId),
    /// The gateway found out which era a server speaks.
    EraDetected(&'a KnownEra),
    /// A backend that ran at another replica is starting here.
    ServerMovedHere(&'a BackendId),
    /// A backend described itself in its answer to `server/discover`.
    ServerDescribed(&'a BackendId, &'a Payload),
}

/// Receives the events about servers. Cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(LifecycleEvent<'_>) + Send + Sync>);

/// Receives the end of requesters: a client session, or a listen outside of sessions, has ended, and nothing must be
/// kept for it. Cheap to clone.
#[derive(Clone)]
pub struct RequesterObserver(Arc<dyn Fn(&Requester) + Send + Sync>);

// === impl Observer ===

impl Observer {
    /// Creates an observer. `act` runs in the thread that reports the event, so it must not block.
    pub fn new(act: impl Fn(LifecycleEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }

    /// An observer that does nothing.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    pub fn notify(&self, event: LifecycleEvent<'_>) {
        (self.0)(event);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

// === impl RequesterObserver ===

impl RequesterObserver {
    /// Creates an observer. `act` runs in the thread that reports the end, so it must not block.
    pub fn new(act: impl Fn(&Requester) + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }

    /// An observer that does nothing.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    /// Reports that a requester has ended.
    pub fn ended(&self, requester: &Requester) {
        (self.0)(requester);
    }
}

impl fmt::Debug for RequesterObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequesterObserver").finish_non_exhaustive()
    }
}
