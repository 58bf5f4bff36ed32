//! One request of a client without sessions, on its way: the reply turned into the messages that the client reads. A reply
//! that asks ends the request, and goes on with the next one that brings the answers (2026-07-28, MRTR).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, sleep_until};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    envelope::Envelope,
    held::{Held, Next, turn_away},
    parks::Parks,
    seal::{Binding, Sealer, State, invalid},
    strays::{Strays, Whose},
    users::{Kind, User},
};
use crate::{
    frontend::{able::can_be_asked, questions::Asking, spoken::Spoken},
    mcp::{
        ErrorObject, Event, Level, Message, Method, Notification, Outcome, Payload, Question, Reply, RequestId,
        json::{At, Object, quote},
    },
};

/// How long further questions are waited for, so that they are asked together (`translation` 4b).
const TOGETHER: Duration = Duration::from_millis(25);

/// One request.
pub(super) struct Leg {
    /// What the answer must carry.
    pub(super) id: RequestId,
    /// What is asked for.
    pub(super) method: Method,
    /// Who asks.
    pub(super) envelope: Envelope,
    /// How the client is spoken to.
    pub(super) spoken: Spoken,
    /// The progress token of this request.
    pub(super) token: Option<Bytes>,
    /// Where calls wait between requests.
    pub(super) parks: Arc<Parks>,
    /// What seals the states.
    pub(super) sealer: Arc<Sealer>,
    /// Who asks, and where.
    pub(super) whose: Whose,
    /// Whose calls that wait it adds to.
    pub(super) user: Arc<User>,
    /// What servers asked outside of any call.
    pub(super) strays: Arc<Strays>,
    /// Who owns calls that wait.
    pub(super) tracker: TaskTracker,
}

/// What ends a request from outside.
pub(super) struct Stop {
    /// The credential is good no more.
    pub(super) revoked: CancellationToken,
    /// The gateway stops.
    pub(super) closed: CancellationToken,
}

/// A call whose client cannot be asked, and why.
struct Unasked {
    held: Held,
    reason: String,
}

// === impl Leg ===

impl Leg {
    /// The messages, the response last. Where `params` bring the state of a call that waits, that goes on; else `call`
    /// begins one. Dropping the stream cancels the call.
    pub(super) fn messages(
        self,
        params: Payload,
        call: impl FnOnce(Payload) -> Reply + Send + 'static,
        stop: Stop,
    ) -> impl Stream<Item = Message> + Send + 'static {
        async_stream::stream! {
            let asked = params.clone();
            let mut held = match self.begin(params, call).await {
                Ok(held) => held,
                Err(error) => {
                    yield Message::error(self.id, error);
                    return;
                }
            };
            let mut due = None;
            let mut strays = self.method.may_require_input() && self.strays.wait_for(&self.whose);
            loop {
                if held.is_unasked() && !strays {
                    due = None;
                } else if due.is_none() {
                    due = Some(Instant::now() + TOGETHER);
                }
                tokio::select! {
                    biased;
                    error = stop.comes() => {
                        yield Message::error(self.id, error);
                        return;
                    }
                    // before the time that is over: what has come is not late because this task is
                    next = held.next() => match next {
                        Next::Withdrawn => {}
                        Next::Event(Event::Notified(told)) => {
                            if let Some(message) = self.tell(told) {
                                yield message;
                            }
                        }
                        Next::Event(Event::Asked(question)) => {
                            if let Some(asking) = self.asking(question) {
                                held.ask(asking);
                            }
                        }
                        Next::Event(Event::Done(outcome)) => {
                            yield self.response(&asked, outcome);
                            return;
                        }
                    },
                    () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                        self.take_strays(&mut strays, &mut held).await;
                        if held.is_unasked() {
                            continue;
                        }
                        match self.park(&asked, held) {
                            Ok(result) => {
                                yield Message::result(self.id, result);
                                return;
                            }
                            Err(mut back) => {
                                back.held.refuse(&back.reason);
                                held = back.held;
                            }
                        }
                    }
                }
            }
        }
    }

    /// The call that this request begins, or goes on with. A server gets its own state back as it wrote it, and everything
    /// else as the client did.
    async fn begin(&self, params: Payload, call: impl FnOnce(Payload) -> Reply) -> Result<Held, ErrorObject> {
        let object = params.object();
        let state = object.as_ref().and_then(|params| params.get("requestState"));
        let Some(state) = state.filter(|_| self.method.may_require_input()) else { return Ok(Held::new(call(params))) };
        let state: String = serde_json::from_str(state).map_err(|_| invalid())?;
        match self.sealer.open(&state, &self.binding(&params))? {
            State::OfServer(state) => Ok(Held::new(call(params.with("requestState", &state)))),
            State::Parked(name) => {
                let mut held = self.parks.take(&name, &self.whose.owner).await?;
                let responses = object.as_ref().and_then(|params| params.get("inputResponses")).unwrap_or("{}");
                held.answer(&Object::parse(responses.as_bytes()).unwrap_or_default());
                Ok(held)
            }
        }
    }

    /// Lists what servers asked outside of any call, where there is any, to be asked in this one. Not at once: a call that
    /// is soon over leaves it to the next.
    async fn take_strays(&self, strays: &mut bool, held: &mut Held) {
        if !std::mem::take(strays) {
            return;
        }
        for question in self.strays.take(&self.whose).await {
            if let Some(asking) = self.asking(question) {
                held.ask(asking);
            }
        }
    }

    /// What this request and the ones that go on with it have in common.
    fn binding(&self, asked: &Payload) -> Binding {
        Binding::new(&self.whose.owner, &self.whose.target, &self.method, asked)
    }

    /// Ends the request with what is to be answered first.
    fn park(&self, asked: &Payload, held: Held) -> Result<Bytes, Box<Unasked>> {
        let permit = match self.user.begin(Kind::Suspended) {
            Ok(permit) => permit,
            Err(error) => return Err(Box::new(Unasked { held, reason: error.message() })),
        };
        let name = self.parks.name();
        let Some(state) = self.sealer.seal(&State::Parked(name), &self.binding(asked)) else {
            let reason = "the request is too large to be gone on with later".to_owned();
            return Err(Box::new(Unasked { held, reason }));
        };
        let result = held.input_required(&state);
        self.parks.keep(name, (held, permit), &self.whose.owner, &self.tracker);
        Ok(result)
    }

    /// A notification of this request: its progress, and the log messages that it is to give. Others belong to a listen.
    fn tell(&self, told: Notification) -> Option<Message> {
        let wanted = match told.method {
            Method::LoggingMessage => self.envelope.level.is_some_and(|lowest| level_of(&told) >= Some(lowest)),
            Method::Progress => self.token.is_some(),
            // the server's own, as unknown members
            Method::Other(_) => true,
            _ => false,
        };
        if !wanted {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return None;
        }
        let Notification { method, params } = self.spoken.notification(told)?;
        let params = match (&method, &self.token) {
            // the call may have begun with another request, under another token
            (Method::Progress, Some(token)) => {
                let token = String::from_utf8_lossy(token).into_owned();
                params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()))
            }
            _ => params,
        };
        Some(Message::Notification { method, params: params.json().clone() })
    }

    /// A question as the client is to be asked it; one that it cannot be asked is refused.
    fn asking(&self, question: Question) -> Option<Asking> {
        if !self.method.may_require_input() {
            turn_away(question, ErrorObject::invalid_params("nothing can be asked in a request of this method"));
            return None;
        }
        if let Err(error) = can_be_asked(&self.envelope.client, &question.method, &question.params) {
            turn_away(question, error);
            return None;
        }
        match Asking::new(question, &self.spoken) {
            Ok(asking) => Some(asking),
            Err((answer, error)) => {
                answer.give(Err(error));
                None
            }
        }
    }

    fn response(&self, asked: &Payload, outcome: Outcome) -> Message {
        let outcome = match self.spoken.outcome(outcome) {
            Outcome::Complete(result) => Ok(result),
            Outcome::InputRequired(result) => self.passed_on(asked, &result),
            Outcome::Failed(error) => Err(error),
        };
        match outcome {
            Ok(result) => Message::result(self.id.clone(), result.json().clone()),
            Err(error) => Message::error(self.id.clone(), error),
        }
    }

    /// What a server ended the call with to ask for: as it wrote it, but for the state, which only the gateway opens
    /// again. Where there is none, none is invented (`translation` section 5).
    fn passed_on(&self, asked: &Payload, result: &Payload) -> Result<Payload, ErrorObject> {
        if !self.method.may_require_input() {
            return Err(ErrorObject::internal(
                "the server requires input for a request of this method, which it may not",
            ));
        }
        let state = result.object().and_then(|result| result.get("requestState").map(str::to_owned));
        let Some(state) = state.filter(|state| state != "null") else { return Ok(result.clone()) };
        let Some(sealed) = self.sealer.seal(&State::OfServer(state), &self.binding(asked)) else {
            let text = "the server's requestState is too large: about 48 kB of it can be carried";
            return Err(ErrorObject::internal(text));
        };
        Ok(result.with("requestState", &quote(&sealed)))
    }
}

impl Stop {
    async fn comes(&self) -> ErrorObject {
        tokio::select! {
            () = self.revoked.cancelled() => ErrorObject::internal("access was revoked; log in again"),
            () = self.closed.cancelled() => ErrorObject::retryable("the gateway stops before the answer came"),
        }
    }
}

fn level_of(told: &Notification) -> Option<Level> {
    told.params.string("level").and_then(|name| Level::parse(&name))
}
