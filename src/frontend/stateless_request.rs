//! One request of a client without a session (2026-07-28): its permit, and the messages of its answer. If the answer is
//! closed, the request is cancelled.

mod discover;
mod envelope;
mod exchange;
mod listen;

use std::{pin::Pin, sync::Arc};

use futures_util::Stream;

pub(super) use self::envelope::{RequestEnvelope, unsupported};
use self::{
    discover::discover,
    exchange::{Progress, RequestExchange, RequestSubject},
    listen::Listen,
};
use crate::{
    frontend::{
        request_limits::{RequestKind, RequestPermit},
        state::{FrontendState, Sender},
    },
    mcp::{
        Call, CancelReason, ClientInfo, Context, ErrorObject, IndexedJson, LogLevel, Message, Method, Payload,
        RequestId, WaitNotice,
        client_translator::ClientTranslator,
        large_messages::{MessageOwner, OffWorker},
        listen::Filter,
        meta,
        mirrored_params::Mirror,
    },
    model::Requester,
    support::{Account, pin_in_box},
};

/// The messages of an answer, of which the response is the last. Dropping them cancels the request.
pub(crate) type RequestMessages = OffWorker<Pin<Box<dyn Stream<Item = Message> + Send>>, Option<Message>>;

/// A request whose envelope was checked.
pub(crate) struct StatelessRequest<'a> {
    /// The servers, and the limits of the users.
    pub(crate) state: &'a FrontendState,
    pub(crate) sender: &'a Sender,
    /// The id for the response.
    pub(crate) id: RequestId,
    pub(crate) method: Method,
    /// The client's description of itself.
    pub(crate) envelope: RequestEnvelope,
    /// The parameters that the transport repeated in headers; `None` if it repeats none.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// The reason to give to the server if the request is cancelled.
    pub(crate) cancel_reason: CancelReason,
}

/// The answer to a request.
pub(crate) enum StatelessReply {
    /// A response, and the messages before it.
    Call(RequestMessages),
    /// A stream of notifications, with the response at its end.
    Listen(RequestMessages),
}

// === impl StatelessRequest ===

impl StatelessRequest<'_> {
    /// Serves the request with these parameters.
    ///
    /// # Errors
    ///
    /// `-32603` if the user has too many running requests or open listens, and the errors of [`Filter::read`].
    pub(crate) fn serve(self, params: IndexedJson) -> Result<StatelessReply, ErrorObject> {
        let requests = &self.state.requests;
        let caller = &self.sender.admission.caller;
        let user = requests.user(&caller.user);
        let client = user.note(caller, &self.sender.endpoint, &self.envelope.client, self.state.clock.now());
        let kind = if self.method == Method::Listen { RequestKind::Listen } else { RequestKind::Call };
        let permit = user.begin(kind)?;
        let server = &self.sender.servers.requests;
        let context = self.context(client, user.account.clone());
        let params = Payload::of_params(context.client.revision, params);
        tracing::debug!(method = %self.method, user = %context.caller.user, "request without a session");
        if self.method == Method::Listen {
            return self.listen(&params, context, permit).map(StatelessReply::Listen);
        }
        let subject = RequestSubject {
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
        let owner = MessageOwner::User(caller.user.clone());
        let revoked = Arc::clone(&self.sender.admission.lease.revoked);
        let exchange = pin_in_box(|| RequestExchange::new(subject, reply, permit, revoked, &requests.closed));
        Ok(StatelessReply::Call(OffWorker::stream(owner, exchange)))
    }

    /// The answer to `subscriptions/listen`.
    fn listen(self, params: &Payload, context: Context, permit: RequestPermit) -> Result<RequestMessages, ErrorObject> {
        let chosen = Filter::read(params, &context.client)?;
        let owner = MessageOwner::User(context.caller.user.clone());
        let translator = ClientTranslator::new(&context.client, context.profile, &Method::Listen, params);
        let observer = self.state.requests.observer.clone();
        let server = Arc::clone(&self.sender.servers.requests);
        let listen = Listen { id: self.id, context, translator, server, observer };
        let messages = Box::pin(listen.messages(chosen, self.state.drained.clone(), permit));
        Ok(OffWorker::stream(owner, messages))
    }

    fn context(&self, client: Arc<ClientInfo>, account: Account) -> Context {
        Context {
            caller: Arc::clone(&self.sender.admission.caller),
            account,
            requester: Requester::Request(self.state.requests.number()),
            profile: self.state.settings.profile(&client),
            client,
            mirror: self.mirror.clone(),
            level: LogLevel::Request(self.envelope.level),
            cancel_reason: self.cancel_reason.clone(),
            revoked: Some(Arc::clone(&self.sender.admission.lease.revoked)),
            wait: WaitNotice::default(),
            heard: None,
        }
    }
}
