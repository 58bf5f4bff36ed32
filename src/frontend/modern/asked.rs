//! One request of a client without sessions as it came over HTTP, and its answer as it goes. Knows nothing of what the
//! messages of the answer are made of.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::StatusCode;

use super::{
    envelope::Envelope,
    introduction::discovered,
    leg::{Leg, Stop},
    listen::{Filter, Listen},
    mirror,
    strays::Whose,
    users::{Kind, Permit},
};
use crate::{
    frontend::{
        Frontend,
        answer::{self, Begun, Form},
        arrival::{Arrival, lapse},
        refusal::Refusal,
        spoken::Spoken,
    },
    mcp::{Call, Context, ErrorObject, Farewell, Message, Method, Payload, RequestId, Revision, Server, meta},
    wire::sse,
};

/// One request as it came.
pub(in crate::frontend) struct Asked<'a> {
    /// Where the servers are.
    pub(in crate::frontend) frontend: &'a Frontend,
    /// On what right, to which endpoint, with which headers.
    pub(in crate::frontend) arrival: &'a Arrival,
    /// What the answer must carry.
    pub(in crate::frontend) id: RequestId,
    /// What is asked for.
    pub(in crate::frontend) method: Method,
}

// === impl Asked ===

impl Asked<'_> {
    /// Serves the request.
    ///
    /// # Errors
    ///
    /// Those of [`Envelope::read`], and `-32603` where the user has too many requests running, or listens open.
    pub(in crate::frontend) async fn serve(self, params: Bytes) -> Result<Response, Refusal> {
        let envelope = Envelope::read(&self.arrival.headers, &self.method, &params)
            .map_err(|error| Refusal::modern(error, self.id.clone()))?;
        let modern = self.frontend.modern();
        let now = self.frontend.sessions().now();
        let caller = &self.arrival.admission.caller;
        let user = modern.users.get(&caller.user);
        user.note(caller, &self.arrival.endpoint, &envelope.client, now);
        let kind = if self.method == Method::Listen { Kind::Listen } else { Kind::Call };
        let permit = match user.begin(kind) {
            Ok(permit) => permit,
            Err(error) => return Ok(answer::single(Message::error(self.id, error))),
        };
        let Some(server) = self.frontend.server(&self.arrival.endpoint.target).map(Arc::clone) else {
            return Err(Refusal::no_endpoint());
        };
        let context = self.context(&envelope);
        let params = Payload::new(Revision::V2026_07_28, params);
        tracing::debug!(method = %self.method, user = %context.caller.user, "request without a session");
        let target = self.arrival.endpoint.target.clone();
        let whose = Whose { owner: Arc::clone(&context.caller), client: Arc::clone(&context.client), target };
        if self.method == Method::Listen {
            return Ok(self.listen(&params, (context, whose), server, permit));
        }
        let leg = Leg {
            id: self.id.clone(),
            spoken: Spoken::about(&envelope.client, self.frontend.settings(), self.method.clone(), &params),
            token: meta::progress_token(&params),
            parks: Arc::clone(&modern.parks),
            sealer: Arc::clone(&modern.sealer),
            method: self.method.clone(),
            whose,
            user,
            strays: Arc::clone(&modern.strays),
            envelope,
            tracker: self.frontend.tracker().clone(),
        };
        let method = self.method.clone();
        let call = move |params| match method {
            Method::Discover => discovered(server.as_ref(), context),
            method => server.call(Call { method, params, context }),
        };
        let stop = Stop { revoked: self.arrival.admission.lease.revoked.clone(), closed: modern.closed.clone() };
        let messages = Box::pin(leg.messages(params, call, stop));
        Ok(self
            .respond(messages.map(move |message| {
                let _ = &permit;
                message
            }))
            .await)
    }

    /// The answer to `subscriptions/listen`, which is a stream unless it is refused.
    fn listen(
        self,
        params: &Payload,
        (context, whose): (Context, Whose),
        server: Arc<dyn Server>,
        permit: Permit,
    ) -> Response {
        let chosen = match Filter::read(params, &context.client) {
            Ok(chosen) => chosen,
            Err(error) => return refused(self.id, error),
        };
        let modern = self.frontend.modern();
        let spoken = Spoken::about(&context.client, self.frontend.settings(), Method::Listen, params);
        let strays = (Arc::clone(&modern.strays), whose, self.frontend.tracker().clone());
        let ended = Arc::clone(&modern.deps.ended);
        let listen = Listen { id: self.id.clone(), context, spoken, server, ended, strays };
        let drained = self.frontend.drained().clone();
        self.stream(Vec::new(), Box::pin(listen.messages(chosen, drained, permit)))
    }

    /// JSON where the answer is all that comes and comes soon, else a stream (design rule 8).
    async fn respond(&self, messages: impl Stream<Item = Message> + Unpin + Send + 'static) -> Response {
        match answer::begin(messages).await {
            Begun::Whole(messages) => {
                let status = status(&messages);
                let mut response = answer::json(&messages, Form::Single);
                *response.status_mut() = status;
                response
            }
            Begun::Stream(ready, rest) => self.stream(ready, rest),
        }
    }

    /// A stream that nobody can come back to. When its reader goes, so does the request.
    fn stream(&self, ready: Vec<Message>, mut rest: impl Stream<Item = Message> + Unpin + Send + 'static) -> Response {
        let lapse = lapse(&self.arrival.admission.lease, self.frontend.sessions().now());
        answer::stream(async_stream::stream! {
            yield sse::KEEP_ALIVE;
            for message in ready {
                yield sse::message(&message.encode());
            }
            let mut heartbeat = answer::heartbeat();
            tokio::pin!(lapse);
            loop {
                tokio::select! {
                    biased;
                    () = &mut lapse => break,
                    message = rest.next() => match message {
                        Some(message) => yield sse::message(&message.encode()),
                        None => break,
                    },
                    _ = heartbeat.tick() => yield sse::KEEP_ALIVE,
                }
            }
        })
    }

    fn context(&self, envelope: &Envelope) -> Context {
        Context {
            caller: Arc::clone(&self.arrival.admission.caller),
            session: None,
            request: Some(self.frontend.modern().name()),
            client: Arc::clone(&envelope.client),
            profile: self.frontend.settings().profile(&envelope.client),
            mirror: Some(Arc::new(mirror::params(&self.arrival.headers))),
            // whoever closes the answer says nothing more
            farewell: Farewell::new("client disconnected"),
            trace: self.arrival.trace.clone(),
        }
    }
}

/// 202: this version has no notification that a server would act on over HTTP, and asks for none to be refused.
pub(in crate::frontend) fn notified() -> Response<Body> {
    answer::accepted()
}

/// The answer that is this error and nothing else.
fn refused(id: RequestId, error: ErrorObject) -> Response {
    let messages = [Message::error(id, error)];
    let mut response = answer::json(&messages, Form::Single);
    *response.status_mut() = status(&messages);
    response
}

/// The status of the one answer, by the code of its error (`translation` 2.2).
fn status(messages: &[Message]) -> StatusCode {
    let Some(Message::Response { outcome: Err(error), .. }) = messages.first() else { return StatusCode::OK };
    match error.code() {
        ErrorObject::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY | ErrorObject::UNSUPPORTED_VERSION => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}
