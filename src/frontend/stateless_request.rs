//! One request of a client without a session (2026-07-28): its permit, and the messages of its answer. Closing the
//! answer cancels the request. Knows nothing of transports and of suspended calls.

mod discover;
mod envelope;
mod listen;

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::Stream;
use tokio_util::sync::CancellationToken;

pub(super) use self::envelope::{RequestEnvelope, unsupported};
use self::{discover::discover, listen::Listen};
use crate::{
    frontend::{
        request_limits::{RequestKind, RequestPermit},
        state::{FrontendState, Sender},
    },
    mcp::{
        Call, CancelReason, ClientInfo, Context, ErrorObject, Event, IndexedJson, Level, Message, Method, Notification,
        Outcome, Payload, Reply, RequestId, client_translator::ClientTranslator, listen::Filter, meta,
        mirrored_params::Mirror,
    },
    model::Requester,
    support::pin_in_box,
};

/// Messages of an answer, the response last. Dropping them cancels the request.
pub(crate) type RequestMessages = Pin<Box<dyn Stream<Item = Message> + Send>>;

/// A request with a checked envelope.
pub(crate) struct StatelessRequest<'a> {
    /// The servers, and the limits of the users.
    pub(crate) state: &'a FrontendState,
    /// The client.
    pub(crate) sender: &'a Sender,
    /// The id that the response carries.
    pub(crate) id: RequestId,
    /// The method.
    pub(crate) method: Method,
    /// The client's description of itself.
    pub(crate) envelope: RequestEnvelope,
    /// The parameters that the transport mirrored; `None` if it mirrors none.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// The reason for the server if the request is cancelled.
    pub(crate) cancel_reason: CancelReason,
}

/// The answer to a request.
pub(crate) enum StatelessReply {
    /// A response, and the messages before it.
    Call(RequestMessages),
    /// A stream of notifications that ends with the response.
    Listen(RequestMessages),
}

/// A running request: its reply, as messages for its client.
struct RequestExchange {
    /// The id that the response carries.
    id: RequestId,
    /// The method.
    method: Method,
    /// The minimum level of log messages, if it wants any.
    level: Option<Level>,
    /// Progress notifications.
    progress: Progress,
    /// The translator into the client's version.
    translator: ClientTranslator,
}

/// Progress notifications of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It has a token.
    Wanted,
    /// It has none.
    Unwanted,
}

/// Events that end a request from outside.
struct Stop {
    /// The credential was revoked.
    revoked: Arc<CancellationToken>,
    /// The gateway stops.
    closed: CancellationToken,
}

// === impl StatelessRequest ===

impl StatelessRequest<'_> {
    /// Serves the request with these parameters.
    ///
    /// # Errors
    ///
    /// `-32603` if the user has too many requests running, or listens open; those of [`Filter::read`].
    pub(crate) fn serve(self, params: IndexedJson) -> Result<StatelessReply, ErrorObject> {
        let requests = &self.state.requests;
        let caller = &self.sender.admission.caller;
        let user = requests.user(&caller.user);
        let client = user.note(caller, &self.sender.endpoint, &self.envelope.client, self.state.clock.now());
        let kind = if self.method == Method::Listen { RequestKind::Listen } else { RequestKind::Call };
        let permit = user.begin(kind)?;
        let server = &self.sender.servers.requests;
        let context = self.context(client);
        let params = Payload::of_params(context.client.revision, params);
        tracing::debug!(method = %self.method, user = %context.caller.user, "request without a session");
        if self.method == Method::Listen {
            return self.listen(&params, context, permit).map(StatelessReply::Listen);
        }
        let exchange = RequestExchange {
            id: self.id,
            translator: ClientTranslator::new(&context.client, context.profile, &self.method, &params),
            progress: if meta::progress_token(&params).is_some() { Progress::Wanted } else { Progress::Unwanted },
            method: self.method.clone(),
            level: self.envelope.level,
        };
        let reply = match self.method {
            Method::Discover => discover(server.as_ref(), context),
            method => server.call(Call { method, params, context }),
        };
        let stop = Stop { revoked: Arc::clone(&self.sender.admission.lease.revoked), closed: requests.closed.clone() };
        Ok(StatelessReply::Call(pin_in_box(|| exchange.messages(reply, stop, permit))))
    }

    /// The answer to `subscriptions/listen`.
    fn listen(self, params: &Payload, context: Context, permit: RequestPermit) -> Result<RequestMessages, ErrorObject> {
        let chosen = Filter::read(params, &context.client)?;
        let translator = ClientTranslator::new(&context.client, context.profile, &Method::Listen, params);
        let observer = self.state.requests.observer.clone();
        let server = Arc::clone(&self.sender.servers.requests);
        let listen = Listen { id: self.id, context, translator, server, observer };
        Ok(Box::pin(listen.messages(chosen, self.state.drained.clone(), permit)))
    }

    fn context(&self, client: Arc<ClientInfo>) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            requester: Requester::Request(self.state.requests.number()),
            profile: self.state.settings.profile(&client),
            client,
            mirror: self.mirror.clone(),
            cancel_reason: self.cancel_reason.clone(),
            revoked: Some(Arc::clone(&self.sender.admission.lease.revoked)),
        }
    }
}

// === impl RequestExchange ===

impl RequestExchange {
    /// The messages, the response last. Dropping the stream cancels the call.
    fn messages(
        self,
        mut reply: Reply,
        stop: Stop,
        permit: RequestPermit,
    ) -> impl Stream<Item = Message> + Send + 'static {
        async_stream::stream! {
            let mut stopped = pin!(stop.wait());
            loop {
                let event = tokio::select! {
                    biased;
                    error = &mut stopped => {
                        yield Message::error(self.id, error);
                        return;
                    }
                    event = reply.next_event() => event,
                };
                match event {
                    Some(Event::Notified(notification)) => {
                        if let Some(message) = self.notification(notification) {
                            yield message;
                        }
                    }
                    Some(Event::Asked(question)) => {
                        metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
                        let error = ErrorObject::invalid_params("nothing can be asked in a request of this method");
                        question.answer.give(Err(error));
                    }
                    Some(Event::Done(outcome)) => {
                        // the call has released everything before the client reads its answer
                        drop((reply, permit));
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
    fn notification(&self, notification: Notification) -> Option<Message> {
        let wanted = match notification.method {
            Method::LoggingMessage => self.level.is_some_and(|lowest| level_of(&notification) >= Some(lowest)),
            Method::Progress => self.progress == Progress::Wanted,
            // custom notifications of the server pass
            Method::Other(_) => true,
            _ => false,
        };
        if !wanted {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return None;
        }
        let Notification { method, params } = self.translator.notification(notification)?;
        Some(Message::Notification { method, params: params.into_params() })
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
    async fn wait(&self) -> ErrorObject {
        tokio::select! {
            () = self.revoked.cancelled() => ErrorObject::internal("access was revoked; log in again"),
            () = self.closed.cancelled() => ErrorObject::retryable("the gateway stops before the answer came"),
        }
    }
}

fn level_of(notification: &Notification) -> Option<Level> {
    notification.params.string("level").and_then(|name| Level::parse(&name))
}
