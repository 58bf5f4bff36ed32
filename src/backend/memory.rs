//! What a client has set at a server, so that a fresh session can be brought to the same (`translation` 4c): the log
//! level and the subscriptions. Knows nothing of why the session is a fresh one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::legacy::Session;
use crate::mcp::{Method, Payload};

/// How many subscriptions are kept; those beyond are not made again.
const MOST_SUBSCRIPTIONS: usize = 1024;

/// What was set in one session, and in those before it.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Settings>);

#[derive(Debug, Default, Clone)]
struct Settings {
    level: Option<Payload>,
    subscriptions: BTreeMap<String, Payload>,
}

impl Memory {
    /// Notes a request that the server has granted.
    pub(crate) fn note(&self, method: &Method, params: &Payload) {
        let mut settings = self.0.lock();
        match method {
            Method::SetLevel => settings.level = Some(params.clone()),
            Method::ResourcesSubscribe => {
                if let Some(uri) = params.string("uri").filter(|_| settings.subscriptions.len() < MOST_SUBSCRIPTIONS) {
                    settings.subscriptions.insert(uri, params.clone());
                }
            }
            Method::ResourcesUnsubscribe => {
                if let Some(uri) = params.string("uri") {
                    settings.subscriptions.remove(&uri);
                }
            }
            _ => {}
        }
    }

    /// Sets everything again, for no longer than `patience`. What the server refuses is left: the client has its answer long since.
    pub(crate) async fn replay(&self, session: &Arc<Session>, patience: Duration) {
        let Settings { level, subscriptions } = self.0.lock().clone();
        let level = level.map(|params| (Method::SetLevel, params));
        let subscriptions = subscriptions.into_values().map(|params| (Method::ResourcesSubscribe, params));
        let settings = level.into_iter().chain(subscriptions);
        let replayed = async {
            for (method, params) in settings {
                session.call(method, params, patience).for_each(async |_| {}).await;
            }
        };
        if timeout(patience, replayed).await.is_err() {
            tracing::warn!(backend = %session.about.backend, "a fresh session was not brought to its settings in time");
        }
    }
}
