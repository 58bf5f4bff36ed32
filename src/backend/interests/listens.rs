//! Hearers of a backend's notifications outside of calls: listens at it, and the clients that hear all servers at once. Knows
//! nothing of connections; a listen outlives them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use crate::{
    backend::{
        sharing::connection_key::{ConnectionKey, KeyRule, SharingScope},
        start::era::BackendEra,
    },
    mcp::{
        Context, Event, HeardEvent, ListKind, Method, Notification, Payload, Revision, ServerRequest,
        hearers::{Addressees, AnnouncingServer, Hearer, Hearers, HearersOf, LeftBehind, QUEUE},
    },
    model::{BackendId, Caller, Requester, UserId},
    support::{
        Account,
        byte_queue::{QueueReceiver, QueueSender, byte_queue},
    },
};
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;

/// Those who hear one backend. What waits for them is charged to the server.
pub(crate) struct Listens {
    sharers: Mutex<HashMap<ConnectionKey, SharerListens>>,
    server: AnnouncingServer,
    era: BackendEra,
    keys: KeyRule,
    /// The clients that hear all servers.
    hearers: Arc<Hearers>,
    /// The user whose server it is, if it is not everybody's: no other user's clients hear it.
    user: Option<UserId>,
    itself: Weak<Self>,
}

/// The listens of one sharer, and what is known for all who hear it; never empty.
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
    /// No listens yet, at the server with this account. Its connections have the keys of `keys`; those of the `hearers` who see
    /// it hear it too, if it is everybody's or their own.
    pub(crate) fn new(
        (backend, account): (&BackendId, Account),
        (era, keys): (BackendEra, &KeyRule),
        (hearers, user): (Arc<Hearers>, Option<UserId>),
    ) -> Arc<Self> {
        let server = AnnouncingServer { backend: Arc::new(backend.clone()), account };
        let keys = keys.clone();
        Arc::new_cyclic(|itself| Self {
            sharers: Mutex::default(),
            server,
            era,
            keys,
            hearers,
            user,
            itself: Weak::clone(itself),
        })
    }

    /// Notifications for the client of `context` from the connections of `key`: those of the methods in `only`, or all and
    /// server requests if it is empty. The stream does not end by itself.
    pub(crate) fn listen(
        self: &Arc<Self>,
        key: &ConnectionKey,
        context: &Context,
        only: Vec<Method>,
    ) -> impl Stream<Item = Event> + Send + use<> {
        let (events, receiver) = byte_queue(QUEUE, self.server.account.clone());
        let key = key.sharer();
        let (holder, caller) = (context.requester.clone(), Arc::clone(&context.caller));
        self.sharers.lock().entry(key.clone()).or_default().senders.push(ListenSender { holder, caller, only, events });
        let guard = ListenGuard { listens: Arc::clone(self), key, receiver };
        stream::unfold(guard, async |mut guard| guard.receiver.next().await.map(|event| (event, guard))).fuse()
    }

    /// The event that a client heard, if this server told it.
    pub(crate) fn taken(&self, heard: &HeardEvent) -> Option<Event> {
        heard.take(&self.server.backend)
    }

    /// At most so many of the clients that hear all servers, and this one at `key`, of these addressees.
    fn hearers(&self, key: &ConnectionKey, addressees: &Addressees, most: usize) -> Vec<Arc<Hearer>> {
        let Some(era) = self.era.now() else { return Vec::new() };
        let scope = match (&key.scope, &self.user) {
            (SharingScope::Catalog, _) => return Vec::new(),
            (SharingScope::Session(session), _) => HearersOf::Session(session),
            (SharingScope::User(user), _) | (_, Some(user)) => HearersOf::User(user),
            (SharingScope::Base | SharingScope::Sole | SharingScope::All, None) => HearersOf::All,
        };
        let is_at = |context: &Context| self.keys.key(era, context).is_of_sharer(key);
        self.hearers.of(&scope, (addressees, most), &self.server.backend, is_at)
    }

    /// True if none of those clients hears this server at `key`.
    fn is_unheard(&self, key: &ConnectionKey) -> bool {
        self.hearers(key, &Addressees::All, 1).is_empty()
    }

    /// Delivers a notification to its addressees at `key`. Returns true if there was one.
    pub(crate) fn notify(&self, key: &ConnectionKey, notification: &Notification, addressees: &Addressees) -> bool {
        let (sharer_key, is_change) = (key.sharer(), !ListKind::changed_by(&notification.method).is_empty());
        let mut listens = self.sharers.lock();
        let all = if is_change { &Addressees::All } else { addressees };
        let hearers = self.hearers(&sharer_key, all, usize::MAX);
        if is_change {
            let itself: Weak<dyn LeftBehind> = Weak::<Self>::clone(&self.itself);
            if hearers.iter().filter(|hearer| hearer.leaves_trace_at(&itself)).count() > 0 {
                listens.entry(sharer_key.clone()).or_default();
            }
        }
        let told = || Event::Notified(notification.clone());
        let (mut heard, mut dropped) = (false, 0);
        if let Some(sharer) = listens.get_mut(&sharer_key) {
            sharer.note_change(&notification.method, key.slot());
            let is_of_it =
                |listener: &&ListenSender| listener.only.is_empty() || listener.only.contains(&notification.method);
            for listener in sharer.senders.iter().filter(is_of_it).filter(|one| addressees.has(&one.holder)) {
                heard = true;
                dropped += u64::from(listener.events.send(told()).is_err());
            }
        }
        for hearer in hearers.iter().filter(|hearer| addressees.has(&hearer.context.requester)) {
            heard = true;
            dropped += u64::from(hearer.send(&self.server, told()).is_err());
        }
        drop(listens);
        if dropped > 0 {
            metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(dropped);
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

    /// Notifies all who hear `key` that every list may have changed: the server was replaced.
    pub(crate) fn notify_lists_changed(&self, key: &ConnectionKey) {
        for method in ListKind::CHANGES {
            let notification = Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) };
            self.notify(key, &notification, &Addressees::All);
        }
    }

    /// Passes a server request to the only client that hears `key`, if `may_concern` holds for its caller. If there are
    /// several, or it is another caller's, the request is dropped, and so refused: it never goes to a guess (design rule 4).
    ///
    /// # Errors
    ///
    /// Returns the request if nobody hears it.
    pub(crate) fn forward_request(
        &self,
        key: &ConnectionKey,
        question: ServerRequest,
        may_concern: impl Fn(&Caller) -> bool,
    ) -> Result<(), ServerRequest> {
        let key = key.sharer();
        let listens = self.sharers.lock();
        let hearers = self.hearers(&key, &Addressees::All, 2);
        let senders = listens.get(&key).map(|sharer| &sharer.senders);
        let mut able = senders.into_iter().flatten().filter(|listener| listener.only.is_empty());
        // a full queue drops the request, which refuses it
        match (able.next(), able.next(), hearers.as_slice()) {
            (None, _, []) => return Err(question),
            (Some(listener), None, []) if may_concern(&listener.caller) => {
                drop(listener.events.send(Event::Asked(question)));
            }
            (None, _, [hearer]) if may_concern(&hearer.context.caller) => {
                drop(hearer.send(&self.server, Event::Asked(question)));
            }
            _ => {}
        }
        Ok(())
    }
}

impl LeftBehind for Listens {
    fn left(&self, context: &Context) {
        for key in self.keys.keys(context) {
            let mut listens = self.sharers.lock();
            let is_left = listens.get(&key).is_some_and(|sharer| sharer.senders.is_empty());
            if is_left && self.is_unheard(&key) {
                listens.remove(&key);
            }
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
            let is_last = sharer.senders.is_empty();
            if is_last && (sharer.changed.is_empty() || self.listens.is_unheard(&self.key)) {
                listens.remove(&self.key);
            }
        }
    }
}
