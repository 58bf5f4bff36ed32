//! One connection to one server of 2026-07-28: its open requests, and its end.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Introduction, call::Running, listening::Listening};
use crate::{
    backend::{
        background::BackgroundSender,
        end::End,
        key::Key,
        listens::Listens,
        pending::Pending,
        question_slots::LINGER,
        task_group::TaskGroup,
        transport::{Incoming, Transport, pump},
        wants::Wants,
    },
    mcp::{ErrorObject, Event, Level, Revision},
    model::{BackendId, Delivery, TransportAbilities},
};

/// The version that is spoken on it.
pub(super) const SPOKEN: Revision = Revision::V2026_07_28;

/// One connection to one server of 2026-07-28.
pub(crate) struct Peer {
    /// Whose it is.
    pub(crate) about: About,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) calls: Pending<Running>,
    pub(super) background: BackgroundSender,
    pub(super) listening: Listening,
    /// Which log messages the calls wanted that were given up of late, and until when the server may still tell them.
    lingering: Mutex<HashMap<u64, (Level, Instant)>>,
    introduction: ArcSwapOption<Introduction>,
    /// Whether the log says that the server sends requests, which its version does not have.
    pub(super) sent_request: AtomicBool,
    end: End,
}

/// Whose connection it is, and what it belongs to.
pub(crate) struct About {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Who shares it.
    pub(crate) key: Key,
    /// What its transport can do.
    pub(crate) abilities: TransportAbilities,
    /// Whether it takes the place of one that was lost.
    pub(crate) is_another: bool,
    /// Who is told what comes outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// What the clients want.
    pub(crate) wants: Arc<Wants>,
    /// Where its tasks run.
    pub(crate) tasks: TaskGroup,
}

impl Peer {
    /// A connection that has just been made. What comes on it is received from now on.
    pub(crate) fn begin(about: About, transport: Arc<dyn Transport>, incoming: Incoming) -> Arc<Self> {
        let end = End::within(about.tasks.end());
        transport.negotiated(SPOKEN);
        let background = BackgroundSender::new(&about.backend, &transport, &about.tasks, end.token());
        let peer = Arc::new(Self {
            about,
            transport,
            calls: Pending::default(),
            background,
            listening: Listening::default(),
            lingering: Mutex::default(),
            introduction: ArcSwapOption::empty(),
            sent_request: AtomicBool::new(false),
            end,
        });
        peer.about.tasks.spawn(Arc::clone(&peer).pump(incoming));
        peer
    }

    /// What the server said of itself; `None` before it was asked.
    pub(crate) fn introduction(&self) -> Option<Arc<Introduction>> {
        self.introduction.load_full()
    }

    /// Takes note of what the server says of itself, and begins to listen where it has something to tell.
    pub(crate) fn introduced(self: &Arc<Self>, introduction: Introduction) {
        if self.introduction.swap(Some(Arc::new(introduction))).is_some() {
            // it may have other things to tell now
            self.want_anew();
        } else {
            let (peer, end) = (Arc::clone(self), self.end_token());
            self.about.tasks.spawn(async move {
                end.run_until_cancelled(peer.listen()).await;
            });
        }
    }

    /// Enters a request that is about to be sent.
    ///
    /// # Errors
    ///
    /// Why none can be made any more.
    pub(super) fn enter(&self, running: Running) -> Result<(u64, mpsc::Receiver<Event>), String> {
        self.calls.open(running, &self.end)
    }

    /// Cancelled when the connection is over.
    pub(super) fn end_token(&self) -> CancellationToken {
        self.end.token().clone()
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.end.has_come()
    }

    /// Waits for the end of the connection and tells its reason.
    pub(crate) async fn over(&self) -> String {
        self.end.over().await
    }

    /// Why the connection is over.
    pub(crate) fn reason(&self) -> String {
        self.end.reason()
    }

    /// The last lines that the server wrote beside the protocol.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.transport.stderr_tail()
    }

    /// Ends the connection. Calls that run fail, and may be tried again by the client.
    pub(crate) fn end(&self, reason: &str) {
        self.end.comes(reason);
        self.calls.fail_all(&self.lost_error());
    }

    /// Notes that a call was given up: on a channel that several clients share, what the server still logs of it is not to
    /// be taken for another's.
    pub(super) fn given_up(&self, call: u64, level: Option<Level>) {
        let Some(level) = level.filter(|_| self.about.abilities.delivery == Delivery::Channel) else { return };
        if !self.about.key.is_of_one_client() {
            let (mut lingering, now) = (self.lingering.lock(), Instant::now());
            lingering.retain(|_, (_, until)| *until > now);
            lingering.insert(call, (level, now + LINGER));
        }
    }

    /// Notes that the server has answered a call that was given up: it says nothing more of it.
    pub(super) fn answered_late(&self, call: u64) {
        self.lingering.lock().remove(&call);
    }

    /// Whether a log message of this level may be of a call that was given up.
    pub(super) fn may_linger(&self, level: Option<Level>) -> bool {
        let now = Instant::now();
        let may = |(lowest, until): &(Level, Instant)| *until > now && level.is_none_or(|level| level >= *lowest);
        self.lingering.lock().values().any(may)
    }

    /// The error of a call that the end of this connection left without an answer.
    pub(super) fn lost_error(&self) -> ErrorObject {
        self.end.error(&self.about.backend)
    }

    /// Receives what comes outside of exchanges until the connection is over, then closes it.
    async fn pump(self: Arc<Self>, mut incoming: Incoming) {
        let take = |message| {
            if let Some((call, event)) = self.receive(message, None) {
                self.calls.deliver(call, event);
            }
        };
        let reason = pump(&mut incoming, self.end.token(), take).await;
        self.end(reason.as_deref().unwrap_or("the gateway ended the connection"));
        drop(incoming);
        self.transport.close().await;
    }
}
