//! One MCP session of a client with a handshake: its state. Knows nothing of transports and of the table of sessions.

mod call_requests;
pub(crate) mod calls;
pub(crate) mod exchange;
pub(crate) mod inbound;
pub(crate) mod initialize;
mod listen;
mod settings;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use self::calls::RunningCalls;
use super::{
    replay::{ReplayBuffer, streams::AnswerStreams},
    server_requests::OpenRequests,
};
use crate::{
    mcp::{ClientInfo, Level, Revision},
    model::{Caller, Endpoint, SessionId},
    support::Timestamp,
};

/// The bound of one client's subscriptions.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI that is stored, in bytes; subscriptions to longer ones last until the gateway restarts.
const MAX_URI: usize = 8 * 1024;

/// One session: its owner, its client, and everything that runs in it.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id toward the client.
    pub(crate) id: SessionId,
    /// The endpoint at which it was opened, and at which alone it can be used.
    pub(crate) endpoint: Endpoint,
    /// The caller that opened it.
    pub(crate) owner: Arc<Caller>,
    /// The time at which it was opened.
    pub(crate) created: Timestamp,
    /// The calls that run.
    pub(crate) calls: Arc<RunningCalls>,
    /// The servers' requests that wait for its client.
    pub(crate) requests: Arc<OpenRequests>,
    /// Messages for its standalone streams.
    pub(crate) queue: Arc<ReplayBuffer>,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
    /// The answers that it streams.
    pub(crate) answers: AnswerStreams,
    /// The caller whose listen is open, and the token that ends it.
    pub(crate) listen: Mutex<Option<(Arc<Caller>, CancellationToken)>>,
    client: OnceLock<Arc<ClientInfo>>,
    initialized: AtomicBool,
    level: Mutex<Option<Level>>,
    subscriptions: Mutex<BTreeSet<String>>,
    /// Set if it was found in the store, and its servers have yet to get its settings.
    restored: AtomicBool,
    /// Set once the store may have its row.
    stored: AtomicBool,
    last_seen: AtomicI64,
    changed: AtomicBool,
}

/// The origin of a session.
#[derive(Debug)]
pub(crate) struct SessionOrigin {
    /// Its id.
    pub(crate) id: SessionId,
    /// The endpoint.
    pub(crate) endpoint: Endpoint,
    /// The caller.
    pub(crate) owner: Arc<Caller>,
    /// The time.
    pub(crate) created: Timestamp,
}

/// The parts of a session that hold its work.
#[derive(Debug)]
pub(crate) struct SessionParts {
    /// Its calls.
    pub(crate) calls: Arc<RunningCalls>,
    /// The servers' requests that wait for its client.
    pub(crate) requests: Arc<OpenRequests>,
    /// Its queue.
    pub(crate) queue: Arc<ReplayBuffer>,
    /// The answers that it streams.
    pub(crate) answers: AnswerStreams,
    /// Cancelled when it ends.
    pub(crate) ended: CancellationToken,
}

// === impl Session ===

impl Session {
    /// A session without client, as HTTP+SSE opens it.
    pub(crate) fn new(origin: SessionOrigin, parts: SessionParts) -> Self {
        Self {
            id: origin.id,
            endpoint: origin.endpoint,
            owner: origin.owner,
            created: origin.created,
            calls: parts.calls,
            requests: parts.requests,
            queue: parts.queue,
            ended: parts.ended,
            answers: parts.answers,
            listen: Mutex::new(None),
            client: OnceLock::new(),
            initialized: AtomicBool::new(false),
            level: Mutex::new(None),
            subscriptions: Mutex::default(),
            restored: AtomicBool::new(false),
            stored: AtomicBool::new(false),
            last_seen: AtomicI64::new(origin.created.as_millis()),
            changed: AtomicBool::new(false),
        }
    }

    /// Sets the client; `false` if it is set already.
    pub(crate) fn set_client(&self, client: ClientInfo) -> bool {
        self.client.set(Arc::new(client)).is_ok()
    }

    /// The client, once it has sent `initialize`.
    pub(crate) fn client(&self) -> Option<&Arc<ClientInfo>> {
        self.client.get()
    }

    /// The negotiated version; before that the one of the transport's own time.
    pub(crate) fn revision(&self) -> Revision {
        self.client().map_or(Revision::ASSUMED, |client| client.revision)
    }

    /// Returns `true` after `notifications/initialized`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Notes `notifications/initialized`; `false` if it came before.
    pub(crate) fn set_initialized(&self) -> bool {
        self.changed.store(true, Ordering::Release);
        !self.initialized.swap(true, Ordering::AcqRel)
    }

    /// The lowest level of log messages that the client wants; `None` if it set none.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Sets the lowest level of log messages that the client wants.
    pub(crate) fn set_level(&self, level: Option<Level>) {
        *self.level.lock() = level;
        self.changed.store(true, Ordering::Release);
    }

    /// The client's subscriptions.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        self.subscriptions.lock().iter().cloned().collect()
    }

    /// Returns `true` if the client may subscribe to `uri`.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        let subscriptions = self.subscriptions.lock();
        subscriptions.len() < MAX_SUBSCRIPTIONS || subscriptions.contains(uri)
    }

    /// Adds a subscription.
    pub(crate) fn add_subscription(&self, uri: String) {
        if uri.len() <= MAX_URI && self.may_subscribe(&uri) && self.subscriptions.lock().insert(uri) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Removes a subscription.
    pub(crate) fn remove_subscription(&self, uri: &str) {
        if self.subscriptions.lock().remove(uri) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Restores the settings of the process before this one.
    pub(crate) fn restore(&self, level: Option<Level>, subscriptions: Vec<String>) {
        *self.level.lock() = level;
        *self.subscriptions.lock() = subscriptions.into_iter().take(MAX_SUBSCRIPTIONS).collect();
        self.restored.store(true, Ordering::Release);
    }

    /// Returns `true` once if the servers have yet to get the session's settings.
    pub(crate) fn take_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire) && self.restored.swap(false, Ordering::AcqRel)
    }

    /// Notes that the store is given its row. To be called before the row is written, so that whoever ends the session
    /// afterwards knows of it.
    pub(crate) fn set_stored(&self) {
        self.stored.store(true, Ordering::SeqCst);
    }

    /// Returns `true` if the store may have its row.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored.load(Ordering::SeqCst)
    }

    /// Notes activity.
    pub(crate) fn touch(&self, now: Timestamp) {
        if self.last_seen.swap(now.as_millis(), Ordering::AcqRel) != now.as_millis() {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// The time of the last activity.
    pub(crate) fn last_seen(&self) -> Timestamp {
        Timestamp::from_millis(self.last_seen.load(Ordering::Acquire))
    }

    /// Returns `true` if the session is its connection, with one stream for everything.
    pub(crate) fn is_connection(&self) -> bool {
        self.endpoint.binding.is_connection()
    }

    /// Returns `true` if a call runs or a stream is open.
    pub(crate) fn is_active(&self) -> bool {
        !self.calls.is_empty() || self.queue.open_streams() > 0
    }

    /// Returns `true` once for a change that the store does not have yet.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Notes that a change could not be written.
    pub(crate) fn set_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }
}
