//! Waits for a task at a server with the tasks extension like for a call: polls it, sends its input requests to the
//! client, and returns the answers (`translation` 3.5).

use std::time::Duration;

use futures_util::{Stream, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use super::{extension_tasks::ExtensionTasks, session_tasks::InputClaim};
use crate::mcp::{
    Context, ErrorObject, Event, Method, Outcome, Payload, Revision, ServerRequest, json,
    task::{self, DetailedTask, InputRequest, TaskStatus, related},
};

/// Maximum duration of a task. Tasks are meant for long work.
const MAX_WAIT: Duration = Duration::from_hours(24);
/// Maximum number of polls in a row that fail in a way that may pass, such as by a lost connection.
const MAX_FAULTS: u32 = 5;

/// A wait for one task.
pub(super) struct Polling {
    tasks: ExtensionTasks,
    context: Context,
    id: String,
    visibility: Visibility,
}

/// Visibility of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// The client asked for it: its messages name the task.
    Client,
    /// Only the gateway knows it: the client called a tool and waits for the result.
    Gateway,
}

/// Item of a wait; [`WaitStep::Ended`] is the last.
pub(super) enum WaitStep {
    /// An event before the end.
    Event(Event),
    Ended(WaitEnd),
}

/// End of a wait.
pub(super) enum WaitEnd {
    /// The task has ended.
    Task(DetailedTask),
    /// An input request had no answer, and the task has no form for that: a text, and the error of the answer.
    Unanswered(String, ErrorObject),
    /// Awaiting the task is no longer possible.
    Lost(ErrorObject),
}

/// An answered input request: its claim, its key, and the answer as JSON, or the parts of [`WaitEnd::Unanswered`].
type TaskAnswer = (InputClaim, String, Result<String, (String, ErrorObject)>);

/// Result of one step.
enum PollEvent {
    Answered(TaskAnswer),
    Due,
    TooLong,
}

/// Open input requests, and the answers so far.
#[derive(Default)]
struct OpenQuestions {
    asked: FuturesUnordered<BoxFuture<'static, TaskAnswer>>,
    answers: Vec<(InputClaim, String)>,
}

// === impl Polling ===

impl Polling {
    /// Waits for a task that the client asked for.
    pub(super) fn for_client(tasks: ExtensionTasks, context: Context, id: String) -> Self {
        Self { tasks, context, id, visibility: Visibility::Client }
    }

    /// Waits for a task that the client does not know.
    pub(super) fn for_gateway(tasks: ExtensionTasks, context: Context, id: String) -> Self {
        Self { tasks, context, id, visibility: Visibility::Gateway }
    }

    /// Polls after `first`, and then at the server's interval.
    pub(super) fn turns(self, first: Duration) -> impl Stream<Item = WaitStep> + Send + 'static {
        async_stream::stream! {
            let mut open = OpenQuestions::default();
            let (mut due, end) = (Instant::now() + first, Instant::now() + MAX_WAIT);
            let mut faults = 0;
            loop {
                match open.next(due, end).await {
                    PollEvent::Answered((_, _, Err((text, error)))) => {
                        yield WaitStep::Ended(WaitEnd::Unanswered(text, error));
                        return;
                    }
                    PollEvent::Answered((claim, key, Ok(answer))) => {
                        open.answers.push((claim, format!("{}:{answer}", json::quote(&key))));
                        if open.asked.is_empty() {
                            if let Err(error) = self.update(std::mem::take(&mut open.answers)).await {
                                yield WaitStep::Ended(WaitEnd::Lost(error));
                                return;
                            }
                            due = Instant::now();
                        }
                    }
                    PollEvent::TooLong => {
                        let text = "the task went on for longer than a day, so it is no longer waited for";
                        yield WaitStep::Ended(WaitEnd::Lost(self.tasks.fault(text)));
                        return;
                    }
                    PollEvent::Due => match self.tasks.get(&self.id, &self.context).await {
                        Err(error) if error.may_pass() && faults < MAX_FAULTS => {
                            faults += 1;
                            due = Instant::now() + Duration::from_secs(1) * faults;
                        }
                        Err(error) => {
                            yield WaitStep::Ended(WaitEnd::Lost(error));
                            return;
                        }
                        Ok(task) if task.status.is_final() => {
                            yield WaitStep::Ended(WaitEnd::Task(task));
                            return;
                        }
                        Ok(task) => {
                            (faults, due) = (0, Instant::now() + task.poll_interval);
                            for question in self.ask(&task, &mut open) {
                                yield WaitStep::Event(Event::Asked(question));
                            }
                        }
                    },
                }
            }
        }
    }

    fn ask(&self, task: &DetailedTask, open: &mut OpenQuestions) -> Vec<ServerRequest> {
        if task.status != TaskStatus::InputRequired {
            return Vec::new();
        }
        let (mut questions, owner) = (Vec::new(), self.context.caller.owner());
        for InputRequest { key, method, params } in task.input_requests() {
            let Some(claim) = self.tasks.shared.of_sessions.claim(&owner, &self.id, &key) else { continue };
            let params = if self.visibility == Visibility::Client { related(&params, &self.id) } else { params };
            let (question, answered) = ServerRequest::new(method.clone(), params);
            open.asked.push(Box::pin(async move {
                let answer = read(&key, &method, answered.wait().await);
                (claim, key, answer)
            }));
            questions.push(question);
        }
        questions
    }

    /// Sends the answers to the task.
    async fn update(&self, answers: Vec<(InputClaim, String)>) -> Result<(), ErrorObject> {
        let (claims, texts): (Vec<InputClaim>, Vec<String>) = answers.into_iter().unzip();
        let params = task::params(&self.id).with("inputResponses", &format!("{{{}}}", texts.join(",")));
        if let Outcome::Failed(error) = self.tasks.ask(Method::TasksUpdate, params, &self.context).await {
            return Err(error);
        }
        claims.into_iter().for_each(InputClaim::answered);
        Ok(())
    }
}

/// The answer to an input request. An unanswered dialog counts as cancelled; other requests without an answer have no
/// form (`translation` 4a.4).
fn read(
    key: &str,
    method: &Method,
    answer: Option<Result<Payload, ErrorObject>>,
) -> Result<String, (String, ErrorObject)> {
    let error = match answer {
        Some(Ok(answer)) if answer.object().is_some() => return Ok(String::from_utf8_lossy(answer.json()).into_owned()),
        _ if *method == Method::Elicit => return Ok(r#"{"action":"cancel"}"#.to_owned()),
        Some(Err(error)) => error,
        Some(Ok(_)) => ErrorObject::internal("the answer is no object"),
        None => ErrorObject::internal("nobody is there to be asked"),
    };
    Err((format!("Input '{key}' ({method}) was not given: {}", error.message()), error))
}

// === impl OpenQuestions ===

impl OpenQuestions {
    async fn next(&mut self, due: Instant, end: Instant) -> PollEvent {
        tokio::select! {
            biased;
            Some(answer) = self.asked.next(), if !self.asked.is_empty() => PollEvent::Answered(answer),
            () = sleep_until(due.min(end)) => if due < end { PollEvent::Due } else { PollEvent::TooLong },
        }
    }
}

// === impl WaitEnd ===

impl WaitEnd {
    /// The answer to `tasks/result` (2025-11-25, tasks): the outcome of the call.
    pub(super) fn of_request(self, id: &str) -> Outcome {
        match self {
            Self::Lost(error) => Outcome::Failed(error),
            Self::Unanswered(text, error) => Outcome::Failed(ErrorObject::with_data(
                ErrorObject::INTERNAL_ERROR,
                &text,
                &serde_json::from_slice(error.json()).unwrap_or_default(),
            )),
            Self::Task(task) => match outcome_of(&task) {
                Some(Outcome::Complete(result)) => Outcome::Complete(related(&result, id)),
                Some(outcome) => outcome,
                None => Outcome::Failed(ErrorObject::internal("The task was cancelled, so it has no result")),
            },
        }
    }

    /// The answer to a plain call whose tool ran as a task.
    pub(super) fn of_call(self) -> Outcome {
        let tool_error = |text: &str| Outcome::Complete(crate::mcp::translate::tool_error(Revision::V2026_07_28, text));
        match self {
            Self::Lost(error) => Outcome::Failed(error),
            Self::Unanswered(text, _) => tool_error(&text),
            Self::Task(task) => outcome_of(&task).unwrap_or_else(|| {
                let reason = task.message().map(|message| format!(": {message}")).unwrap_or_default();
                tool_error(&format!("The server cancelled the task that this call ran as{reason}"))
            }),
        }
    }
}

/// The outcome of the call that ran as this task, which has ended; `None` if it was cancelled.
fn outcome_of(task: &DetailedTask) -> Option<Outcome> {
    let odd = || Outcome::Failed(ErrorObject::internal("the server ended a task and did not say what it came to"));
    match task.status {
        TaskStatus::Completed => Some(task.result().map_or_else(odd, Outcome::Complete)),
        TaskStatus::Failed => Some(task.error().map_or_else(odd, Outcome::Failed)),
        TaskStatus::Working | TaskStatus::InputRequired | TaskStatus::Cancelled => None,
    }
}
