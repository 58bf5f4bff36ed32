//! Settings of a client for its whole session: the log level and the subscriptions. They are kept in the session and in
//! its row, and are restored if a session is found in the store (design rule 9).

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    Session,
    exchange::SessionExchange,
    inbound::{Inbound, refuse},
    session_subscriptions::SessionSubscriptions,
};
use crate::mcp::{
    Call, ClientInfo, ErrorObject, Event, Level, LogLevel, Method, Outcome, Payload, Reply, RequestId, Revision,
    json::{self, Object},
};

/// Maximum time to wait until the session's listen has noticed a level.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(1);

/// A change of a client's subscriptions.
enum Setting {
    /// A subscription to the resource with this URI.
    Subscribed(String),
    /// The end of the subscription to this URI.
    Unsubscribed(String),
}

// === impl Session ===

impl Session {
    /// The lowest level of log messages that the client wants; `None` if it set none.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.borrow()
    }

    /// The same, in the form that calls and listens need.
    pub(super) fn log_level(&self) -> LogLevel {
        LogLevel::Session(self.level.subscribe())
    }

    /// Sets the lowest level of log messages that the client wants. Then waits a moment until the session's listen, if
    /// one is open, has passed the level to its servers. From then on, other clients' calls at a shared server use this
    /// level too.
    async fn set_level(&self, level: Level) {
        let mut noticed = pin!(self.level_noticed.notified());
        noticed.as_mut().enable();
        self.level.send_replace(Some(level));
        self.changed.store(true, Ordering::Release);
        let listens = self.listen.lock().as_ref().is_some_and(|(_, cancelled)| !cancelled.is_cancelled());
        if listens {
            let _ = timeout(LEVEL_TIMEOUT, noticed).await;
        }
    }

    pub(crate) fn subscriptions(&self) -> Vec<String> {
        self.subscriptions.lock().stored()
    }

    /// True if the client may subscribe to `uri`.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        self.subscriptions.lock().has_room(uri)
    }

    /// Adds a subscription, unless the session has ended. `held` keeps it alive at its server.
    fn add_subscription(&self, uri: String, held: Reply) {
        let mut subscriptions = self.subscriptions.lock();
        if self.ended.is_cancelled() {
            return;
        }
        let (is_new, before) = subscriptions.add(uri, held);
        drop(subscriptions);
        // dropped without the lock, because the end of a subscription calls its server
        drop(before);
        self.changed.fetch_or(is_new, Ordering::AcqRel);
    }

    /// Keeps a subscription from the previous process alive, if the client still wants it.
    fn hold_subscription(&self, uri: &str, held: Reply) {
        let mut subscriptions = self.subscriptions.lock();
        if self.ended.is_cancelled() {
            return;
        }
        let before = subscriptions.hold(uri, held);
        drop(subscriptions);
        drop(before);
    }

    /// Ends a subscription at its server. Its URI stays stored.
    fn leave_subscription(&self, uri: &str) {
        let held = self.subscriptions.lock().leave(uri);
        drop(held);
    }

    /// Ends all subscriptions at their servers after the session has ended. Their URIs stay stored, for a client that
    /// comes back.
    pub(crate) fn leave_subscriptions(&self) {
        let held = self.subscriptions.lock().leave_all();
        drop(held);
    }

    fn remove_subscription(&self, uri: &str) {
        let (is_known, held) = self.subscriptions.lock().remove(uri);
        drop(held);
        self.changed.fetch_or(is_known, Ordering::AcqRel);
    }

    /// Forgets the settings, for a client that starts over.
    pub(super) fn forget_settings(&self) {
        self.level.send_replace(None);
        let before = std::mem::take(&mut *self.subscriptions.lock());
        drop(before);
        self.restored.store(false, Ordering::Release);
    }

    /// Restores the settings from the previous process.
    pub(crate) fn restore(&self, level: Option<Level>, subscriptions: Vec<String>) {
        self.level.send_replace(level);
        let before = std::mem::replace(&mut *self.subscriptions.lock(), SessionSubscriptions::restored(subscriptions));
        drop(before);
        self.restored.store(true, Ordering::Release);
    }
}

// === impl Inbound ===

impl Inbound<'_> {
    /// Sets the level: messages below it are not sent to the client. Servers get it with the session's calls and
    /// listens. If the request is refused, nothing changes.
    pub(super) fn set_level(&self, id: RequestId, params: Payload, client: &Arc<ClientInfo>) -> SessionExchange {
        let name = Object::parse(params.json()).and_then(|params| params.string("level"));
        let Some(level) = name.as_deref().and_then(Level::parse) else {
            let known = Level::ALL.map(Level::as_str).join(", ");
            let message = format!("Invalid params: `level` must be one of {known}");
            let data = serde_json::json!({ "level": name });
            return refuse(id, ErrorObject::with_data(ErrorObject::INVALID_PARAMS, &message, &data));
        };
        let call = Call { method: Method::SetLevel, params, context: self.context(client) };
        let context = self.exchange_context(self.on_disconnect(), &call);
        let (state, session) = (Arc::clone(self.state), Arc::clone(self.session));
        let set = Reply::later(async move {
            session.set_level(level).await;
            state.sessions.save(&session).await;
            Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
        });
        self.exchange(id, set, Some(call.context.cancel_reason), context)
    }

    /// Subscribes to a resource. The subscription counts once its server has granted it.
    pub(super) fn subscribe(
        &self,
        id: RequestId,
        method: &Method,
        params: Payload,
        client: &Arc<ClientInfo>,
    ) -> SessionExchange {
        let uri = params.string("uri").unwrap_or_default();
        if *method == Method::ResourcesSubscribe && !self.session.may_subscribe(&uri) {
            let text = "this session has as many subscriptions as it can have; unsubscribe from some first";
            return refuse(id, ErrorObject::invalid_params(text));
        }
        let setting =
            if *method == Method::ResourcesSubscribe { Setting::Subscribed(uri) } else { Setting::Unsubscribed(uri) };
        self.set(id, setting, params, client)
    }

    /// Forwards a setting to the server, and stores it once the server has granted it.
    fn set(&self, id: RequestId, setting: Setting, params: Payload, client: &Arc<ClientInfo>) -> SessionExchange {
        let call = Call { method: setting.method(), params, context: self.context(client) };
        let (context, cancel_reason) =
            (self.exchange_context(self.on_disconnect(), &call), call.context.cancel_reason.clone());
        let mut reply = self.sender.servers.sessions.call(call);
        let (state, session) = (Arc::clone(self.state), Arc::clone(self.session));
        let noted = Reply::new(async_stream::stream! {
            if let Setting::Unsubscribed(uri) = &setting {
                session.leave_subscription(uri);
            }
            let outcome = loop {
                match reply.next_event().await {
                    Some(Event::Done(outcome)) => break outcome,
                    Some(event) => yield event,
                    None => return,
                }
            };
            if matches!(outcome, Outcome::Complete(_)) {
                setting.granted(&session, reply);
            }
            state.sessions.save(&session).await;
            yield Event::Done(outcome);
        });
        self.exchange(id, noted, Some(cancel_reason), context)
    }

    /// Subscribes again to everything that the client was subscribed to in the previous process, in the background.
    pub(crate) fn restore_subscriptions(&self) {
        let Some(client) = self.session.client() else { return };
        let uris = self.session.subscriptions();
        if uris.is_empty() {
            return;
        }
        let subscribe = |uri: String| {
            let params = Payload::new(client.revision, format!(r#"{{"uri":{}}}"#, json::quote(&uri)).into());
            let call = Call { method: Method::ResourcesSubscribe, params, context: self.context(client) };
            let (reply, session) = (self.sender.servers.sessions.call(call), Arc::clone(self.session));
            async move {
                if let (Outcome::Complete(_), held) = reply.outcome_and_rest().await {
                    session.hold_subscription(&uri, held);
                }
            }
        };
        let granted: Vec<_> = uris.into_iter().map(subscribe).collect();
        let ended = self.session.ended.clone();
        self.state.tracker.spawn(async move {
            ended.run_until_cancelled(join_all(granted)).await;
        });
    }
}

// === impl Setting ===

impl Setting {
    const fn method(&self) -> Method {
        match self {
            Self::Subscribed(_) => Method::ResourcesSubscribe,
            Self::Unsubscribed(_) => Method::ResourcesUnsubscribe,
        }
    }

    /// Stores the setting. `held` keeps a subscription alive.
    fn granted(self, session: &Session, held: Reply) {
        match self {
            // without a URI, the server decides about the request
            Self::Subscribed(uri) if uri.is_empty() => {}
            Self::Subscribed(uri) => session.add_subscription(uri, held),
            Self::Unsubscribed(uri) => session.remove_subscription(&uri),
        }
    }
}
