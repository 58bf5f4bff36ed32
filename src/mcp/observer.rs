//! Events in one part of the gateway that other parts act on.
//!
//! The parts get an observer when they are built, and the application acts on the events, so the parts do not know each
//! other.

use std::{fmt, sync::Arc};

use super::Payload;
use crate::model::{BackendId, KnownEra, Requester, SessionId};

/// An event around a server that others act on.
#[derive(Debug, Clone, Copy)]
pub enum LifecycleEvent<'a> {
    /// A backend lost its side of a client session that ends with it ([`crate::model::OnLoss::End`]).
    SessionLost(&'a SessionId),
    /// The era of a server was detected.
    EraDetected(&'a KnownEra),
    /// A backend that ran at another replica starts at this one.
    ServerMovedHere(&'a BackendId),
    /// A backend described itself, by its answer to `server/discover`.
    ServerDescribed(&'a BackendId, &'a Payload),
}

/// The observer of the events around servers. Cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(LifecycleEvent<'_>) + Send + Sync>);

/// The observer of requesters, called when a client session, or a listen without one, has ended and nothing must be
/// held for it. Cheap to clone.
#[derive(Clone)]
pub struct RequesterObserver(Arc<dyn Fn(&Requester) + Send + Sync>);

// === impl Observer ===

impl Observer {
    /// Creates an observer that runs at once, in the caller: it must not block.
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
    /// Creates an observer that runs at once, in the caller: it must not block.
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
