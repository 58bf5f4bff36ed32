//! What a client sets for its whole session: the log level and its subscriptions. They are kept in the session and its
//! row, and set again when a session is found in the store (design rule 9).

use std::sync::Arc;

use futures_util::{StreamExt, future::join_all};

use super::Conversation;
use crate::{
    frontend::{exchange::Exchange, session::Session},
    mcp::{
        Call, ClientInfo, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, RequestId,
        json::{self, Object},
    },
};

impl Conversation<'_> {
    /// The level holds here at once, whatever the servers do with it: messages below it do not reach the client.
    pub(super) fn set_level(&self, id: RequestId, params: Payload, client: &Arc<ClientInfo>) -> Exchange {
        let name = Object::parse(params.json()).and_then(|params| params.string("level"));
        let Some(level) = name.as_deref().and_then(Level::parse) else {
            let known = Level::ALL.map(Level::as_str).join(", ");
            let message = format!("Invalid params: `level` must be one of {known}");
            let data = serde_json::json!({ "level": name });
            return self.refuse(id, ErrorObject::with_data(ErrorObject::INVALID_PARAMS, &message, &data));
        };
        self.session.set_level(Some(level));
        self.keep(id, Method::SetLevel, params, client)
    }

    /// A subscription counts when its server has granted it.
    pub(super) fn subscribe(
        &self,
        id: RequestId,
        method: Method,
        params: Payload,
        client: &Arc<ClientInfo>,
    ) -> Exchange {
        let uri = params.string("uri").unwrap_or_default();
        if method == Method::ResourcesSubscribe && !self.session.may_subscribe(&uri) {
            let text = "this session has as many subscriptions as it can have; unsubscribe from some first";
            return self.refuse(id, ErrorObject::invalid_params(text));
        }
        self.keep(id, method, params, client)
    }

    /// Sends a setting on, and keeps it when it was granted.
    fn keep(&self, id: RequestId, method: Method, params: Payload, client: &Arc<ClientInfo>) -> Exchange {
        let terms = self.terms(client, self.loss(), &method, &params);
        let context = self.context(client);
        let farewell = context.farewell.clone();
        let mut reply = self.call(Call { method: method.clone(), params: params.clone(), context });
        let (frontend, session) = (self.frontend.clone(), Arc::clone(self.session));
        let noted = Reply::new(async_stream::stream! {
            while let Some(event) = StreamExt::next(&mut reply).await {
                if let Event::Done(outcome) = &event {
                    if matches!(outcome, Outcome::Complete(_)) {
                        note(&session, &method, &params);
                    }
                    frontend.sessions().save(&session).await;
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

fn note(session: &Session, method: &Method, params: &Payload) {
    match (method, params.string("uri")) {
        (Method::ResourcesSubscribe, Some(uri)) => session.subscribed(uri),
        (Method::ResourcesUnsubscribe, Some(uri)) => session.unsubscribed(&uri),
        _ => {}
    }
}
