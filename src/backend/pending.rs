//! The requests that run on one connection to one server, and where the events of each go. Knows nothing of what is asked,
//! and in which version.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::end::End;
use crate::{
    mcp::{
        ErrorObject, Event, Farewell, Message, Method, Outcome,
        error::{Retry, Unavailable},
        json,
    },
    model::BackendId,
    wire::peer::Requests,
};

/// How many events wait for a slow reader of one reply.
const QUEUE: usize = 256;

/// The requests that run; of each is noted a `T`.
#[derive(Debug)]
pub(crate) struct Pending<T>(Mutex<Requests<Slot<T>>>);

/// One request that runs: where its events go, with a place kept for the last.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    /// What is noted of it.
    pub(crate) note: T,
    events: mpsc::Sender<Event>,
    end: mpsc::OwnedPermit<Event>,
}

// === impl Pending ===

impl<T> Pending<T> {
    /// Opens a request on a connection that ends with `end`; gives its id, and its events as they are delivered.
    ///
    /// # Errors
    ///
    /// Why nothing is sent on this connection any more.
    pub(crate) fn open(&self, note: T, end: &End) -> Result<(u64, mpsc::Receiver<Event>), String> {
        let (sender, events) = mpsc::channel(QUEUE);
        let Ok(last) = sender.clone().try_reserve_owned() else { return Err("no room".to_owned()) };
        // under the lock that `fail_all` takes, so that no request is left behind on a connection that is over
        let mut requests = self.0.lock();
        if end.has_come() {
            return Err(end.reason());
        }
        Ok((requests.open(Slot { note, events: sender, end: last }), events))
    }

    /// What runs now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Requests<Slot<T>>> {
        self.0.lock()
    }

    /// Takes the request `id` out and gives what was noted of it; `None` where it does not run any more.
    pub(crate) fn close(&self, id: u64) -> Option<T> {
        self.0.lock().close(id).map(|slot| slot.note)
    }

    /// Hands `event` to the request `id`, or back where that does not run any more. Where its queue is full the event is
    /// dropped: a slow reader stalls nobody else (design rule 7); an end is never dropped.
    pub(crate) fn deliver(&self, id: u64, event: Event) -> Option<Event> {
        let mut requests = self.0.lock();
        if matches!(event, Event::Done(_)) {
            let slot = requests.close(id);
            drop(requests);
            let Some(slot) = slot else { return Some(event) };
            slot.end.send(event);
            return None;
        }
        let Some(slot) = requests.get(id) else { return Some(event) };
        if slot.events.try_send(event).is_err() {
            metrics::counter!("lockkeeper_backend_notifications_dropped_total").increment(1);
        }
        None
    }

    /// Of what came on the exchange of the request `id`, what is for it, which need not be delivered; the rest goes to
    /// `others`.
    pub(crate) fn own(&self, id: u64, (to, event): (u64, Event), others: impl FnOnce(u64, Event)) -> Option<Event> {
        if to != id {
            others(to, event);
            return None;
        }
        if matches!(event, Event::Done(_)) {
            self.close(id);
        }
        Some(event)
    }

    /// Ends every request with this error.
    pub(crate) fn fail_all(&self, error: &ErrorObject) {
        let open = self.0.lock().close_all();
        for slot in open {
            slot.end.send(Event::Done(Outcome::Failed(error.clone())));
        }
    }
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The end of a request at which the server was silent for longer than `patience`.
pub(crate) fn timed_out(backend: &BackendId, patience: Duration) -> Event {
    let seconds = patience.as_secs_f64();
    let reason = format!("no sign of life for {seconds} s");
    let message = format!("Backend `{backend}` gave no sign of life for {seconds} s, so the call was cancelled");
    let silent = Unavailable { backend, reason: &reason, retry: Retry::Useless, supported: &[] };
    Event::Done(Outcome::Failed(ErrorObject::unavailable(&message, &silent)))
}

/// What tells the server that the request `id` is given up.
pub(crate) fn cancellation(id: u64, farewell: &Farewell) -> Message {
    let reason = json::quote(farewell.reason());
    let params = format!(r#"{{"requestId":{id},"reason":{reason}}}"#);
    Message::Notification { method: Method::Cancelled, params: params.into() }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::mcp::{Notification, Payload, Revision};

    fn told() -> Event {
        let params = Payload::absent(Revision::NEWEST_LEGACY);
        Event::Notified(Notification { method: Method::LoggingMessage, params })
    }

    fn done() -> Event {
        Event::Done(Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY)))
    }

    #[test]
    fn a_slow_reader_loses_what_comes_on_the_way_and_never_the_end() {
        let (pending, end) = (Pending::default(), End::within(&CancellationToken::new()));
        let (id, mut events) = pending.open("one", &end).unwrap();
        for _ in 0..QUEUE * 2 {
            assert!(pending.deliver(id, told()).is_none());
        }
        assert!(pending.deliver(id, done()).is_none());
        for _ in 1..QUEUE {
            assert!(matches!(events.try_recv(), Ok(Event::Notified(_))));
        }
        assert!(matches!(events.try_recv(), Ok(Event::Done(_))), "the end has a place of its own");
        assert!(pending.deliver(id, told()).is_some(), "it runs no more");
    }

    #[test]
    fn nothing_is_left_behind_on_a_connection_that_is_over() {
        let (pending, end) = (Pending::default(), End::within(&CancellationToken::new()));
        let (_, mut events) = pending.open("one", &end).unwrap();
        end.comes("it broke");
        pending.fail_all(&ErrorObject::internal("lost"));
        assert!(matches!(events.try_recv(), Ok(Event::Done(Outcome::Failed(_)))));
        assert_eq!(pending.open("two", &end).err().as_deref(), Some("it broke"));
    }

    #[test]
    fn what_came_on_the_exchange_of_another_request_goes_to_that() {
        let (pending, end) = (Pending::default(), End::within(&CancellationToken::new()));
        let (id, _events) = pending.open("one", &end).unwrap();
        let mut others = Vec::new();
        assert!(pending.own(id, (id + 1, told()), |to, _| others.push(to)).is_none());
        assert_eq!(others, [id + 1]);
        assert!(pending.own(id, (id, done()), |_, _| ()).is_some());
        assert_eq!(pending.close(id), None);
    }
}
