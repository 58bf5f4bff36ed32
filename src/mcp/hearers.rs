//! Clients that receive server events outside of calls: one registration and one queue for each client, for any number
//! of servers.
//!
//! A server with an [`Announcer`] sends its events to the clients registered here; the gateway listens to the other
//! servers one by one. The queue is separate for each server, so that one server cannot use up the space of another.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    hash::Hash,
    sync::{Arc, Weak},
    task::{Poll, Waker},
};

use parking_lot::{Mutex, RwLock};

use super::{Context, Event, HeardEvent};
use crate::{
    model::{BackendId, Requester, SessionId, UserId},
    support::{
        Account,
        byte_queue::{Bounds, QueueReceiver, QueueSender, byte_queue},
    },
};

/// Bounds of one server's events that wait for a slow client; more are dropped and counted.
pub(crate) const QUEUE: Bounds = Bounds { messages: 256, bytes: 1024 * 1024 };

/// A server that sends its events to all registered clients, without a listen for each.
pub trait Announcer: Send + Sync {
    /// The clients that receive its events.
    fn hearers(&self) -> Arc<Hearers>;

    /// Makes the server send log messages at the level of this client's session, until the returned value is dropped.
    fn hold_level(&self, context: &Context) -> Box<dyn HeldLevel>;
}

/// The log level of a session at one server, in effect until dropped.
pub trait HeldLevel: Send {
    /// Reports that the session has set another level.
    fn changed(&self);
}

/// A server that keeps state for registered clients, and is notified when one leaves.
pub(crate) trait LeftBehind: Send + Sync {
    /// Removes the state of a client that has left.
    fn left(&self, context: &Context);
}

/// The clients that are registered for events.
#[derive(Default)]
pub struct Hearers(RwLock<HearersByOwner>);

#[derive(Default)]
struct HearersByOwner {
    users: HashMap<UserId, Vec<Arc<Hearer>>>,
    /// The same clients, by session or request.
    requesters: HashMap<Requester, Vec<Arc<Hearer>>>,
}

/// The clients of a connection.
pub(crate) enum HearersOf<'a> {
    Session(&'a SessionId),
    User(&'a UserId),
    All,
}

/// The clients that receive an event.
#[derive(Debug)]
pub(crate) enum Addressees {
    All,
    /// All except this session or request.
    But(Requester),
    /// Only these sessions and requests.
    Only(HashSet<Requester>),
}

/// A server that sends events, and the account that pays for queued ones.
pub(crate) struct AnnouncingServer {
    /// Its name. Compared by pointer, so that a later server of the same name differs.
    pub(crate) backend: Arc<BackendId>,
    pub(crate) account: Account,
}

pub(crate) struct Hearer {
    /// The client, its caller and its session.
    pub(crate) context: Context,
    sees: Box<dyn Fn(&BackendId) -> bool + Send + Sync>,
    inbox: Mutex<HearerInbox>,
    /// Servers that keep state for the client; `None` once it has left.
    traces: Mutex<Option<Vec<Weak<dyn LeftBehind>>>>,
}

/// Events that wait for a client.
#[derive(Default)]
struct HearerInbox {
    /// One for each server with queued events; the next to be read comes first.
    parts: VecDeque<InboxPart>,
    reader: Option<Waker>,
    is_closed: bool,
}

/// Queued events of one server.
struct InboxPart {
    server: Arc<BackendId>,
    sender: QueueSender<Event>,
    receiver: QueueReceiver<Event>,
}

/// Registration of a client. Dropping it ends the registration.
pub(crate) struct HearerPlace {
    hearers: Arc<Hearers>,
    hearer: Arc<Hearer>,
}

// === impl Hearers ===

impl Hearers {
    /// Registers the client of `context` for the events of the servers that it `sees`.
    pub(crate) fn register(
        self: &Arc<Self>,
        context: Context,
        sees: impl Fn(&BackendId) -> bool + Send + Sync + 'static,
    ) -> HearerPlace {
        let traces = Mutex::new(Some(Vec::new()));
        let hearer = Arc::new(Hearer { context, sees: Box::new(sees), inbox: Mutex::default(), traces });
        let mut all = self.0.write();
        all.users.entry(hearer.context.caller.user.clone()).or_default().push(Arc::clone(&hearer));
        all.requesters.entry(hearer.context.requester.clone()).or_default().push(Arc::clone(&hearer));
        drop(all);
        HearerPlace { hearers: Arc::clone(self), hearer }
    }

    /// The clients in `scope` that receive an event of this server: they see the server, and `at` holds for their
    /// connection. If the event names its addressees, only these are checked. Stops after `most` clients.
    pub(crate) fn of(
        &self,
        scope: &HearersOf<'_>,
        addressees: &Addressees,
        backend: &BackendId,
        most: usize,
        at: impl Fn(&Context) -> bool,
    ) -> Vec<Arc<Hearer>> {
        let all = self.0.read();
        let is_meant = |hearer: &&Arc<Hearer>| {
            let context = &hearer.context;
            addressees.has(&context.requester) && scope.has(context) && at(context) && (hearer.sees)(backend)
        };
        let of_requester = |requester: &Requester| all.requesters.get(requester).into_iter().flatten();
        match (addressees, scope) {
            (Addressees::Only(named), _) => {
                named.iter().flat_map(of_requester).filter(is_meant).take(most).cloned().collect()
            }
            (_, HearersOf::Session(session)) => {
                of_requester(&Requester::Session((*session).clone())).filter(is_meant).take(most).cloned().collect()
            }
            (_, HearersOf::User(user)) => {
                all.users.get(*user).into_iter().flatten().filter(is_meant).take(most).cloned().collect()
            }
            (_, HearersOf::All) => all.users.values().flatten().filter(is_meant).take(most).cloned().collect(),
        }
    }

    fn remove(&self, hearer: &Arc<Hearer>) {
        let mut all = self.0.write();
        let HearersByOwner { users, requesters } = &mut *all;
        leave(users, &hearer.context.caller.user, hearer);
        leave(requesters, &hearer.context.requester, hearer);
    }
}

/// Removes a client from an index.
fn leave<K: Hash + Eq>(index: &mut HashMap<K, Vec<Arc<Hearer>>>, key: &K, hearer: &Arc<Hearer>) {
    if let Some(of_key) = index.get_mut(key) {
        of_key.retain(|other| !Arc::ptr_eq(other, hearer));
        if of_key.is_empty() {
            index.remove(key);
        }
    }
}

// === impl HearersOf ===

impl HearersOf<'_> {
    fn has(&self, context: &Context) -> bool {
        match self {
            Self::Session(session) => context.requester.session() == Some(*session),
            Self::User(user) => context.caller.user == **user,
            Self::All => true,
        }
    }
}

// === impl Addressees ===

impl Addressees {
    /// Only the client with this session or request.
    pub(crate) fn one(requester: Requester) -> Self {
        Self::Only(HashSet::from([requester]))
    }

    /// True if the event is for this client.
    pub(crate) fn has(&self, requester: &Requester) -> bool {
        match self {
            Self::All => true,
            Self::But(other) => requester != other,
            Self::Only(named) => named.contains(requester),
        }
    }
}

// === impl Hearer ===

impl Hearer {
    /// Adds an event of this server.
    ///
    /// # Errors
    ///
    /// Returns the event if the queue is full, or the client has left.
    pub(crate) fn send(&self, server: &AnnouncingServer, event: Event) -> Result<(), Event> {
        let mut inbox = self.inbox.lock();
        if inbox.is_closed {
            return Err(event);
        }
        let known = inbox.parts.iter().find(|part| Arc::ptr_eq(&part.server, &server.backend));
        let sent = if let Some(part) = known {
            part.sender.send(event)
        } else {
            let (sender, receiver) = byte_queue(QUEUE, server.account.clone());
            let sent = sender.send(event);
            if sent.is_ok() {
                inbox.parts.push_back(InboxPart { server: Arc::clone(&server.backend), sender, receiver });
            }
            sent
        };
        let reader = inbox.reader.take();
        drop(inbox);
        if let Some(reader) = reader {
            reader.wake();
        }
        sent
    }

    /// Records that `server` keeps state for this client; false if the client has left.
    pub(crate) fn leaves_trace_at(&self, server: &Weak<dyn LeftBehind>) -> bool {
        let mut traces = self.traces.lock();
        let Some(traces) = traces.as_mut() else { return false };
        if !traces.iter().any(|other| Weak::ptr_eq(other, server)) {
            traces.push(Weak::clone(server));
        }
        true
    }
}

// === impl HearerInbox ===

impl HearerInbox {
    fn take(&mut self) -> Option<HeardEvent> {
        while let Some(mut part) = self.parts.pop_front() {
            match part.receiver.ready() {
                // the queue is empty, or its events were dropped to free memory
                Some(Event::Done(_)) | None => {}
                Some(event) => {
                    let server = Arc::clone(&part.server);
                    self.parts.push_back(part);
                    return Some(HeardEvent::new(server, event));
                }
            }
        }
        None
    }
}

// === impl HearerPlace ===

impl HearerPlace {
    /// True if the client is registered in these `hearers`.
    pub(crate) fn is_at(&self, hearers: &Arc<Hearers>) -> bool {
        Arc::ptr_eq(&self.hearers, hearers)
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> HeardEvent {
        poll_fn(|cx| {
            let mut inbox = self.hearer.inbox.lock();
            if let Some(heard) = inbox.take() {
                return Poll::Ready(heard);
            }
            inbox.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for HearerPlace {
    fn drop(&mut self) {
        self.hearers.remove(&self.hearer);
        let mut inbox = self.hearer.inbox.lock();
        inbox.is_closed = true;
        let dropped = std::mem::take(&mut inbox.parts);
        drop(inbox);
        drop(dropped);
        let traces = self.hearer.traces.lock().take().unwrap_or_default();
        for trace in traces.iter().filter_map(Weak::upgrade) {
            trace.left(&self.hearer.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        mcp::{ClientInfo, Method, Notification, Payload, Revision},
        model::Caller,
        support::MemoryBudget,
    };

    fn server(budget: &MemoryBudget, name: &str) -> AnnouncingServer {
        let backend = BackendId::parse(name).unwrap();
        AnnouncingServer { account: budget.server(name), backend: Arc::new(backend) }
    }

    fn session(user: &str, session: &str) -> Context {
        Context {
            caller: Arc::new(Caller { user: UserId::new(user), ..Caller::gateway() }),
            requester: Requester::Session(SessionId::new(session)),
            ..Context::of_gateway(ClientInfo::gateway(), Account::unbounded())
        }
    }

    fn update(uri: &str) -> Event {
        let params = Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "uri": uri }));
        Event::Notified(Notification { method: Method::ResourceUpdated, params })
    }

    /// All clients in this scope that receive events of this server.
    fn all_of(hearers: &Hearers, scope: &HearersOf<'_>, server: &AnnouncingServer) -> Vec<Arc<Hearer>> {
        hearers.of(scope, &Addressees::All, &server.backend, usize::MAX, |_| true)
    }

    /// The URI of the next update, and its server.
    fn read(place: &mut HearerPlace, servers: &[&AnnouncingServer]) -> Option<(String, String)> {
        let heard = place.next().now_or_never()?;
        let event = servers.iter().find_map(|server| heard.take(&server.backend));
        let uri = event.and_then(|event| match event {
            Event::Notified(told) => told.params.string("uri"),
            _ => None,
        });
        Some((heard.backend().to_string(), uri.unwrap_or_default()))
    }

    #[test]
    fn a_server_that_floods_a_client_takes_no_room_of_another() {
        let budget = MemoryBudget::new(64 << 20);
        let (hostile, good) = (server(&budget, "hostile"), server(&budget, "good"));
        let hearers = Arc::new(Hearers::default());
        let mut ann = hearers.register(session("ann", "a"), |_| true);
        let all = all_of(&hearers, &HearersOf::All, &good);
        for number in 0..QUEUE.messages {
            all[0].send(&hostile, update(&number.to_string())).unwrap();
        }
        assert!(all[0].send(&hostile, update("more")).is_err(), "its own place is full");
        all[0].send(&good, update("1")).unwrap();
        all[0].send(&good, update("2")).unwrap();
        let mut read: Vec<_> = std::iter::from_fn(|| read(&mut ann, &[&hostile, &good])).collect();
        assert_eq!(read.len(), QUEUE.messages + 2);
        assert!(read[1].0 == "good" && read[3].0 == "good", "it does not wait for the other's");
        read.retain(|(name, _)| name == "hostile");
        assert!(read.iter().enumerate().all(|(at, (_, uri))| *uri == at.to_string()), "each in its order");
        assert_eq!(budget.in_use().held, 0);
    }

    #[test]
    fn a_client_hears_the_servers_that_it_sees_until_it_leaves() {
        let budget = MemoryBudget::unbounded();
        let (one, two) = (server(&budget, "one"), server(&budget, "two"));
        let hearers = Arc::new(Hearers::default());
        let ann = hearers.register(session("ann", "a"), |id| id.as_str() == "one");
        let _second = hearers.register(session("ann", "a2"), |_| true);
        let _bob = hearers.register(session("bob", "b"), |_| true);
        let count = |scope: HearersOf<'_>, server: &AnnouncingServer| all_of(&hearers, &scope, server).len();
        let (user, its) = (UserId::new("ann"), SessionId::new("a"));
        assert_eq!((count(HearersOf::All, &one), count(HearersOf::All, &two)), (3, 2));
        assert_eq!((count(HearersOf::User(&user), &one), count(HearersOf::User(&user), &two)), (2, 1));
        assert_eq!((count(HearersOf::Session(&its), &one), count(HearersOf::Session(&its), &two)), (1, 0));
        let left = all_of(&hearers, &HearersOf::Session(&its), &one);
        drop(ann);
        assert_eq!((count(HearersOf::Session(&its), &one), count(HearersOf::All, &one)), (0, 2));
        assert!(left[0].send(&one, update("late")).is_err(), "nobody would read it");
    }

    #[test]
    fn an_event_that_names_its_clients_looks_at_no_others_and_reaches_none_outside_of_its_connection() {
        let server = server(&MemoryBudget::unbounded(), "one");
        let hearers = Arc::new(Hearers::default());
        let looked_at = Arc::new(AtomicUsize::new(0));
        let counting = || {
            let looked_at = Arc::clone(&looked_at);
            move |_: &BackendId| looked_at.fetch_add(1, Ordering::Relaxed) < usize::MAX
        };
        let _places: Vec<_> =
            (0..100).map(|number| hearers.register(session("ann", &number.to_string()), counting())).collect();
        let _bob = hearers.register(session("bob", "b"), counting());
        let named = Addressees::Only(["7", "b"].map(|name| Requester::Session(SessionId::new(name))).into());
        let of = |scope: HearersOf<'_>, addressees: &Addressees, most| {
            hearers.of(&scope, addressees, &server.backend, most, |_| true).len()
        };
        assert_eq!((of(HearersOf::All, &named, usize::MAX), looked_at.swap(0, Ordering::Relaxed)), (2, 2));
        assert_eq!(of(HearersOf::User(&UserId::new("ann")), &named, usize::MAX), 1, "bob has another connection");
        looked_at.store(0, Ordering::Relaxed);
        assert_eq!((of(HearersOf::All, &Addressees::All, 2), looked_at.load(Ordering::Relaxed)), (2, 2));
        assert_eq!(of(HearersOf::All, &Addressees::Only(HashSet::new()), usize::MAX), 0);
    }

    #[test]
    fn an_event_of_a_server_that_was_replaced_is_not_of_its_successor() {
        let budget = MemoryBudget::unbounded();
        let (before, after) = (server(&budget, "one"), server(&budget, "one"));
        let hearers = Arc::new(Hearers::default());
        let mut ann = hearers.register(session("ann", "a"), |_| true);
        all_of(&hearers, &HearersOf::All, &before)[0].send(&before, update("1")).unwrap();
        assert_eq!(read(&mut ann, &[&after]), Some(("one".to_owned(), String::new())));
    }
}
