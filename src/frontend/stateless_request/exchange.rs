//! A running request of a client without a session: turns its reply into messages for the client. Dropping it cancels
//! the call.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use pin_project_lite::pin_project;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    frontend::request_limits::RequestPermit,
    mcp::{
        ErrorObject, Event, Level, Message, Method, Notification, Outcome, Payload, Reply, RequestId, ServerRequest,
        client_translator::ClientTranslator, large_messages::poll_event, meta,
    },
};

pin_project! {
    /// A running request that can also be ended from outside.
    pub(super) struct RequestExchange {
        // the credential was revoked
        #[pin]
        revoked: WaitForCancellationFutureOwned,
        // held so that a revocation finds it
        _credential: Arc<CancellationToken>,
        // the gateway stops
        #[pin]
        closed: WaitForCancellationFutureOwned,
        subject: RequestSubject,
        // `None` once the response is written
        running: Option<(Reply, RequestPermit)>,
        // a large event, which the next poll handles
        large: Option<Event>,
    }
}

/// The request, and the notifications that it gets.
pub(super) struct RequestSubject {
    /// The id for the response.
    pub(super) id: RequestId,
    pub(super) method: Method,
    /// The minimum level of log messages; `None` if the client wants none.
    pub(super) level: Option<Level>,
    pub(super) progress: Progress,
    /// Translates messages to the client's version.
    pub(super) translator: ClientTranslator,
}

/// Treatment of progress notifications in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// They are sent, since the request has a token.
    Wanted,
    Unwanted,
}

// === impl RequestExchange ===

impl RequestExchange {
    /// The exchange of a reply. It ends with an error when `credential` or `closed` is cancelled.
    pub(super) fn new(
        subject: RequestSubject,
        reply: Reply,
        permit: RequestPermit,
        credential: Arc<CancellationToken>,
        closed: &CancellationToken,
    ) -> Self {
        let revoked = CancellationToken::clone(&credential).cancelled_owned();
        let closed = closed.clone().cancelled_owned();
        Self { revoked, _credential: credential, closed, subject, running: Some((reply, permit)), large: None }
    }

    /// Waits until the request is ended from outside. Returns the error for the client.
    fn poll_stopped(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ErrorObject> {
        let this = self.project();
        if this.revoked.poll(cx).is_ready() {
            return Poll::Ready(ErrorObject::internal("access was revoked; log in again"));
        }
        this.closed
            .poll(cx)
            .map(|()| ErrorObject::lost("the gateway stops before the answer came; the call may have run"))
    }
}

impl Stream for RequestExchange {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        loop {
            if self.running.is_none() {
                return Poll::Ready(None);
            }
            // polled before the reply, which starts when it is first polled: a request that must not run has then not
            // started
            let stopped = self.as_mut().poll_stopped(cx);
            let this = self.as_mut().project();
            let Some((reply, _)) = this.running else { return Poll::Ready(None) };
            let response = if let Poll::Ready(error) = stopped {
                Message::error(this.subject.id.clone(), error)
            } else {
                match ready!(poll_event(reply, this.large, cx)) {
                    Some(Event::Done(outcome)) => this.subject.response(outcome),
                    Some(Event::Notified(notification)) => match this.subject.notification(notification) {
                        Some(message) => return Poll::Ready(Some(message)),
                        None => continue,
                    },
                    Some(Event::Asked(question)) => {
                        refuse(question);
                        continue;
                    }
                    None => {
                        let error = ErrorObject::internal("the call ended without an answer");
                        Message::error(this.subject.id.clone(), error)
                    }
                }
            };
            // the call has released everything before the client reads the response
            *this.running = None;
            return Poll::Ready(Some(response));
        }
    }
}

fn refuse(question: ServerRequest) {
    metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
    let error = ErrorObject::invalid_params("nothing can be asked in a request of this method");
    question.answer.give(Err(error));
}

// === impl RequestSubject ===

impl RequestSubject {
    /// A notification for this request: its progress, or a log message that the client wants. Other notifications
    /// belong to a listen.
    fn notification(&self, notification: Notification) -> Option<Message> {
        let wanted = match notification.method {
            Method::LoggingMessage => self.level.is_some_and(|lowest| level_of(&notification) >= Some(lowest)),
            Method::Progress => self.progress == Progress::Wanted,
            // custom notifications from the server are passed on
            Method::Other(_) => true,
            _ => false,
        };
        if !wanted {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return None;
        }
        let Notification { method, params } = self.translator.notification(notification)?;
        let params = self.of_subscriber(&method, params);
        Some(Message::Notification { method, params: params.into_params() })
    }

    /// Sets the client's own subscription id in a result or notification, if the request's or the notification's method
    /// is not defined by MCP.
    fn of_subscriber(&self, method: &Method, payload: Payload) -> Payload {
        let is_of_extension = self.method.is_of_extension() || method.is_of_extension();
        if !is_of_extension {
            return payload;
        }
        meta::of_subscriber(payload, &String::from_utf8_lossy(self.id.json()))
    }

    fn response(&self, outcome: Outcome) -> Message {
        let result = match self.translator.outcome(outcome) {
            Outcome::Complete(result) => Ok(self.of_subscriber(&self.method, result)),
            Outcome::InputRequired(result) if self.method.may_require_input() => Ok(result),
            Outcome::InputRequired(_) => {
                Err(ErrorObject::internal("the server requires input for a request of this method, which it may not"))
            }
            Outcome::Failed(error) => Err(error),
        };
        match result {
            Ok(result) => Message::result(self.id.clone(), result.into_json()),
            Err(error) => Message::error(self.id.clone(), error),
        }
    }
}

fn level_of(notification: &Notification) -> Option<Level> {
    notification.params.string("level").and_then(|name| Level::parse(&name))
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;
    use crate::{
        frontend::{
            frontend_settings::FrontendSettings,
            request_limits::{RequestKind, StatelessRequests},
        },
        mcp::{ClientInfo, Revision, observer::RequesterObserver, translate::Profile},
        model::{LimitsConfig, UserId},
        support::MemoryBudget,
    };

    /// A request whose reply consists of these events. Cancelling `credential` or `closed` ends it.
    fn exchange(
        events: impl Stream<Item = Event> + Send + 'static,
        credential: &CancellationToken,
        closed: &CancellationToken,
    ) -> RequestExchange {
        let (method, params) = (Method::ToolsCall, Payload::empty(Revision::NEWEST));
        let client = Arc::new(ClientInfo::gateway());
        let subject = RequestSubject {
            id: RequestId::number(7),
            translator: ClientTranslator::new(&client, Profile::default(), &method, &params),
            method,
            level: None,
            progress: Progress::Unwanted,
        };
        let requests = StatelessRequests::new(
            &FrontendSettings::with(LimitsConfig::default()),
            MemoryBudget::unbounded(),
            RequesterObserver::none(),
        );
        let permit = requests.user(&UserId::new("ann")).begin(RequestKind::Call).unwrap();
        RequestExchange::new(subject, Reply::new(events), permit, Arc::new(credential.clone()), closed)
    }

    fn done() -> Event {
        Event::Done(Outcome::Complete(Payload::empty(Revision::NEWEST)))
    }

    #[test]
    fn a_request_that_was_stopped_before_it_began_does_not_begin() {
        for stopped_by in [0, 1] {
            let stops = [CancellationToken::new(), CancellationToken::new()];
            let has_begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&has_begun);
            let events = stream::once(async move {
                begins.store(true, Ordering::Relaxed);
                done()
            });
            let messages = exchange(events, &stops[0], &stops[1]);
            stops[stopped_by].cancel();
            let messages = messages.collect::<Vec<_>>().now_or_never().unwrap();
            assert!(matches!(&*messages, [Message::Response { outcome: Err(_), .. }]), "{messages:?}");
            assert!(!has_begun.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_request_ends_with_its_response() {
        let stops = (CancellationToken::new(), CancellationToken::new());
        let messages = exchange(stream::iter([done(), done()]), &stops.0, &stops.1).collect::<Vec<_>>();
        assert!(matches!(&*messages.now_or_never().unwrap(), [Message::Response { outcome: Ok(_), .. }]));
        let messages = exchange(stream::empty(), &stops.0, &stops.1).collect::<Vec<_>>();
        assert!(matches!(&*messages.now_or_never().unwrap(), [Message::Response { outcome: Err(_), .. }]));
    }

    #[tokio::test]
    async fn a_running_request_ends_when_its_credential_is_revoked() {
        let stops = (CancellationToken::new(), CancellationToken::new());
        let mut messages = pin!(exchange(stream::pending(), &stops.0, &stops.1));
        assert!(messages.next().now_or_never().is_none());
        stops.0.cancel();
        let Some(Message::Response { outcome: Err(error), .. }) = messages.next().await else { panic!("an error") };
        assert!(error.message().contains("revoked"), "{error}");
        assert!(messages.next().await.is_none());
    }
}
