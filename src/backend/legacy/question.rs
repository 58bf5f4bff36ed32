//! What a server asks its client: sampling, elicitation, roots.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Session,
    belongings::{Owner, Thing, name},
};
use crate::mcp::{Answered, ErrorObject, Event, Heard, Message, Method, Payload, Question, RequestId};

/// How many questions one server may have open at once.
const MOST_QUESTIONS: usize = 64;

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    method: Method,
    withdrawn: CancellationToken,
    /// When it was put to the client.
    pub(super) since: Instant,
    /// The call that carries it.
    pub(super) call: Option<u64>,
}

impl Session {
    /// Takes in a request of the server's. Where it is a question that the client can be asked, it goes to the call that
    /// carries it, else to the listen; everything else is refused on the spot.
    pub(super) fn asked(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        params: Payload,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        if !self.can_be_asked(&method) {
            self.tell(Message::error(id, refusal(&method)));
            return None;
        }
        let call = on.or_else(|| self.carrier());
        if call.is_none() && !self.lingering().is_empty() {
            // it may be of a call that was given up, and is nobody else's
            self.tell(cancelled(id, &method));
            return None;
        }
        let withdrawn = CancellationToken::new();
        {
            let mut questions = self.questions.lock();
            if questions.len() >= MOST_QUESTIONS || questions.contains_key(&id) {
                drop(questions);
                self.tell(Message::error(id, ErrorObject::internal("too many questions at once, or one id twice")));
                return None;
            }
            let (since, withdrawn) = (Instant::now(), withdrawn.clone());
            let waiting = Waiting { method: method.clone(), withdrawn, since, call: None };
            questions.insert(id.clone(), waiting);
        }
        if let Some(call) = call {
            self.carried(&id, call, &params);
        }
        let (question, answered) = Question::new(method.clone(), params);
        self.await_answer(id.clone(), method, answered, withdrawn);
        if let Some(call) = call {
            return Some((call, Event::Asked(question)));
        }
        if let Err(question) = self.about.listens.ask(&self.about.key, question) {
            self.hold(id, question);
        }
        None
    }

    /// Ties a question to the call that carries it.
    pub(super) fn carried(&self, id: &RequestId, call: u64, params: &Payload) {
        if let Some(waiting) = self.questions.lock().get_mut(id) {
            (waiting.call, waiting.since) = (Some(call), Instant::now());
        }
        self.note_elicitation(call, params);
    }

    /// The server takes a question back.
    pub(super) fn withdrawn(&self, params: &Payload) {
        let Some(id) = params.object().and_then(|object| object.get("requestId").map(str::to_owned)) else { return };
        let question = RequestId::read(&id.into()).and_then(|id| self.questions.lock().remove(&id));
        if let Some(question) = question {
            self.closed(&question);
            question.withdrawn.cancel();
        }
    }

    /// Closes the questions of a call whose client answers no more; gives the answers for the server.
    pub(super) fn close_questions(&self, call: u64) -> Vec<Message> {
        let closed: Vec<(RequestId, Waiting)> =
            self.questions.lock().extract_if(|_, waiting| waiting.call == Some(call)).collect();
        let close = |(id, waiting): (RequestId, Waiting)| {
            self.closed(&waiting);
            waiting.withdrawn.cancel();
            cancelled(id, &waiting.method)
        };
        closed.into_iter().map(close).collect()
    }

    /// Whether the client is being asked something in this call.
    pub(super) fn asks_in(&self, call: u64) -> bool {
        self.questions.lock().values().any(|waiting| waiting.call == Some(call))
    }

    /// The calls in which the client is being asked, each as often as it is.
    pub(super) fn open_questions(&self) -> Vec<u64> {
        self.questions.lock().values().filter_map(|waiting| waiting.call).collect()
    }

    /// The client has answered, or has not to any more: from now on silence is the server's again.
    fn closed(&self, waiting: &Waiting) {
        if let Some(call) = waiting.call
            && let Some(slot) = self.calls.lock().get(call)
        {
            *slot.note.answered.lock() = Some(Instant::now());
            *slot.note.question_closed.lock() = None;
        }
    }

    /// That an elicitation by URL is complete is told later, to the one who was asked.
    fn note_elicitation(&self, call: u64, params: &Payload) {
        let Some(id) = name(params, "elicitationId") else { return };
        if let Some(holder) = self.calls.lock().get(call).map(|slot| slot.note.holder.clone()) {
            self.belongings.lock().note(Thing::Elicitation(id), Owner { holder, token: None });
        }
    }

    /// Whether the client behind this session said that it answers `method`, and the handshake is done.
    fn can_be_asked(&self, method: &Method) -> bool {
        let capability = match method {
            Method::CreateMessage => "sampling",
            Method::Elicit => "elicitation",
            Method::RootsList => "roots",
            // 2025-11-25 tasks: those that the client executes, of which several clients could have one of the same id
            method if method.is_of_core_tasks() && self.about.key.is_of_one_client() => "tasks",
            // a method of the server's own: its client is the judge, where there is one
            Method::Other(_) => return self.greeting().is_some() && self.about.key.is_of_one_client(),
            _ => return false,
        };
        self.greeting().is_some() && self.about.capabilities.has(capability)
    }

    /// Waits for the answer in a task of its own, since the reply that carries the question goes on meanwhile.
    fn await_answer(
        self: &Arc<Self>,
        id: RequestId,
        method: Method,
        mut answered: Answered,
        withdrawn: CancellationToken,
    ) {
        let session = Arc::clone(self);
        self.about.tasks.spawn(async move {
            let answer = loop {
                let heard = tokio::select! {
                    heard = answered.next() => heard,
                    // dropping `answered` tells the client's side that nobody waits any more
                    () = withdrawn.cancelled() => return,
                    _ = session.over() => return,
                };
                match heard {
                    Some(Heard::Progress(params)) => {
                        let params = params.json().clone();
                        session.tell(Message::Notification { method: Method::Progress, params });
                    }
                    Some(Heard::Answer(answer)) => break Some(answer),
                    None => break None,
                }
            };
            let waiting = session.questions.lock().remove(&id);
            let Some(waiting) = waiting else { return };
            session.closed(&waiting);
            let message = match answer {
                Some(Ok(result)) => Message::result(id, result.json().clone()),
                Some(Err(error)) => Message::error(id, error),
                // whoever was to answer left together with the call
                None if waiting.call.is_some_and(|call| !session.runs(call)) => cancelled(id, &method),
                None => Message::error(id, refusal(&method)),
            };
            session.tell(message);
        });
    }
}

/// The answer to a request of the server whose call was cancelled, or whose time is over: a dialog was closed, anything
/// else fails (`translation` 4b.6).
fn cancelled(id: RequestId, method: &Method) -> Message {
    match method {
        Method::Elicit => Message::result(id, Bytes::from_static(br#"{"action":"cancel"}"#)),
        _ => Message::error(id, ErrorObject::internal("The request was cancelled before the client answered it")),
    }
}

/// The error for a request that no client can answer: roots say `-32601`, the others `-32602` (`translation` 4.6).
fn refusal(method: &Method) -> ErrorObject {
    match method {
        Method::CreateMessage => ErrorObject::invalid_params("No client is there that supports sampling"),
        Method::Elicit => ErrorObject::invalid_params("No client is there that supports elicitation"),
        Method::RootsList => ErrorObject::roots_not_supported(),
        method => ErrorObject::method_not_found(method.as_str()),
    }
}
