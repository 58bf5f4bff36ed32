//! Client side × server side → the decorator of that pair. Knows nothing of how a decorator works.
//!
//! | client \ server | asks in mid-call (2024-11-05 to 2025-11-25) | ends the call with its requests (2026-07-28) |
//! |---|---|---|
//! | with a session (2024-11-05 to 2025-11-25) | none: the client is asked on the spot | `repeat` |
//! | without (2026-07-28) | `suspend` for calls, `deferred` for listens | `suspend`, for the sealed state alone |
//! | the gateway itself | none | none |
//!
//! The manner of a client shows in [`Requester`]. The manner of a server shows in its reply, since a server may be updated
//! between two calls: a decorator lets the reply pass as it is until the server asks ([`super::pass_through`]).

use crate::{
    mcp::{Call, Method},
    model::Requester,
};

/// A decorator of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decorator {
    /// None: client and server have the same manner, or nothing can be asked.
    None,
    /// [`super::repeat`].
    Repeat,
    /// [`super::suspend`].
    Suspend,
    /// [`super::deferred`].
    Defer,
}

/// The decorator of a call at a backend.
pub(super) const fn at_backend(call: &Call) -> Decorator {
    match call.context.requester {
        Requester::Session(_) if call.method.may_require_input() => Decorator::Repeat,
        _ => Decorator::None,
    }
}

/// The decorator of a call at an endpoint of the gateway.
pub(super) const fn at_endpoint(call: &Call) -> Decorator {
    if !call.context.requester.is_sessionless() {
        return Decorator::None;
    }
    match &call.method {
        Method::Listen => Decorator::Defer,
        method if method.may_require_input() => Decorator::Suspend,
        _ => Decorator::None,
    }
}
