//! What the clients behind one backend want of it: log levels and subscriptions, by client session, so that sharers do
//! not undo each other's, and a fresh session can be brought to the same (`translation` 4c). Knows nothing of how it is
//! asked for.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::key::Key;
use crate::{
    mcp::{Level, uri::covers},
    model::SessionId,
};

/// How many resources the clients behind one session can be subscribed to in all.
const MOST_SUBSCRIPTIONS: usize = 10_000;

/// Who wants something: a client session; `None` for what has none.
pub(crate) type Holder = Option<SessionId>;

/// What is wanted at one backend, by whose session it is.
#[derive(Debug, Default)]
pub(crate) struct Wants(Mutex<HashMap<Key, Wish>>);

/// What the clients of one sharer want.
#[derive(Debug, Default)]
struct Wish {
    levels: HashMap<Holder, Level>,
    subscriptions: BTreeMap<String, HashSet<Holder>>,
    /// Held while a subscription is being made or ended, so that two clients do not cross.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// What nobody wants any more since a client left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// Whose session.
    pub(crate) key: Key,
    /// The resources that nobody is subscribed to now.
    pub(crate) uris: Vec<String>,
    /// The level that those who are left want, where it is another than before.
    pub(crate) level: Option<Level>,
}

impl Wants {
    /// Notes the level that `holder` wants; gives the most verbose that is wanted.
    pub(crate) fn set_level(&self, key: &Key, holder: Holder, level: Level) -> Level {
        let mut wants = self.0.lock();
        let wish = wants.entry(key.sharer()).or_default();
        wish.levels.insert(holder, level);
        wish.level().unwrap_or(level)
    }

    /// The most verbose level that is wanted.
    pub(crate) fn level(&self, key: &Key) -> Option<Level> {
        self.0.lock().get(&key.sharer())?.level()
    }

    /// The level that `holder` wants.
    pub(crate) fn level_of(&self, key: &Key, holder: &Holder) -> Option<Level> {
        self.0.lock().get(&key.sharer())?.levels.get(holder).copied()
    }

    /// The turn to make or end a subscription.
    pub(crate) fn turn(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.0.lock().entry(key.sharer()).or_default().turn)
    }

    /// Whether anybody is subscribed to `uri`, `holder` left aside.
    pub(crate) fn has_others(&self, key: &Key, holder: &Holder, uri: &str) -> bool {
        let wants = self.0.lock();
        let holders = wants.get(&key.sharer()).and_then(|wish| wish.subscriptions.get(uri));
        holders.is_some_and(|holders| holders.iter().any(|other| other != holder))
    }

    /// Whether one more subscription has room.
    pub(crate) fn has_room(&self, key: &Key) -> bool {
        self.0.lock().get(&key.sharer()).is_none_or(|wish| wish.subscriptions.len() < MOST_SUBSCRIPTIONS)
    }

    /// Notes that `holder` is subscribed to `uri`.
    pub(crate) fn subscribed(&self, key: &Key, holder: Holder, uri: String) {
        self.0.lock().entry(key.sharer()).or_default().subscriptions.entry(uri).or_default().insert(holder);
    }

    /// Notes that `holder` is not subscribed to `uri` any more.
    pub(crate) fn unsubscribed(&self, key: &Key, holder: &Holder, uri: &str) {
        let mut wants = self.0.lock();
        let Some(wish) = wants.get_mut(&key.sharer()) else { return };
        wish.leave(holder, |other| other == uri);
    }

    /// The resources that somebody is subscribed to.
    pub(crate) fn uris(&self, key: &Key) -> Vec<String> {
        self.0.lock().get(&key.sharer()).map(|wish| wish.subscriptions.keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether somebody waits for updates: such a session is not idle.
    pub(crate) fn waits(&self, key: &Key) -> bool {
        key.is_first_lane() && self.0.lock().get(key).is_some_and(|wish| !wish.subscriptions.is_empty())
    }

    /// Whether `holder` is subscribed to `uri` or to what it lies beneath (all versions, resources: an update may be of a
    /// sub-resource).
    pub(crate) fn is_subscribed(&self, key: &Key, holder: &Holder, uri: &str) -> bool {
        let wants = self.0.lock();
        let Some(wish) = wants.get(&key.sharer()) else { return false };
        wish.subscriptions.iter().any(|(subscribed, holders)| holders.contains(holder) && covers(subscribed, uri))
    }

    /// Forgets what a client session wanted; gives what nobody wants now.
    pub(crate) fn forget(&self, session: &SessionId) -> Vec<GivenUp> {
        let holder = Some(session.clone());
        let mut given_up = Vec::new();
        let mut wants = self.0.lock();
        for (key, wish) in wants.iter_mut() {
            let before = wish.level();
            wish.levels.remove(&holder);
            let uris = wish.leave(&holder, |_| true);
            let level = wish.level().filter(|level| Some(*level) != before);
            if level.is_some() || !uris.is_empty() {
                given_up.push(GivenUp { key: key.clone(), uris, level });
            }
        }
        wants.retain(|_, wish| !wish.is_empty());
        given_up
    }
}

impl Wish {
    fn level(&self) -> Option<Level> {
        self.levels.values().min().copied()
    }

    /// Takes `holder` off the subscriptions that `which` says; gives those that nobody holds now.
    fn leave(&mut self, holder: &Holder, which: impl Fn(&str) -> bool) -> Vec<String> {
        let mut free = Vec::new();
        self.subscriptions.retain(|uri, holders| {
            let left = which(uri) && holders.remove(holder) && holders.is_empty();
            if left {
                free.push(uri.clone());
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

    fn session(name: &str) -> SessionId {
        SessionId::new(name)
    }

    #[test]
    fn the_most_verbose_level_is_wanted_until_its_client_leaves() {
        let (wants, key) = (Wants::default(), Key::base());
        assert_eq!(wants.set_level(&key, Some(session("a")), Level::Error), Level::Error);
        assert_eq!(wants.set_level(&key, Some(session("b")), Level::Debug), Level::Debug);
        assert_eq!(wants.set_level(&key, Some(session("a")), Level::Alert), Level::Debug);
        let given_up = wants.forget(&SessionId::new("b"));
        assert_eq!(given_up, [GivenUp { key: key.clone(), uris: vec![], level: Some(Level::Alert) }]);
        assert!(wants.forget(&SessionId::new("a")).is_empty());
        assert_eq!(wants.level(&key), None);
    }

    #[test]
    fn a_subscription_lasts_until_the_last_client_leaves_it() {
        let (wants, key) = (Wants::default(), Key::base());
        for name in ["a", "b"] {
            wants.subscribed(&key, Some(session(name)), "x:1".to_owned());
        }
        assert!(wants.has_others(&key, &Some(session("a")), "x:1"));
        wants.unsubscribed(&key, &Some(session("a")), "x:1");
        assert!(!wants.has_others(&key, &Some(session("b")), "x:1"));
        assert!(!wants.is_subscribed(&key, &Some(session("a")), "x:1"));
        assert!(wants.is_subscribed(&key.in_lane(1), &Some(session("b")), "x:1"));
        assert!(wants.waits(&key) && !wants.waits(&key.in_lane(1)));
        let given_up = wants.forget(&SessionId::new("b"));
        assert_eq!(given_up, [GivenUp { key: key.clone(), uris: vec!["x:1".to_owned()], level: None }]);
        assert!(!wants.waits(&key));
    }
}
