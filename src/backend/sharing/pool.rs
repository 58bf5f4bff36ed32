//! Connection pool of one backend: starts are shared by all who wait, idle connections are closed, the number is
//! bounded.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    connection_key::{ConnectionKey, SharingScope},
    connection_slot::{Adoption, Lease, LeasedConnection, Slot},
    room::{Full, find_room},
    slots::SlotQuestions,
};
use crate::{
    backend::connection::ServerConnection,
    mcp::{ClientInfo, Era},
    model::{Caller, LimitsConfig, SessionId, UserId},
    support::{FastMap, Live},
};

/// The connections of one backend.
pub(crate) struct Pool {
    base: Arc<Slot>,
    slots: Mutex<FastMap<ConnectionKey, Arc<Slot>>>,
    limits: Live<LimitsConfig>,
}

// === impl Pool ===

impl Pool {
    /// Creates a pool of at most `server_sessions` connections beside the base connection.
    pub(crate) fn new(limits: Live<LimitsConfig>) -> Self {
        Self { base: Arc::new(Slot::new(Caller::gateway().user)), slots: Mutex::default(), limits }
    }

    /// Leases the connection of `key` if it is usable at once.
    pub(crate) fn ready(&self, key: &ConnectionKey) -> Option<LeasedConnection> {
        let lease = if key.is_base() { Lease::new(&self.base) } else { Lease::new(self.slots.lock().get(key)?) };
        let connection = lease.0.connection()?;
        Some(LeasedConnection { lease, connection })
    }

    /// The slot of the base connection.
    pub(crate) const fn base(&self) -> &Arc<Slot> {
        &self.base
    }

    /// Leases the slot of `key` for a call of `user`. If it is new and the pool is full, an idle connection of the user with
    /// the most is ended.
    pub(crate) fn lease(&self, key: &ConnectionKey, user: &UserId) -> Result<Lease, Full> {
        if key.is_base() {
            return Ok(Lease::new(&self.base));
        }
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key) {
            return Ok(Lease::new(slot));
        }
        let gives_way = find_room(user, self.limits.get().server_sessions, slots.iter().map(Slot::place))?;
        if let Some(slot) = gives_way.and_then(|key| slots.remove(&key)) {
            slot.end("it made room for another");
        }
        let slot = Arc::new(Slot::new(user.clone()));
        let lease = Lease::new(&slot);
        slots.insert(key.clone(), slot);
        Ok(lease)
    }

    /// Leases the slot of `key` for a connection that `user` may need, if the pool has room for it and none for this user is
    /// unused: nothing is ended for its sake.
    pub(crate) fn lease_spare(&self, key: &ConnectionKey, user: &UserId) -> Option<Lease> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key) {
            return Some(Lease::new(slot));
        }
        let room = find_room(user, self.limits.get().server_sessions, slots.iter().map(Slot::place));
        let is_unused = |slot: &Arc<Slot>| slot.is_spare && slot.user == *user && slot.is_held();
        if room != Ok(None) || slots.values().any(is_unused) {
            return None;
        }
        let slot = Arc::new(Slot { is_spare: true, ..Slot::new(user.clone()) });
        let lease = Lease::new(&slot);
        slots.insert(key.clone(), slot);
        Some(lease)
    }

    /// Reserves the connection on which the gateway asks for the lists of clients like this one, if it can become this
    /// client's: it is there or is being opened, it is told of the same client, and no other has reserved it.
    pub(crate) fn adoption(&self, key: &ConnectionKey, client: &ClientInfo) -> Option<Adoption> {
        let introduced = key.introduced()?;
        let slot = Arc::clone(self.slots.lock().get(&introduced)?);
        (slot.suits(client) && !slot.is_reserved.swap(true, Ordering::SeqCst)).then(|| Adoption(slot))
    }

    /// Takes the reserved connection out of the pool, if nobody uses it and the client would miss nothing.
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

    /// The usable connections of the sharer of `key`, in all slots.
    pub(crate) fn sessions(&self, key: &ConnectionKey) -> Vec<Arc<ServerConnection>> {
        if key.is_base() {
            return self.base.connection().into_iter().collect();
        }
        let slots = self.slots.lock();
        let theirs = slots.iter().filter(|(other, _)| other.is_of_sharer(key));
        theirs.filter_map(|(_, slot)| slot.connection()).collect()
    }

    /// True if any slot of the sharer of `key` has a usable connection.
    pub(crate) fn is_there(&self, key: &ConnectionKey) -> bool {
        let is_there = |slot: &Arc<Slot>| slot.connection().is_some();
        if key.is_base() {
            return is_there(&self.base);
        }
        let slots = self.slots.lock();
        slots.get(key).is_some_and(is_there)
            || slots.iter().any(|(other, slot)| other.is_of_sharer(key) && is_there(slot))
    }

    /// Ends the connections that are not of this era.
    pub(crate) fn end_all_but(&self, era: Era) {
        let slots = self.slots.lock();
        for connection in slots.values().chain([&self.base]).filter_map(|slot| slot.connection()) {
            if connection.era() != era {
                connection.end("the server's protocol era has changed");
            }
        }
    }

    /// Ends connections that were unused for `idle_timeout`, unless `waits` says that a client waits for updates. Their
    /// slots stay, to notify clients after a restart.
    pub(crate) fn sweep(&self, idle_timeout: Duration, waits: impl Fn(&ConnectionKey) -> bool) {
        let slots = self.slots.lock();
        let unused = |slot: &Slot| slot.is_idle() && slot.used.lock().elapsed() >= idle_timeout;
        for (_, slot) in slots.iter().filter(|(key, slot)| unused(slot) && !waits(key)) {
            slot.end("it was idle");
        }
    }

    /// Ends the connections of a client session that is gone.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.base.bound.lock().remove(session);
        self.slots.lock().retain(|key, slot| {
            slot.bound.lock().remove(session);
            let theirs = matches!(&key.scope, SharingScope::Session(id) if id == session);
            if theirs {
                slot.leave();
            }
            !theirs
        });
    }

    /// The sentence for the status if connections for clients cannot be opened.
    pub(crate) fn warning(&self) -> Option<String> {
        let reasons: Vec<String> = self.slots.lock().values().filter_map(|slot| slot.circuit.warning()).collect();
        let first = reasons.first()?;
        Some(format!("no session could be opened for {} of its clients: {first}", reasons.len()))
    }

    /// True if a client has a connection, and not only the gateway.
    pub(crate) fn has_clients(&self) -> bool {
        let slots = self.slots.lock();
        slots.iter().any(|(key, slot)| key.scope != SharingScope::Catalog && slot.connection().is_some())
    }

    /// True if a call runs on a connection, or waits for one.
    pub(crate) fn is_in_use(&self) -> bool {
        self.slots.lock().values().chain([&self.base]).any(|slot| slot.running.load(Ordering::Acquire) > 0)
    }

    /// The number of connections, with the base connection.
    pub(crate) fn count(&self) -> usize {
        let slots = self.slots.lock();
        slots.values().chain([&self.base]).filter(|slot| slot.connection().is_some()).count()
    }
}

/// Server requests in question slots (`translation` 4b.1). Driven by waiting calls: if none waits, none is closed.
impl Pool {
    /// The server requests on the connections of this sharer. Cancels calls that their servers did not finish after theirs
    /// were closed.
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

    /// True if calls that wait for persons may have further connections: they leave half of the pool to others.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.lock().len() < self.limits.get().server_sessions / 2
    }

    /// Closes the server requests in this slot that are open for `server_request_slot_time`.
    pub(crate) fn close_questions(&self, key: &ConnectionKey, slot: usize) {
        let time = self.limits.get().server_request_slot_time;
        if let Some(leased) = self.ready(&key.in_slot(slot)) {
            leased.connection.requests().close_after(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::backend::sharing::connection_slot::SlotState;
    use crate::{
        mcp::Capabilities,
        model::{BackendId, BackendSpec, StdioSpec, TransportSpec},
    };

    fn client(capability: &str) -> Arc<ClientInfo> {
        let capabilities = format!(r#"{{"{capability}":{{}}}}"#);
        let capabilities = Capabilities::new(capabilities.into_bytes().into());
        Arc::new(ClientInfo { capabilities, ..ClientInfo::gateway() })
    }

    #[test]
    fn a_user_with_many_kinds_of_clients_has_one_process_started_ahead_and_takes_nobody_elses() {
        let pool = Pool::new(Live::new(LimitsConfig::default()));
        let stdio = StdioSpec { command: "x".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        let spec = BackendSpec::new(BackendId::parse("a").unwrap(), TransportSpec::Stdio(stdio));
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
