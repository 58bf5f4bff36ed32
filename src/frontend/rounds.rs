//! A server of 2026-07-28 ends a call with what it wants to know and is called again with the answers; a client with a
//! session is asked in the midst of its call. Here the one is turned into the other (`translation` 4a.3 to 4a.6): whoever
//! reads the reply sees the questions of each round as those of a server that asks in mid-call. Knows nothing of streams,
//! ids and time limits of questions.

mod round;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{task::yield_now, time::sleep};

use self::round::{Entry, Round};
use super::spoken::Spoken;
use crate::mcp::{
    Answered, Call, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Server,
    json::{Object, quote},
    meta,
    rising::Rising,
    translate::tool_error,
};

/// How often a server is called again before the call is given up.
const MOST_ROUNDS: u32 = 10;
/// How long a server rests that asks nothing and wants to be called again: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// One call, and whom it is made for.
pub(super) struct Rounds {
    /// Who is called, once for each round.
    pub(super) server: Arc<dyn Server>,
    /// What the client asked for.
    pub(super) call: Call,
    /// How the client is spoken to.
    pub(super) spoken: Spoken,
}

/// One question that was asked.
struct Asked {
    entry: Entry,
    answered: Answered,
}

// === impl Rounds ===

impl Rounds {
    /// The reply over all rounds. Dropping it withdraws the questions that are open and cancels the call that runs.
    pub(super) fn reply(self) -> Reply {
        let mut reply = self.server.call(self.call.clone());
        Reply::new(async_stream::stream! {
            let mut rising = Rising::new();
            let mut rest = REST.0;
            for number in 1.. {
                let ended = loop {
                    match reply.next_event().await {
                        Some(Event::Notified(told)) => {
                            if let Some(told) = rising.pass(told) {
                                yield Event::Notified(told);
                            }
                        }
                        Some(Event::Done(Outcome::InputRequired(ended))) => break ended,
                        Some(event) => yield event,
                        // the reply ends where the last call has
                        None => return,
                    }
                };
                // this call is over while the client is asked
                drop(reply);
                let round = match self.round(&ended, number) {
                    Ok(round) => round,
                    Err(outcome) => {
                        yield Event::Done(outcome);
                        return;
                    }
                };
                let mut responses = None;
                if round.entries.is_empty() {
                    sleep(rest).await;
                    rest = REST.1.min(rest * 2);
                } else {
                    if let Some(told) = self.waiting(&mut rising, number) {
                        yield Event::Notified(told);
                    }
                    let mut asked = Vec::new();
                    for entry in round.entries {
                        let (question, answered) = entry.question();
                        asked.push(Asked { entry, answered });
                        yield Event::Asked(question);
                    }
                    responses = match self.answers(asked).await {
                        Ok(responses) => Some(responses),
                        Err(outcome) => {
                            // the other questions are withdrawn before the call ends
                            yield_now().await;
                            yield Event::Done(outcome);
                            return;
                        }
                    };
                }
                rising.next_call();
                reply = self.server.call(self.again(responses.as_deref(), round.state.as_deref()));
            }
        })
    }

    /// What the server wants to know, where every question of it can be asked; else how the call ends.
    fn round(&self, ended: &Payload, number: u32) -> Result<Round, Outcome> {
        metrics::counter!("lockkeeper_frontend_rounds_total").increment(1);
        if number > MOST_ROUNDS {
            return Err(self.failed(&format!("still required input after {MOST_ROUNDS} rounds"), None));
        }
        let round = Round::read(ended).map_err(|error| Outcome::Failed(ErrorObject::internal(error)))?;
        for entry in &round.entries {
            if let Some(refusal) = entry.refusal(&self.call.context.client, &self.spoken) {
                metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
                return Err(refusal.outcome(&self.call.method, &entry.key));
            }
        }
        Ok(round)
    }

    /// That the client is waited for, where it wants to know of progress.
    fn waiting(&self, rising: &mut Rising, number: u32) -> Option<Notification> {
        let token = meta::progress_token(&self.call.params)?;
        rising.waiting(std::str::from_utf8(&token).ok()?, &format!("waiting for input (round {number})"))
    }

    /// Waits for every answer, and gives them as `inputResponses`. The first question without one ends the call, except
    /// that a dialog was closed then (`translation` 4a.4).
    async fn answers(&self, asked: Vec<Asked>) -> Result<String, Outcome> {
        let mut answers = vec![String::new(); asked.len()];
        let mut waits: FuturesUnordered<_> = asked
            .into_iter()
            .enumerate()
            .map(async |(place, asked)| (place, asked.entry, asked.answered.wait().await))
            .collect();
        while let Some((place, entry, answer)) = waits.next().await {
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

    /// The original call with the answers of this round alone, and the state as the server wrote it.
    fn again(&self, responses: Option<&str>, state: Option<&str>) -> Call {
        let mut params = self.call.params.without("inputResponses").without("requestState");
        for (key, value) in [("inputResponses", responses), ("requestState", state)] {
            if let Some(value) = value {
                params = params.with(key, value);
            }
        }
        Call { params, ..self.call.clone() }
    }

    /// There is no form for an error among the answers, so that the call ends here.
    fn unanswered(&self, entry: &Entry, error: &ErrorObject) -> Outcome {
        let Entry { key, method, .. } = entry;
        self.failed(&format!("Input '{key}' ({method}) was not given: {}", error.message()), Some(error))
    }

    /// How a call ends that came to nothing: a tool call in a way that a model can read and act on.
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
