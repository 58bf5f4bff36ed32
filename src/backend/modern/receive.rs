//! What a server of 2026-07-28 sends, and which request it is for.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Peer, call::Running, peer::SPOKEN};
use crate::{
    backend::pending::Slot,
    mcp::{
        ErrorObject, Event, Level, Message, Method, Notification, Outcome, Payload, RequestId,
        json::{self, At, Object},
        meta,
    },
};

impl Peer {
    /// Takes in one message; `on` is the request on whose exchange it came, where it came on one. Gives the request that
    /// it is for and what to tell it.
    pub(super) fn receive(&self, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                self.notified(Notification { method, params: self.payload(params) }, on)
            }
            Message::Request { method, .. } => {
                // 2026-07-28, transports: a server asks in its results alone
                metrics::counter!("lockkeeper_backend_requests_ignored_total", "backend" => self.about.backend.to_string())
                    .increment(1);
                if !self.sent_request.swap(true, Ordering::Relaxed) {
                    tracing::warn!(backend = %self.about.backend, %method, "a server of 2026-07-28 sends requests; they are ignored");
                }
                None
            }
        }
    }

    fn answered(
        &self,
        id: Option<&RequestId>,
        outcome: Result<Bytes, ErrorObject>,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        let call = match id {
            Some(id) => id.as_number(),
            None => on,
        };
        let method = call.and_then(|call| self.calls.lock().get(call).map(|slot| slot.note.method.clone()));
        let (Some(call), Some(method)) = (call, method) else {
            if let Some(call) = call {
                self.answered_late(call);
            }
            tracing::debug!(backend = %self.about.backend, "an answer to no open request is passed over");
            metrics::counter!("lockkeeper_backend_stray_answers_total").increment(1);
            return None;
        };
        let outcome = match outcome {
            Ok(result) => match Outcome::of_result(&self.about.backend, self.payload(result)) {
                Outcome::Complete(result) => Outcome::of_modern(&method, result),
                broken => broken,
            },
            // 2.3: it could not read what the gateway wrote, which is nothing that the client did
            Err(error) if error.is_of_the_frame() => {
                tracing::warn!(backend = %self.about.backend, %error, "the backend could not read a request");
                Outcome::Failed(error.written_in(SPOKEN).hidden().naming_backend(&self.about.backend))
            }
            Err(error) => Outcome::Failed(error.written_in(SPOKEN)),
        };
        Some((call, Event::Done(outcome)))
    }

    fn notified(&self, told: Notification, on: Option<u64>) -> Option<(u64, Event)> {
        match told.method {
            Method::Progress => self.progressed(&told.params),
            Method::LoggingMessage => self.logger(&told, on).map(|call| (call, Event::Notified(told))),
            // a listen is ended so on a channel (2026-07-28, cancellation)
            Method::Cancelled => {
                let object = told.params.object()?;
                let call = number(object.get("requestId")?)?;
                let error = ErrorObject::retryable("the server ended the subscription");
                Some((call, Event::Done(Outcome::Failed(error))))
            }
            _ => {
                let call = on.or_else(|| subscription(&told.params));
                if call.is_none() {
                    metrics::counter!("lockkeeper_backend_unattributed_total").increment(1);
                }
                call.map(|call| (call, Event::Notified(told)))
            }
        }
    }

    /// Progress goes to the request whose token it carries, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let object = params.object()?;
        let id = number(object.get("progressToken")?)?;
        let token = self.calls.lock().get(id)?.note.token.clone()?;
        let token = String::from_utf8_lossy(&token).into_owned();
        let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
        Some((id, Event::Notified(Notification { method: Method::Progress, params })))
    }

    /// The request that a log message is for: the one on whose exchange it came; on a channel the only one that asked for
    /// such (`translation` 3.4, LOG), calls that were given up of late among them.
    fn logger(&self, told: &Notification, on: Option<u64>) -> Option<u64> {
        if on.is_some() {
            return on;
        }
        let level = told.params.string("level").and_then(|name| Level::parse(&name));
        let calls = self.calls.lock();
        let wants =
            |slot: &Slot<Running>| slot.note.level.is_some_and(|lowest| level.is_none_or(|level| level >= lowest));
        let mut able = calls.ids().filter(|id| calls.get(*id).is_some_and(wants));
        let only = able.next().filter(|_| able.next().is_none() && !self.may_linger(level));
        if only.is_none() {
            metrics::counter!("lockkeeper_backend_unattributed_total").increment(1);
        }
        only
    }

    fn payload(&self, json: Bytes) -> Payload {
        Payload::new(SPOKEN, json).of_backend(&self.about.backend)
    }
}

/// Which listen a notification belongs to.
fn subscription(params: &Payload) -> Option<u64> {
    let object = params.object()?;
    let meta = Object::parse(object.get(meta::META)?.as_bytes())?;
    number(meta.get(meta::SUBSCRIPTION_ID)?)
}

/// One of the gateway's own numbers, which some servers make a string of.
fn number(text: &str) -> Option<u64> {
    json::unquote(text).unwrap_or_else(|| text.to_owned()).parse().ok()
}
