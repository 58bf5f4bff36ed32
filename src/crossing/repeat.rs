//! Multi round trips for clients with a session: a server of 2026-07-28 ends a call with requests and is called again
//! with the answers; the client gets these requests during its call (`translation` 4a.3 to 4a.6). The reader of the
//! reply sees a server with sessions.

pub(crate) mod round;

use std::time::Duration;

use futures_util::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use tokio::{task::yield_now, time::sleep};

use self::round::{Round, RoundQuestion};
use crate::mcp::{
    AnswerReceiver, Call, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Server,
    client_translator::ClientTranslator,
    json::{Object, quote},
    large_messages::{answer_size, off_worker},
    meta,
    monotonic_progress::MonotonicProgress,
    pass_through::{self, Takeover},
    translate::tool_error,
};

/// Maximum number of rounds of a call.
const MAX_ROUNDS: u32 = 10;
/// Minimum and maximum delay before a server that sent no requests is called again.
const ROUND_DELAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// A call that is repeated for each round.
struct MultiRoundTrip<S> {
    server: S,
    /// The call as the client made it.
    call: Call,
    /// Progress of the first call.
    progress: MonotonicProgress,
}

/// A request that the client was sent.
struct SentRequest {
    entry: RoundQuestion,
    answered: AnswerReceiver,
}

/// Repeats a call of a client with a session, whose first round has this reply: calls `server` again with the client's
/// answers each time a round ends with requests. Dropping the reply withdraws the open requests and cancels the running
/// round.
pub fn repeated<S: Server + Unpin + 'static>(first: Reply, server: S, call: Call) -> Reply {
    pass_through::until(first, MultiRoundTrip { server, call, progress: MonotonicProgress::new() })
}

// === impl MultiRoundTrip ===

impl<S: Server + Unpin + 'static> Takeover for MultiRoundTrip<S> {
    fn takes_over_at(&mut self, event: &Event) -> bool {
        match event {
            // progress of the first round passes unchanged
            Event::Notified(told) => {
                self.progress.see(told);
                false
            }
            Event::Done(outcome) => matches!(outcome, Outcome::InputRequired(_)),
            Event::Asked(_) => false,
        }
    }

    fn take_over(self, event: Event, rest: Reply) -> Reply {
        // the round is over: free its memory before the client is asked
        drop(rest);
        match event {
            Event::Done(Outcome::InputRequired(ended)) => self.rounds(ended),
            event => Reply::new(stream::iter([event])),
        }
    }
}

impl<S: Server + Unpin + 'static> MultiRoundTrip<S> {
    /// The reply from the end of the first round on.
    fn rounds(mut self, mut ended: Payload) -> Reply {
        Reply::new(async_stream::stream! {
            let mut progress = std::mem::replace(&mut self.progress, MonotonicProgress::new());
            let mut pause = ROUND_DELAY.0;
            for number in 1.. {
                let round = match self.round(&ended, number) {
                    Ok(round) => round,
                    Err(outcome) => {
                        yield Event::Done(outcome);
                        return;
                    }
                };
                let mut responses = None;
                if round.entries.is_empty() {
                    sleep(pause).await;
                    pause = ROUND_DELAY.1.min(pause * 2);
                } else {
                    if let Some(told) = self.waiting(&mut progress, number) {
                        yield Event::Notified(told);
                    }
                    let mut sent = Vec::new();
                    for entry in round.entries {
                        let (question, answered) = entry.question();
                        sent.push(SentRequest { entry, answered });
                        yield Event::Asked(question);
                    }
                    responses = match self.answers(sent).await {
                        Ok(responses) => Some(responses),
                        Err(outcome) => {
                            // the other requests are withdrawn before the call ends
                            yield_now().await;
                            yield Event::Done(outcome);
                            return;
                        }
                    };
                }
                progress.next_call();
                off_worker(self.call.params.json().len() + responses.as_ref().map_or(0, String::len)).await;
                let mut reply = self.server.call(self.again(&ended, responses.as_deref(), round.state.as_deref()));
                ended = loop {
                    match reply.next_event().await {
                        Some(Event::Notified(told)) => {
                            if let Some(told) = progress.pass(told) {
                                yield Event::Notified(told);
                            }
                        }
                        Some(Event::Done(Outcome::InputRequired(ended))) => break ended,
                        Some(event) => yield event,
                        // this reply ends where the last round's did
                        None => return,
                    }
                };
            }
        })
    }

    /// The requests of a round, if the client supports all of them; else the outcome of the call.
    fn round(&self, ended: &Payload, number: u32) -> Result<Round, Outcome> {
        metrics::counter!("lockkeeper_frontend_rounds_total").increment(1);
        if number > MAX_ROUNDS {
            let server = ended.origin().map(|origin| format!("Server `{}` ", origin.backend())).unwrap_or_default();
            return Err(self.failed(&format!("{server}still required input after {MAX_ROUNDS} rounds"), None));
        }
        let broken = |error: &str| {
            Outcome::Failed(match ended.origin() {
                Some(origin) => {
                    let backend = origin.backend();
                    let text = format!("Server `{backend}` broke the protocol: {error}");
                    ErrorObject::internal(&text).naming_backend(backend)
                }
                None => ErrorObject::internal(error),
            })
        };
        let round = Round::read(ended).map_err(broken)?;
        let context = &self.call.context;
        let translator = ClientTranslator::new(&context.client, context.profile, &self.call.method, &self.call.params);
        for entry in &round.entries {
            if let Some(refusal) = entry.refusal(&context.client, &translator) {
                metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
                return Err(refusal.outcome(&self.call.method, &entry.key));
            }
        }
        Ok(round)
    }

    /// Progress that reports the wait for the client, if it gave a token.
    fn waiting(&self, progress: &mut MonotonicProgress, number: u32) -> Option<Notification> {
        let token = meta::progress_token(&self.call.params)?;
        progress.waiting(std::str::from_utf8(&token).ok()?, &format!("waiting for input (round {number})"))
    }

    /// Waits for all answers, and returns them as `inputResponses`. The first request without an answer ends the call,
    /// unless it is a cancelled dialog (`translation` 4a.4).
    async fn answers(&self, sent: Vec<SentRequest>) -> Result<String, Outcome> {
        let mut answers = vec![String::new(); sent.len()];
        let mut waits: FuturesUnordered<_> = sent
            .into_iter()
            .enumerate()
            .map(async |(place, sent)| (place, sent.entry, sent.answered.wait().await))
            .collect();
        while let Some((place, entry, answer)) = waits.next().await {
            off_worker(answer.as_ref().map_or(0, answer_size)).await;
            let answer = match answer {
                Some(Ok(answer)) if Object::parse(answer.json()).is_some() => {
                    String::from_utf8_lossy(answer.json()).into_owned()
                }
                _ if entry.method == Method::Elicit => r#"{"action":"cancel"}"#.to_owned(),
                Some(Err(error)) => return Err(self.unanswered(&entry, &error)),
                Some(Ok(_)) => return Err(self.unanswered(&entry, &ErrorObject::internal("the answer is no object"))),
                None => return Err(self.unanswered(&entry, &ErrorObject::internal("nobody is there to be asked"))),
            };
            answers[place] = format!("{}:{answer}", quote(&entry.key));
        }
        Ok(format!("{{{}}}", answers.join(",")))
    }

    /// The original call with the answers of this round only, and the state as the server wrote it. It carries the
    /// backend's mark, so that a server with sessions does not start the call again.
    fn again(&self, ended: &Payload, responses: Option<&str>, state: Option<&str>) -> Call {
        let mut params = self.call.params.without("inputResponses").without("requestState");
        for (key, value) in [("inputResponses", responses), ("requestState", state)] {
            if let Some(value) = value {
                params = params.with(key, value);
            }
        }
        if let Some(origin) = ended.origin() {
            params = params.written_by(origin);
        }
        Call { params, ..self.call.clone() }
    }

    /// The end of the call: an error cannot be sent as an answer.
    fn unanswered(&self, entry: &RoundQuestion, error: &ErrorObject) -> Outcome {
        let RoundQuestion { key, method, .. } = entry;
        self.failed(&format!("Input '{key}' ({method}) was not given: {}", error.message()), Some(error))
    }

    /// The outcome of a failed call; for a tool call, an error that a model can read and act on.
    fn failed(&self, text: &str, cause: Option<&ErrorObject>) -> Outcome {
        if self.call.method == Method::ToolsCall {
            return Outcome::Complete(tool_error(self.call.params.revision, text));
        }
        let error = ErrorObject::internal(text);
        Outcome::Failed(match cause.and_then(|cause| serde_json::from_slice(cause.json()).ok()) {
            Some(cause) => ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, text, &cause),
            None => error,
        })
    }
}
