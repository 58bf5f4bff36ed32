//! Log levels and subscriptions of the clients of one backend, by client session, so that sharers do not undo each other's,
//! and a fresh session can be brought to the same (`translation` 4c). Knows nothing of how the server is told.

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

/// How many topics the clients behind one session can listen for in all.
const MOST_SUBSCRIPTIONS: usize = 10_000;

/// A resource or a task that can be listened for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Topic {
    /// Updates of the resource of this URI, and of what lies beneath it.
    Resource(String),
    /// The status of the task of this id (tasks extension).
    Task(String),
}

/// Levels and subscriptions at one backend, by sharer.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sharers: HashMap<ConnectionKey, SharerSettings>,
    /// Where each client may want something, so that its end looks at nothing else.
    places: HashMap<Requester, HashSet<ConnectionKey>>,
}

/// Levels and subscriptions of the clients of one sharer.
#[derive(Debug, Default)]
struct SharerSettings {
    levels: HashMap<Requester, Level>,
    /// How many want each level.
    counts: BTreeMap<Level, usize>,
    subscriptions: BTreeMap<Topic, HashSet<Requester>>,
    /// Held while a subscription is being made or ended, so that two clients do not cross.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The turn to make or end a subscription: held, nobody else's at the same sharer runs.
#[derive(Debug)]
pub(crate) struct SubscriptionTurn {
    subscriptions: Arc<Subscriptions>,
    key: ConnectionKey,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Level and subscriptions that nobody has any more since a client left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// Whose session.
    pub(crate) key: ConnectionKey,
    /// The topics that nobody listens for now.
    pub(crate) topics: Vec<Topic>,
    /// The level that those who are left want, where it is another than before.
    pub(crate) level: Option<Level>,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Notes the level that `holder` wants; gives the most verbose that is wanted.
    pub(crate) fn set_level(&self, key: &ConnectionKey, holder: Requester, level: Level) -> Level {
        let mut inner = self.0.lock();
        inner.at(key, &holder).set_level(holder, level)
    }

    /// The most verbose level that is wanted.
    pub(crate) fn level(&self, key: &ConnectionKey) -> Option<Level> {
        self.0.lock().sharers.get(&key.sharer())?.level()
    }

    /// The turn to make or end a subscription.
    pub(crate) async fn turn(self: &Arc<Self>, key: &ConnectionKey) -> SubscriptionTurn {
        let key = key.sharer();
        let lock = Arc::clone(&self.0.lock().sharers.entry(key.clone()).or_default().turn);
        // made before the wait, so that a wait that is given up leaves nothing behind
        let mut turn = SubscriptionTurn { subscriptions: Arc::clone(self), key, guard: None };
        turn.guard = Some(lock.lock_owned().await);
        turn
    }

    /// Whether anybody listens for `topic`, `holder` left aside.
    pub(crate) fn has_others(&self, key: &ConnectionKey, holder: &Requester, topic: &Topic) -> bool {
        let inner = self.0.lock();
        let holders = inner.sharers.get(&key.sharer()).and_then(|sharer| sharer.subscriptions.get(topic));
        holders.is_some_and(|holders| holders.iter().any(|other| other != holder))
    }

    /// Whether one more subscription has room.
    pub(crate) fn has_room(&self, key: &ConnectionKey) -> bool {
        self.0.lock().sharers.get(&key.sharer()).is_none_or(|sharer| sharer.subscriptions.len() < MOST_SUBSCRIPTIONS)
    }

    /// Notes that `holder` listens for `topic`.
    pub(crate) fn subscribed(&self, key: &ConnectionKey, holder: Requester, topic: Topic) {
        let mut inner = self.0.lock();
        inner.at(key, &holder).subscriptions.entry(topic).or_default().insert(holder);
    }

    /// Notes that `holder` does not listen for `topic` any more; whether nobody does now.
    pub(crate) fn unsubscribed(&self, key: &ConnectionKey, holder: &Requester, topic: &Topic) -> bool {
        let mut inner = self.0.lock();
        let Some(sharer) = inner.sharers.get_mut(&key.sharer()) else { return false };
        !sharer.leave(holder, |other| other == topic).is_empty()
    }

    /// Notes that there is nothing more to hear of `topic`; whether anybody listened for it.
    pub(crate) fn is_over(&self, key: &ConnectionKey, topic: &Topic) -> bool {
        self.0.lock().sharers.get_mut(&key.sharer()).is_some_and(|sharer| sharer.subscriptions.remove(topic).is_some())
    }

    /// What somebody listens for.
    pub(crate) fn topics(&self, key: &ConnectionKey) -> Vec<Topic> {
        self.0
            .lock()
            .sharers
            .get(&key.sharer())
            .map(|sharer| sharer.subscriptions.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Whether somebody waits for updates: such a session is not idle.
    pub(crate) fn waits(&self, key: &ConnectionKey) -> bool {
        key.is_first_slot() && self.0.lock().sharers.get(key).is_some_and(|sharer| !sharer.subscriptions.is_empty())
    }

    /// Whether `holder` listens for `topic`, or for the resource that it lies beneath (all versions, resources: an update may
    /// be of a sub-resource).
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

    /// Forgets what a client wanted; gives what nobody wants now.
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
    /// What is wanted at the sharer of `key`, where `holder` is about to want something.
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

    /// Gives the most verbose level that is wanted then.
    fn set_level(&mut self, holder: Requester, level: Level) -> Level {
        let before = self.levels.insert(holder, level);
        *self.counts.entry(level).or_default() += 1;
        self.count_off(before);
        self.level().unwrap_or(level)
    }

    /// Gives the level that those who are left want, where it is another than before.
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

    /// Takes `holder` off the subscriptions that `which` says; gives those that nobody holds now.
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
    fn the_most_verbose_level_is_wanted_until_its_client_leaves() {
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
    fn the_end_of_a_call_takes_back_its_own_level_alone() {
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
    async fn a_turn_that_came_to_nothing_leaves_nothing_behind() {
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
