//! Log levels and subscriptions of one backend's clients, by client session: sharers do not undo each other's, and a
//! fresh connection can be restored (`translation` 4c). Knows nothing of how the server is called.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::connection_key::ConnectionKey;
use crate::{
    mcp::{Level, uri::covers},
    model::Requester,
};

/// Maximum number of topics of the clients on one connection.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// A resource or a task to subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Topic {
    /// Updates of the resource with this URI, and of its sub-resources.
    Resource(String),
    /// The status of the task with this id (tasks extension).
    Task(String),
}

/// Levels and subscriptions at one backend, by sharer.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sharers: HashMap<ConnectionKey, SharerSettings>,
    /// Sharers at which each client may have settings, so that its end visits no others.
    places: HashMap<Requester, HashSet<ConnectionKey>>,
}

/// Levels and subscriptions of one sharer's clients.
#[derive(Debug, Default)]
struct SharerSettings {
    levels: HashMap<Requester, Level>,
    /// Number of clients at each level.
    counts: BTreeMap<Level, usize>,
    subscriptions: BTreeMap<Topic, HashSet<Requester>>,
    /// Held while a subscription is made or ended, so that two clients do not interfere.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The turn to make or end a subscription: exclusive for one sharer.
#[derive(Debug)]
pub(crate) struct SubscriptionTurn {
    subscriptions: Arc<Subscriptions>,
    key: ConnectionKey,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Settings that no client has any more since one left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// The key of the connection.
    pub(crate) key: ConnectionKey,
    /// Topics without subscribers.
    pub(crate) topics: Vec<Topic>,
    /// The effective level of the remaining clients, if it has changed.
    pub(crate) level: Option<Level>,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Stores the level of `holder`; returns the effective level, which is the most verbose.
    pub(crate) fn set_level(&self, key: &ConnectionKey, holder: Requester, level: Level) -> Level {
        let mut inner = self.0.lock();
        inner.at(key, &holder).set_level(holder, level)
    }

    /// The effective level: the most verbose.
    pub(crate) fn level(&self, key: &ConnectionKey) -> Option<Level> {
        self.0.lock().sharers.get(&key.sharer())?.level()
    }

    /// Waits for the turn to make or end a subscription.
    pub(crate) async fn turn(self: &Arc<Self>, key: &ConnectionKey) -> SubscriptionTurn {
        let key = key.sharer();
        let lock = Arc::clone(&self.0.lock().sharers.entry(key.clone()).or_default().turn);
        // made before the wait, so that a cancelled wait leaves nothing behind
        let mut turn = SubscriptionTurn { subscriptions: Arc::clone(self), key, guard: None };
        turn.guard = Some(lock.lock_owned().await);
        turn
    }

    /// True if a client other than `holder` subscribes to `topic`.
    pub(crate) fn has_others(&self, key: &ConnectionKey, holder: &Requester, topic: &Topic) -> bool {
        let inner = self.0.lock();
        let holders = inner.sharers.get(&key.sharer()).and_then(|sharer| sharer.subscriptions.get(topic));
        holders.is_some_and(|holders| holders.iter().any(|other| other != holder))
    }

    /// True if another subscription is within the limit.
    pub(crate) fn has_room(&self, key: &ConnectionKey) -> bool {
        self.0.lock().sharers.get(&key.sharer()).is_none_or(|sharer| sharer.subscriptions.len() < MAX_SUBSCRIPTIONS)
    }

    /// Adds a subscription.
    pub(crate) fn subscribed(&self, key: &ConnectionKey, holder: Requester, topic: Topic) {
        let mut inner = self.0.lock();
        inner.at(key, &holder).subscriptions.entry(topic).or_default().insert(holder);
    }

    /// Removes a subscription. Returns true if it was the last one for `topic`.
    pub(crate) fn unsubscribed(&self, key: &ConnectionKey, holder: &Requester, topic: &Topic) -> bool {
        let mut inner = self.0.lock();
        let Some(sharer) = inner.sharers.get_mut(&key.sharer()) else { return false };
        !sharer.leave(holder, |other| other == topic).is_empty()
    }

    /// Removes all subscriptions to `topic`, which has ended. Returns true if there were any.
    pub(crate) fn is_over(&self, key: &ConnectionKey, topic: &Topic) -> bool {
        self.0.lock().sharers.get_mut(&key.sharer()).is_some_and(|sharer| sharer.subscriptions.remove(topic).is_some())
    }

    /// All topics with subscribers.
    pub(crate) fn topics(&self, key: &ConnectionKey) -> Vec<Topic> {
        self.0
            .lock()
            .sharers
            .get(&key.sharer())
            .map(|sharer| sharer.subscriptions.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// True if a client waits for updates: such a connection is not idle.
    pub(crate) fn waits(&self, key: &ConnectionKey) -> bool {
        key.is_first_slot() && self.0.lock().sharers.get(key).is_some_and(|sharer| !sharer.subscriptions.is_empty())
    }

    /// True if `holder` subscribes to `topic`, or to a resource above it (all versions, resources: an update may be of
    /// a sub-resource).
    pub(crate) fn is_subscribed(&self, key: &ConnectionKey, holder: &Requester, topic: &Topic) -> bool {
        let inner = self.0.lock();
        let Some(sharer) = inner.sharers.get(&key.sharer()) else { return false };
        match topic {
            Topic::Task(_) => sharer.subscriptions.get(topic).is_some_and(|holders| holders.contains(holder)),
            Topic::Resource(uri) => sharer.subscriptions.iter().any(|(subscribed, holders)| {
                holders.contains(holder) && subscribed.uri().is_some_and(|subscribed| covers(subscribed, uri))
            }),
        }
    }

    /// Removes the settings of a client; returns those that no client has now.
    pub(crate) fn forget(&self, holder: &Requester) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        let mut inner = self.0.lock();
        for key in inner.places.remove(holder).unwrap_or_default() {
            let Some(sharer) = inner.sharers.get_mut(&key) else { continue };
            let level = sharer.unset_level(holder);
            let topics = sharer.leave(holder, |_| true);
            if sharer.is_empty() {
                inner.sharers.remove(&key);
            }
            if level.is_some() || !topics.is_empty() {
                given_up.push(GivenUp { key, topics, level });
            }
        }
        given_up
    }
}

// === impl Inner ===

impl Inner {
    /// The settings of the sharer of `key`, recording that `holder` may have some.
    fn at(&mut self, key: &ConnectionKey, holder: &Requester) -> &mut SharerSettings {
        if !holder.is_gateway() {
            self.places.entry(holder.clone()).or_default().insert(key.sharer());
        }
        self.sharers.entry(key.sharer()).or_default()
    }
}

impl Drop for SubscriptionTurn {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut inner = self.subscriptions.0.lock();
        if inner.sharers.get(&self.key).is_some_and(SharerSettings::is_empty) {
            inner.sharers.remove(&self.key);
        }
    }
}

// === impl Topic ===

impl Topic {
    /// The URI of a resource.
    pub(crate) fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource(uri) => Some(uri),
            Self::Task(_) => None,
        }
    }

    /// The id of a task.
    pub(crate) fn task(&self) -> Option<&str> {
        match self {
            Self::Resource(_) => None,
            Self::Task(id) => Some(id),
        }
    }
}

// === impl SharerSettings ===

impl SharerSettings {
    fn level(&self) -> Option<Level> {
        self.counts.keys().next().copied()
    }

    /// Returns the effective level.
    fn set_level(&mut self, holder: Requester, level: Level) -> Level {
        let before = self.levels.insert(holder, level);
        *self.counts.entry(level).or_default() += 1;
        self.count_off(before);
        self.level().unwrap_or(level)
    }

    /// Returns the effective level of the remaining clients, if it has changed.
    fn unset_level(&mut self, holder: &Requester) -> Option<Level> {
        let before = self.level();
        let removed = self.levels.remove(holder);
        self.count_off(removed);
        self.level().filter(|level| Some(*level) != before)
    }

    fn count_off(&mut self, level: Option<Level>) {
        let Some(level) = level else { return };
        if let Some(count) = self.counts.get_mut(&level) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&level);
            }
        }
    }

    /// Removes those subscriptions of `holder` that `which` selects; returns topics without subscribers.
    fn leave(&mut self, holder: &Requester, which: impl Fn(&Topic) -> bool) -> Vec<Topic> {
        let mut free = Vec::new();
        self.subscriptions.retain(|topic, holders| {
            let left = which(topic) && holders.remove(holder) && holders.is_empty();
            if left {
                free.push(topic.clone());
            }
            !left
        });
        free
    }

    fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.subscriptions.is_empty() && Arc::strong_count(&self.turn) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn session(name: &str) -> Requester {
        Requester::Session(SessionId::new(name))
    }

    #[test]
    fn the_most_verbose_level_is_effective_until_its_client_leaves() {
        let (subscriptions, key) = (Subscriptions::default(), ConnectionKey::base());
        assert_eq!(subscriptions.set_level(&key, session("a"), Level::Error), Level::Error);
        assert_eq!(subscriptions.set_level(&key, session("b"), Level::Debug), Level::Debug);
        assert_eq!(subscriptions.set_level(&key, session("a"), Level::Alert), Level::Debug);
        let given_up = subscriptions.forget(&session("b"));
        assert_eq!(given_up, [GivenUp { key: key.clone(), topics: vec![], level: Some(Level::Alert) }]);
        assert!(subscriptions.forget(&session("a")).is_empty());
        assert_eq!(subscriptions.level(&key), None);
    }

    #[test]
    fn the_end_of_a_call_removes_only_its_own_level() {
        let (subscriptions, key) = (Subscriptions::default(), ConnectionKey::base());
        subscriptions.set_level(&key, session("a"), Level::Error);
        subscriptions.set_level(&key, session("request 1"), Level::Debug);
        subscriptions.set_level(&key, session("request 2"), Level::Debug);
        assert!(subscriptions.forget(&session("request 1")).is_empty(), "the other one still wants it");
        let given_up = GivenUp { key: key.clone(), topics: vec![], level: Some(Level::Error) };
        assert_eq!(subscriptions.forget(&session("request 2")), [given_up]);
        subscriptions.forget(&session("a"));
        let inner = subscriptions.0.lock();
        assert!(inner.sharers.is_empty() && inner.places.is_empty(), "nothing is left");
    }

    #[tokio::test]
    async fn a_cancelled_turn_leaves_no_entry() {
        let (subscriptions, key) = (Arc::new(Subscriptions::default()), ConnectionKey::base());
        let turn = subscriptions.turn(&key).await;
        let mut other = Box::pin(subscriptions.turn(&key));
        assert!(futures_util::poll!(&mut other).is_pending());
        drop(turn);
        assert_eq!(subscriptions.0.lock().sharers.len(), 1);
        drop(other);
        assert!(subscriptions.0.lock().sharers.is_empty());
    }

    #[test]
    fn a_subscription_lasts_until_the_last_client_leaves_it() {
        let (subscriptions, key) = (Subscriptions::default(), ConnectionKey::base());
        let topic = Topic::Resource("x:1".to_owned());
        for name in ["a", "b"] {
            subscriptions.subscribed(&key, session(name), topic.clone());
        }
        assert!(subscriptions.has_others(&key, &session("a"), &topic));
        subscriptions.unsubscribed(&key, &session("a"), &topic);
        assert!(!subscriptions.has_others(&key, &session("b"), &topic));
        assert!(!subscriptions.is_subscribed(&key, &session("a"), &topic));
        assert!(subscriptions.is_subscribed(&key.in_slot(1), &session("b"), &topic));
        assert!(subscriptions.waits(&key) && !subscriptions.waits(&key.in_slot(1)));
        let given_up = subscriptions.forget(&session("b"));
        assert_eq!(given_up, [GivenUp { key: key.clone(), topics: vec![topic], level: None }]);
        assert!(!subscriptions.waits(&key));
    }
}
