//! What a client sets for its whole session: the log level and its subscriptions. They are kept in the session and its
//! row, and set again when a session is found in the store (design rule 9).

use std::sync::Arc;

use futures_util::{StreamExt, future::join_all};

use super::{Session, exchange::Exchange, inbound::Inbound};
use crate::mcp::{
    Call, ClientInfo, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, RequestId,
    json::{self, Object},
};

/// What a client sets for its session.
enum Setting {
    /// The lowest level of log messages that it reads.
    Level(Level),
    /// The resource of this URI is listened to.
    Subscribed(String),
    /// It is no longer.
    Unsubscribed(String),
}

// === impl Inbound ===

impl Inbound<'_> {
    /// The level holds here as soon as the request is served, whatever the servers do with it: messages below it do not
    /// reach the client. A request that is refused changes nothing.
    pub(super) fn set_level(&self, id: RequestId, params: Payload, client: &Arc<ClientInfo>) -> Exchange {
        let name = Object::parse(params.json()).and_then(|params| params.string("level"));
        let Some(level) = name.as_deref().and_then(Level::parse) else {
            let known = Level::ALL.map(Level::as_str).join(", ");
            let message = format!("Invalid params: `level` must be one of {known}");
            let data = serde_json::json!({ "level": name });
            return self.refuse(id, ErrorObject::with_data(ErrorObject::INVALID_PARAMS, &message, &data));
        };
        self.keep(id, Setting::Level(level), params, client)
    }

    /// A subscription counts when its server has granted it.
    pub(super) fn subscribe(
        &self,
        id: RequestId,
        method: &Method,
        params: Payload,
        client: &Arc<ClientInfo>,
    ) -> Exchange {
        let uri = params.string("uri").unwrap_or_default();
        if *method == Method::ResourcesSubscribe && !self.session.may_subscribe(&uri) {
            let text = "this session has as many subscriptions as it can have; unsubscribe from some first";
            return self.refuse(id, ErrorObject::invalid_params(text));
        }
        let setting =
            if *method == Method::ResourcesSubscribe { Setting::Subscribed(uri) } else { Setting::Unsubscribed(uri) };
        self.keep(id, setting, params, client)
    }

    /// Sends a setting on, and keeps it when it was granted.
    fn keep(&self, id: RequestId, setting: Setting, params: Payload, client: &Arc<ClientInfo>) -> Exchange {
        let method = setting.method();
        let terms = self.terms(client, self.loss(), &method, &params);
        let context = self.context(client);
        let farewell = context.farewell.clone();
        let mut reply = self.call(Call { method, params, context });
        let (state, session) = (self.state.clone(), Arc::clone(self.session));
        let noted = Reply::new(async_stream::stream! {
            let before = session.level();
            setting.begin(&session);
            while let Some(event) = StreamExt::next(&mut reply).await {
                if let Event::Done(outcome) = &event {
                    match outcome {
                        Outcome::Complete(_) => setting.granted(&session),
                        _ => setting.refused(&session, before),
                    }
                    state.sessions().save(&session).await;
                }
                yield event;
            }
        });
        self.exchange((id.clone(), Some((id, farewell))), noted, terms)
    }

    /// Sets again what the client had set, where the session was just found in the store: the level before anything else,
    /// the subscriptions beside it. A server that no longer grants one is left without it.
    pub(crate) async fn revive(&self) {
        if !self.session.take_revived() {
            return;
        }
        let Some(client) = self.session.client() else { return };
        let set = |method, params: String| {
            let params = Payload::new(client.revision, params.into());
            self.call(Call { method, params, context: self.context(client) })
        };
        if let Some(level) = self.session.level() {
            let _ = set(Method::SetLevel, format!(r#"{{"level":"{}"}}"#, level.as_str())).outcome().await;
        }
        let uris = self.session.subscriptions();
        if uris.is_empty() {
            return;
        }
        let granted: Vec<_> = uris
            .iter()
            .map(|uri| set(Method::ResourcesSubscribe, format!(r#"{{"uri":{}}}"#, json::quote(uri))).outcome())
            .collect();
        let ended = self.session.ended.clone();
        self.tracker().spawn(async move {
            ended.run_until_cancelled(join_all(granted)).await;
        });
    }
}

// === impl Setting ===

impl Setting {
    const fn method(&self) -> Method {
        match self {
            Self::Level(_) => Method::SetLevel,
            Self::Subscribed(_) => Method::ResourcesSubscribe,
            Self::Unsubscribed(_) => Method::ResourcesUnsubscribe,
        }
    }

    fn begin(&self, session: &Session) {
        if let Self::Level(level) = self {
            session.set_level(Some(*level));
        }
    }

    fn granted(&self, session: &Session) {
        match self {
            Self::Level(_) => {}
            // a request that names none is its server's to judge
            Self::Subscribed(uri) if uri.is_empty() => {}
            Self::Subscribed(uri) => session.subscribed(uri.clone()),
            Self::Unsubscribed(uri) => session.unsubscribed(uri),
        }
    }

    fn refused(&self, session: &Session, before: Option<Level>) {
        if let Self::Level(_) = self {
            session.set_level(before);
        }
    }
}
