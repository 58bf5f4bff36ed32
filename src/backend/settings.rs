//! What clients set at a backend for longer than a call: the log level and subscriptions. A level starts no session;
//! sharers are counted.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{
    key::Key,
    legacy::{Session, call::Asked},
    served::Backend,
    wants::{GivenUp, Topic},
};
use crate::{
    mcp::{Call, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, Revision, json},
    model::Requester,
};

impl Backend {
    /// Notes the level, and sets it at the sessions that are there and can log. The others are set when they open. The
    /// answer is no error: what a server makes of the level is its own matter (`translation` 3.4, LOG).
    pub(super) async fn set_level(self: Arc<Self>, call: Call) -> Reply {
        let Some(level) = call.params.string("level").as_deref().and_then(Level::parse) else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `level` names no level"));
        };
        let key = Key::of(self.spec.share, &call.context);
        let wanted = self.wants.set_level(&key, call.context.requester.clone(), level);
        for session in self.pool.sessions(&key).into_iter().filter(|session| session.can_log()) {
            // the client's own words, where they are what is asked for
            let params = if wanted == level { call.params.clone() } else { level_params(wanted) };
            let told = self.apply_level(&session, wanted, params).await;
            // where the session ended meanwhile, the next one is told when it opens
            if let Outcome::Failed(error) = told
                && !session.is_over()
            {
                tracing::warn!(backend = %self.spec.id, %error, "the server did not take a log level");
            }
        }
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
    }

    /// The first subscriber subscribes, the others join.
    pub(super) async fn subscribe(self: Arc<Self>, call: Call) -> Reply {
        let (key, holder) = (Key::of(self.spec.share, &call.context), call.context.requester.clone());
        let Some(uri) = call.params.string("uri") else { return self.serve(call) };
        let topic = Topic::Resource(uri);
        let turn = self.wants.turn(&key).await;
        if !key.is_of_one_client() && self.wants.has_others(&key, &holder, &topic) {
            self.wants.subscribed(&key, holder, topic);
            return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        if !self.wants.has_room(&key) {
            return Reply::failed(ErrorObject::invalid_params("too many resources are subscribed to at this backend"));
        }
        let (backend, reply) = (Arc::clone(&self), self.serve(call));
        reply.map(move |event| {
            let _turn = &turn;
            if matches!(event, Event::Done(Outcome::Complete(_))) {
                backend.wants.subscribed(&key, holder.clone(), topic.clone());
            }
            event
        })
    }

    /// The last subscriber to leave unsubscribes.
    pub(super) async fn unsubscribe(self: Arc<Self>, call: Call) -> Reply {
        let (key, holder) = (Key::of(self.spec.share, &call.context), call.context.requester.clone());
        let Some(uri) = call.params.string("uri") else { return self.serve(call) };
        let topic = Topic::Resource(uri);
        let turn = self.wants.turn(&key).await;
        let others = self.wants.has_others(&key, &holder, &topic);
        self.wants.unsubscribed(&key, &holder, &topic);
        if others && !key.is_of_one_client() {
            return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        self.serve(call).map(move |event| {
            let _turn = &turn;
            event
        })
    }

    /// Brings a fresh session to what its clients want, for no longer than `start_timeout`. What the server refuses is
    /// left: the clients have their answers long since.
    pub(super) async fn bring_up(&self, key: &Key, session: &Arc<Session>) {
        let replayed = async {
            self.bring_to_level(key, session).await;
            let topics = if key.is_first_slot() { self.wants.topics(key) } else { Vec::new() };
            for uri in topics.iter().filter_map(Topic::uri) {
                self.tell(session, Method::ResourcesSubscribe, uri_params(uri)).await;
            }
        };
        if timeout(self.spec.start_timeout, replayed).await.is_err() {
            tracing::warn!(backend = %self.spec.id, "a fresh session was not brought to its settings in time");
        }
    }

    /// Sets the level that is wanted now.
    pub(super) async fn bring_to_level(&self, key: &Key, session: &Arc<Session>) {
        if let Some(level) = self.wants.level(key).filter(|_| session.can_log()) {
            self.apply_level(session, level, level_params(level)).await;
        }
    }

    /// Ends what a client that is over held here.
    pub(crate) fn ended(self: &Arc<Self>, requester: &Requester) {
        if let Some(session) = requester.session() {
            self.pool.forget(session);
        }
        self.tasks.ended(requester);
        for given_up in self.wants.forget(requester) {
            self.begin_to_give_up(given_up);
        }
    }

    /// Takes back the level that a call wanted, where it wanted it.
    pub(super) fn wish_ended(self: &Arc<Self>, key: &Key, request: &Requester) {
        if let Some(given_up) = self.wants.unset_level(key, request) {
            self.begin_to_give_up(given_up);
        }
    }

    fn begin_to_give_up(self: &Arc<Self>, given_up: GivenUp) {
        let backend = Arc::clone(self);
        let end = self.room.tasks.end().clone();
        self.room.tasks.spawn(async move {
            end.run_until_cancelled(backend.give_up(given_up)).await;
        });
    }

    async fn give_up(&self, GivenUp { key, topics, level }: GivenUp) {
        if let Some(peer) = self.pool.peer(&key).filter(|_| !topics.is_empty()) {
            peer.want_anew();
        }
        for session in self.pool.sessions(&key) {
            if let Some(level) = level.filter(|_| session.can_log()) {
                self.apply_level(&session, level, level_params(level)).await;
            }
        }
        let Some(session) = self.pool.present(&key) else { return };
        for topic in topics {
            let Some(uri) = topic.uri() else { continue };
            let turn = self.wants.turn(&key).await;
            // somebody may have come in the meantime
            if !self.wants.has_others(&key, &Requester::Gateway, &topic) {
                self.tell(&session, Method::ResourcesUnsubscribe, uri_params(uri)).await;
            }
            drop(turn);
        }
    }

    async fn apply_level(&self, session: &Arc<Session>, level: Level, params: Payload) -> Outcome {
        if session.level() == Some(level) {
            return Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        let outcome = self.tell(session, Method::SetLevel, params).await;
        if matches!(outcome, Outcome::Complete(_)) {
            session.set_level(level);
        }
        outcome
    }

    /// One call of the gateway's own.
    async fn tell(&self, session: &Arc<Session>, method: Method, params: Payload) -> Outcome {
        let asked = Asked::of_gateway(method, params);
        let events = session.call(asked, self.spec.call_timeout);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            if let Ok(Event::Done(outcome)) = event {
                return outcome;
            }
        }
        Outcome::Failed(session.lost_error())
    }
}

fn level_params(level: Level) -> Payload {
    Payload::new(Revision::NEWEST_LEGACY, format!(r#"{{"level":"{}"}}"#, level.as_str()).into())
}

fn uri_params(uri: &str) -> Payload {
    Payload::new(Revision::NEWEST_LEGACY, format!(r#"{{"uri":{}}}"#, json::quote(uri)).into())
}
