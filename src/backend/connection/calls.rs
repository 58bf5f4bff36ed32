//! Open and recently cancelled calls of one connection.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    call_events::{EventReceiver, EventSender, call_events},
    ownership::{CallOwner, Ownership},
};
use crate::{
    backend::transport::UnansweredCalls,
    mcp::{
        CancelReason, ErrorObject, Event, Level, Message, Method, Outcome, Payload,
        error::{Retry, Unavailable},
        json,
        jsonrpc::returned_number,
        meta,
    },
    model::{BackendId, Caller, Requester},
    support::Account,
    wire::sent_requests::SentRequests,
};

/// Time in which a server may still send messages about a cancelled call. Requests and notifications in this time may
/// belong to it, so they go to no other client.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// Open calls, recently cancelled calls, and the owners of what calls created.
pub(crate) struct Calls {
    open: Mutex<SentRequests<CallSlot>>,
    /// Locked while `open` is held, so that a cancelled call is always in one of the two.
    lingering: Mutex<HashMap<u64, Lingering>>,
    pub(super) ownership: Mutex<Ownership>,
    owners: Mutex<CallOwners>,
    sharing: Sharing,
    unanswered: UnansweredCalls,
    /// True once a call of a client has been answered.
    has_answered: AtomicBool,
    /// True if the end of the connection cut off a client's call.
    has_cut_off: AtomicBool,
}

/// How clients used a connection that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientUse {
    /// No client called it.
    Unused,
    /// It ended during the first client call.
    CutOff,
    /// It answered at least one client call.
    Answered,
}

/// Can messages that name no call be attributed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One client session makes all calls, or each call has its own exchange.
    Unambiguous,
    /// Several client sessions make calls, without an exchange for each.
    Ambiguous,
}

/// True once a server with an exchange for each call has sent a request on its standalone stream during a call: its
/// requests name no call. Shared by all connections to the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct AsksOnStream(Arc<AtomicBool>);

/// An open call and its event sender.
struct CallSlot {
    call: OpenCall,
    events: EventSender,
}

/// A call that the server has not answered.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    pub(super) method: Method,
    /// The client's own progress token; the server sees the call's id instead.
    pub(super) token: Option<Bytes>,
    /// The caller; `None` if the gateway makes it.
    pub(super) caller: Option<Arc<Caller>>,
    /// The client session that makes it, or the gateway.
    pub(super) holder: Requester,
    /// Log level that the client asked for in the call (2026-07-28).
    pub(super) level: Option<Level>,
    pub(super) kind: CallKind,
    /// The time of the client's last answer to a server request of this call.
    pub(super) answered: Option<Instant>,
    /// The time when a server request of this call was closed. `None` again once the client has answered another.
    pub(super) request_closed: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The handshake: it is never cancelled (all versions, cancellation) and has no server requests.
    Handshake,
    /// A client's call that may have server requests.
    Asking,
    /// A call without server requests, by a client or the gateway.
    Plain,
}

/// A cancelled call that the server may still send messages about.
#[derive(Debug)]
struct Lingering {
    holder: Requester,
    level: Option<Level>,
    request_closed: Option<Instant>,
    until: Instant,
}

/// Owners of all calls so far on a connection shared by several client sessions. A server request outside of any call
/// may concern each of them.
#[derive(Debug, Default)]
enum CallOwners {
    /// No client has called yet.
    #[default]
    None,
    /// All calls came from the owner of this caller.
    One(Arc<Caller>),
    /// More than one owner has called.
    Several,
}

/// Client sessions with calls on one connection.
pub(super) enum Callers {
    None,
    One(Requester),
    Many,
}

// === impl OpenCall ===

impl OpenCall {
    /// A call without owner, token and level.
    pub(super) const fn new(method: Method, kind: CallKind) -> Self {
        Self {
            method,
            token: None,
            caller: None,
            holder: Requester::Gateway,
            level: None,
            kind,
            answered: None,
            request_closed: None,
        }
    }

    /// True if the server works on it until it answers: no handshake, and no subscription.
    fn keeps_busy(&self) -> bool {
        self.kind != CallKind::Handshake && self.method != Method::Listen
    }
}

// === impl AsksOnStream ===

impl AsksOnStream {
    /// Records a request on the standalone stream during a call.
    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once such a request was recorded.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Calls ===

impl Calls {
    /// Creates an empty table. Ids start at `first_id`, and `unanswered` counts the calls.
    pub(super) fn new(sharing: Sharing, first_id: u64, unanswered: UnansweredCalls) -> Self {
        let open = Mutex::new(SentRequests::starting_at(first_id));
        let (lingering, ownership, owners) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (has_answered, has_cut_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { open, lingering, ownership, owners, sharing, unanswered, has_answered, has_cut_off }
    }

    /// The id that the next call will get.
    pub(super) fn next_id(&self) -> u64 {
        self.open.lock().next_id()
    }

    /// Opens a call; returns its id and its events, charged to `account` while they wait. `over` gives the reason if
    /// the connection has ended.
    ///
    /// # Errors
    ///
    /// The reason why the connection has ended.
    pub(super) fn open(
        &self,
        call: OpenCall,
        account: Account,
        over: impl FnOnce() -> Option<String>,
    ) -> Result<(u64, EventReceiver), String> {
        self.note_owner(&call);
        let (sender, events) = call_events(account);
        // under the lock that `fail_all` takes, so that no call is opened on a connection that has ended
        let mut open = self.open.lock();
        if let Some(reason) = over() {
            return Err(reason);
        }
        if call.keeps_busy() {
            self.unanswered.begun();
        }
        Ok((open.open(CallSlot { call, events: sender }), events))
    }

    /// Reads the open call `id`.
    pub(super) fn read<T>(&self, id: u64, read: impl FnOnce(&OpenCall) -> T) -> Option<T> {
        self.open.lock().get(id).map(|slot| read(&slot.call))
    }

    /// Changes the open call `id`.
    pub(super) fn change(&self, id: u64, change: impl FnOnce(&mut OpenCall)) {
        if let Some(slot) = self.open.lock().get_mut(id) {
            change(&mut slot.call);
        }
    }

    /// True if the call `id` is open.
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open.lock().get(id).is_some()
    }

    /// Removes the call `id`; `None` if it is not open.
    pub(super) fn close(&self, id: u64) -> Option<OpenCall> {
        self.take(&mut self.open.lock(), id).map(|slot| slot.call)
    }

    fn take(&self, open: &mut SentRequests<CallSlot>, id: u64) -> Option<CallSlot> {
        let slot = open.close(id)?;
        if slot.call.keeps_busy() {
            self.unanswered.ended();
        }
        Some(slot)
    }

    /// Delivers `event` to the call `id`, or returns it if that call is not open. If the queue is full, the event is
    /// dropped, so that a slow reader does not block the others (design rule 7); the end is never dropped.
    pub(super) fn deliver(&self, id: u64, event: Event) -> Option<Event> {
        let mut open = self.open.lock();
        if matches!(event, Event::Done(_)) {
            let slot = self.take(&mut open, id);
            drop(open);
            let Some(slot) = slot else { return Some(event) };
            self.note_answer(&slot.call);
            slot.events.finish(event);
            return None;
        }
        let Some(slot) = open.get(id) else { return Some(event) };
        if slot.events.send(event).is_err() {
            metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(1);
        }
        None
    }

    /// Sorts an event for the call `to` that arrived on the exchange of the call `id`: returns it if both are the same
    /// call, passes it to `others` if not.
    pub(super) fn own(&self, id: u64, to: u64, event: Event, others: impl FnOnce(u64, Event)) -> Option<Event> {
        if to != id {
            others(to, event);
            return None;
        }
        if matches!(event, Event::Done(_))
            && let Some(call) = self.close(id)
        {
            self.note_answer(&call);
        }
        Some(event)
    }

    fn note_answer(&self, call: &OpenCall) {
        if call.caller.is_some() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn client_use(&self) -> ClientUse {
        match (self.has_answered.load(Ordering::Relaxed), self.has_cut_off.load(Ordering::Relaxed)) {
            (true, _) => ClientUse::Answered,
            (false, true) => ClientUse::CutOff,
            (false, false) => ClientUse::Unused,
        }
    }

    /// Fails all open calls with `error`.
    pub(super) fn fail_all(&self, error: &ErrorObject) {
        let open = self.open.lock().close_all();
        for slot in open {
            if slot.call.caller.is_some() {
                self.has_cut_off.store(true, Ordering::Relaxed);
            }
            slot.events.finish(Event::Done(Outcome::Failed(error.clone())));
        }
    }

    /// The latest time when a server request was closed, among the open calls and the recently cancelled ones.
    pub(super) fn latest_closed(&self) -> Option<Instant> {
        let open = self.lock().iter().filter_map(|slot| slot.call.request_closed).max();
        let (lingering, now) = (self.lingering.lock(), Instant::now());
        let cancelled = lingering.values().filter(|one| one.until > now).filter_map(|one| one.request_closed).max();
        open.max(cancelled)
    }

    /// The calls in which a server request was closed `time` ago or earlier.
    pub(super) fn closed_for(&self, time: Duration) -> Vec<u64> {
        let calls = self.lock();
        let closed = |id: &u64| calls.get(*id).and_then(|slot| slot.call.request_closed);
        calls.ids().filter(|id| closed(id).is_some_and(|closed| closed.elapsed() >= time)).collect()
    }

    /// Removes a call that is cancelled before the server answered. Returns its kind, or `None` if it is not open.
    pub(super) fn give_up(&self, id: u64) -> Option<CallKind> {
        self.take_given_up(&mut self.open.lock(), id).map(|slot| slot.call.kind)
    }

    /// Cancels a call whose client still waits; the client gets `error`. Returns false if the call is not open.
    pub(super) fn give_up_with(&self, id: u64, error: ErrorObject) -> bool {
        let Some(slot) = self.take_given_up(&mut self.open.lock(), id) else { return false };
        self.note_answer(&slot.call);
        slot.events.finish(Event::Done(Outcome::Failed(error)));
        true
    }

    /// Moves a call from the open to the lingering ones in one step. In between, a message of this call would be
    /// attributed to another one.
    fn take_given_up(&self, open: &mut SentRequests<CallSlot>, id: u64) -> Option<CallSlot> {
        let slot = self.take(open, id)?;
        let OpenCall { holder, level, request_closed, kind, .. } = &slot.call;
        if self.sharing == Sharing::Ambiguous && *kind != CallKind::Handshake {
            let (mut lingering, now) = (self.lingering.lock(), Instant::now());
            lingering.retain(|_, one| one.until > now);
            let one = Lingering {
                holder: holder.clone(),
                level: *level,
                request_closed: *request_closed,
                until: now + LINGER,
            };
            lingering.insert(id, one);
        }
        Some(slot)
    }

    /// Forgets a cancelled call that the server has answered after all.
    pub(super) fn answered_late(&self, id: u64) {
        self.lingering.lock().remove(&id);
    }

    /// True if the server may still send messages about a cancelled call.
    pub(super) fn has_lingering(&self) -> bool {
        !self.lingering().is_empty()
    }

    /// Sessions of recently cancelled calls.
    fn lingering(&self) -> Vec<Requester> {
        let (mut lingering, now) = (self.lingering.lock(), Instant::now());
        lingering.retain(|_, one| one.until > now);
        lingering.values().map(|one| one.holder.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, SentRequests<CallSlot>> {
        self.open.lock()
    }
}

/// Attribution of messages that name no call.
impl Calls {
    fn note_owner(&self, call: &OpenCall) {
        let Some(caller) = call.caller.as_ref().filter(|_| !call.holder.is_gateway()) else { return };
        if self.sharing == Sharing::Unambiguous {
            return;
        }
        let mut owners = self.owners.lock();
        match &*owners {
            CallOwners::None => *owners = CallOwners::One(Arc::clone(caller)),
            CallOwners::One(known) if !known.owns_the_same_as(caller) => *owners = CallOwners::Several,
            CallOwners::One(_) | CallOwners::Several => {}
        }
    }

    /// True if several owners have called on this connection.
    pub(super) fn have_several_owners(&self) -> bool {
        matches!(*self.owners.lock(), CallOwners::Several)
    }

    /// True if a server request outside of any call can only concern the owner of `caller`.
    pub(super) fn may_concern(&self, caller: &Caller) -> bool {
        match &*self.owners.lock() {
            CallOwners::None => true,
            CallOwners::One(known) => known.owns_the_same_as(caller),
            CallOwners::Several => false,
        }
    }

    /// Selects the call that carries a server request; `None` unless all calls that allow server requests belong to one
    /// client session (design rule 4). Prefers calls that occur less often in `open`, then later ones, so that requests
    /// of a server that sends one in each call spread over the calls.
    pub(super) fn carrier(&self, open: &[u64]) -> Option<u64> {
        let calls = self.lock();
        let lingering = self.lingering();
        let asking = |slot: &&CallSlot| slot.call.kind == CallKind::Asking;
        let able = || calls.ids().filter_map(|id| Some((id, calls.get(id).filter(asking)?)));
        let rank = |(id, _): &(u64, _)| (std::cmp::Reverse(open.iter().filter(|call| *call == id).count()), *id);
        let (best, slot) = able().max_by_key(rank)?;
        let mut others = able().map(|(_, other)| &other.call.holder).chain(&lingering);
        others.all(|other| *other == slot.call.holder).then_some(best)
    }

    /// True if an open call allows server requests.
    pub(super) fn may_be_asked(&self) -> bool {
        self.lock().iter().any(|slot| slot.call.kind == CallKind::Asking)
    }

    /// The call that a log message of this level belongs to (`translation` 3.4, LOG): the latest call of the client
    /// that asked for the level. `None` if several did, counting recently cancelled calls.
    pub(super) fn logger(&self, level: Option<Level>) -> Option<u64> {
        let takes = |lowest: Option<Level>| lowest.is_some_and(|lowest| level.is_none_or(|level| level >= lowest));
        let (calls, now) = (self.lock(), Instant::now());
        let cancelled: Vec<Requester> = {
            let lingering = self.lingering.lock();
            let takes = lingering.values().filter(|one| one.until > now && takes(one.level));
            takes.map(|one| one.holder.clone()).collect()
        };
        let able = || calls.ids().filter_map(|id| Some((id, calls.get(id).filter(|slot| takes(slot.call.level))?)));
        let (latest, slot) = able().max_by_key(|(id, _)| *id)?;
        let mut holders = able().map(|(_, slot)| &slot.call.holder).chain(&cancelled);
        holders.all(|holder| *holder == slot.call.holder).then_some(latest)
    }

    /// The latest call of this client session.
    pub(super) fn latest_of(&self, holder: &Requester) -> Option<u64> {
        let calls = self.lock();
        calls.ids().filter(|id| calls.get(*id).is_some_and(|slot| slot.call.holder == *holder)).max()
    }

    /// Client sessions with open or recently cancelled calls.
    pub(super) fn callers(&self) -> Callers {
        let calls = self.lock();
        let lingering = self.lingering();
        let mut holders = calls.iter().map(|slot| &slot.call.holder).chain(&lingering);
        let Some(first) = holders.next() else { return Callers::None };
        if holders.all(|holder| holder == first) { Callers::One(first.clone()) } else { Callers::Many }
    }

    /// The owner of what the call `id` creates; `None` if the gateway makes it.
    pub(super) fn owner(&self, id: u64) -> Option<CallOwner> {
        self.read(id, |call| {
            let owner = call.caller.as_ref()?.owner();
            Some(CallOwner { owner, holder: call.holder.clone(), token: call.token.clone() })
        })?
    }
}

/// The call whose id a server gives as the subscription of a notification.
pub(super) fn subscription(params: &Payload) -> Option<u64> {
    returned_number(params.meta_member(meta::SUBSCRIPTION_ID)?)
}

/// The end of a call without any message for `timeout`.
pub(super) fn timed_out(backend: &BackendId, timeout: Duration) -> Event {
    let seconds = timeout.as_secs_f64();
    let reason = format!("no sign of life for {seconds} s");
    let message = format!("Server `{backend}` gave no sign of life for {seconds} s, so the call was cancelled");
    let silent = Unavailable { backend, reason: &reason, retry: Retry::Useless, supported: &[] };
    Event::Done(Outcome::Failed(ErrorObject::unavailable(&message, &silent)))
}

/// The message that cancels the call `id` at the server.
pub(super) fn cancellation(id: u64, cancel_reason: &CancelReason) -> Message {
    let reason = json::quote(cancel_reason.reason());
    let params = format!(r#"{{"requestId":{id},"reason":{reason}}}"#);
    Message::Notification { method: Method::Cancelled, params: params.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::connection::call_events::QUEUE,
        mcp::{Notification, Revision},
    };

    fn calls() -> Calls {
        Calls::new(Sharing::Ambiguous, 1, UnansweredCalls::default())
    }

    fn call() -> OpenCall {
        OpenCall::new(Method::ToolsCall, CallKind::Asking)
    }

    fn told() -> Event {
        let params = Payload::absent(Revision::NEWEST_LEGACY);
        Event::Notified(Notification { method: Method::LoggingMessage, params })
    }

    fn done() -> Event {
        Event::Done(Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY)))
    }

    #[test]
    fn a_slow_reader_loses_events_but_never_the_end() {
        let calls = calls();
        let (id, mut events) = calls.open(call(), Account::unbounded(), || None).unwrap();
        for _ in 0..QUEUE.messages * 2 {
            assert!(calls.deliver(id, told()).is_none());
        }
        assert!(calls.deliver(id, done()).is_none());
        for _ in 0..QUEUE.messages {
            assert!(matches!(events.ready(), Some(Event::Notified(_))));
        }
        assert!(matches!(events.ready(), Some(Event::Done(_))), "the end has a place of its own");
        assert!(calls.deliver(id, told()).is_some(), "it runs no more");
    }

    #[test]
    fn an_ended_connection_keeps_no_open_call() {
        let calls = calls();
        let (_, mut events) = calls.open(call(), Account::unbounded(), || None).unwrap();
        calls.fail_all(&ErrorObject::internal("lost"));
        assert!(matches!(events.ready(), Some(Event::Done(Outcome::Failed(_)))));
        let over = || Some("it broke".to_owned());
        assert_eq!(calls.open(call(), Account::unbounded(), over).err().as_deref(), Some("it broke"));
    }

    #[test]
    fn an_event_on_the_exchange_of_another_call_reaches_its_own_call() {
        let calls = calls();
        let (id, _events) = calls.open(call(), Account::unbounded(), || None).unwrap();
        let mut others = Vec::new();
        assert!(calls.own(id, id + 1, told(), |to, _| others.push(to)).is_none());
        assert_eq!(others, [id + 1]);
        assert!(calls.own(id, id, done(), |_, _| ()).is_some());
        assert!(calls.close(id).is_none());
    }
}
