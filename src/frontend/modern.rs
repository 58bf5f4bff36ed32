//! Clients of 2026-07-28 over Streamable HTTP: every request stands alone and has one answer, and whoever closes the
//! answer cancels the request. Nothing is kept between requests but calls that wait for their client ([`parks`]); what a
//! server of the same version wants to have back it gets from the client ([`seal`]).

mod envelope;
mod held;
mod leg;
mod listen;
mod load;
mod mirror;
mod parks;
mod seal;
mod seen;
mod strays;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::StatusCode;
use tokio_util::sync::CancellationToken;

pub(super) use self::envelope::{is_around, unsupported};
pub use self::seal::StateKey;
use self::{
    envelope::Envelope,
    leg::Leg,
    load::{Busy, Load},
    parks::Parks,
    seal::Sealer,
    seen::Seen,
    strays::{Strays, Whose},
};
use super::{
    Frontend,
    answer::{self, Begun, Form},
    arrival::{Arrival, lapse},
    refusal::Refusal,
    sessions::Deps,
    settings::Settings,
    spoken::Spoken,
};
use crate::{
    mcp::{
        Call, ClientInfo, Context, ErrorObject, Farewell, Message, Method, Outcome, Payload, Reply, RequestId,
        Revision, Server,
        json::{Object, draft::Draft},
        meta,
    },
    model::{SessionId, Target, status::SessionStatus},
    support::Timestamp,
    wire::sse,
};

/// What the front keeps for clients that have no session.
pub(super) struct Modern {
    load: Load,
    seen: Seen,
    parks: Arc<Parks>,
    sealer: Arc<Sealer>,
    strays: Arc<Strays>,
    deps: Deps,
    /// Numbers the requests, so that what each holds at the backends is told apart.
    last: AtomicU64,
    /// Ends everything that runs, when the gateway does.
    closed: CancellationToken,
}

/// One request as it came.
pub(super) struct Asked<'a> {
    /// Where the servers are.
    pub(super) frontend: &'a Frontend,
    /// On what right, to which endpoint, with which headers.
    pub(super) arrival: &'a Arrival,
    /// What the answer must carry.
    pub(super) id: RequestId,
    /// What is asked for.
    pub(super) method: Method,
}

// === impl Modern ===

impl Modern {
    /// Nothing runs yet.
    pub(super) fn new(deps: &Deps, settings: &Settings) -> Self {
        let closed = CancellationToken::new();
        let (random, clock) = (Arc::clone(&deps.random), Arc::clone(&deps.clock));
        Self {
            load: Load::new(settings.calls_per_session),
            seen: Seen::new(settings.session_idle),
            parks: Parks::new(deps, settings, closed.clone()),
            sealer: Arc::new(Sealer::new(&deps.state_key, random, clock, settings.question_timeout)),
            strays: Strays::new(closed.clone()),
            deps: deps.clone(),
            last: AtomicU64::new(0),
            closed,
        }
    }

    /// The clients that were here of late, for people.
    pub(super) fn status(&self, now: Timestamp) -> Vec<SessionStatus> {
        self.seen.status(now)
    }

    /// Ends everything that runs.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// The name of one more request.
    fn name(&self) -> SessionId {
        SessionId::new(format!("request {}", self.last.fetch_add(1, Ordering::Relaxed)))
    }
}

impl fmt::Debug for Modern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modern").finish_non_exhaustive()
    }
}

// === impl Asked ===

impl Asked<'_> {
    /// Serves the request.
    ///
    /// # Errors
    ///
    /// Those of [`Envelope::read`], and `-32603` where the caller has too many requests running.
    pub(super) async fn serve(self, params: Bytes) -> Result<Response, Refusal> {
        let envelope = Envelope::read(&self.arrival.headers, &self.method, &params)
            .map_err(|error| Refusal::modern(error, self.id.clone()))?;
        let modern = self.frontend.modern();
        let now = self.frontend.sessions().now();
        modern.seen.note(&self.arrival.admission.caller, &self.arrival.endpoint, &envelope.client, now);
        let Some(busy) = modern.load.begin(&self.arrival.admission.caller.user) else {
            let error = ErrorObject::retryable("too many requests of yours run; wait until some have ended");
            return Ok(answer::single(Message::error(self.id, error)));
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
            return Ok(self.listen(&params, (context, whose), server, busy));
        }
        let leg = Leg {
            id: self.id.clone(),
            spoken: Spoken::about(&envelope.client, self.frontend.settings(), self.method.clone(), &params),
            token: meta::progress_token(&params),
            parks: Arc::clone(&modern.parks),
            sealer: Arc::clone(&modern.sealer),
            method: self.method.clone(),
            whose,
            strays: Arc::clone(&modern.strays),
            envelope,
            tracker: self.frontend.tracker().clone(),
        };
        let named = self.named(Arc::clone(&server), context.clone());
        let method = self.method.clone();
        let call = move |params| match method {
            Method::Discover => discovered(server.as_ref(), context),
            method => server.call(Call { method, params, context }),
        };
        let stop = leg::Stop { revoked: self.arrival.admission.lease.revoked.clone(), closed: modern.closed.clone() };
        let messages = Box::pin(async_stream::stream! {
            let leg = Leg { spoken: leg.spoken.clone().in_the_name_of(named.await), ..leg };
            for await message in leg.messages(params, call, stop) {
                yield message;
            }
        });
        Ok(self
            .respond(messages.map(move |message| {
                let _ = &busy;
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
        busy: Busy,
    ) -> Response {
        let chosen = match listen::Filter::read(params, &context.client) {
            Ok(chosen) => chosen,
            Err(error) => return refused(self.id, error),
        };
        let modern = self.frontend.modern();
        let spoken = Spoken::about(&context.client, self.frontend.settings(), Method::Listen, params);
        let strays = (Arc::clone(&modern.strays), whose, self.frontend.tracker().clone());
        let ended = Arc::clone(&modern.deps.ended);
        let listen = listen::Listen { id: self.id.clone(), context, spoken, server, ended, strays };
        let drained = self.frontend.drained().clone();
        self.stream(Vec::new(), Box::pin(listen.messages(chosen, drained, busy)))
    }

    /// The server that results are in the name of: the gateway's own of the merged endpoint, else the backend's.
    fn named(
        &self,
        server: Arc<dyn Server>,
        context: Context,
    ) -> impl Future<Output = Option<Bytes>> + Send + 'static + use<> {
        let merged = self.arrival.endpoint.target == Target::Merged;
        async move {
            if merged {
                return Some(ClientInfo::gateway_implementation());
            }
            let params = Payload::absent(Revision::V2026_07_28);
            let about = server.call(Call { method: Method::Discover, params, context }).outcome().await;
            let Outcome::Complete(about) = about else { return None };
            let about = about.object()?;
            let meta = Object::parse(about.get(meta::META)?.as_bytes())?;
            Some(Bytes::copy_from_slice(meta.get(meta::SERVER_INFO)?.as_bytes()))
        }
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
pub(super) fn notified() -> Response<Body> {
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

/// What the server says of itself, with the versions that are spoken in this way: those with a handshake are asked for in
/// another.
fn discovered(server: &dyn Server, context: Context) -> Reply {
    let params = Payload::absent(Revision::V2026_07_28);
    let reply = server.call(Call { method: Method::Discover, params, context });
    Reply::later(async move {
        Reply::done(match reply.outcome().await {
            Outcome::Complete(result) => Outcome::Complete(introduction(&result)),
            other => other,
        })
    })
}

/// The result of `server/discover` as clients of this version get it: everything that the server says of itself, but that
/// tasks of tools are an extension in this version (`translation` 3.5).
fn introduction(result: &Payload) -> Payload {
    let text = String::from_utf8_lossy(result.json()).into_owned();
    let mut draft = Draft::of(&text);
    draft.set("resultType", "\"complete\"");
    draft.set("supportedVersions", format!("[\"{}\"]", Revision::V2026_07_28));
    draft.set("ttlMs", "0");
    draft.set("cacheScope", "\"private\"");
    for capabilities in draft.each("capabilities") {
        let mut tools = capabilities.get("tasks");
        for part in ["requests", "tools", "call"] {
            tools = tools.and_then(|tasks| tasks.get(part));
        }
        let has_tasks = tools.is_some();
        capabilities.remove("tasks");
        if has_tasks {
            if capabilities.get("extensions").is_none_or(|extensions| !extensions.is_object()) {
                capabilities.set("extensions", "{}");
            }
            capabilities.each("extensions").for_each(|extensions| extensions.set(meta::TASKS_EXTENSION, "{}"));
        }
    }
    let json = draft.text();
    Payload::new(Revision::V2026_07_28, json.into())
}
