//! Listens: receivers of a backend's notifications outside of calls. Knows nothing of connections; a listen outlives
//! them.

use std::{collections::HashMap, sync::Arc};

use crate::{
    backend::sharing::connection_key::ConnectionKey,
    mcp::{Context, Event, ListKind, Method, Notification, Payload, Revision, ServerRequest},
    model::{Caller, Requester},
    support::{
        Account,
        byte_queue::{Bounds, QueueReceiver, QueueSender, byte_queue},
    },
};
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;

/// Events that may wait for a slow listener; further ones are dropped and counted.
const QUEUE: Bounds = Bounds { messages: 256, bytes: 1024 * 1024 };

/// The listens at one backend, by sharer. What waits for them is charged to the server.
pub(crate) struct Listens {
    sharers: Mutex<HashMap<ConnectionKey, SharerListens>>,
    account: Account,
}

/// The listens of one sharer; at least one.
#[derive(Default)]
struct SharerListens {
    senders: Vec<ListenSender>,
    /// The slot whose connection was the last to send a notification of this method, if that says that a list changed.
    changed: Vec<(Method, usize)>,
}

/// Sender of one listen.
struct ListenSender {
    holder: Requester,
    caller: Arc<Caller>,
    /// The methods of its notifications; if empty, all, and server requests too.
    only: Vec<Method>,
    events: QueueSender<Event>,
}

impl Listens {
    /// No listens yet, at the server with this account.
    pub(crate) fn new(account: Account) -> Arc<Self> {
        Arc::new(Self { sharers: Mutex::default(), account })
    }

    /// Notifications for the client of `context` from the connections of `key`: those of the methods in `only`, or all and
    /// server requests if it is empty. The stream does not end by itself.
    pub(crate) fn listen(
        self: &Arc<Self>,
        key: &ConnectionKey,
        context: &Context,
        only: Vec<Method>,
    ) -> impl Stream<Item = Event> + Send + use<> {
        let (events, receiver) = byte_queue(QUEUE, self.account.clone());
        let key = key.sharer();
        let (holder, caller) = (context.requester.clone(), Arc::clone(&context.caller));
        self.sharers.lock().entry(key.clone()).or_default().senders.push(ListenSender { holder, caller, only, events });
        let guard = ListenGuard { listens: Arc::clone(self), key, receiver };
        stream::unfold(guard, async |mut guard| guard.receiver.next().await.map(|event| (event, guard))).fuse()
    }

    /// Delivers a notification to the listens at `key` that `is_for` selects. Returns true if there was one.
    pub(crate) fn notify(
        &self,
        key: &ConnectionKey,
        notification: &Notification,
        is_for: impl Fn(&Requester) -> bool,
    ) -> bool {
        let mut listens = self.sharers.lock();
        let Some(sharer) = listens.get_mut(&key.sharer()) else { return false };
        sharer.note_change(&notification.method, key.slot());
        let is_of_it =
            |listener: &&ListenSender| listener.only.is_empty() || listener.only.contains(&notification.method);
        let mut heard = false;
        for listener in sharer.senders.iter().filter(is_of_it).filter(|listener| is_for(&listener.holder)) {
            heard = true;
            if listener.events.send(Event::Notified(notification.clone())).is_err() {
                metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(1);
            }
        }
        heard
    }

    /// The connection to ask for a list by `method`: the one of `key`'s sharer that was the last to say that it changed.
    /// `None` if none did since somebody listens. The other connections lead to processes in which it may not have
    /// changed.
    pub(crate) fn changed_at(&self, key: &ConnectionKey, method: &Method) -> Option<ConnectionKey> {
        let told = ListKind::listed_by(method)?.change();
        let listens = self.sharers.lock();
        let changed = &listens.get(&key.sharer())?.changed;
        let (_, slot) = changed.iter().find(|(method, _)| *method == told)?;
        Some(key.in_slot(*slot))
    }

    /// Notifies all listens at `key` that every list may have changed: the server was replaced.
    pub(crate) fn notify_lists_changed(&self, key: &ConnectionKey) {
        for method in ListKind::CHANGES {
            self.notify(key, &Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) }, |_| true);
        }
    }

    /// Passes a server request to the only listen at `key`, if `may_concern` holds for its caller. If there are several
    /// listens, or it is another caller's, the request is dropped, and so refused: it never goes to a guess (design rule
    /// 4).
    ///
    /// # Errors
    ///
    /// Returns the request if there is no listen.
    pub(crate) fn forward_request(
        &self,
        key: &ConnectionKey,
        question: ServerRequest,
        may_concern: impl Fn(&Caller) -> bool,
    ) -> Result<(), ServerRequest> {
        let listens = self.sharers.lock();
        let senders = listens.get(&key.sharer()).map(|sharer| &sharer.senders);
        let mut able = senders.into_iter().flatten().filter(|listener| listener.only.is_empty());
        match (able.next(), able.next()) {
            (Some(listener), None) if may_concern(&listener.caller) => {
                // a full queue drops the request, which refuses it
                drop(listener.events.send(Event::Asked(question)));
                Ok(())
            }
            (None, _) => Err(question),
            (Some(_), _) => Ok(()),
        }
    }
}

impl SharerListens {
    /// Notes the slot of a notification that a list changed.
    fn note_change(&mut self, method: &Method, slot: usize) {
        if ListKind::changed_by(method).is_empty() {
            return;
        }
        self.changed.retain(|(other, _)| other != method);
        self.changed.push((method.clone(), slot));
    }
}

/// One listen. Dropping it unregisters it.
struct ListenGuard {
    listens: Arc<Listens>,
    key: ConnectionKey,
    receiver: QueueReceiver<Event>,
}

impl Drop for ListenGuard {
    fn drop(&mut self) {
        self.receiver.close();
        let mut listens = self.listens.sharers.lock();
        if let Some(sharer) = listens.get_mut(&self.key) {
            sharer.senders.retain(|listener| !listener.events.is_closed());
            if sharer.senders.is_empty() {
                listens.remove(&self.key);
            }
        }
    }
}
