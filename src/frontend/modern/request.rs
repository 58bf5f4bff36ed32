//! One request of a client without a session: its place among those of its user, and the messages of its answer. Knows
//! nothing of transports.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

use super::{
    envelope::Envelope,
    introduction::discovered,
    leg::{Leg, Stop},
    listen::{Filter, Listen},
    strays::Whose,
    users::{Kind, Permit},
};
use crate::{
    frontend::{sender::Sender, spoken::Spoken, state::FrontendState},
    mcp::{
        Call, Context, ErrorObject, Farewell, Message, Method, Payload, RequestId, Revision, Server, meta,
        mirrored::Mirror,
    },
};

/// The messages of an answer, the response last. Dropping them cancels the request.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Message> + Send>>;

/// One request, its envelope read and checked.
pub(crate) struct StatelessRequest<'a> {
    /// The servers, and what the users have running.
    pub(crate) state: &'a FrontendState,
    /// The client.
    pub(crate) sender: &'a Sender,
    /// The id that the response carries.
    pub(crate) id: RequestId,
    /// The method.
    pub(crate) method: Method,
    /// The client's description of itself.
    pub(crate) envelope: Envelope,
    /// The parameters that the transport mirrored; `None` where it mirrors none.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// The reason that the server is told when the request is given up.
    pub(crate) farewell: Farewell,
}

/// The answer to a request.
pub(crate) enum Served {
    /// A response, and what is said before it.
    Call(Messages),
    /// A stream of notifications that ends with the response.
    Listen(Messages),
}

// === impl StatelessRequest ===

impl StatelessRequest<'_> {
    /// Serves the request.
    ///
    /// # Errors
    ///
    /// `-32603` if the user has too many requests running, or listens open; those of [`Filter::read`].
    pub(crate) fn serve(self, params: Bytes) -> Result<Served, ErrorObject> {
        let modern = self.state.modern();
        let caller = &self.sender.admission.caller;
        let user = modern.users.get(&caller.user);
        user.note(caller, &self.sender.endpoint, &self.envelope.client, self.state.sessions().now());
        let kind = if self.method == Method::Listen { Kind::Listen } else { Kind::Call };
        let permit = user.begin(kind)?;
        let Some(server) = self.state.server(&self.sender.endpoint.target).map(Arc::clone) else {
            return Err(ErrorObject::internal("the backend of this endpoint is not configured"));
        };
        let context = self.context();
        let params = Payload::new(Revision::V2026_07_28, params);
        tracing::debug!(method = %self.method, user = %context.caller.user, "request without a session");
        let target = self.sender.endpoint.target.clone();
        let whose = Whose { owner: Arc::clone(&context.caller), client: Arc::clone(&context.client), target };
        if self.method == Method::Listen {
            return self.listen(&params, (context, whose), server, permit).map(Served::Listen);
        }
        let leg = Leg {
            id: self.id,
            spoken: Spoken::about(&self.envelope.client, self.state.settings(), self.method.clone(), &params),
            token: meta::progress_token(&params),
            parks: Arc::clone(&modern.parks),
            sealer: Arc::clone(&modern.sealer),
            method: self.method.clone(),
            whose,
            user,
            strays: Arc::clone(&modern.strays),
            envelope: self.envelope,
            tracker: self.state.tracker().clone(),
        };
        let method = self.method;
        let call = move |params| match method {
            Method::Discover => discovered(server.as_ref(), context),
            method => server.call(Call { method, params, context }),
        };
        let stop = Stop { revoked: self.sender.admission.lease.revoked.clone(), closed: modern.closed.clone() };
        Ok(Served::Call(Box::pin(leg.messages(params, call, stop).map(move |message| {
            let _ = &permit;
            message
        }))))
    }

    /// The answer to `subscriptions/listen`.
    fn listen(
        self,
        params: &Payload,
        (context, whose): (Context, Whose),
        server: Arc<dyn Server>,
        permit: Permit,
    ) -> Result<Messages, ErrorObject> {
        let chosen = Filter::read(params, &context.client)?;
        let modern = self.state.modern();
        let spoken = Spoken::about(&context.client, self.state.settings(), Method::Listen, params);
        let strays = (Arc::clone(&modern.strays), whose, self.state.tracker().clone());
        let ended = Arc::clone(&modern.deps.ended);
        let listen = Listen { id: self.id, context, spoken, server, ended, strays };
        Ok(Box::pin(listen.messages(chosen, self.state.drained().clone(), permit)))
    }

    fn context(&self) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            session: None,
            request: Some(self.state.modern().name()),
            client: Arc::clone(&self.envelope.client),
            profile: self.state.settings().profile(&self.envelope.client),
            mirror: self.mirror.clone(),
            farewell: self.farewell.clone(),
            trace: self.sender.trace.clone(),
        }
    }
}
