//! Levels and subscriptions of one backend's clients that its server does not keep. Knows nothing of calls.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    mcp::{Level, Reply},
    model::Requester,
};

/// Drops the state that the server side holds for a requester.
pub(crate) type Ended = Box<dyn Fn(&Requester) + Send + Sync>;

/// Levels and subscriptions of one backend's clients that its server does not keep.
pub(crate) struct ClientSubscriptions {
    /// Those of clients with a session, at a server without.
    settings: Mutex<HashMap<Requester, SessionSettings>>,
    /// Drops the state of a request at a server with sessions.
    pub(super) ended: Ended,
}

/// Level and subscriptions of one session.
#[derive(Default)]
struct SessionSettings {
    level: Option<Level>,
    /// The listen of each subscription, by URI. Dropping it unsubscribes.
    subscriptions: HashMap<String, Reply>,
}

// === impl ClientSubscriptions ===

impl ClientSubscriptions {
    /// Creates an empty table.
    pub(crate) fn new(ended: Ended) -> Arc<Self> {
        Arc::new(Self { settings: Mutex::default(), ended })
    }

    /// Drops the state of a client that is gone.
    pub(crate) fn ended(&self, requester: &Requester) {
        let settings = self.settings.lock().remove(requester);
        // without the lock: dropping subscriptions calls the server
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
