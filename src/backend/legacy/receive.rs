//! What a server sends, and whom it is for.

use std::sync::Arc;

use bytes::Bytes;

use super::{Session, call::Slot};
use crate::mcp::{ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId, json, json::At};

impl Session {
    /// Takes in one message; `on` is the call on whose exchange it came, where it came on one. Gives the call that it is
    /// for and what to tell it; everything else is seen to here.
    pub(super) fn receive(self: &Arc<Self>, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                let params = Payload::new(self.revision(), params);
                match method {
                    Method::Progress => self.progressed(&params),
                    Method::Cancelled => {
                        self.withdrawn(&params);
                        None
                    }
                    _ => self.notified(Notification { method, params }, on),
                }
            }
            Message::Request { id, method: Method::Ping, .. } => {
                self.tell(Message::result(id, Bytes::from_static(b"{}")));
                None
            }
            Message::Request { id, method, params } => {
                let params = Payload::new(self.revision(), params);
                self.asked(id, method, params, on)
            }
        }
    }

    /// Hands `event` to the call `id`. Where its queue is full the event is dropped: a slow reader stalls nobody else
    /// (design rule 7); an end is never dropped.
    pub(super) fn deliver(&self, id: u64, event: Event) {
        let mut calls = self.calls.lock();
        if matches!(event, Event::Done(_)) {
            let slot = calls.close(id);
            drop(calls);
            if let Some(slot) = slot {
                slot.finish(event);
            }
        } else if let Some(slot) = calls.get(id)
            && !slot.offer(event)
        {
            metrics::counter!("lockkeeper_backend_notifications_dropped_total").increment(1);
        }
    }

    fn answered(
        &self,
        id: Option<&RequestId>,
        outcome: Result<Bytes, ErrorObject>,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        // an error whose request could not be read has no id: the exchange tells whose it is
        let call = match id {
            Some(id) => id.as_number(),
            None => on,
        };
        let known = call.filter(|call| self.calls.lock().get(*call).is_some());
        let Some(call) = known else {
            tracing::debug!(backend = %self.about.backend, "an answer to no open request is passed over");
            metrics::counter!("lockkeeper_backend_stray_answers_total").increment(1);
            return None;
        };
        let outcome = match outcome {
            Ok(result) => Outcome::Complete(Payload::new(self.revision(), result)),
            Err(error) => Outcome::Failed(error),
        };
        Some((call, Event::Done(outcome)))
    }

    /// Progress goes to the call whose token it carries, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let object = params.object()?;
        let token = object.get("progressToken")?;
        // some servers make a string of it
        let id: u64 = json::unquote(token).unwrap_or_else(|| token.to_owned()).parse().ok()?;
        let theirs = self.calls.lock().get(id)?.token.clone()?;
        let theirs = String::from_utf8_lossy(&theirs).into_owned();
        let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(theirs.clone()));
        Some((id, Event::Notified(Notification { method: Method::Progress, params })))
    }

    fn notified(&self, notification: Notification, on: Option<u64>) -> Option<(u64, Event)> {
        if let Some(call) = on {
            return Some((call, Event::Notified(notification)));
        }
        self.about.listens.tell(&self.about.key, &notification);
        None
    }

    /// The call that may carry a question which came on no exchange: the only one that runs, or any where all are one
    /// client's (design rule 4).
    pub(super) fn carrier(&self) -> Option<u64> {
        let calls = self.calls.lock();
        let carries = |id: &u64| calls.get(*id).is_some_and(Slot::carries);
        let mut able = calls.ids().filter(carries);
        let first = able.next()?;
        (able.next().is_none() || self.about.key.is_of_one_client()).then_some(first)
    }
}
