//! A backend whose server's era is known, as a [`Server`] for decorators. Makes each call, and serves what is not a
//! call on one connection. A server with sessions keeps the log level and subscriptions and accepts notifications. A
//! server without them gets self-contained requests, and its listens share one `subscriptions/listen`.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{Either, join_all},
    stream,
};

use super::{
    attempts::{AfterAttempt, Attempts, Route},
    external_backend::ExternalBackend,
    listen::ServerListen,
};
use crate::{
    backend::{
        connection::{OutboundCall, call_through, session_protocol::made_task},
        interests::Topic,
        sharing::connection_key::ConnectionKey,
    },
    mcp::{Call, Era, ErrorObject, Event, LogLevel, Method, Outcome, Payload, Reply, Revision, Server, listen},
};

/// Maximum wait for a server without sessions to acknowledge a client's topics.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for a server with sessions to accept a subscription, if the client has no session.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(3_500);
/// Extra wait of a client with a session, beyond the timeout of the request to its server, so that it gets that
/// request's error.
const GRACE: Duration = Duration::from_secs(1);

/// A backend whose server is of this era.
#[derive(Clone)]
pub(super) struct EraServer {
    pub(super) backend: Arc<ExternalBackend>,
    pub(super) era: Era,
}

impl Server for EraServer {
    fn call(&self, call: Call) -> Reply {
        self.clone().serve(self.backend.route(self.era, &call), call)
    }
}

impl EraServer {
    /// Serves one call on `route`.
    pub(super) fn serve(self, mut route: Route, call: Call) -> Reply {
        if let Some(heard) = &call.context.heard {
            return Reply::new(stream::iter(self.backend.listens.taken(heard)));
        }
        match &call.method {
            Method::Initialize => return Reply::failed(ErrorObject::method_not_found("initialize")),
            Method::Listen => return self.listen(route.key, call),
            Method::ResourcesUnsubscribe => return self.unsubscribe(route.key, &call),
            Method::Ping if !self.has_sessions() => return empty(),
            method if method.is_notification() => return self.notify(route.key, call),
            method if method.is_of_core_tasks() && self.has_sessions() => {
                route = Route::of(self.era, self.task_key(route.key, &call));
            }
            _ => {}
        }
        let Self { backend, .. } = self;
        Reply::of(|| {
            async_stream::stream! {
                let call_timeout = backend.spec.call_timeout;
                let mut attempts = Attempts::new(backend, route);
                if attempts.need_slot(&call.method)
                    && let Err(error) = attempts.wait_for_slot(&call).await
                {
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
                loop {
                    let attempt = match attempts.begin(&call).await {
                        Ok(attempt) => attempt,
                        Err(reply) => {
                            for await event in reply {
                                yield event;
                            }
                            return;
                        }
                    };
                    let connection = attempt.connection();
                    let bridge = attempts.bridge(connection, &call);
                    let mut events = pin!(match bridge {
                        Some(bridge) => Either::Left(call_through(connection, bridge, call.clone(), call_timeout)),
                        None => Either::Right(connection.call(OutboundCall::by(&call), call_timeout)),
                    });
                    while let Some(event) = events.next().await {
                        if let Some(event) = attempts.take(event, &attempt, &call) {
                            yield event;
                        }
                    }
                    match attempts.after(attempt, &call).await {
                        AfterAttempt::Again => {}
                        AfterAttempt::Over => return,
                        AfterAttempt::GivenUp(event) => {
                            yield event;
                            return;
                        }
                    }
                }
            }
        })
    }

    fn has_sessions(&self) -> bool {
        self.era == Era::Legacy
    }

    /// The key of the connection for a task request: the one that created the task, since no other process knows it
    /// (2025-11-25, tasks). If none is known, `key`.
    fn task_key(&self, key: ConnectionKey, call: &Call) -> ConnectionKey {
        let Some(task) = call.params.string("taskId") else { return key };
        let sessions = self.backend.pool.sessions(&key);
        sessions.iter().find(|session| made_task(session, &task)).map_or(key, |one| one.context.key.clone())
    }

    fn listen(self, key: ConnectionKey, call: Call) -> Reply {
        let resources = listen::resources(&call.params).into_iter().map(Topic::Resource);
        let Self { backend, era } = self;
        match era {
            Era::Legacy => {
                // a client without a session gets an acknowledgement of what was accepted in this time
                let is_sessionless = call.context.requester.is_sessionless();
                let patience = if is_sessionless { SUBSCRIBE_TIMEOUT } else { backend.spec.call_timeout + GRACE };
                let (topics, level) = (resources.collect(), call.context.level.clone());
                ServerListen { backend, era, key, call, topics, patience, level }.serve()
            }
            Era::Modern => {
                let topics = resources.chain(listen::task_ids(&call.params).into_iter().map(Topic::Task)).collect();
                // each call of the client has its own level
                let (patience, level) = (ACKNOWLEDGE_TIMEOUT, LogLevel::default());
                ServerListen { backend, era, key, call, topics, patience, level }.serve()
            }
        }
    }

    /// Answers `resources/unsubscribe`. If no other client wants the resource, first waits a moment for the server's
    /// answer.
    fn unsubscribe(self, key: ConnectionKey, call: &Call) -> Reply {
        let topic = call.params.string("uri").map(Topic::Resource).filter(|_| self.has_sessions());
        let Some(topic) = topic else { return empty() };
        Reply::later(async move {
            if let Some(leased) = self.backend.pool.ready(&key)
                && !self.backend.interests.is_wanted(&key, &topic)
            {
                leased.connection.interests().left(&topic).await;
            }
            empty()
        })
    }

    /// Forwards a client's notification to each of its connections. A server without sessions has no notifications from
    /// clients (design rule 13).
    fn notify(self, key: ConnectionKey, call: Call) -> Reply {
        if !self.has_sessions() {
            metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(1);
            return Reply::complete(Payload::absent(call.params.revision));
        }
        Reply::later(async move {
            let Call { method, params, context } = call;
            let absent = Payload::absent(params.revision);
            // the gateway does the handshake and the cancellations of each connection itself
            if !matches!(method, Method::Initialized | Method::Cancelled) {
                let sessions = self.backend.pool.sessions(&key);
                let told =
                    sessions.iter().map(|session| session.notify(method.clone(), params.clone(), context.profile));
                join_all(told).await;
            }
            Reply::complete(absent)
        })
    }
}

fn empty() -> Reply {
    Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
}
