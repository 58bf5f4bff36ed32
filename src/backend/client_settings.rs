//! Settings of clients that outlive a call, applied to connections: log levels and subscriptions. Setting a level opens
//! no connection. Sharers of a connection are counted.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{
    connection::{OutboundCall, ServerConnection},
    connection_key::ConnectionKey,
    pool::Pool,
    subscriptions::{GivenUp, Subscriptions, Topic},
    task_group::TaskGroup,
};
use crate::{
    mcp::{Call, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, Revision, json},
    model::{BackendSpec, Requester},
};

/// Applies clients' settings to the connections of one backend.
pub(crate) struct ClientSettings {
    spec: Arc<BackendSpec>,
    pool: Arc<Pool>,
    subscriptions: Arc<Subscriptions>,
    tasks: TaskGroup,
}

// === impl ClientSettings ===

impl ClientSettings {
    /// Creates the settings of one backend.
    pub(super) fn new(
        spec: &Arc<BackendSpec>,
        pool: &Arc<Pool>,
        subscriptions: &Arc<Subscriptions>,
        tasks: &TaskGroup,
    ) -> Arc<Self> {
        let (spec, pool, subscriptions) = (Arc::clone(spec), Arc::clone(pool), Arc::clone(subscriptions));
        Arc::new(Self { spec, pool, subscriptions, tasks: tasks.clone() })
    }

    /// Stores the level, and sets it on the open sessions that support logging; others get it when they open. A
    /// server's refusal is logged and is no error for the client (`translation` 3.4, LOG).
    pub(super) async fn set_level(&self, call: &Call) -> Reply {
        let Some(level) = call.params.string("level").as_deref().and_then(Level::parse) else {
            return Reply::failed(no_level());
        };
        let key = ConnectionKey::of(&self.spec, &call.context);
        if call.context.requester.is_sessionless() {
            // the level of one call: applied to the connection that the call leases
            self.subscriptions.set_level(&key, call.context.requester.clone(), level);
            return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        let wanted = self.subscriptions.set_level(&key, call.context.requester.clone(), level);
        for session in self.pool.sessions(&key).into_iter().filter(|session| session.can_log()) {
            // the client's parameters, if its level is the effective one
            let params = if wanted == level { call.params.clone() } else { level_params(wanted) };
            let told = self.apply_level(&session, wanted, params).await;
            // if the session ended meanwhile, the next one gets the level when it opens
            if let Outcome::Failed(error) = told
                && !session.is_over()
            {
                tracing::warn!(server = %self.spec.id, %error, "the server rejected a log level");
            }
        }
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
    }

    /// Applies the stored settings to a fresh session, for at most `start_timeout`. Refusals are ignored: the clients
    /// have their answers already. A connection with a shared listen gets its topics there.
    pub(super) async fn restore(&self, key: &ConnectionKey, session: &Arc<ServerConnection>) {
        if session.listening().is_some() {
            return;
        }
        let replayed = async {
            self.apply_effective_level(key, session).await;
            let topics = if key.is_first_slot() { self.subscriptions.topics(key) } else { Vec::new() };
            for uri in topics.iter().filter_map(Topic::uri) {
                self.call(session, Method::ResourcesSubscribe, uri_params(uri)).await;
            }
        };
        if timeout(self.spec.start_timeout, replayed).await.is_err() {
            tracing::warn!(server = %self.spec.id, "the settings of a fresh session were not restored in time");
        }
    }

    /// Sets the effective level.
    pub(super) async fn apply_effective_level(&self, key: &ConnectionKey, session: &Arc<ServerConnection>) {
        if session.can_log()
            && let Some(level) = self.subscriptions.level(key)
        {
            self.apply_level(session, level, level_params(level)).await;
        }
    }

    /// Drops the settings of a client that is gone.
    pub(super) fn ended(self: &Arc<Self>, requester: &Requester) {
        for given_up in self.subscriptions.forget(requester) {
            self.begin_to_give_up(given_up);
        }
    }

    fn begin_to_give_up(self: &Arc<Self>, given_up: GivenUp) {
        let (settings, end) = (Arc::clone(self), self.tasks.end().clone());
        self.tasks.spawn(async move {
            end.run_until_cancelled(settings.give_up(given_up)).await;
        });
    }

    async fn give_up(&self, GivenUp { key, topics, level }: GivenUp) {
        let Some(connection) = self.pool.present(&key) else { return self.lower_level(&key, level).await };
        if let Some(listening) = connection.listening() {
            if !topics.is_empty() {
                listening.update_filter();
            }
            return;
        }
        self.lower_level(&key, level).await;
        for topic in topics {
            let Some(uri) = topic.uri() else { continue };
            let turn = self.subscriptions.turn(&key).await;
            // another client may have subscribed meanwhile
            if !self.subscriptions.has_others(&key, &Requester::Gateway, &topic) {
                self.call(&connection, Method::ResourcesUnsubscribe, uri_params(uri)).await;
            }
            drop(turn);
        }
    }

    async fn lower_level(&self, key: &ConnectionKey, level: Option<Level>) {
        let Some(level) = level else { return };
        for session in self.pool.sessions(key).into_iter().filter(|session| session.can_log()) {
            self.apply_level(&session, level, level_params(level)).await;
        }
    }

    async fn apply_level(&self, session: &Arc<ServerConnection>, level: Level, params: Payload) -> Outcome {
        if session.level() == Some(level) {
            return Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        let outcome = self.call(session, Method::SetLevel, params).await;
        if matches!(outcome, Outcome::Complete(_)) {
            session.set_level(level);
        }
        outcome
    }

    /// Makes one call of the gateway's own.
    async fn call(&self, session: &Arc<ServerConnection>, method: Method, params: Payload) -> Outcome {
        let events = session.call(OutboundCall::of_gateway(method, params), self.spec.call_timeout);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            if let Ok(Event::Done(outcome)) = event {
                return outcome;
            }
        }
        Outcome::Failed(session.lost_error())
    }
}

fn no_level() -> ErrorObject {
    ErrorObject::invalid_params("Invalid params: `level` names no level")
}

fn level_params(level: Level) -> Payload {
    Payload::new(Revision::NEWEST_LEGACY, format!(r#"{{"level":"{}"}}"#, level.as_str()).into())
}

fn uri_params(uri: &str) -> Payload {
    Payload::new(Revision::NEWEST_LEGACY, format!(r#"{{"uri":{}}}"#, json::quote(uri)).into())
}
