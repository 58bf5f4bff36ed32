//! The reply to a call: any number of notifications and server requests, then one outcome.

use std::{
    fmt,
    pin::Pin,
    task::{self, Poll},
};

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};

use super::{
    ErrorObject, Method, Payload, ServerOrigin,
    error::{Retry, Unavailable},
    json,
};
use crate::{
    model::BackendId,
    support::{byte_queue::Queued, pin_in_box},
};

/// Maximum number of the client's progress notifications that wait for a slow server. Any more are dropped.
const MAX_PROGRESS: usize = 16;
/// Maximum size in bytes of a client's progress notification on a server request; a larger one is dropped.
pub(crate) const MAX_PROGRESS_SIZE: usize = 4 * 1024;
/// The size that is charged for an event in addition to its payload, in bytes.
const EVENT: usize = 256;

/// The reply to one call. It advances only while it is read, and **dropping it cancels the call**.
pub struct Reply(Pin<Box<dyn Stream<Item = Event> + Send>>);

/// An item of a reply, with the rest of the reply.
#[derive(Debug)]
pub enum Step {
    Notified(Notification, Reply),
    /// A server request during the call.
    Asked(ServerRequest, Reply),
    Done(Outcome),
}

/// An item of a reply's stream. Events after [`Event::Done`] are not read.
#[derive(Debug)]
pub enum Event {
    Notified(Notification),
    Asked(ServerRequest),
    Done(Outcome),
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Complete(Payload),
    /// The result carries server requests, which the client answers in its next call (2026-07-28).
    InputRequired(Payload),
    Failed(ErrorObject),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method, such as `notifications/progress`.
    pub method: Method,
    pub params: Payload,
}

/// A request of a server to its client.
#[derive(Debug)]
pub struct ServerRequest {
    /// `sampling/createMessage`, `elicitation/create` or `roots/list`.
    pub method: Method,
    pub params: Payload,
    /// Takes the client's answer.
    pub answer: Answer,
}

/// Takes the answer to a server request. If it is dropped without an answer, the server is informed that there will be
/// none.
#[derive(Debug)]
pub struct Answer {
    answer: oneshot::Sender<Result<Payload, ErrorObject>>,
    progress: mpsc::Sender<Payload>,
}

/// The server's side of a request, which waits for the answer. Dropping it cancels the request.
#[derive(Debug)]
pub struct AnswerReceiver {
    answer: oneshot::Receiver<Result<Payload, ErrorObject>>,
    progress: mpsc::Receiver<Payload>,
}

/// A message of the client about a server request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEvent {
    /// The parameters of `notifications/progress`, with the server's own token.
    Progress(Payload),
    /// A result or an error. Nothing follows it.
    Answer(Result<Payload, ErrorObject>),
}

// === impl Reply ===

impl Reply {
    /// Creates a reply from `events`. If they end without an outcome, the call fails.
    pub fn new(events: impl Stream<Item = Event> + Send + 'static) -> Self {
        Self(Box::pin(events))
    }

    /// The same as [`Self::new`], but built in place, for streams that every call needs.
    pub fn of<S: Stream<Item = Event> + Send + 'static>(events: impl FnOnce() -> S) -> Self {
        Self(pin_in_box(events))
    }

    /// A reply that consists of this outcome.
    pub fn done(outcome: Outcome) -> Self {
        Self::new(stream::iter([Event::Done(outcome)]))
    }

    /// A reply that consists of this result.
    pub fn complete(result: Payload) -> Self {
        Self::done(Outcome::Complete(result))
    }

    /// A reply that consists of this error.
    pub fn failed(error: ErrorObject) -> Self {
        Self::done(Outcome::Failed(error))
    }

    /// A reply that must be awaited first.
    pub fn later(reply: impl Future<Output = Self> + Send + 'static) -> Self {
        Self(Box::pin(stream::once(reply).flat_map(|reply| reply.0)))
    }

    /// The next step. It consumes the reply, so nothing can follow an outcome.
    pub async fn next(mut self) -> Step {
        match self.0.next().await {
            Some(Event::Notified(notification)) => Step::Notified(notification, self),
            Some(Event::Asked(question)) => Step::Asked(question, self),
            Some(Event::Done(outcome)) => Step::Done(outcome),
            None => Step::Done(Outcome::Failed(unanswered())),
        }
    }

    /// The next event; `None` at the end.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.0.next().await
    }

    /// The same reply with `change` applied to every event.
    #[must_use]
    pub fn map(self, change: impl FnMut(Event) -> Event + Send + 'static) -> Self {
        Self(Box::pin(self.0.map(change)))
    }

    /// Reads the reply to its end. Notifications are ignored, and server requests are dropped, which refuses them.
    pub async fn outcome(self) -> Outcome {
        self.outcome_and_rest().await.0
    }

    /// Reads the reply to its end, and also returns its rest, which has no more events. Dropping the rest ends anything
    /// that the call started, such as a subscription.
    pub async fn outcome_and_rest(mut self) -> (Outcome, Self) {
        loop {
            match self.next_event().await {
                Some(Event::Notified(_) | Event::Asked(_)) => {}
                Some(Event::Done(outcome)) => return (outcome, self),
                None => return (Outcome::Failed(unanswered()), self),
            }
        }
    }
}

fn unanswered() -> ErrorObject {
    ErrorObject::internal("the call ended without an answer")
}

/// The events of the reply, for code that polls.
impl Stream for Reply {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(…)")
    }
}

// === impl Event ===

impl Event {
    /// The server that sent a notification or a request; `None` if the gateway sent it, and for an outcome.
    pub fn origin(&self) -> Option<&ServerOrigin> {
        match self {
            Self::Notified(notification) => notification.params.origin(),
            Self::Asked(question) => question.params.origin(),
            Self::Done(_) => None,
        }
    }

    /// The size of its payload in bytes.
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Notified(notification) => notification.params.json().len(),
            Self::Asked(question) => question.params.json().len(),
            Self::Done(outcome) => outcome.payload_len(),
        }
    }
}

impl Queued for Event {
    fn weight(&self) -> usize {
        EVENT + self.payload_len()
    }

    fn is_dispensable(&self) -> bool {
        matches!(self, Self::Notified(_))
    }

    fn exhausted() -> Option<Self> {
        Some(Self::Done(Outcome::Failed(ErrorObject::out_of_memory())))
    }
}

// === impl Outcome ===

impl Outcome {
    /// The size of its payload in bytes.
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Complete(result) | Self::InputRequired(result) => result.json().len(),
            Self::Failed(error) => error.json().len(),
        }
    }

    /// True if the server ended the call this way. If the gateway reports an error, it gave up waiting for the server.
    pub(crate) fn is_of_server(&self) -> bool {
        match self {
            Self::Complete(_) | Self::InputRequired(_) => true,
            Self::Failed(error) => error.revision().is_some(),
        }
    }

    /// The outcome of a call that a server answered with `result`. A result that is not an object is the server's
    /// mistake: the call fails with `-32603` and names the server (results are objects in every MCP schema).
    pub fn of_result(backend: &BackendId, result: Payload) -> Self {
        if result.json().trim_ascii_start().starts_with(b"{") {
            return Self::Complete(result);
        }
        let reason = "the result is not an object";
        let message = format!("Server `{backend}` broke the protocol: {reason}");
        let broken = Unavailable { backend, reason, retry: Retry::Useless, supported: &[] };
        // the server has ended the call, incorrectly
        Self::Failed(ErrorObject::unavailable(&message, &broken).written_in(result.revision))
    }

    /// The outcome of a call of `method` that a 2026-07-28 server answered with `result`. A result without a type is
    /// complete, as in earlier versions; the type `task` is a result of the tasks extension.
    ///
    /// Server requests in the result of other methods, and unknown types, are the server's mistake: `-32603`.
    pub fn of_modern(method: &Method, result: Payload) -> Self {
        let kind = json::member(result.json(), "resultType").map(json::unquoted);
        // required by the schema: clients refuse a result without it, though some servers leave it out
        let Some(kind) = kind else { return Self::Complete(result.with("resultType", "\"complete\"")) };
        let is_complete = matches!(kind.as_deref(), Some("complete" | "task"));
        let needs_input = kind.as_deref() == Some("input_required");
        if is_complete {
            return Self::Complete(result);
        }
        if needs_input && method.may_require_input() {
            return Self::InputRequired(result);
        }
        Self::Failed(ErrorObject::internal(&if needs_input {
            format!("The server asks for input in answer to {method}, which MCP 2026-07-28 does not allow.")
        } else {
            format!("The server answered {method} with a resultType that this gateway does not know.")
        }))
    }
}

// === impl ServerRequest ===

impl ServerRequest {
    /// Creates a server request, and the receiver that waits for its answer.
    pub fn new(method: Method, params: Payload) -> (Self, AnswerReceiver) {
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = mpsc::channel(MAX_PROGRESS);
        let answer = Answer { answer, progress };
        (Self { method, params, answer }, AnswerReceiver { answer: answered, progress: progressed })
    }
}

impl Answer {
    /// Sends the answer. If the server cancelled the request, the answer is dropped.
    pub fn give(self, answer: Result<Payload, ErrorObject>) {
        let _ = self.answer.send(answer);
    }

    /// Forwards the client's progress on the request, with the token from the request's own `_meta`. It is dropped if
    /// the server is too slow, or if it is larger than 4 KiB.
    pub fn progress(&self, params: Payload) {
        if params.json().len() > MAX_PROGRESS_SIZE || self.progress.try_send(params).is_err() {
            metrics::counter!("lockkeeper_progress_dropped_total").increment(1);
        }
    }

    /// Waits until the server cancels the request.
    pub async fn withdrawn(&mut self) {
        self.answer.closed().await;
    }

    /// The same as [`Self::withdrawn`], for code that polls.
    pub fn poll_withdrawn(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.answer.poll_closed(cx)
    }
}

impl AnswerReceiver {
    /// The client's next message; `None` if there will be no answer. Cancel safe. Must not be called again after it
    /// returned [`AnswerEvent::Answer`] or `None`.
    pub async fn next(&mut self) -> Option<AnswerEvent> {
        tokio::select! {
            biased;
            Some(params) = self.progress.recv() => Some(AnswerEvent::Progress(params)),
            answer = &mut self.answer => answer.ok().map(AnswerEvent::Answer),
        }
    }

    /// Waits for the answer, ignoring progress; `None` if there will be none.
    pub async fn wait(mut self) -> Option<Result<Payload, ErrorObject>> {
        loop {
            if let AnswerEvent::Answer(answer) = self.next().await? {
                return Some(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    const REVISION: Revision = Revision::V2025_11_25;

    #[tokio::test]
    async fn nothing_follows_an_outcome() {
        let done = || Event::Done(Outcome::Complete(Payload::empty(REVISION)));
        let told = Event::Notified(Notification { method: Method::Progress, params: Payload::absent(REVISION) });
        let reply = Reply::new(stream::iter([told, done(), done()]));
        let Step::Notified(_, rest) = reply.next().await else { panic!("a notification first") };
        assert!(matches!(rest.next().await, Step::Done(Outcome::Complete(_))));
    }

    #[tokio::test]
    async fn a_reply_without_an_outcome_is_a_failure() {
        let Outcome::Failed(error) = Reply::new(stream::empty()).outcome().await else { panic!("a failure") };
        assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
    }

    #[test]
    fn a_modern_result_is_what_its_type_says() {
        let of = |method: Method, text: &'static str| {
            Outcome::of_modern(&method, Payload::new(Revision::V2026_07_28, text.as_bytes().into()))
        };
        for complete in [r#"{"resultType":"complete"}"#, r#"{"resultType":"task"}"#, "{}"] {
            assert!(matches!(of(Method::ToolsList, complete), Outcome::Complete(_)), "{complete}");
        }
        let asks = r#"{"resultType":"input_required","requestState":"s"}"#;
        for method in [Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead] {
            assert!(matches!(of(method, asks), Outcome::InputRequired(_)));
        }
        for (method, wrong) in [
            (Method::ToolsList, asks),
            (Method::ToolsCall, r#"{"resultType":"x-vendor"}"#),
            (Method::ToolsCall, r#"{"resultType":null}"#),
        ] {
            let Outcome::Failed(error) = of(method, wrong) else { panic!("{wrong} is a failure") };
            assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
        }
    }

    #[tokio::test]
    async fn a_dropped_question_tells_that_nobody_answers() {
        let (question, answered) = ServerRequest::new(Method::RootsList, Payload::absent(REVISION));
        drop(question);
        assert_eq!(answered.wait().await, None);
    }

    #[tokio::test]
    async fn progress_comes_before_the_answer_that_was_given_after_it() {
        let (question, mut answered) = ServerRequest::new(Method::CreateMessage, Payload::absent(REVISION));
        let (progress, answer) = (Payload::empty(REVISION), Ok(Payload::empty(REVISION)));
        question.answer.progress(progress.clone());
        question.answer.give(answer.clone());
        assert_eq!(answered.next().await, Some(AnswerEvent::Progress(progress)));
        assert_eq!(answered.next().await, Some(AnswerEvent::Answer(answer)));
    }

    #[tokio::test]
    async fn a_question_can_be_withdrawn() {
        let (mut question, answered) = ServerRequest::new(Method::RootsList, Payload::absent(REVISION));
        drop(answered);
        question.answer.withdrawn().await;
    }
}
