//! Receivers of a backend's notifications outside of calls: listens at this backend, and clients that follow all
//! servers at once. A listen outlives connections.

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
    model::{Caller, Requester, UserId},
    support::byte_queue::{QueueReceiver, QueueSender, byte_queue},
};
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;

/// Receivers of one backend's notifications. Queued ones are charged to the server's account.
pub(crate) struct Listens {
    sharers: Mutex<HashMap<ConnectionKey, SharerListens>>,
    server: AnnouncingServer,
    era: BackendEra,
    keys: KeyRule,
    /// The clients that follow all servers.
    hearers: Arc<Hearers>,
    /// The user whose server it is: only clients of that user receive its notifications. `None` for a shared server.
    user: Option<UserId>,
    itself: Weak<Self>,
}

/// Listens of one sharer, and what is kept for all its receivers; never empty.
#[derive(Default)]
struct SharerListens {
    senders: Vec<ListenSender>,
    /// By kind of `list_changed`: the slot of the connection that last sent it.
    changed: Vec<(Method, usize)>,
}

/// Sender of one listen.
struct ListenSender {
    holder: Requester,
    caller: Arc<Caller>,
    /// Methods to receive; if empty, all notifications and server requests.
    only: Vec<Method>,
    events: QueueSender<Event>,
}

impl Listens {
    /// Creates an empty set. `keys` says which connection a client uses. If `user` is given, only clients of that user
    /// receive notifications.
    pub(crate) fn new(
        server: AnnouncingServer,
        era: BackendEra,
        keys: KeyRule,
        hearers: Arc<Hearers>,
        user: Option<UserId>,
    ) -> Arc<Self> {
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

    /// Opens a listen of the client of `context`, at the connections of `key`: for notifications of the methods in
    /// `only`, or, if it is empty, for all of them and server requests. The stream does not end by itself.
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

    /// The event of a notification to a client, if it comes from this server.
    pub(crate) fn taken(&self, heard: &HeardEvent) -> Option<Event> {
        heard.take(&self.server.backend)
    }

    /// At most `most` of the clients that follow all servers, use the connections of `key` here and are among
    /// `addressees`.
    fn hearers(&self, key: &ConnectionKey, addressees: &Addressees, most: usize) -> Vec<Arc<Hearer>> {
        let Some(era) = self.era.now() else { return Vec::new() };
        let scope = match (&key.scope, &self.user) {
            (SharingScope::Catalog, _) => return Vec::new(),
            (SharingScope::Session(session), _) => HearersOf::Session(session),
            (SharingScope::User(user), _) | (_, Some(user)) => HearersOf::User(user),
            (SharingScope::Base | SharingScope::Sole | SharingScope::All, None) => HearersOf::All,
        };
        let is_at = |context: &Context| self.keys.key(era, context).is_of_sharer(key);
        self.hearers.of(&scope, addressees, &self.server.backend, most, is_at)
    }

    /// True if no such client uses the connections of `key`.
    fn is_unheard(&self, key: &ConnectionKey) -> bool {
        self.hearers(key, &Addressees::All, 1).is_empty()
    }

    /// Delivers a notification to its addressees at `key`. Returns true if there is at least one.
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

    /// The connection to ask for a list by `method`: the sharer's connection that last sent `list_changed` for it. The
    /// sharer's other processes may still have the old list. `None` if no such notification arrived while clients were
    /// listening.
    pub(crate) fn changed_at(&self, key: &ConnectionKey, method: &Method) -> Option<ConnectionKey> {
        let told = ListKind::listed_by(method)?.change();
        let listens = self.sharers.lock();
        let changed = &listens.get(&key.sharer())?.changed;
        let (_, slot) = changed.iter().find(|(method, _)| *method == told)?;
        Some(key.in_slot(*slot))
    }

    /// Notifies all receivers at `key` that every list may have changed, because the server was replaced.
    pub(crate) fn notify_lists_changed(&self, key: &ConnectionKey) {
        for method in ListKind::CHANGES {
            let notification = Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) };
            self.notify(key, &notification, &Addressees::All);
        }
    }

    /// Forwards a server request to the only client that listens at `key`, if `may_concern` holds for its caller.
    /// Otherwise, or with several clients, the request is dropped, which refuses it: the gateway never guesses (design
    /// rule 4).
    ///
    /// # Errors
    ///
    /// Returns the request if no client listens.
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
        // dropping a request refuses it; a full queue does that too
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
    /// Remembers the slot whose connection sent `list_changed`.
    fn note_change(&mut self, method: &Method, slot: usize) {
        if ListKind::changed_by(method).is_empty() {
            return;
        }
        self.changed.retain(|(other, _)| other != method);
        self.changed.push((method.clone(), slot));
    }
}

/// An open listen. Dropping it closes the listen.
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
