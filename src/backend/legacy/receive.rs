//! What a server sends, and whom it is for.

use std::{cmp::Reverse, sync::Arc};

use bytes::Bytes;

use super::{
    Session,
    belongings::{Owner, Thing},
};
use crate::{
    backend::{key::Scope, wants::Topic},
    mcp::{ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId, json, json::At, task},
    model::Requester,
};

impl Session {
    /// Takes in one message; `on` is the call on whose exchange it came, where it came on one. Gives the call that it is
    /// for and what to tell it; everything else is seen to here.
    pub(super) fn receive(self: &Arc<Self>, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                let params = self.payload(params);
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
                let params = self.payload(params);
                self.asked(id, method, params, on)
            }
        }
    }

    /// Hands `event` to the call `id`. A question whose call has just ended goes to the listen.
    pub(super) fn deliver(&self, id: u64, event: Event) {
        if let Some(Event::Asked(question)) = self.calls.deliver(id, event) {
            // where nobody listens it is refused by being dropped
            drop(self.about.listens.ask(&self.about.key, question));
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
            if let Some(call) = call {
                self.lingering.lock().remove(&call);
            }
            tracing::debug!(backend = %self.about.backend, "an answer to no open request is passed over");
            metrics::counter!("lockkeeper_backend_stray_answers_total").increment(1);
            return None;
        };
        let outcome = match outcome {
            Ok(result) => Outcome::of_result(&self.about.backend, self.payload(result)),
            // 2.3: it could not read what the gateway wrote, which is nothing that the client did
            Err(error) if id.is_none() && error.is_of_the_frame() => {
                tracing::warn!(backend = %self.about.backend, %error, "the backend could not read a request");
                Outcome::Failed(error.hidden().naming_backend(&self.about.backend))
            }
            Err(error) => Outcome::Failed(error.written_in(self.revision())),
        };
        if let Outcome::Complete(result) = &outcome {
            self.note_task(call, result);
        }
        Some((call, Event::Done(outcome)))
    }

    /// Progress goes to the call whose token it carries, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let object = params.object()?;
        let token = object.get("progressToken")?;
        // some servers make a string of it
        let id: u64 = json::unquote(token).unwrap_or_else(|| token.to_owned()).parse().ok()?;
        let running = self.calls.lock().get(id).map(|slot| slot.note.token.clone());
        let Some(running) = running else {
            self.progressed_later(id, params);
            return None;
        };
        Some((id, Event::Notified(under_token(params, &running?))))
    }

    /// Progress of a task goes on after the call that made it (2025-11-25, tasks), to the client session that called.
    fn progressed_later(&self, id: u64, params: &Payload) {
        let owner = self.belongings.lock().owner(&Thing::Token(id)).cloned();
        if let Some(Owner { token: Some(token), holder }) = owner {
            self.about.listens.tell(&self.about.key, &under_token(params, &token), |other| *other == holder);
        }
    }

    fn notified(&self, notification: Notification, on: Option<u64>) -> Option<(u64, Event)> {
        if let Some(call) = on {
            return Some((call, Event::Notified(notification)));
        }
        let audience = self.audience(&notification);
        let heard = self.about.listens.tell(&self.about.key, &notification, |holder| match &audience {
            Audience::All => true,
            Audience::One(owner) => holder == owner,
            Audience::Subscribers(topic) => self.about.wants.is_subscribed(&self.about.key, holder, topic),
            Audience::Nobody => false,
        });
        match audience {
            // who has no session has no ear but its call (`translation` 3.4, LOG)
            Audience::One(holder) if !heard => {
                self.latest_of(&holder).map(|call| (call, Event::Notified(notification)))
            }
            _ => None,
        }
    }

    fn latest_of(&self, holder: &Requester) -> Option<u64> {
        let calls = self.calls.lock();
        calls.ids().filter(|id| calls.get(*id).is_some_and(|slot| slot.note.holder == *holder)).max()
    }

    /// Whom it is for that came on no exchange. Where one client session alone is behind this one, it is for that one.
    fn audience(&self, told: &Notification) -> Audience {
        let params = &told.params;
        let shared_by_people = self.about.key.scope == Scope::All || self.about.key.is_base();
        if self.about.key.is_of_one_client() {
            return Audience::All;
        }
        let owner = |thing| match self.belongings.lock().owner(&thing) {
            Some(owner) => Audience::One(owner.holder.clone()),
            None => Audience::Nobody,
        };
        match &told.method {
            Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged => Audience::All,
            Method::ResourceUpdated => {
                params.string("uri").map_or(Audience::Nobody, |uri| Audience::Subscribers(Topic::Resource(uri)))
            }
            Method::TaskStatus => params.string("taskId").map_or(Audience::Nobody, |id| owner(Thing::Task(id))),
            Method::ElicitationComplete => {
                params.string("elicitationId").map_or(Audience::Nobody, |id| owner(Thing::Elicitation(id)))
            }
            _ => match self.sole_caller() {
                Callers::One(holder) => Audience::One(holder),
                Callers::Many if shared_by_people => {
                    metrics::counter!("lockkeeper_backend_unattributed_total").increment(1);
                    Audience::Nobody
                }
                Callers::None | Callers::Many => Audience::All,
            },
        }
    }

    /// Who has calls running here.
    fn sole_caller(&self) -> Callers {
        let lingering = self.lingering();
        let calls = self.calls.lock();
        let mut holders = calls.iter().map(|slot| &slot.note.holder).chain(&lingering);
        let Some(first) = holders.next() else { return Callers::None };
        if holders.all(|holder| holder == first) { Callers::One(first.clone()) } else { Callers::Many }
    }

    fn note_task(&self, call: u64, result: &Payload) {
        let Some(task) = task::created(result) else { return };
        let Some(owner) = self.calls.lock().get(call).map(|slot| slot.note.owner()) else { return };
        let mut belongings = self.belongings.lock();
        belongings.note(Thing::Task(task), Owner { token: None, ..owner.clone() });
        belongings.note(Thing::Token(call), owner);
    }

    fn payload(&self, json: Bytes) -> Payload {
        let payload = Payload::new(self.revision(), json).of_backend(&self.about.backend);
        match self.greeting() {
            Some(greeting) => payload.of_server(Arc::clone(&greeting.implementation)),
            None => payload,
        }
    }

    /// The call that carries a question which came on no exchange: of the one client session that has calls here in which
    /// it can be asked (design rule 4), the latest of those with the fewest open questions, so that each gets its own from
    /// a server that asks once in each.
    pub(super) fn carrier(&self) -> Option<u64> {
        let (lingering, open) = (self.lingering(), self.open_questions());
        let calls = self.calls.lock();
        let able = || calls.ids().filter_map(|id| Some((id, calls.get(id).filter(|slot| slot.note.carries())?)));
        let rank = |(id, _): &(u64, _)| (Reverse(open.iter().filter(|call| *call == id).count()), *id);
        let (best, slot) = able().max_by_key(rank)?;
        let mut others = able().map(|(_, other)| &other.note.holder).chain(&lingering);
        others.all(|other| *other == slot.note.holder).then_some(best)
    }
}

/// Whom something is for.
enum Audience {
    All,
    One(Requester),
    Subscribers(Topic),
    Nobody,
}

/// Who has calls running.
enum Callers {
    None,
    One(Requester),
    Many,
}

/// Progress under the client's own token (design rule 1).
fn under_token(params: &Payload, token: &Bytes) -> Notification {
    let token = String::from_utf8_lossy(token).into_owned();
    let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
    Notification { method: Method::Progress, params }
}
