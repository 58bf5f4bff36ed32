//! Calls at a server of the legacy versions: each finds its session, opened where there is none, and runs on it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{
    StreamExt as _,
    future::{Either, join_all},
};

use super::{
    attempts::{Attempts, Next},
    key::Key,
    legacy::{Session, call::Asked},
    life::Life,
    missed::Missed,
    pool::Lease,
    question_slots::{SlotGuard, SlotRequest},
    served::Backend,
    starting,
};
use crate::{
    mcp::{Call, Context, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, meta},
    model::Requester,
};

/// What one call wants of a session for as long as it runs.
struct Wish {
    backend: Arc<Backend>,
    key: Key,
    request: Requester,
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.backend.wish_ended(&self.key, &self.request);
    }
}

impl Backend {
    /// Passes a client's notification on to every session that it shares.
    pub(super) async fn notify(self: Arc<Self>, call: Call) -> Reply {
        let sessions = self.pool.sessions(&Key::of(self.spec.share, &call.context));
        let absent = Payload::absent(call.params.revision);
        // the backend's own handshake and cancellations are made where they belong
        if !matches!(call.method, Method::Initialized | Method::Cancelled) {
            let Call { method, params, context } = &call;
            let told = sessions.iter().map(|session| session.notify(method.clone(), params.clone(), context.profile));
            join_all(told).await;
        }
        Reply::complete(absent)
    }

    pub(super) fn serve(self: Arc<Self>, call: Call) -> Reply {
        let home = self.home(&call.method, &call.params, &call.context);
        if !self.needs_slot(&call.method, &home) {
            return self.serve_in(home, None, call);
        }
        let (token, message) = (starting::token(&call), format!("waiting for a free process of `{}`", self.spec.id));
        let has_slot = Arc::new(AtomicBool::new(false));
        let slot_found = Arc::clone(&has_slot);
        let reply = Reply::later(async move {
            let slot = self.slot(&call.method, &home, &call.context).await;
            slot_found.store(true, Ordering::Release);
            match slot {
                Ok(slot) => self.serve_in(slot.key().clone(), Some(slot), call),
                Err(error) => {
                    self.count(&call.method, "unavailable");
                    Reply::failed(error)
                }
            }
        });
        match token {
            Some(token) => starting::heard(reply, token, message, move || has_slot.load(Ordering::Acquire)),
            None => reply,
        }
    }

    /// Serves a call in the session of `key`, whose slot it has where it needs one.
    fn serve_in(self: Arc<Self>, key: Key, mut slot: Option<SlotGuard>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let Call { method, params, context } = call;
            let mut attempts = Attempts::of(&self, &method);
            let holder = context.requester.clone();
            let _wish = self.wish(&key, &params, &context);
            loop {
                let (_lease, session) = match self.session(&key, &context).await {
                    Ok(found) => found,
                    Err(missed) => {
                        let call = Call { method: method.clone(), params: params.clone(), context: context.clone() };
                        for await event in Arc::clone(&self).missed(missed, call) {
                            yield event;
                        }
                        return;
                    }
                };
                if let (Method::Discover, Some(greeting)) = (&method, session.greeting()) {
                    yield Event::Done(Outcome::Complete(greeting.discover()));
                    return;
                }
                if let Err(error) = session.may_be_asked_for(&method, &params, &context) {
                    yield attempts.refused(error);
                    return;
                }
                let calling = match self.tasks.around_connection(&context.client, session.tasks()) {
                    Some(bridge) => {
                        let call = Call { method: method.clone(), params: params.clone(), context: context.clone() };
                        Either::Left(session.call_through(bridge, call, self.spec.call_timeout))
                    }
                    None => Either::Right(session.call(Asked::by(&context, &method, &params), self.spec.call_timeout)),
                };
                let mut events = std::pin::pin!(calling);
                while let Some(event) = events.next().await {
                    let Some(event) = attempts.take(event) else { continue };
                    // before the client hears of it: the next caller finds the slot free
                    if let Event::Done(outcome) = &event
                        && let Some(slot) = slot.take_if(|_| outcome.is_of_server() || session.is_over())
                    {
                        slot.answered();
                    }
                    yield session.own_part(&method, event, &holder);
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

    /// Notes for the time of a call which log messages it is to give, where it says so itself (2026-07-28, logging).
    fn wish(self: &Arc<Self>, key: &Key, params: &Payload, context: &Context) -> Option<Wish> {
        let request = Some(&context.requester).filter(|requester| requester.is_sessionless())?.clone();
        let level = meta::log_level(params)?;
        self.wants.set_level_for_call(key, request.clone(), level);
        Some(Wish { backend: Arc::clone(self), key: key.clone(), request })
    }

    /// The session that a call is for, the first of its sharer's where any will do: what is asked of a task is asked where
    /// it was made, since no other process knows of it (2025-11-25, tasks).
    fn home(&self, method: &Method, params: &Payload, context: &Context) -> Key {
        let key = Key::of(self.spec.share, context);
        let task = if method.is_of_core_tasks() { params.string("taskId") } else { None };
        let Some(task) = task else { return key };
        let sessions = self.pool.sessions(&key);
        sessions.iter().find(|session| session.made_task(&task)).map_or(key, |session| session.about.key.clone())
    }

    /// Whether a call needs a slot: on a channel that several client sessions share, where the client can be asked in it.
    /// Over HTTP the exchange tells whose question it is.
    fn needs_slot(&self, method: &Method, key: &Key) -> bool {
        self.spec.is_channel() && !key.is_of_one_client() && key.can_be_asked() && method.may_ask()
    }

    /// Waits for a slot of `key`'s sharer up to `slot_wait`.
    async fn slot(&self, method: &Method, key: &Key, context: &Context) -> Result<SlotGuard, ErrorObject> {
        // a task is waited for where it was made
        let only = method.is_of_core_tasks().then_some(key.slot());
        let request = SlotRequest { user: context.caller.user.clone(), holder: context.requester.clone(), only };
        let slot = self.slots.acquire(key, request, |missing| self.reclaim(key, missing)).await;
        let busy = "all its shared processes serve other clients; try again later, or raise `parallel`";
        slot.map_err(|_| self.unavailable(busy))
    }

    /// The session of `key`, opened where there is none. Waits up to `start_timeout`.
    async fn session(self: &Arc<Self>, key: &Key, context: &Context) -> Result<(Lease, Arc<Session>), Missed> {
        let (lease, life) = self.life(key, context, Era::Legacy).await?;
        let Life::Legacy(session) = life else { return Err(Missed::Turned(Era::Modern)) };
        if context.requester.is_sessionless() {
            self.bring_to_level(key, &session).await;
        }
        Ok((lease, session))
    }
}
