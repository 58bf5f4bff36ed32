//! Client side × server side → the decorators of that pair, as one table. Knows nothing of how a decorator works.
//!
//! At an endpoint and at a backend, where the manner of the server shows in its reply, since a server may be updated between
//! two calls: a decorator lets the reply pass as it is until the server asks ([`super::pass_through`]).
//!
//! | client \ server | asks in mid-call (2024-11-05 to 2025-11-25) | ends the call with its requests (2026-07-28) |
//! |---|---|---|
//! | with a session (2024-11-05 to 2025-11-25) | none: the client is asked on the spot | `repeat` |
//! | without (2026-07-28) | `suspend` for calls, `deferred` for listens | `suspend`, for the sealed state alone |
//! | the gateway itself | none | none |
//!
//! At the server, for each attempt at a call, since the server is known then:
//!
//! | client \ server | with sessions, has tasks of 2025-11-25 or none | without (2026-07-28), has the tasks extension or none |
//! |---|---|---|
//! | with a session | `tasks`, if the client has none | `listens::SessionOverRequests`, `tasks::CoreOverExtension` |
//! | without | `listens::RequestsOverSession`, `tasks::ExtensionOverCore` | none |

use super::tasks::{self, Bridge, ServerTasks};
use crate::{
    mcp::{Call, ClientInfo, Era, Method},
    model::Requester,
};

/// A decorator of a pair at an endpoint or a backend.
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

/// What a call needs between its client and its server.
pub(crate) enum Pair {
    /// Nothing.
    Alike,
    /// That is not known before the server has been met.
    NotMet,
    /// The call goes on with what another server has ended, and cannot be served.
    Gone,
    /// Decorators.
    Differ(Decorators),
}

/// The decorators of a pair at the server, the outer ones first.
#[derive(Clone, Copy)]
pub(crate) struct Decorators {
    pub(super) tasks: Option<Bridge>,
    pub(super) listens: Option<ListenDecorator>,
}

/// The decorator of levels and subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenDecorator {
    /// [`super::listens::SessionOverRequests`].
    SessionOverRequests,
    /// [`super::listens::RequestsOverSession`].
    RequestsOverSession,
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

/// The decorators of a call at a server of this era, whose way with tasks is known if the server `met` is of it.
pub(super) fn at_server(call: &Call, era: Era, met: Option<ServerTasks>) -> Pair {
    if era == Era::Legacy && call.params.origin().is_some() {
        // the next round of a call at a server that had no sessions (`repeat`)
        return Pair::Gone;
    }
    let listens = match (&call.context.requester, era) {
        (Requester::Session(_), Era::Modern) => Some(ListenDecorator::SessionOverRequests),
        (Requester::Request(_) | Requester::TasksOf(_), Era::Legacy) => Some(ListenDecorator::RequestsOverSession),
        _ => None,
    };
    match tasks::bridge(call, era, met) {
        Err(tasks::NotMet) => Pair::NotMet,
        Ok(None) if listens.is_none() && !hides_tasks(call) => Pair::Alike,
        Ok(tasks) => Pair::Differ(Decorators { tasks, listens }),
    }
}

/// Whether a connection is put behind [`tasks::AwaitedTasks`]: the server may run a tool as a task, and its client has none.
pub(super) fn awaits_tasks(client: &ClientInfo, server: ServerTasks) -> bool {
    server.is_of_core() && !client.takes_tasks()
}

/// Whether a listen is put behind [`tasks::OwnNotifications`]: its client has no tasks, and its calls may run as such.
pub(super) fn hides_tasks(call: &Call) -> bool {
    call.method == Method::Listen && !call.context.client.takes_tasks()
}
