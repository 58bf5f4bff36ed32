//! Levels and subscriptions that the clients of one backend hold, as far as its server does not keep them. Knows nothing of
//! calls.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    mcp::{Level, Reply},
    model::Requester,
};

/// Ends what a requester holds at the server.
pub(crate) type Ended = Box<dyn Fn(&Requester) + Send + Sync>;

/// Levels and subscriptions of the clients of one backend, as far as its server does not keep them.
pub(crate) struct ClientSubscriptions {
    /// Of clients with a session, at a server without.
    settings: Mutex<HashMap<Requester, SessionSettings>>,
    /// Ends what a request holds at a server with sessions.
    pub(super) ended: Ended,
}

/// The level and the subscriptions of one session.
#[derive(Default)]
struct SessionSettings {
    level: Option<Level>,
    /// The listen behind each subscription, by URI; dropping it ends the subscription.
    subscriptions: HashMap<String, Reply>,
}

// === impl ClientSubscriptions ===

impl ClientSubscriptions {
    /// No levels, no subscriptions.
    pub(crate) fn new(ended: Ended) -> Arc<Self> {
        Arc::new(Self { settings: Mutex::default(), ended })
    }

    /// Forgets a client that is over.
    pub(crate) fn ended(&self, requester: &Requester) {
        let settings = self.settings.lock().remove(requester);
        // the ends of its subscriptions reach the server, so that no lock is held
        drop(settings);
    }

    pub(super) fn level(&self, session: &Requester) -> Option<Level> {
        self.settings.lock().get(session)?.level
    }

    pub(super) fn set_level(&self, session: Requester, level: Level) {
        self.settings.lock().entry(session).or_default().level = Some(level);
    }

    pub(super) fn is_subscribed(&self, session: &Requester, uri: &str) -> bool {
        self.settings.lock().get(session).is_some_and(|settings| settings.subscriptions.contains_key(uri))
    }

    pub(super) fn subscribe(&self, session: Requester, uri: String, listen: Reply) {
        let before = self.settings.lock().entry(session).or_default().subscriptions.insert(uri, listen);
        drop(before);
    }

    pub(super) fn unsubscribe(&self, session: &Requester, uri: &str) {
        let listen = self.settings.lock().get_mut(session).and_then(|settings| settings.subscriptions.remove(uri));
        drop(listen);
    }
}
