//! Suspension of calls whose server sends requests to a client without a session (`translation` 4b): the client's
//! request ends with them, and the call continues with the request that brings the answers (2026-07-28, MRTR).
//!
//! A suspended call belongs to the registry, not to the reply that ended, so dropping that reply does not cancel it.
//! The resumed reply owns the call again. A request that resumes a call is not sent to the server and needs no slot.
//!
//! Every request state is sealed here, even if the server keeps its own: it is bound to the caller, the endpoint, the
//! method and the parameters as the client sent them. So this decorator wraps the endpoint, before the gateway edits
//! names, URIs or defaults.

mod call;
mod exchange;
mod permits;
mod registry;
pub(crate) mod request_state;

use std::sync::Arc;

use futures_util::{StreamExt as _, future};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    call::SuspendedCall,
    exchange::{Shared, SuspendedExchange},
    permits::SuspensionPermits,
    registry::SuspendedCalls,
    request_state::{Sealer, ServerState, State, invalid},
};
use super::deferred::{Deferred, Respondent};
use crate::{
    mcp::{
        Call, Event, Payload, Reply, Server, ServerOrigin,
        json::{self, Object},
        large_messages::off_worker,
        meta, pass_through,
    },
    model::{LimitsConfig, ReplicaNumber, Target},
    support::{Clock, Live, Random, SealingKey},
};

/// Dependencies of suspension.
#[derive(Clone)]
pub struct SuspensionDeps {
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and nonces.
    pub random: Arc<dyn Random>,
    /// The sealing key of request states. A state may return to any process on the same store.
    pub state_key: SealingKey,
    pub replica: ReplicaNumber,
}

/// Suspended calls and deferred requests of all endpoints.
pub(super) struct Suspension {
    shared: Arc<Shared>,
    /// Owner of the waiting tasks.
    tracker: TaskTracker,
    /// Ends the waiting tasks.
    closed: CancellationToken,
}

// === impl Suspension ===

impl Suspension {
    /// Creates an empty state.
    pub(super) fn new(limits: Live<LimitsConfig>, deps: SuspensionDeps) -> Arc<Self> {
        let SuspensionDeps { clock, random, state_key, replica } = deps;
        let (tracker, closed) = (TaskTracker::new(), CancellationToken::new());
        let permits = SuspensionPermits::new(limits.clone());
        let calls = SuspendedCalls::new(Arc::clone(&random), permits, limits.clone(), tracker.clone(), closed.clone());
        let shared = Shared {
            calls,
            sealer: Sealer::new(state_key, replica, random, clock, limits),
            deferred: Deferred::new(tracker.clone(), closed.clone()),
        };
        Arc::new(Self { shared: Arc::new(shared), tracker, closed })
    }

    /// Serves a call whose client may get requests. A call with the state of a suspended call resumes it; any other
    /// goes to the server, with the server's own state restored.
    pub(super) fn call(&self, server: &Arc<dyn Server>, target: &Target, call: Call) -> Reply {
        let exchange = SuspendedExchange::new(Arc::clone(&self.shared), target.clone(), &call);
        let Some(state) = call.params.member("requestState") else { return self.begin(server, exchange, call) };
        let state = json::unquoted(state).ok_or_else(invalid);
        let opened = state.and_then(|state| self.shared.sealer.open(&state, &exchange.binding()));
        match opened {
            Err(error) => Reply::failed(error),
            Ok(State::OfServer(ServerState { text, backend })) => {
                let params = call.params.with("requestState", &text);
                // marks a further round: a server that now has sessions cannot continue it
                let params = match backend {
                    Some(backend) => params.written_by(&ServerOrigin::new(backend, call.context.account.clone())),
                    None => params,
                };
                self.begin(server, exchange, Call { params, ..call })
            }
            Ok(State::Suspended(id)) => {
                let (shared, asked) = (Arc::clone(&self.shared), call.params);
                Reply::later(async move {
                    match shared.calls.take(&id, &exchange.respondent().owner).await {
                        Ok(suspended) => {
                            off_worker(asked.json().len()).await;
                            exchange.resume(answered(suspended, &asked), meta::progress_token(&asked))
                        }
                        Err(error) => Reply::failed(error),
                    }
                })
            }
        }
    }

    /// Sends a call to the server. Its reply passes through until the server sends a request, unless a deferred request
    /// waits for a call.
    fn begin(&self, server: &Arc<dyn Server>, exchange: SuspendedExchange, call: Call) -> Reply {
        let reply = server.call(call);
        if self.shared.deferred.wait_for(exchange.respondent()) {
            let call = SuspendedCall::new(reply, exchange.account().clone());
            return exchange.run(call);
        }
        pass_through::until(reply, exchange)
    }

    /// Serves a listen. It cannot carry server requests, so they are deferred to a call.
    pub(super) fn listen(&self, server: &Arc<dyn Server>, target: &Target, call: Call) -> Reply {
        let respondent = Respondent::of(&call.context, target.clone());
        let shared = Arc::clone(&self.shared);
        Reply::new(server.call(call).filter_map(move |event| {
            future::ready(match event {
                Event::Asked(question) => {
                    shared.deferred.hold(respondent.clone(), question);
                    None
                }
                event => Some(event),
            })
        }))
    }

    /// Ends all waiting tasks, and waits for their end.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// The call after its server got the client's answers.
fn answered(mut suspended: SuspendedCall, asked: &Payload) -> SuspendedCall {
    let object = asked.object();
    let responses = object.as_ref().and_then(|params| params.get("inputResponses")).unwrap_or("{}");
    suspended.answer(&Object::parse(responses.as_bytes()).unwrap_or_default(), asked.revision);
    suspended
}
