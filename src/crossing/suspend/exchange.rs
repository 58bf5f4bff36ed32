//! One request of a client without a session, from the moment the server sends a request.

use std::{mem, sync::Arc};

use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::{
    call::{Next, SuspendedCall},
    registry::SuspendedCalls,
    request_state::{Sealer, ServerState, State, StateBinding},
};
use crate::{
    crossing::{
        collection_window::Window,
        deferred::{Deferred, Respondent, refuse},
    },
    mcp::{
        Call, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, ServerRequest,
        client_translator::ClientTranslator,
        declared::can_be_asked,
        json::{At, quote},
        large_messages::off_worker,
        pass_through::Takeover,
        pending_request::PendingRequest,
        translate::Profile,
    },
    model::Target,
    support::Account,
};

/// Suspended calls, deferred requests, and the sealer of their states.
pub(super) struct Shared {
    pub(super) calls: Arc<SuspendedCalls>,
    pub(super) sealer: Sealer,
    pub(super) deferred: Deferred,
}

/// One request, as the client sent it.
pub(super) struct SuspendedExchange {
    shared: Arc<Shared>,
    respondent: Respondent,
    profile: Profile,
    revoked: Option<Arc<CancellationToken>>,
    method: Method,
    params: Payload,
    account: Account,
}

/// A call that could not be suspended, and the reason for its server.
struct NotSuspended {
    call: SuspendedCall,
    reason: String,
}

// === impl SuspendedExchange ===

impl SuspendedExchange {
    /// Creates the exchange of this request.
    pub(super) fn new(shared: Arc<Shared>, target: Target, call: &Call) -> Self {
        let respondent = Respondent::of(&call.context, target);
        let (profile, revoked) = (call.context.profile, call.context.revoked.clone());
        let (method, params, account) = (call.method.clone(), call.params.clone(), call.context.account.clone());
        Self { shared, respondent, profile, revoked, method, params, account }
    }

    /// The client that can answer.
    pub(super) const fn respondent(&self) -> &Respondent {
        &self.respondent
    }

    /// The account of the user.
    pub(super) const fn account(&self) -> &Account {
        &self.account
    }

    /// The binding of states to this request.
    pub(super) fn binding(&self) -> StateBinding<'_> {
        StateBinding::new(&self.respondent.owner, &self.respondent.target, &self.method, &self.params)
    }

    /// The reply to a request that resumes a call. Progress uses the token of this request.
    pub(super) fn resume(self, call: SuspendedCall, token: Option<Bytes>) -> Reply {
        let reply = self.run(call);
        let Some(token) = token else { return reply };
        let token = String::from_utf8_lossy(&token).into_owned();
        reply.map(move |event| match event {
            Event::Notified(Notification { method: Method::Progress, params }) => {
                let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
                Event::Notified(Notification { method: Method::Progress, params })
            }
            event => event,
        })
    }

    /// The reply to a call with possible server requests.
    pub(super) fn run(self, mut call: SuspendedCall) -> Reply {
        Reply::new(async_stream::stream! {
            let mut window = Window::default();
            let mut deferred = self.shared.deferred.wait_for(&self.respondent);
            loop {
                if call.is_unasked() && !deferred {
                    window.close();
                } else {
                    window.open();
                }
                tokio::select! {
                    biased;
                    // before the timeout: an event that has arrived is not late just because this task is
                    next = call.next() => match next {
                        Next::Withdrawn => {}
                        Next::Event(Event::Notified(told)) => yield Event::Notified(told),
                        Next::Event(Event::Asked(question)) => self.ask(&mut call, question),
                        Next::Event(Event::Done(outcome)) => {
                            yield Event::Done(self.sealed(outcome).await);
                            return;
                        }
                    },
                    () = window.over() => {
                        // delayed: a call that ends soon leaves them to the next call
                        if mem::take(&mut deferred) {
                            for question in self.shared.deferred.take(&self.respondent) {
                                off_worker(question.params.json().len()).await;
                                self.ask(&mut call, question);
                            }
                        }
                        if call.is_unasked() {
                            continue;
                        }
                        off_worker(self.params.json().len() + call.shown_size()).await;
                        match self.suspend(call).await {
                            Ok(result) => {
                                yield Event::Done(Outcome::InputRequired(result));
                                return;
                            }
                            Err(mut back) => {
                                back.call.refuse(&back.reason);
                                call = back.call;
                            }
                        }
                    }
                }
            }
        })
    }

    /// Adds a server request for the client; refuses it if the client does not support it.
    fn ask(&self, call: &mut SuspendedCall, question: ServerRequest) {
        let client = &self.respondent.client;
        if let Err(error) = can_be_asked(client, &question.method, &question.params) {
            return refuse(question, error);
        }
        let translator = ClientTranslator::new(client, self.profile, &self.method, &self.params);
        match PendingRequest::new(question, &translator) {
            Ok(request) => call.ask(request),
            Err((answer, error)) => answer.give(Err(error)),
        }
    }

    /// Suspends the call. Returns the result with the server requests.
    async fn suspend(&self, mut call: SuspendedCall) -> Result<Payload, Box<NotSuspended>> {
        let calls = &self.shared.calls;
        let permit = match calls.permit(&self.respondent.owner) {
            Ok(permit) => permit,
            Err(reason) => return Err(Box::new(NotSuspended { call, reason })),
        };
        if let Err(exhausted) = call.hold(self.params.json().len()).await {
            return Err(Box::new(NotSuspended { call, reason: exhausted.to_string() }));
        }
        // the server may have waited for that request
        off_worker(self.params.json().len()).await;
        let id = calls.id();
        let Some(state) = self.shared.sealer.seal(&State::Suspended(id), &self.binding()) else {
            let reason = "the request is too large to be continued later".to_owned();
            return Err(Box::new(NotSuspended { call, reason }));
        };
        let result = call.input_required(&state);
        let revoked = self.revoked.clone().unwrap_or_default();
        calls.keep(id, call, permit, &self.respondent.owner, revoked);
        Ok(result)
    }

    /// Seals the state in an outcome with server requests, so that only the gateway can open it; the rest stays as the
    /// server wrote it. Adds none if the server sent none (`translation` section 5).
    async fn sealed(&self, outcome: Outcome) -> Outcome {
        let Outcome::InputRequired(result) = outcome else { return outcome };
        let state = result.member("requestState").map(str::to_owned);
        let Some(state) = state.filter(|state| state != "null") else { return Outcome::InputRequired(result) };
        let backend = result.origin().map(|origin| origin.backend().clone());
        let state = State::OfServer(ServerState { text: state, backend: backend.clone() });
        off_worker(self.params.json().len()).await;
        if let Some(sealed) = self.shared.sealer.seal(&state, &self.binding()) {
            return Outcome::InputRequired(result.with("requestState", &quote(&sealed)));
        }
        let error = "the server's requestState is too large: about 48 kB of it can be carried";
        let error = ErrorObject::internal(error);
        Outcome::Failed(match &backend {
            Some(backend) => error.about(backend),
            None => error,
        })
    }
}

impl Takeover for SuspendedExchange {
    fn takes_over_at(&mut self, event: &Event) -> bool {
        matches!(event, Event::Asked(_) | Event::Done(Outcome::InputRequired(_)))
    }

    fn take_over(self, event: Event, rest: Reply) -> Reply {
        match event {
            Event::Asked(question) => {
                let mut call = SuspendedCall::new(rest, self.account.clone());
                self.ask(&mut call, question);
                self.run(call)
            }
            Event::Done(outcome) => Reply::later(async move { Reply::done(self.sealed(outcome).await) }),
            event @ Event::Notified(_) => Reply::new(stream::iter([event])),
        }
    }
}
