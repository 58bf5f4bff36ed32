//! The open calls of one connection, and what the server may still say of ended ones. Knows nothing of versions.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    call_events::{EventReceiver, EventSender, call_events},
    ownership::{CallOwner, Ownership},
};
use crate::{
    mcp::{
        CancelReason, ErrorObject, Event, Level, Message, Method, Outcome,
        error::{Retry, Unavailable},
        json,
    },
    model::{BackendId, Requester},
    wire::sent_requests::SentRequests,
};

/// The time for which a server may still speak of a call that was given up: what it asks or tells until then may be of that
/// call, and is nobody else's.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// Open calls, calls that were given up of late, and the owners of what calls left behind.
pub(crate) struct Calls {
    open: Mutex<SentRequests<CallSlot>>,
    lingering: Mutex<HashMap<u64, Lingering>>,
    pub(super) ownership: Mutex<Ownership>,
    sharing: Sharing,
}

/// Whether a message that names no call may be of several client sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One client session makes all calls, or each answer comes on an exchange of its own.
    Unambiguous,
    /// Several client sessions make calls.
    Ambiguous,
}

/// One open call, and where its events go.
struct CallSlot {
    call: OpenCall,
    events: EventSender,
}

/// An open call.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    /// Its method.
    pub(super) method: Method,
    /// The client's own progress token.
    pub(super) token: Option<Bytes>,
    /// The client session that makes it.
    pub(super) holder: Requester,
    /// Log messages that it is to give (2026-07-28).
    pub(super) level: Option<Level>,
    /// Its kind.
    pub(super) kind: CallKind,
    /// Time at which its client last answered a request of the server.
    pub(super) answered: Option<Instant>,
    /// Time at which a request of the server in it was closed, unless its client has answered another since.
    pub(super) request_closed: Option<Instant>,
}

/// Kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The handshake: it is never cancelled (all versions, cancellation), and the server asks nothing in it.
    Handshake,
    /// A client's, in which the server may send it requests.
    Asking,
    /// A client's or the gateway's own, in which the server may not.
    Plain,
}

/// A call that was given up.
#[derive(Debug)]
struct Lingering {
    holder: Requester,
    level: Option<Level>,
    until: Instant,
}

/// Client sessions that have calls on one connection.
pub(super) enum Callers {
    /// None has.
    None,
    /// This one alone has.
    One(Requester),
    /// Several have.
    Many,
}

// === impl OpenCall ===

impl OpenCall {
    /// A call of nobody's, without token and level.
    pub(super) const fn new(method: Method, kind: CallKind) -> Self {
        Self {
            method,
            token: None,
            holder: Requester::Gateway,
            level: None,
            kind,
            answered: None,
            request_closed: None,
        }
    }
}

// === impl Calls ===

impl Calls {
    /// No calls.
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { open: Mutex::default(), lingering: Mutex::default(), ownership: Mutex::default(), sharing }
    }

    /// Opens a call; gives its id, and its events as they are delivered. `over` says why the connection has ended, if it has.
    ///
    /// # Errors
    ///
    /// Why nothing is sent on this connection any more.
    pub(super) fn open(
        &self,
        call: OpenCall,
        over: impl FnOnce() -> Option<String>,
    ) -> Result<(u64, EventReceiver), String> {
        let (sender, events) = call_events();
        // under the lock that `fail_all` takes, so that no call is left behind on a connection that is over
        let mut open = self.open.lock();
        if let Some(reason) = over() {
            return Err(reason);
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

    /// Whether the call `id` is open.
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open.lock().get(id).is_some()
    }

    /// Takes the call `id` out; `None` if it is not open any more.
    pub(super) fn close(&self, id: u64) -> Option<OpenCall> {
        self.open.lock().close(id).map(|slot| slot.call)
    }

    /// Hands `event` to the call `id`, or back if that is not open any more. Where its queue is full the event is dropped: a
    /// slow reader stalls nobody else (design rule 7); an end is never dropped.
    pub(super) fn deliver(&self, id: u64, event: Event) -> Option<Event> {
        let mut open = self.open.lock();
        if matches!(event, Event::Done(_)) {
            let slot = open.close(id);
            drop(open);
            let Some(slot) = slot else { return Some(event) };
            slot.events.end(event);
            return None;
        }
        let Some(slot) = open.get(id) else { return Some(event) };
        if !slot.events.send(event) {
            metrics::counter!("lockkeeper_backend_notifications_dropped_total").increment(1);
        }
        None
    }

    /// Of what came on the exchange of the call `id`, what is for it, which need not be delivered; the rest goes to `others`.
    pub(super) fn own(&self, id: u64, (to, event): (u64, Event), others: impl FnOnce(u64, Event)) -> Option<Event> {
        if to != id {
            others(to, event);
            return None;
        }
        if matches!(event, Event::Done(_)) {
            self.close(id);
        }
        Some(event)
    }

    /// Ends every call with this error.
    pub(super) fn fail_all(&self, error: &ErrorObject) {
        let open = self.open.lock().close_all();
        for slot in open {
            slot.events.end(Event::Done(Outcome::Failed(error.clone())));
        }
    }

    /// The time at which the latest request of the server was closed in a call that goes on.
    pub(super) fn latest_closed(&self) -> Option<Instant> {
        self.lock().iter().filter_map(|slot| slot.call.request_closed).max()
    }

    /// The calls in which a request of the server was closed `time` ago or earlier.
    pub(super) fn closed_for(&self, time: Duration) -> Vec<u64> {
        let calls = self.lock();
        let closed = |id: &u64| calls.get(*id).and_then(|slot| slot.call.request_closed);
        calls.ids().filter(|id| closed(id).is_some_and(|closed| closed.elapsed() >= time)).collect()
    }

    /// Notes that a call was given up before the server answered it.
    pub(super) fn given_up(&self, id: u64, call: OpenCall) {
        if self.sharing == Sharing::Unambiguous {
            return;
        }
        let OpenCall { holder, level, .. } = call;
        let (mut lingering, now) = (self.lingering.lock(), Instant::now());
        lingering.retain(|_, one| one.until > now);
        lingering.insert(id, Lingering { holder, level, until: now + LINGER });
    }

    /// Notes that the server says nothing more of a call that was given up.
    pub(super) fn answered_late(&self, id: u64) {
        self.lingering.lock().remove(&id);
    }

    /// Whether the server may still speak of a call that was given up.
    pub(super) fn has_lingering(&self) -> bool {
        !self.lingering().is_empty()
    }

    /// Callers of the calls that were given up of late.
    fn lingering(&self) -> Vec<Requester> {
        let (mut lingering, now) = (self.lingering.lock(), Instant::now());
        lingering.retain(|_, one| one.until > now);
        lingering.values().map(|one| one.holder.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, SentRequests<CallSlot>> {
        self.open.lock()
    }
}

/// To which call a message belongs that names none.
impl Calls {
    /// The call that carries a request of the server: of the one client session that has calls here in which it can be asked
    /// (design rule 4), the latest of those with the fewest requests in `open`, so that each gets its own from a server that
    /// asks once in each.
    pub(super) fn carrier(&self, open: &[u64]) -> Option<u64> {
        let lingering = self.lingering();
        let calls = self.lock();
        let asking = |slot: &&CallSlot| slot.call.kind == CallKind::Asking;
        let able = || calls.ids().filter_map(|id| Some((id, calls.get(id).filter(asking)?)));
        let rank = |(id, _): &(u64, _)| (std::cmp::Reverse(open.iter().filter(|call| *call == id).count()), *id);
        let (best, slot) = able().max_by_key(rank)?;
        let mut others = able().map(|(_, other)| &other.call.holder).chain(&lingering);
        others.all(|other| *other == slot.call.holder).then_some(best)
    }

    /// The call that a log message of this level is for: the only one that asked for such (`translation` 3.4, LOG), calls that
    /// were given up of late among them.
    pub(super) fn logger(&self, level: Option<Level>) -> Option<u64> {
        let takes = |lowest: Option<Level>| lowest.is_some_and(|lowest| level.is_none_or(|level| level >= lowest));
        let now = Instant::now();
        let may_linger = self.lingering.lock().values().any(|one| one.until > now && takes(one.level));
        let calls = self.lock();
        let mut able = calls.ids().filter(|id| calls.get(*id).is_some_and(|slot| takes(slot.call.level)));
        able.next().filter(|_| able.next().is_none() && !may_linger)
    }

    /// The latest call of this client session.
    pub(super) fn latest_of(&self, holder: &Requester) -> Option<u64> {
        let calls = self.lock();
        calls.ids().filter(|id| calls.get(*id).is_some_and(|slot| slot.call.holder == *holder)).max()
    }

    /// Client sessions that have calls here, those given up of late among them.
    pub(super) fn callers(&self) -> Callers {
        let lingering = self.lingering();
        let calls = self.lock();
        let mut holders = calls.iter().map(|slot| &slot.call.holder).chain(&lingering);
        let Some(first) = holders.next() else { return Callers::None };
        if holders.all(|holder| holder == first) { Callers::One(first.clone()) } else { Callers::Many }
    }

    /// The owner of what comes of the call `id`.
    pub(super) fn owner(&self, id: u64) -> Option<CallOwner> {
        self.read(id, |call| CallOwner { holder: call.holder.clone(), token: call.token.clone() })
    }
}

/// The end of a call at which the server was silent for longer than `timeout`.
pub(super) fn timed_out(backend: &BackendId, timeout: Duration) -> Event {
    let seconds = timeout.as_secs_f64();
    let reason = format!("no sign of life for {seconds} s");
    let message = format!("Backend `{backend}` gave no sign of life for {seconds} s, so the call was cancelled");
    let silent = Unavailable { backend, reason: &reason, retry: Retry::Useless, supported: &[] };
    Event::Done(Outcome::Failed(ErrorObject::unavailable(&message, &silent)))
}

/// The message that tells the server that the call `id` is given up.
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
        mcp::{Notification, Payload, Revision},
    };

    fn calls() -> Calls {
        Calls::new(Sharing::Ambiguous)
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
    fn a_slow_reader_loses_what_comes_on_the_way_and_never_the_end() {
        let calls = calls();
        let (id, mut events) = calls.open(call(), || None).unwrap();
        for _ in 0..QUEUE * 2 {
            assert!(calls.deliver(id, told()).is_none());
        }
        assert!(calls.deliver(id, done()).is_none());
        for _ in 1..QUEUE {
            assert!(matches!(events.ready(), Some(Event::Notified(_))));
        }
        assert!(matches!(events.ready(), Some(Event::Done(_))), "the end has a place of its own");
        assert!(calls.deliver(id, told()).is_some(), "it runs no more");
    }

    #[test]
    fn nothing_is_left_behind_on_a_connection_that_is_over() {
        let calls = calls();
        let (_, mut events) = calls.open(call(), || None).unwrap();
        calls.fail_all(&ErrorObject::internal("lost"));
        assert!(matches!(events.ready(), Some(Event::Done(Outcome::Failed(_)))));
        let over = || Some("it broke".to_owned());
        assert_eq!(calls.open(call(), over).err().as_deref(), Some("it broke"));
    }

    #[test]
    fn what_came_on_the_exchange_of_another_request_goes_to_that() {
        let calls = calls();
        let (id, _events) = calls.open(call(), || None).unwrap();
        let mut others = Vec::new();
        assert!(calls.own(id, (id + 1, told()), |to, _| others.push(to)).is_none());
        assert_eq!(others, [id + 1]);
        assert!(calls.own(id, (id, done()), |_, _| ()).is_some());
        assert!(calls.close(id).is_none());
    }
}
