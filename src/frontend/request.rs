//! One request of a client without a session (2026-07-28): its place among those of its user, and the messages of its
//! answer. Whoever closes the answer cancels the request. Knows nothing of transports, and of calls that wait for their
//! client between two requests.

mod early;
mod envelope;
mod exchange;
mod listen;

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

pub(super) use self::envelope::{Envelope, is_around, unsupported};
use self::{
    exchange::{Progress, RequestExchange, Stop},
    listen::{Filter, Listen},
};
use crate::{
    frontend::{
        requests::{Kind, Permit},
        sender::Sender,
        state::FrontendState,
    },
    mcp::{
        Call, Context, ErrorObject, Farewell, Message, Method, Outcome, Payload, Reply, RequestId, Revision, Server,
        client_translator::ClientTranslator, json::draft::Draft, meta, mirrored::Mirror,
    },
    model::Requester,
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
        let requests = self.state.requests();
        let caller = &self.sender.admission.caller;
        let user = requests.user(&caller.user);
        user.note(caller, &self.sender.endpoint, &self.envelope.client, self.state.sessions().now());
        let kind = if self.method == Method::Listen { Kind::Listen } else { Kind::Call };
        let permit = user.begin(kind)?;
        let Some(server) = self.state.server(&self.sender.endpoint.target).map(Arc::clone) else {
            return Err(ErrorObject::internal("the backend of this endpoint is not configured"));
        };
        let context = self.context();
        let params = Payload::new(Revision::V2026_07_28, params);
        tracing::debug!(method = %self.method, user = %context.caller.user, "request without a session");
        if self.method == Method::Listen {
            return self.listen(&params, context, server, permit).map(Served::Listen);
        }
        let exchange = RequestExchange {
            id: self.id,
            translator: ClientTranslator::new(&context.client, context.profile, &self.method, &params),
            progress: if meta::progress_token(&params).is_some() { Progress::Wanted } else { Progress::Unwanted },
            method: self.method.clone(),
            level: self.envelope.level,
        };
        let reply = match self.method {
            Method::Discover => discovered(server.as_ref(), context),
            method => server.call(Call { method, params, context }),
        };
        let stop = Stop { revoked: Arc::clone(&self.sender.admission.lease.revoked), closed: requests.closed.clone() };
        Ok(Served::Call(Box::pin(exchange.messages(reply, stop).map(move |message| {
            let _ = &permit;
            message
        }))))
    }

    /// The answer to `subscriptions/listen`.
    fn listen(
        self,
        params: &Payload,
        context: Context,
        server: Arc<dyn Server>,
        permit: Permit,
    ) -> Result<Messages, ErrorObject> {
        let chosen = Filter::read(params, &context.client)?;
        let spoken = ClientTranslator::new(&context.client, context.profile, &Method::Listen, params);
        let ended = Arc::clone(&self.state.requests().ended);
        let listen = Listen { id: self.id, context, spoken, server, ended };
        Ok(Box::pin(listen.messages(chosen, self.state.drained().clone(), permit)))
    }

    fn context(&self) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            requester: Requester::Request(self.state.requests().number()),
            client: Arc::clone(&self.envelope.client),
            profile: self.state.settings().profile(&self.envelope.client),
            mirror: self.mirror.clone(),
            farewell: self.farewell.clone(),
            revoked: Some(Arc::clone(&self.sender.admission.lease.revoked)),
            trace: self.sender.trace.clone(),
        }
    }
}

/// The answer to `server/discover`: the server, with the versions that are spoken in this way. Those with a handshake are
/// asked for in another.
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
