//! One request of a client without a session: its reply turned into the messages that the client reads. Knows nothing of
//! transports, and of calls that go on with another request.

use std::sync::Arc;

use futures_util::Stream;
use tokio_util::sync::CancellationToken;

use crate::mcp::{
    ErrorObject, Event, Level, Message, Method, Notification, Outcome, Reply, RequestId,
    client_translator::ClientTranslator,
};

/// One request.
pub(super) struct RequestExchange {
    /// The id that the response carries.
    pub(super) id: RequestId,
    /// The method.
    pub(super) method: Method,
    /// The least severe log messages that it wants, if any.
    pub(super) level: Option<Level>,
    /// What the client wants to hear of progress.
    pub(super) progress: Progress,
    /// The translator into the client's version.
    pub(super) translator: ClientTranslator,
}

/// What a request says of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It gave a token.
    Wanted,
    /// It gave none.
    Unwanted,
}

/// The causes that end a request from outside.
pub(super) struct Stop {
    /// The credential was revoked.
    pub(super) revoked: Arc<CancellationToken>,
    /// The gateway stops.
    pub(super) closed: CancellationToken,
}

// === impl RequestExchange ===

impl RequestExchange {
    /// The messages, the response last. Dropping the stream cancels the call.
    pub(super) fn messages(self, mut reply: Reply, stop: Stop) -> impl Stream<Item = Message> + Send + 'static {
        async_stream::stream! {
            loop {
                let event = tokio::select! {
                    biased;
                    error = stop.comes() => {
                        yield Message::error(self.id, error);
                        return;
                    }
                    event = reply.next_event() => event,
                };
                match event {
                    Some(Event::Notified(told)) => {
                        if let Some(message) = self.notification(told) {
                            yield message;
                        }
                    }
                    Some(Event::Asked(question)) => {
                        metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
                        let error = ErrorObject::invalid_params("nothing can be asked in a request of this method");
                        question.answer.give(Err(error));
                    }
                    Some(Event::Done(outcome)) => {
                        yield self.response(outcome);
                        return;
                    }
                    None => {
                        yield Message::error(self.id, ErrorObject::internal("the call ended without an answer"));
                        return;
                    }
                }
            }
        }
    }

    /// A notification of this request: its progress, and the log messages that it wants. Others belong to a listen.
    fn notification(&self, told: Notification) -> Option<Message> {
        let wanted = match told.method {
            Method::LoggingMessage => self.level.is_some_and(|lowest| level_of(&told) >= Some(lowest)),
            Method::Progress => self.progress == Progress::Wanted,
            // the server's own, as unknown members
            Method::Other(_) => true,
            _ => false,
        };
        if !wanted {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return None;
        }
        let Notification { method, params } = self.translator.notification(told)?;
        Some(Message::Notification { method, params: params.json().clone() })
    }

    fn response(&self, outcome: Outcome) -> Message {
        let result = match self.translator.outcome(outcome) {
            Outcome::Complete(result) => Ok(result),
            Outcome::InputRequired(result) if self.method.may_require_input() => Ok(result),
            Outcome::InputRequired(_) => {
                Err(ErrorObject::internal("the server requires input for a request of this method, which it may not"))
            }
            Outcome::Failed(error) => Err(error),
        };
        match result {
            Ok(result) => Message::result(self.id.clone(), result.json().clone()),
            Err(error) => Message::error(self.id.clone(), error),
        }
    }
}

// === impl Stop ===

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
