//! One MCP session of a legacy client: its state. Knows nothing of transports and of the table that it stands in.

pub(crate) mod calls;
pub(crate) mod exchange;
pub(crate) mod inbound;
mod initialize;
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
    server_requests::Questions,
};
use crate::{
    mcp::{ClientInfo, Level, Revision},
    model::{Caller, Endpoint, SessionId},
    support::Timestamp,
};

/// How many resources one client can be subscribed to.
const MOST_SUBSCRIPTIONS: usize = 1_000;
/// The longest URI that is kept, in bytes; longer ones can be subscribed to until the gateway restarts.
const LONGEST_URI: usize = 8 * 1024;

/// One session: who it belongs to, what its client said of itself, and what runs in it.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id, as the client knows it.
    pub(crate) id: SessionId,
    /// Where it was opened, and where alone it can be used.
    pub(crate) endpoint: Endpoint,
    /// Who opened it.
    pub(crate) owner: Arc<Caller>,
    /// When it was opened.
    pub(crate) created: Timestamp,
    /// What runs.
    pub(crate) calls: Arc<RunningCalls>,
    /// What its client is asked.
    pub(crate) questions: Arc<Questions>,
    /// What waits for its standalone streams.
    pub(crate) queue: Arc<ReplayBuffer>,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
    /// The answers that it streams.
    pub(crate) answers: AnswerStreams,
    /// Whose listen is open, and what ends it.
    pub(crate) listen: Mutex<Option<(Arc<Caller>, CancellationToken)>>,
    client: OnceLock<Arc<ClientInfo>>,
    initialized: AtomicBool,
    level: Mutex<Option<Level>>,
    subscriptions: Mutex<BTreeSet<String>>,
    /// Whether it was found in the store and its servers do not know yet.
    revived: AtomicBool,
    /// Whether the store has its row, or is being given it.
    kept: AtomicBool,
    seen: AtomicI64,
    changed: AtomicBool,
}

/// What a session is made of.
#[derive(Debug)]
pub(crate) struct Opening {
    /// Its id.
    pub(crate) id: SessionId,
    /// Where it was opened.
    pub(crate) endpoint: Endpoint,
    /// Who opens it.
    pub(crate) owner: Arc<Caller>,
    /// When.
    pub(crate) created: Timestamp,
}

/// What holds the work of a session.
#[derive(Debug)]
pub(crate) struct Holders {
    /// Its calls.
    pub(crate) calls: Arc<RunningCalls>,
    /// Its questions.
    pub(crate) questions: Arc<Questions>,
    /// Its queue.
    pub(crate) queue: Arc<ReplayBuffer>,
    /// The answers that it streams.
    pub(crate) answers: AnswerStreams,
    /// What ends it.
    pub(crate) ended: CancellationToken,
}

// === impl Session ===

impl Session {
    /// A session without client, as HTTP+SSE opens it.
    pub(crate) fn new(opening: Opening, holders: Holders) -> Self {
        Self {
            id: opening.id,
            endpoint: opening.endpoint,
            owner: opening.owner,
            created: opening.created,
            calls: holders.calls,
            questions: holders.questions,
            queue: holders.queue,
            ended: holders.ended,
            answers: holders.answers,
            listen: Mutex::new(None),
            client: OnceLock::new(),
            initialized: AtomicBool::new(false),
            level: Mutex::new(None),
            subscriptions: Mutex::default(),
            revived: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            seen: AtomicI64::new(opening.created.as_millis()),
            changed: AtomicBool::new(false),
        }
    }

    /// Says who the client is; `false` where that was said before.
    pub(crate) fn introduce(&self, client: ClientInfo) -> bool {
        self.client.set(Arc::new(client)).is_ok()
    }

    /// The client, once it has introduced itself.
    pub(crate) fn client(&self) -> Option<&Arc<ClientInfo>> {
        self.client.get()
    }

    /// The negotiated version; before that the one of the transport's own time.
    pub(crate) fn revision(&self) -> Revision {
        self.client().map_or(Revision::ASSUMED, |client| client.revision)
    }

    /// Whether `notifications/initialized` came.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Notes that `notifications/initialized` came; `false` where it had come before.
    pub(crate) fn set_initialized(&self) -> bool {
        self.changed.store(true, Ordering::Release);
        !self.initialized.swap(true, Ordering::AcqRel)
    }

    /// The lowest level of log messages that the client wants; `None` where it has not said.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the lowest level of log messages that the client wants.
    pub(crate) fn set_level(&self, level: Option<Level>) {
        *self.level.lock() = level;
        self.changed.store(true, Ordering::Release);
    }

    /// The resources that the client is subscribed to.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        self.subscriptions.lock().iter().cloned().collect()
    }

    /// Whether the client can be subscribed to `uri` too.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        let subscriptions = self.subscriptions.lock();
        subscriptions.len() < MOST_SUBSCRIPTIONS || subscriptions.contains(uri)
    }

    /// Notes that the client is subscribed to `uri`.
    pub(crate) fn subscribed(&self, uri: String) {
        if uri.len() <= LONGEST_URI && self.may_subscribe(&uri) && self.subscriptions.lock().insert(uri) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Notes that the client is not subscribed to `uri` any more.
    pub(crate) fn unsubscribed(&self, uri: &str) {
        if self.subscriptions.lock().remove(uri) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Gives the session back what its client had set in the process before this one.
    pub(crate) fn revive(&self, level: Option<Level>, subscriptions: Vec<String>) {
        *self.level.lock() = level;
        *self.subscriptions.lock() = subscriptions.into_iter().take(MOST_SUBSCRIPTIONS).collect();
        self.revived.store(true, Ordering::Release);
    }

    /// Whether the servers have yet to be told what the client had set; asked once.
    pub(crate) fn take_revived(&self) -> bool {
        self.revived.load(Ordering::Acquire) && self.revived.swap(false, Ordering::AcqRel)
    }

    /// Notes that the store is given its row. To be called before the row is written, so that whoever ends the session
    /// afterwards knows of it.
    pub(crate) fn set_kept(&self) {
        self.kept.store(true, Ordering::SeqCst);
    }

    /// Whether the store may have its row.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::SeqCst)
    }

    /// Notes a sign of activity.
    pub(crate) fn touch(&self, now: Timestamp) {
        if self.seen.swap(now.as_millis(), Ordering::AcqRel) != now.as_millis() {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// The last sign of activity.
    pub(crate) fn last_seen(&self) -> Timestamp {
        Timestamp::from_millis(self.seen.load(Ordering::Acquire))
    }

    /// Whether the session is its connection, with one stream for everything.
    pub(crate) fn is_connection(&self) -> bool {
        self.endpoint.binding.is_connection()
    }

    /// Whether a call runs or a stream is open.
    pub(crate) fn is_active(&self) -> bool {
        !self.calls.is_empty() || self.queue.open_streams() > 0
    }

    /// Whether something changed that the store does not know yet; asked once a change.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Notes that the store could not be told.
    pub(crate) fn keep_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }
}
