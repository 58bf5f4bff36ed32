//! Connection pool of one backend: waiting calls share a start, idle connections are closed, the number is bounded.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::oneshot::Receiver, time::timeout};

use super::{
    connection_key::{ConnectionKey, SharingScope},
    connection_slot::{Adoption, CLIENT_LEFT, Lease, LeasedConnection, PlaceFreed, Slot},
    place_queue::{NoPlace, PlaceQueue},
    room::{Full, find_room},
    slots::SlotQuestions,
};
use crate::{
    backend::connection::ServerConnection,
    mcp::{ClientInfo, Era},
    model::{Caller, LimitsConfig, SessionId, UserId},
    support::{FastMap, Live},
};

pub(crate) struct Pool {
    base: Arc<Slot>,
    slots: Mutex<Slots>,
    limits: Live<LimitsConfig>,
    /// Must be locked after `slots`.
    queue: Mutex<PlaceQueue<ConnectionKey, Lease>>,
    /// Number of calls waiting in the queue.
    waiting: AtomicUsize,
    freed: PlaceFreed,
}

type Slots = FastMap<ConnectionKey, Arc<Slot>>;

/// Counts a waiting call while it exists.
struct WaitingCall<'a>(&'a AtomicUsize);

// === impl Pool ===

impl Pool {
    /// Creates a pool of at most `server_sessions` connections, not counting the base connection.
    pub(crate) fn new(limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let pool = Weak::clone(itself);
            let freed: PlaceFreed = Arc::new(move || {
                if let Some(pool) = pool.upgrade() {
                    pool.distribute();
                }
            });
            let base = Arc::new(Slot::new(Caller::gateway().user, Arc::clone(&freed)));
            let (slots, queue) = (Mutex::default(), Mutex::default());
            Self { base, slots, limits, queue, waiting: AtomicUsize::new(0), freed }
        })
    }

    /// Leases the connection of `key`, if it is usable now.
    pub(crate) fn ready(&self, key: &ConnectionKey) -> Option<LeasedConnection> {
        let lease = if key.is_base() { Lease::new(&self.base) } else { Lease::new(self.slots.lock().get(key)?) };
        let connection = lease.0.connection()?;
        Some(LeasedConnection { lease, connection })
    }

    /// Slot of the base connection.
    pub(crate) const fn base(&self) -> &Arc<Slot> {
        &self.base
    }

    /// Leases the slot of `key` for a call of `user`. If it is new and the pool is full, ends an idle connection of the
    /// user with the most connections.
    pub(crate) fn lease(&self, key: &ConnectionKey, user: &UserId) -> Result<Lease, Full> {
        if key.is_base() {
            return Ok(Lease::new(&self.base));
        }
        self.lease_among(&mut self.slots.lock(), key, user)
    }

    fn lease_among(&self, slots: &mut Slots, key: &ConnectionKey, user: &UserId) -> Result<Lease, Full> {
        if let Some(slot) = slots.get(key) {
            return Ok(Lease::new(slot));
        }
        let gives_way =
            find_room(user, self.limits.get().server_sessions, slots.iter().map(|(key, slot)| slot.place(key)))?;
        if let Some(slot) = gives_way.and_then(|key| slots.remove(&key)) {
            slot.end("it made room for another");
        }
        let slot = Arc::new(Slot::new(user.clone(), Arc::clone(&self.freed)));
        let lease = Lease::new(&slot);
        slots.insert(key.clone(), slot);
        Ok(lease)
    }

    /// Leases the slot of `key`. If the pool is full, calls `waits`, and then waits in turn by user, for at most
    /// `slot_wait`.
    pub(crate) async fn lease_in_turn(
        &self,
        key: &ConnectionKey,
        user: &UserId,
        waits: impl FnOnce(),
    ) -> Result<Lease, Full> {
        let (full, given) = match self.enter(key, user)? {
            Ok(lease) => return Ok(lease),
            Err(entered) => entered,
        };
        let _waiting = WaitingCall::of(&self.waiting);
        waits();
        // places may have become free in the meantime
        self.distribute();
        match timeout(self.limits.get().slot_wait, given).await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(_)) | Err(_) => Err(full),
        }
    }

    /// Leases the slot of `key`, or adds the call to the queue.
    fn enter(&self, key: &ConnectionKey, user: &UserId) -> Result<Result<Lease, (Full, Receiver<Lease>)>, Full> {
        if key.is_base() {
            return Ok(Ok(Lease::new(&self.base)));
        }
        let mut slots = self.slots.lock();
        let mut queue = self.queue.lock();
        let full = if slots.contains_key(key) || queue.is_empty() {
            match self.lease_among(&mut slots, key, user) {
                Ok(lease) => return Ok(Ok(lease)),
                Err(full) => full,
            }
        } else {
            Full::All(self.limits.get().server_sessions)
        };
        queue.enter(user, key).map(|given| Err((full, given))).ok_or(full)
    }

    /// Gives free places to waiting calls. Must not be called while a lock of the pool is held.
    fn distribute(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut slots = self.slots.lock();
        let mut queue = self.queue.lock();
        let returned = queue.distribute(|user, key| {
            self.lease_among(&mut slots, key, user).map_err(|full| {
                let is_for_anybody = matches!(full, Full::All(_)) && slots.values().all(|slot| slot.user != *user);
                if is_for_anybody { NoPlace::ForAnybody } else { NoPlace::ForUser }
            })
        });
        drop((queue, slots));
        drop(returned);
    }

    /// Leases the slot of `key` for a connection that `user` may need later. `None` if the pool is full, since nothing
    /// is ended for it, or if another unused connection is kept for this user.
    pub(crate) fn lease_spare(&self, key: &ConnectionKey, user: &UserId) -> Option<Lease> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key) {
            return Some(Lease::new(slot));
        }
        let room = find_room(user, self.limits.get().server_sessions, slots.iter().map(|(key, slot)| slot.place(key)));
        let is_unused = |slot: &Arc<Slot>| slot.is_spare && slot.user == *user && slot.is_held();
        if room != Ok(None) || slots.values().any(is_unused) {
            return None;
        }
        let slot = Arc::new(Slot { is_spare: true, ..Slot::new(user.clone(), Arc::clone(&self.freed)) });
        let lease = Lease::new(&slot);
        slots.insert(key.clone(), slot);
        Some(lease)
    }

    /// Reserves the connection on which the gateway fetches lists for clients like this one, if this client can take it
    /// over: it is open or being opened, introduces an equal client, and is not reserved yet.
    pub(crate) fn adoption(&self, key: &ConnectionKey, client: &ClientInfo) -> Option<Adoption> {
        let introduced = key.introduced()?;
        let slot = Arc::clone(self.slots.lock().get(&introduced)?);
        (slot.suits(client) && !slot.is_reserved.swap(true, Ordering::SeqCst)).then(|| Adoption(slot))
    }

    /// Takes the reserved connection out of the pool, if no call uses it and the client would miss nothing.
    pub(crate) fn adopt(
        &self,
        adoption: &Adoption,
        key: &ConnectionKey,
        client: &ClientInfo,
    ) -> Option<Arc<ServerConnection>> {
        let introduced = key.introduced()?;
        let mut slots = self.slots.lock();
        let slot = slots.get(&introduced).filter(|slot| Arc::ptr_eq(slot, &adoption.0) && slot.is_idle())?;
        let connection = slot.connection().filter(|connection| connection.suits(client))?;
        slots.remove(&introduced);
        Some(connection)
    }

    /// Usable connections of the sharer of `key`, in all slots.
    pub(crate) fn sessions(&self, key: &ConnectionKey) -> Vec<Arc<ServerConnection>> {
        if key.is_base() {
            return self.base.connection().into_iter().collect();
        }
        let slots = self.slots.lock();
        let theirs = slots.iter().filter(|(other, _)| other.is_of_sharer(key));
        theirs.filter_map(|(_, slot)| slot.connection()).collect()
    }

    /// True if the sharer of `key` has a usable connection in any slot.
    pub(crate) fn is_there(&self, key: &ConnectionKey) -> bool {
        let is_there = |slot: &Arc<Slot>| slot.connection().is_some();
        if key.is_base() {
            return is_there(&self.base);
        }
        let slots = self.slots.lock();
        slots.get(key).is_some_and(is_there)
            || slots.iter().any(|(other, slot)| other.is_of_sharer(key) && is_there(slot))
    }

    /// Ends all connections of the other era.
    pub(crate) fn end_all_but(&self, era: Era) {
        let slots = self.slots.lock();
        for connection in slots.values().chain([&self.base]).filter_map(|slot| slot.connection()) {
            if connection.era() != era {
                connection.end("the server's protocol era has changed");
            }
        }
    }

    /// Ends connections without calls for `idle_timeout`, unless a client `waits` for updates on them. Their slots
    /// stay, so that clients can be notified of a restart.
    pub(crate) fn sweep(&self, idle_timeout: Duration, waits: impl Fn(&ConnectionKey) -> bool) {
        let slots = self.slots.lock();
        let unused = |slot: &Slot| slot.is_idle() && slot.used.lock().elapsed() >= idle_timeout;
        for (_, slot) in slots.iter().filter(|(key, slot)| unused(slot) && !waits(key)) {
            slot.end("it was idle");
        }
    }

    /// Ends the connections of all clients, including those being opened, and forgets failures.
    pub(crate) fn end_clients(&self, reason: &'static str) {
        self.slots.lock().retain(|_, slot| {
            slot.circuit.succeeded();
            let is_starting = slot.is_starting();
            if is_starting {
                slot.leave(reason);
            } else {
                slot.end(reason);
            }
            !is_starting
        });
        self.distribute();
    }

    /// Ends the connections of a client session that has ended.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.base.bound.lock().remove(session);
        self.slots.lock().retain(|key, slot| {
            slot.bound.lock().remove(session);
            let theirs = matches!(&key.scope, SharingScope::Session(id) if id == session);
            if theirs {
                slot.leave(CLIENT_LEFT);
            }
            !theirs
        });
        self.distribute();
    }

    /// Removes the connections of a user who has left from the pool, except those shared with other users.
    pub(crate) fn take_user(&self, user: &UserId) -> Vec<Arc<Slot>> {
        let mut taken = Vec::new();
        self.slots.lock().retain(|key, slot| {
            let theirs = key.is_of_user(user) && slot.user == *user;
            if theirs {
                taken.push(Arc::clone(slot));
            }
            !theirs
        });
        self.distribute();
        taken
    }

    /// Sentence for the status, if connections for clients cannot be opened.
    pub(crate) fn warning(&self) -> Option<String> {
        let reasons: Vec<String> = self.slots.lock().values().filter_map(|slot| slot.circuit.warning()).collect();
        let first = reasons.first()?;
        Some(format!("no session could be opened for {} of its clients: {first}", reasons.len()))
    }

    /// True if a client has a connection. The gateway's own do not count.
    pub(crate) fn has_clients(&self) -> bool {
        let slots = self.slots.lock();
        slots.iter().any(|(key, slot)| key.scope != SharingScope::Catalog && slot.connection().is_some())
    }

    /// True if a call runs on a connection or waits for one.
    pub(crate) fn is_in_use(&self) -> bool {
        self.slots.lock().values().chain([&self.base]).any(|slot| slot.running.load(Ordering::Acquire) > 0)
    }

    /// Number of open connections, including the base connection.
    pub(crate) fn count(&self) -> usize {
        let slots = self.slots.lock();
        slots.values().chain([&self.base]).filter(|slot| slot.connection().is_some()).count()
    }
}

// === impl WaitingCall ===

impl<'a> WaitingCall<'a> {
    fn of(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Server requests on connections in slots (`translation` 4b.1). Waiting calls drive this: if no call waits, no request
/// is closed.
impl Pool {
    /// State of the server requests on this sharer's connections. Also cancels calls that the server did not finish
    /// after their requests were closed.
    pub(crate) fn questions(&self, key: &ConnectionKey) -> Vec<SlotQuestions> {
        let of = |session: &Arc<ServerConnection>| {
            let requests = session.requests();
            requests.cancel_unfinished();
            SlotQuestions {
                slot: session.context.key.slot(),
                oldest: requests.oldest(),
                closed: requests.latest_closed(),
            }
        };
        self.sessions(key).iter().map(of).collect()
    }

    /// True if calls that wait for a person may use more connections: they leave half of the pool to others.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.lock().len() < self.limits.get().server_sessions / 2
    }

    /// Closes the server requests of this slot that have been open for `server_request_slot_time`.
    pub(crate) fn close_questions(&self, key: &ConnectionKey, slot: usize) {
        let time = self.limits.get().server_request_slot_time;
        if let Some(leased) = self.ready(&key.in_slot(slot)) {
            leased.connection.requests().close_after(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, pin::Pin};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::backend::sharing::connection_slot::SlotState;
    use crate::{
        mcp::{Capabilities, Context},
        model::{BackendId, BackendSpec, Requester, Share, StdioSpec, TransportSpec},
        support::Account,
    };

    /// Calls for sessions of several users at one backend, whose pool has room for two.
    struct Burst {
        pool: Arc<Pool>,
        spec: BackendSpec,
    }

    type Waits = Pin<Box<dyn Future<Output = Result<Lease, Full>>>>;

    impl Burst {
        fn new() -> Self {
            let limits =
                LimitsConfig { server_sessions: 2, slot_wait: Duration::from_mins(1), ..LimitsConfig::default() };
            Self { pool: Pool::new(Live::new(limits)), spec: BackendSpec { share: Share::Session, ..program() } }
        }

        /// A call, polled once.
        fn call(&self, user: &str, session: &str) -> Waits {
            let context = Context {
                caller: Arc::new(Caller { user: UserId::new(user), ..Caller::gateway() }),
                requester: Requester::Session(SessionId::new(session)),
                ..Context::of_gateway(ClientInfo::gateway(), Account::unbounded())
            };
            let (pool, key, user) =
                (Arc::clone(&self.pool), ConnectionKey::of(&self.spec, &context), UserId::new(user));
            Box::pin(async move { pool.lease_in_turn(&key, &user, || {}).await })
        }

        /// A call that has to wait.
        fn waits(&self, user: &str, session: &str) -> Waits {
            let mut call = self.call(user, session);
            assert!(call.as_mut().now_or_never().is_none());
            call
        }
    }

    fn program() -> BackendSpec {
        let stdio = StdioSpec { command: "x".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        BackendSpec::new(BackendId::parse("a").unwrap(), TransportSpec::Stdio(stdio))
    }

    fn has(call: &mut Waits) -> Option<Lease> {
        call.as_mut().now_or_never().map(Result::unwrap)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_for_a_session_in_turn_by_user_and_one_with_many_delays_nobody_else() {
        let burst = Burst::new();
        let ann = burst.call("ann", "a").await.unwrap();
        let bob = burst.call("bob", "b").await.unwrap();
        let mut theirs: Vec<Waits> = (0..5).map(|number| burst.waits("hostile", &format!("h{number}"))).collect();
        let (mut carl, left) = (burst.waits("carl", "c"), burst.waits("dora", "d"));
        let mut eve = burst.waits("eve", "e");
        drop(left);
        drop(ann);
        let first = has(&mut theirs[0]).unwrap();
        drop(bob);
        let carl = has(&mut carl).unwrap();
        assert!(has(&mut theirs[1]).is_none());
        // a call that has given up delays no other
        drop(carl);
        let eve = has(&mut eve).unwrap();
        // the same session shares its slot
        let again = burst.call("eve", "e").await.unwrap();
        drop(first);
        let second = has(&mut theirs[1]).unwrap();
        drop((eve, again, second));
        assert!(theirs[2..].iter_mut().any(|call| has(call).is_some()), "then all are theirs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_for_which_no_session_comes_free_in_time_is_refused() {
        let burst = Burst::new();
        let _held = (burst.call("ann", "a").await.unwrap(), burst.call("bob", "b").await.unwrap());
        let began = tokio::time::Instant::now();
        assert_eq!(burst.call("carl", "c").await.err(), Some(Full::All(2)));
        assert_eq!(began.elapsed(), Duration::from_mins(1));
        assert_eq!(burst.pool.waiting.load(Ordering::SeqCst), 0);
    }

    fn client(capability: &str) -> Arc<ClientInfo> {
        let capabilities = format!(r#"{{"{capability}":{{}}}}"#);
        let capabilities = Capabilities::new(capabilities.into_bytes().into());
        Arc::new(ClientInfo { capabilities, ..ClientInfo::gateway() })
    }

    #[test]
    fn a_user_with_many_kinds_of_clients_has_one_process_started_ahead_and_takes_nobody_elses() {
        let pool = Pool::new(Live::new(LimitsConfig::default()));
        let spec = program();
        let [hostile, ann] = ["hostile", "ann"].map(UserId::new);
        let spare = |user: &UserId, capability: &str| {
            let client = client(capability);
            let lease = pool.lease_spare(&ConnectionKey::introducing(&spec, &client).unwrap(), user)?;
            lease.slot().begin(&client);
            Some(Arc::clone(lease.slot()))
        };
        let first = spare(&hostile, "roots").unwrap();
        assert!(spare(&hostile, "sampling").is_none());
        assert!(spare(&hostile, "roots").is_some(), "the same again");
        assert!(spare(&ann, "sampling").is_some());
        first.set(SlotState::Gone);
        assert!(spare(&hostile, "elicitation").is_some(), "the first is gone");
    }
}
