//! One backend as a [`Server`]: each call finds its connection, opened if there is none, and runs on it. What serves it is
//! chosen here, once the handshake has told the era of the server: [`SessionServer`] or [`RequestServer`].

mod request;
mod session;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt as _, future::Either};
use tokio::time::sleep;

use self::{request::RequestServer, session::SessionServer};
use super::{
    attempts::{Attempts, Next},
    connection::{
        OutboundCall, ServerConnection, call_through,
        discover::{Told, discover, introduced},
    },
    error::{DispatchError, StartError},
    key::Key,
    question_slots::{SlotGuard, SlotRequest},
    remote::Backend,
    waiting,
};
use crate::{
    crossing::Pair,
    mcp::{Call, Context, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, Server},
};

/// A [`Backend`] behind the interface that everything else sees.
pub(crate) struct BackendServer(pub(crate) Arc<Backend>);

impl Server for BackendServer {
    fn call(&self, call: Call) -> Reply {
        let backend = Arc::clone(&self.0);
        if backend.is_there(&call.context) {
            return backend.begin_call(call);
        }
        let (token, context) = (waiting::token(&call), call.context.clone());
        let reply = Arc::clone(&backend).begin_call(call);
        match token {
            Some(token) => {
                let message = format!("waiting for `{}` to start", backend.spec.id);
                waiting::told(reply, token, message, move || backend.is_there(&context))
            }
            None => reply,
        }
    }
}

impl Backend {
    /// Begins a call, once the era of the server is known.
    fn begin_call(self: Arc<Self>, call: Call) -> Reply {
        match self.era.now() {
            Some(era) => self.dispatch(era, call),
            None => Reply::later(async move {
                match self.found_era(&call.method).await {
                    Ok(era) => self.dispatch(era, call),
                    Err(error) => Reply::failed(error),
                }
            }),
        }
    }

    /// Serves a call at a server of this era, through the decorators that the pair needs.
    fn dispatch(self: Arc<Self>, era: Era, call: Call) -> Reply {
        let crossing = &self.crossing;
        match (crossing.pair(&call, era), era) {
            (Pair::Alike, Era::Legacy) => SessionServer(self).serve(call),
            (Pair::Alike, Era::Modern) => RequestServer(self).serve(call),
            (Pair::Differ(decorators), Era::Legacy) => {
                Arc::clone(crossing).serve(decorators, SessionServer(self), call)
            }
            (Pair::Differ(decorators), Era::Modern) => {
                Arc::clone(crossing).serve(decorators, RequestServer(self), call)
            }
            (Pair::NotMet, _) => Reply::later(self.meet_first(era, call)),
            // it may have run up to what it asked
            (Pair::Gone, _) => {
                Reply::failed(self.unavailable("its server was replaced while it waited for input; call again"))
            }
        }
    }

    /// The key of the connection that serves this client at a server of this era.
    fn key(&self, era: Era, context: &Context) -> Key {
        match era {
            Era::Legacy => Key::of(self.spec.share, context),
            Era::Modern => Key::of_modern(&self.spec, context),
        }
    }

    /// Whether what serves this client is there.
    fn is_there(&self, context: &Context) -> bool {
        self.era.now().is_some_and(|era| self.pool.is_there(&self.key(era, context)))
    }

    /// Waits for a connection, so that it is known what the pair needs.
    async fn meet_first(self: Arc<Self>, era: Era, call: Call) -> Reply {
        let key = self.key(era, &call.context);
        match self.connection(era, &key, &call.context).await {
            Ok((_lease, connection)) => {
                self.crossing.met(connection.tasks());
                self.dispatch(era, call)
            }
            Err(error) => self.not_served(error, call),
        }
    }

    /// Waits until the era is known: up to `start_timeout`, except for a listen, which waits for good.
    async fn found_era(&self, method: &Method) -> Result<Era, ErrorObject> {
        if *method == Method::Listen {
            return Ok(self.era.wait().await);
        }
        let failed = async {
            loop {
                if let Err(error) = self.pool.base().wait().await {
                    return error;
                }
                // it is known in this moment
                self.era.wait().await;
            }
        };
        let patience = self.spec.start_timeout;
        tokio::select! {
            biased;
            era = self.era.wait() => Ok(era),
            error = failed => Err(error.of_call(&self.spec.id)),
            () = sleep(patience) => {
                Err(self.unavailable(&format!("it is still starting after {} s", patience.as_secs())))
            }
        }
    }

    /// Serves a call on the connection of `key`, in a question slot of its sharer if it needs one.
    fn serve(self: Arc<Self>, era: Era, key: Key, call: Call) -> Reply {
        if !self.needs_slot(&call.method, &key) {
            return self.serve_on(era, key, None, call);
        }
        let (token, message) = (waiting::token(&call), format!("waiting for a free process of `{}`", self.spec.id));
        let has_slot = Arc::new(AtomicBool::new(false));
        let slot_found = Arc::clone(&has_slot);
        let reply = Reply::later(async move {
            let slot = self.slot(&call.method, &key, &call.context).await;
            slot_found.store(true, Ordering::Release);
            match slot {
                Ok(slot) => self.serve_on(era, slot.key().clone(), Some(slot), call),
                Err(error) => {
                    self.count(&call.method, "unavailable");
                    Reply::failed(error)
                }
            }
        });
        match token {
            Some(token) => waiting::told(reply, token, message, move || has_slot.load(Ordering::Acquire)),
            None => reply,
        }
    }

    /// Serves a call on the connection of `key`.
    fn serve_on(self: Arc<Self>, era: Era, key: Key, mut slot: Option<SlotGuard>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let Call { method, params, context } = call;
            let mut attempts = Attempts::of(&self, &method);
            let holder = context.requester.clone();
            loop {
                let (_lease, connection) = match self.connection(era, &key, &context).await {
                    Ok(found) => found,
                    Err(error) => {
                        let call = Call { method: method.clone(), params: params.clone(), context: context.clone() };
                        for await event in Arc::clone(&self).not_served(error, call) {
                            yield event;
                        }
                        return;
                    }
                };
                if method == Method::Discover
                    && let Some(result) = self.discovered(&connection).await
                {
                    yield Event::Done(Outcome::Complete(result));
                    return;
                }
                if let Err(error) = connection.check(&method, &params, &context) {
                    yield attempts.refused(error);
                    return;
                }
                let bridge = self.crossing.around_connection(&context.client, connection.tasks());
                let events = if let Some(bridge) = bridge {
                    let call = Call { method: method.clone(), params: params.clone(), context: context.clone() };
                    Either::Left(call_through(&connection, bridge, call, self.spec.call_timeout))
                } else {
                    let call = OutboundCall::by(&context, &method, &params);
                    Either::Right(connection.call(call, self.spec.call_timeout))
                };
                let mut events = pin!(events);
                while let Some(event) = events.next().await {
                    let Some(event) = attempts.take(event) else { continue };
                    // before the client hears of it: the next caller finds the slot free
                    if let Event::Done(outcome) = &event
                        && let Some(slot) = slot.take_if(|_| outcome.is_of_server() || connection.is_over())
                    {
                        slot.answered();
                    }
                    yield connection.own_part(&method, event, &holder);
                }
                if attempts.is_lost() && !connection.is_over() {
                    self.ask_again(&connection).await;
                }
                match attempts.next() {
                    Next::Again => {}
                    Next::Over => return,
                    Next::GivenUp(event) => {
                        yield event;
                        return;
                    }
                }
            }
        })
    }

    /// The answer to a call that was not begun: it is served in the other manner if the server was found to be of the other
    /// era. What it says of a task is of one that has ended with the processes of the other era.
    fn not_served(self: Arc<Self>, error: DispatchError, call: Call) -> Reply {
        match error {
            DispatchError::Turned(era) if !(call.method.is_of_core_tasks() || call.method == Method::TasksUpdate) => {
                self.dispatch(era, call)
            }
            error => {
                self.count(&call.method, "unavailable");
                Reply::failed(self.not_begun(error))
            }
        }
    }

    /// The answer to `server/discover`: the server's account of itself, asked for again if it may be out of date.
    async fn discovered(&self, connection: &Arc<ServerConnection>) -> Option<Payload> {
        if !connection.server()?.is_fresh() {
            self.ask_again(connection).await;
        }
        Some(connection.server()?.discover(&self.spec.id))
    }

    /// Asks a server again for its account of itself that may have been replaced unseen. What it said holds if it does not
    /// answer; if it is of another era now, that is found out anew.
    async fn ask_again(&self, connection: &Arc<ServerConnection>) {
        if self.spec.is_channel() {
            return;
        }
        match discover(connection, self.spec.start_timeout).await {
            Told::Modern(info) => {
                self.crossing.met(info.tasks());
                introduced(connection, info);
            }
            Told::Legacy(reason) => {
                self.era.doubt();
                connection.end(&format!("the server no longer speaks 2026-07-28: {reason}"));
            }
            Told::Unusable(error @ StartError::Incompatible { .. }) => connection.end(&error.to_string()),
            Told::Ended(_) | Told::Unusable(_) | Told::Nothing(_) => {}
        }
    }

    /// Whether a call needs a slot: on a channel that several client sessions share, if the client can be asked in it. An
    /// exchange of its own tells whose question it is.
    fn needs_slot(&self, method: &Method, key: &Key) -> bool {
        self.spec.is_channel() && !key.is_of_one_client() && key.can_be_asked() && method.may_ask()
    }

    /// Waits for a slot of `key`'s sharer up to `slot_wait`.
    async fn slot(&self, method: &Method, key: &Key, context: &Context) -> Result<SlotGuard, ErrorObject> {
        // a task is waited for where it was made
        let only = method.is_of_core_tasks().then_some(key.slot());
        let request = SlotRequest { user: context.caller.user.clone(), holder: context.requester.clone(), only };
        let slot =
            self.slots.acquire(key, request, |missing| self.pool.reclaim(key, missing, self.slots.limits())).await;
        let busy = "all its shared processes serve other clients; try again later, or raise `parallel`";
        slot.map_err(|_| self.unavailable(busy))
    }
}
