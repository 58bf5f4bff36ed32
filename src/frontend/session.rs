//! One session of a client with a handshake: its state, and the calls in it.
//!
//! The ids of calls need not be unique, because some clients give every request the same id (design rule 1). So answers
//! are never looked up by id; ids are only used to cancel.

mod call_requests;
mod changes_in_calls;
mod client_settings;
pub(crate) mod exchange;
pub(crate) mod inbound;
pub(crate) mod initialize;
mod listen;
mod session_subscriptions;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{changes_in_calls::ChangesInCalls, session_subscriptions::SessionSubscriptions};
use super::{
    frontend_settings::FrontendSettings,
    replay::{ReplayBuffer, streams::AnswerStreams},
    request_limits::User,
    server_requests::OpenRequests,
};
use crate::{
    mcp::{CancelReason, ClientInfo, Level, RequestId, Revision, json::Object, translate::Profile},
    model::{Caller, SessionAddress, SessionId},
    resource::StreamLease,
    support::Timestamp,
};

/// One session: its owner, its client, and everything that runs in it.
#[derive(Debug)]
pub(crate) struct Session {
    /// The id that the client uses.
    pub(crate) id: SessionId,
    /// The address that the session was opened at. It can be used only there.
    pub(crate) address: SessionAddress,
    /// The caller that opened it.
    pub(crate) owner: Arc<Caller>,
    /// The time when it was opened.
    pub(crate) created: Timestamp,
    /// The owner's user, for whom calls are counted.
    pub(crate) user: Arc<User>,
    pub(crate) calls: Arc<RunningCalls>,
    /// The server requests that wait for the client.
    pub(crate) requests: Arc<OpenRequests>,
    /// The messages for standalone streams.
    pub(crate) queue: Arc<ReplayBuffer>,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
    pub(crate) answers: AnswerStreams,
    /// The caller whose listen is open, and the token that ends the listen.
    pub(crate) listen: Mutex<Option<(Arc<Caller>, CancellationToken)>>,
    /// The lease of the newest credential that the client sent. Only used if the session is an HTTP connection.
    pub(crate) lease: watch::Sender<Option<StreamLease>>,
    /// Counts the calls of such a session whose answers are not in the queue yet.
    pub(crate) deliveries: TaskTracker,
    client: OnceLock<(Arc<ClientInfo>, Profile)>,
    /// Set once the session was compared with the caller's earlier connections.
    pub(crate) recognized: OnceCell<()>,
    /// The client, if it came back without introducing itself.
    presumed: OnceLock<(Arc<ClientInfo>, Profile)>,
    initialized: AtomicBool,
    level: watch::Sender<Option<Level>>,
    /// Woken when the session's listen has passed a new level on to its servers.
    level_noticed: Notify,
    subscriptions: Mutex<SessionSubscriptions>,
    /// True if the session was found in the store and its settings have not reached its servers yet.
    restored: AtomicBool,
    /// True once the store may have a row for it.
    stored: AtomicBool,
    last_seen: AtomicI64,
    changed: AtomicBool,
    changes_in_calls: ChangesInCalls,
}

/// The origin of a session.
#[derive(Debug)]
pub(crate) struct SessionOrigin {
    pub(crate) id: SessionId,
    pub(crate) address: SessionAddress,
    pub(crate) owner: Arc<Caller>,
    pub(crate) created: Timestamp,
}

/// The parts of a session that hold its work.
#[derive(Debug)]
pub(crate) struct SessionParts {
    /// The owner's user, for whom calls are counted.
    pub(crate) user: Arc<User>,
    pub(crate) calls: Arc<RunningCalls>,
    /// The server requests that wait for the client.
    pub(crate) requests: Arc<OpenRequests>,
    pub(crate) queue: Arc<ReplayBuffer>,
    pub(crate) answers: AnswerStreams,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
}

/// The running calls of one session or connection. `request_limits` counts them for their user.
#[derive(Debug)]
pub(crate) struct RunningCalls {
    list: Mutex<CallList>,
    /// Cancelled when no more calls may start.
    ended: CancellationToken,
}

/// An entry in the list of running calls. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct CallGuard {
    calls: Arc<RunningCalls>,
    serial: u64,
}

#[derive(Debug, Default)]
struct CallList {
    /// The entries, ordered by serial number.
    running: Vec<ListedCall>,
    last: u64,
}

/// A call on the list.
#[derive(Debug)]
struct ListedCall {
    serial: u64,
    /// The request id that the client would cancel it with, and the reason for its server; `None` if it cannot be
    /// cancelled.
    cancelled_by: Option<(RequestId, CancelReason)>,
    cancelled: bool,
    waker: Option<Waker>,
}

// === impl Session ===

impl Session {
    /// Creates a session that has no client yet, as HTTP+SSE does.
    pub(crate) fn new(origin: SessionOrigin, parts: SessionParts) -> Self {
        Self {
            id: origin.id,
            address: origin.address,
            owner: origin.owner,
            created: origin.created,
            user: parts.user,
            calls: parts.calls,
            requests: parts.requests,
            queue: parts.queue,
            ended: parts.ended,
            answers: parts.answers,
            listen: Mutex::new(None),
            lease: watch::Sender::new(None),
            deliveries: TaskTracker::new(),
            client: OnceLock::new(),
            recognized: OnceCell::new(),
            presumed: OnceLock::new(),
            initialized: AtomicBool::new(false),
            level: watch::Sender::new(None),
            level_noticed: Notify::new(),
            subscriptions: Mutex::default(),
            restored: AtomicBool::new(false),
            stored: AtomicBool::new(false),
            last_seen: AtomicI64::new(origin.created.as_millis()),
            changed: AtomicBool::new(false),
            changes_in_calls: ChangesInCalls::default(),
        }
    }

    /// Sets the client, from its `initialize`. Returns `false` if it differs from an earlier one, or if the handshake
    /// is already complete. Presumed facts and settings are forgotten.
    pub(crate) fn introduce(&self, client: &ClientInfo, settings: &FrontendSettings) -> bool {
        let mut is_new = false;
        let (known, _) = self.client.get_or_init(|| {
            is_new = true;
            if self.presumed.get().is_some() {
                self.initialized.store(false, Ordering::Release);
                self.forget_settings();
            }
            let profile = settings.profile(client);
            (Arc::new(client.clone()), profile)
        });
        is_new || (**known == *client && !self.is_initialized())
    }

    /// Sets the client of a session found in the store.
    pub(crate) fn set_client(&self, client: ClientInfo, settings: &FrontendSettings) {
        let profile = settings.profile(&client);
        let _ = self.client.set((Arc::new(client), profile));
    }

    /// Sets what is known about a returning client, and skips the handshake. The client may still send `initialize`.
    pub(crate) fn presume(&self, client: ClientInfo, settings: &FrontendSettings) {
        let profile = settings.profile(&client);
        if self.presumed.set((Arc::new(client), profile)).is_ok() {
            self.set_initialized();
        }
    }

    /// The client, once it has sent `initialize` or is recognized.
    pub(crate) fn client(&self) -> Option<&Arc<ClientInfo>> {
        self.said_or_presumed().map(|(client, _)| client)
    }

    /// Treatment of members that the client's version does not define.
    pub(crate) fn profile(&self) -> Profile {
        self.said_or_presumed().map_or_else(Profile::default, |(_, profile)| *profile)
    }

    fn said_or_presumed(&self) -> Option<&(Arc<ClientInfo>, Profile)> {
        self.client.get().or_else(|| self.presumed.get())
    }

    /// The negotiated version; before that, [`Revision::ASSUMED`].
    pub(crate) fn revision(&self) -> Revision {
        self.client().map_or(Revision::ASSUMED, |client| client.revision)
    }

    /// Returns `true` after `notifications/initialized`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Records `notifications/initialized`; `false` if it was recorded before.
    pub(crate) fn set_initialized(&self) -> bool {
        self.changed.store(true, Ordering::Release);
        !self.initialized.swap(true, Ordering::AcqRel)
    }

    /// Returns `true` once if the session's settings must be sent to the servers again.
    pub(crate) fn take_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire) && self.restored.swap(false, Ordering::AcqRel)
    }

    /// Records that the row is about to be stored. Call this before the row is written, so that a later end of the
    /// session deletes it.
    pub(crate) fn set_stored(&self) {
        self.stored.store(true, Ordering::SeqCst);
    }

    /// True if the store may have a row for it.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored.load(Ordering::SeqCst)
    }

    pub(crate) fn touch(&self, now: Timestamp) {
        if self.last_seen.swap(now.as_millis(), Ordering::AcqRel) != now.as_millis() {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// The time of the last activity.
    pub(crate) fn last_seen(&self) -> Timestamp {
        Timestamp::from_millis(self.last_seen.load(Ordering::Acquire))
    }

    /// True if the session is a connection, with one stream for everything.
    pub(crate) fn is_connection(&self) -> bool {
        self.address.binding.is_connection()
    }

    /// True if a call is running or a stream is open.
    pub(crate) fn is_active(&self) -> bool {
        !self.calls.is_empty() || self.queue.open_streams() > 0
    }

    /// Returns `true` once for a change that the store does not have yet.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Records that a change could not be written.
    pub(crate) fn set_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

// === impl RunningCalls ===

impl RunningCalls {
    /// Creates an empty list. A call that begins after `ended` is cancelled at once.
    pub(crate) fn new(ended: CancellationToken) -> Arc<Self> {
        Arc::new(Self { list: Mutex::default(), ended })
    }

    /// Adds a call to the list. Without an id, the client cannot cancel it.
    pub(crate) fn begin(self: &Arc<Self>, cancelled_by: Option<(RequestId, CancelReason)>) -> CallGuard {
        let mut list = self.list.lock();
        list.last += 1;
        let serial = list.last;
        list.running.push(ListedCall { serial, cancelled_by, cancelled: self.ended.is_cancelled(), waker: None });
        CallGuard { calls: Arc::clone(self), serial }
    }

    /// Cancels the call with this id. If several calls have the id, none is cancelled, because the target is ambiguous.
    /// If no call has it, the call has ended.
    pub(crate) fn cancel(&self, id: &RequestId, reason: Option<&str>) {
        let mut list = self.list.lock();
        let mut named = list
            .running
            .iter_mut()
            .filter(|listed| listed.cancelled_by.as_ref().is_some_and(|(running, _)| running == id));
        match (named.next(), named.next()) {
            (Some(call), None) => {
                if let (Some(reason), Some((_, cancel_reason))) = (reason, &call.cancelled_by) {
                    cancel_reason.say(reason);
                }
                let waker = call.cancel();
                drop(list);
                waker.into_iter().for_each(Waker::wake);
            }
            (Some(_), Some(_)) => metrics::counter!("lockkeeper_frontend_ambiguous_cancels_total").increment(1),
            (None, _) => {}
        }
    }

    /// Cancels the call named by the parameters of `notifications/cancelled`.
    pub(crate) fn cancel_named(&self, params: &Bytes) {
        let Some(params) = Object::parse(params) else { return };
        let id = params.get("requestId").map(|id| Bytes::copy_from_slice(id.as_bytes()));
        if let Some(id) = id.and_then(|id| RequestId::read(&id)) {
            self.cancel(&id, params.string("reason").as_deref());
        }
    }

    /// Cancels every call. Used after `ended` is cancelled.
    pub(crate) fn cancel_all(&self) {
        let wakers: Vec<Waker> = self.list.lock().running.iter_mut().filter_map(ListedCall::cancel).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns `true` if no call runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.lock().running.is_empty()
    }
}

// === impl ListedCall ===

impl ListedCall {
    /// Cancels the call, and returns the waker of its task.
    fn cancel(&mut self) -> Option<Waker> {
        self.cancelled = true;
        self.waker.take()
    }
}

// === impl CallGuard ===

impl CallGuard {
    /// Ready when the client cancels the call, or all calls end.
    pub(crate) fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut list = self.calls.list.lock();
        let Some(call) = list.position(self.serial).and_then(|at| list.running.get_mut(at)) else {
            return Poll::Ready(());
        };
        if call.cancelled {
            return Poll::Ready(());
        }
        match &mut call.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut list = self.calls.list.lock();
        if let Some(at) = list.position(self.serial) {
            list.running.remove(at);
        }
    }
}

// === impl CallList ===

impl CallList {
    fn position(&self, serial: u64) -> Option<usize> {
        self.running.binary_search_by_key(&serial, |listed| listed.serial).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_running(guard: &CallGuard) -> bool {
        guard.poll_cancelled(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[test]
    fn a_cancel_that_could_mean_two_calls_cancels_none() {
        let calls = RunningCalls::new(CancellationToken::new());
        let cancel_reason = CancelReason::default();
        let begin = || calls.begin(Some((RequestId::number(1), cancel_reason.clone())));
        let (one, two) = (begin(), begin());
        calls.cancel(&RequestId::number(1), Some("both?"));
        assert!(is_running(&one) && is_running(&two));
        drop(one);
        calls.cancel(&RequestId::number(1), Some("this one"));
        assert!(!is_running(&two));
        assert_eq!(cancel_reason.reason(), "this one");
    }

    #[test]
    fn the_end_cancels_every_call_and_those_that_begin_later() {
        let ended = CancellationToken::new();
        let calls = RunningCalls::new(ended.clone());
        let one = calls.begin(None);
        assert!(is_running(&one));
        ended.cancel();
        calls.cancel_all();
        assert!(!is_running(&one) && !is_running(&calls.begin(None)));
    }
}
