//! Calls at a server of the legacy versions: each finds its session, opened where there is none, and runs on it.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::join_all};
use tokio::time::timeout;

use super::{
    attempts::{Attempts, Next},
    key::Key,
    lanes::Turn,
    legacy::{Session, call::Asked},
    life::Life,
    missed::Missed,
    pool::Lease,
    served::Backend,
};
use crate::{
    mcp::{Call, Context, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, meta},
    model::{SessionId, TransportSpec},
};

/// What one call wants of a session for as long as it runs.
struct Wish(Arc<Backend>, SessionId);

impl Drop for Wish {
    fn drop(&mut self) {
        self.0.session_ended(&self.1);
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
        Reply::new(async_stream::stream! {
            let Call { method, params, context } = call;
            let mut attempts = Attempts::of(&self, &method);
            let (home, holder) = (self.home(&method, &params, &context), context.holder());
            let mut turn = match self.turn(&method, &home, &context).await {
                Ok(turn) => turn,
                Err(error) => {
                    yield attempts.unavailable(error);
                    return;
                }
            };
            let key = turn.as_ref().map_or_else(|| home.clone(), |turn| turn.key().clone());
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
                let asked = Asked::by(&context, &method, &params);
                let calling = session.call_for(&context.client, asked, self.spec.call_timeout);
                let mut events = std::pin::pin!(calling);
                while let Some(event) = events.next().await {
                    let Some(event) = attempts.take(event) else { continue };
                    // before the client hears of it: whoever calls next finds the lane free
                    if matches!(event, Event::Done(_))
                        && let Some(turn) = turn.take()
                    {
                        turn.answered();
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
        let request = context.request.clone().filter(|_| context.session.is_none())?;
        let level = meta::log_level(params)?;
        self.wants.set_level(key, Some(request.clone()), level);
        Some(Wish(Arc::clone(self), request))
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

    /// The turn on a channel that several client sessions share, where the client can be asked in this call; `None` where
    /// none is needed. Over HTTP the exchange tells whose question it is. Waits up to `call_timeout`.
    async fn turn(&self, method: &Method, key: &Key, context: &Context) -> Result<Option<Turn>, ErrorObject> {
        let is_channel = matches!(self.spec.transport, TransportSpec::Stdio(_));
        if !is_channel || key.is_of_one_client() || !key.can_be_asked() || !method.may_ask() {
            return Ok(None);
        }
        // a task is waited for where it was made
        let at = method.is_of_core_tasks().then_some(key.lane());
        let turn = timeout(self.spec.call_timeout, self.lanes.turn(key, &context.holder(), at)).await;
        let busy = || "all its shared processes serve other clients; try again later, or raise `parallel`";
        turn.map(Some).map_err(|_| self.unavailable(busy()))
    }

    /// The session of `key`, opened where there is none. Waits up to `start_timeout`.
    async fn session(self: &Arc<Self>, key: &Key, context: &Context) -> Result<(Lease, Arc<Session>), Missed> {
        let (lease, life) = self.life(key, context, Era::Legacy).await?;
        let Life::Legacy(session) = life else { return Err(Missed::Turned(Era::Modern)) };
        if context.session.is_none() && context.request.is_some() {
            self.bring_to_level(key, &session).await;
        }
        Ok((lease, session))
    }
}
