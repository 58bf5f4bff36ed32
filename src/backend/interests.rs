//! Interests of one backend's clients: log levels and topics, by sharer. Each connection of a sharer asks its server
//! for the union of them (`translation` 4c).

pub(crate) mod listens;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::sharing::connection_key::{ConnectionKey, SharingScope};
use crate::{
    mcp::{Level, LogLevel, hearers::HeldLevel, uri},
    model::{Requester, UserId},
};

/// Maximum number of topics of one sharer. If several users share it, none may have more than half of what the others
/// leave.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// A resource or a task to subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Topic {
    /// Updates of the resource with this URI, and of its sub-resources.
    Resource(String),
    /// Status of the task with this id (tasks extension).
    Task(String),
}

/// Levels and topics at one backend, by sharer.
#[derive(Debug, Default)]
pub(crate) struct Interests(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sharers: HashMap<ConnectionKey, SharerInterests>,
}

/// Levels and topics of one sharer's clients.
#[derive(Debug, Default)]
struct SharerInterests {
    /// Levels of listens and calls, by number. They are live: a session may change its own at any time.
    levels: HashMap<u64, LogLevel>,
    last_level: u64,
    /// The most verbose level when [`SharerInterests::look_at_levels`] last ran.
    level: Option<Level>,
    /// The change that set it.
    level_since: u64,
    topics: BTreeMap<Topic, TopicHolders>,
    /// Number of topics by user.
    users: HashMap<UserId, usize>,
    /// Number of changes so far; the connections of the sharer watch it.
    changes: watch::Sender<u64>,
}

/// The clients that want one topic.
#[derive(Debug, Default)]
struct TopicHolders {
    /// By client: its user, and the number of its listens for the topic.
    holders: HashMap<Requester, (UserId, usize)>,
    /// The change that added the latest listen.
    since: u64,
}

/// The topics and the level of one listen, or the level of one call. Dropping it withdraws them.
#[derive(Debug)]
pub(crate) struct Interest {
    interests: Arc<Interests>,
    key: ConnectionKey,
    holder: Requester,
    user: UserId,
    topics: HashSet<Topic>,
    /// Number of its level; `None` if it has none.
    level: Option<u64>,
}

/// Interests as one connection sees them.
#[derive(Debug)]
pub(crate) struct InterestsView {
    interests: Arc<Interests>,
    key: ConnectionKey,
    changes: watch::Receiver<u64>,
}

/// Difference between what a server knows and what clients want.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// Number of the latest change that it covers.
    pub(crate) version: u64,
    /// The most verbose level that a client wants.
    pub(crate) level: Option<Level>,
    /// Topics that the server does not know, each with the users who want it.
    pub(crate) missing: Vec<(Topic, Vec<UserId>)>,
    /// Topics that no client wants any more.
    pub(crate) unwanted: Vec<Topic>,
}

/// The user has as many topics as allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

// === impl Interests ===

impl Interests {
    /// An empty interest of a listen or a call of `holder`.
    pub(crate) fn of(self: &Arc<Self>, key: &ConnectionKey, holder: Requester, user: UserId) -> Interest {
        Interest { interests: Arc::clone(self), key: key.sharer(), holder, user, topics: HashSet::new(), level: None }
    }

    /// The view of the connection `key`.
    pub(crate) fn view(self: &Arc<Self>, key: &ConnectionKey) -> InterestsView {
        let changes = self.0.lock().sharers.entry(key.sharer()).or_default().changes.subscribe();
        InterestsView { interests: Arc::clone(self), key: key.clone(), changes }
    }

    /// Number of changes of the sharer so far.
    pub(crate) fn version(&self, key: &ConnectionKey) -> u64 {
        self.0.lock().sharers.get(&key.sharer()).map_or(0, |sharer| *sharer.changes.borrow())
    }

    /// Makes the connections of `key`'s sharer compare again.
    pub(crate) fn touch(&self, key: &ConnectionKey) {
        if let Some(sharer) = self.0.lock().sharers.get_mut(&key.sharer()) {
            sharer.changed();
        }
    }

    /// Removes all interest in `topic`, which has ended.
    pub(crate) fn is_over(&self, key: &ConnectionKey, topic: &Topic) {
        if let Some(sharer) = self.0.lock().sharers.get_mut(&key.sharer()) {
            sharer.end(topic);
        }
    }

    /// Topics that clients of the sharer want.
    pub(crate) fn topics(&self, key: &ConnectionKey) -> Vec<Topic> {
        let inner = self.0.lock();
        let sharer = inner.sharers.get(&key.sharer());
        sharer.map(|sharer| sharer.topics.keys().cloned().collect()).unwrap_or_default()
    }

    /// True if a client waits for updates on the connection `key`, which is therefore not idle.
    pub(crate) fn waits(&self, key: &ConnectionKey) -> bool {
        key.is_first_slot() && self.0.lock().sharers.get(key).is_some_and(|sharer| !sharer.topics.is_empty())
    }

    /// True if a client wants exactly this topic.
    pub(crate) fn is_wanted(&self, key: &ConnectionKey, topic: &Topic) -> bool {
        self.0.lock().sharers.get(&key.sharer()).is_some_and(|sharer| sharer.topics.contains_key(topic))
    }

    /// The clients that want `topic`, or a resource above it (all versions, resources: an update may be about a
    /// sub-resource).
    pub(crate) fn holders(&self, key: &ConnectionKey, topic: &Topic) -> HashSet<Requester> {
        let inner = self.0.lock();
        let Some(topics) = inner.sharers.get(&key.sharer()).map(|sharer| &sharer.topics) else { return HashSet::new() };
        let all: Vec<&TopicHolders> = match topic {
            Topic::Task(_) => topics.get(topic).into_iter().collect(),
            // look up every URI above this one, unless there are more of them than topics
            Topic::Resource(uri) if uri::above(uri).take(topics.len()).count() < topics.len() => {
                uri::above(uri).filter_map(|above| topics.get(&Topic::Resource(above.to_owned()))).collect()
            }
            Topic::Resource(uri) => {
                let is_above = |topic: &Topic| topic.uri().is_some_and(|above| uri::covers(above, uri));
                topics.iter().filter(|(topic, _)| is_above(topic)).map(|(_, wanted)| wanted).collect()
            }
        };
        all.into_iter().flat_map(|wanted| wanted.holders.keys().cloned()).collect()
    }
}

// === impl Inner ===

impl Inner {
    /// Removes the sharer if it is empty.
    fn tidy(&mut self, key: &ConnectionKey) {
        if self.sharers.get(key).is_some_and(SharerInterests::is_empty) {
            self.sharers.remove(key);
        }
    }
}

// === impl Interest ===

impl Interest {
    /// Adds a topic; returns the number of the change.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the user has as many topics as allowed.
    pub(crate) fn want(&mut self, topic: Topic) -> Result<u64, NoRoom> {
        let mut inner = self.interests.0.lock();
        let sharer = inner.sharers.entry(self.key.clone()).or_default();
        let version = *sharer.changes.borrow() + 1;
        if self.topics.contains(&topic) {
            return Ok(version - 1);
        }
        if !sharer.has_room(&self.key, &self.user, &topic) {
            inner.tidy(&self.key);
            return Err(NoRoom);
        }
        sharer.add(&self.holder, &self.user, topic.clone(), version);
        self.topics.insert(topic);
        Ok(sharer.changed())
    }

    /// Adds the level; returns the number of the change that the server has to know. Every level that a session has set
    /// so far counts, even if its own listen has not noticed yet.
    pub(crate) fn hold_level(&mut self, level: &LogLevel) -> u64 {
        let mut inner = self.interests.0.lock();
        let sharer = inner.sharers.entry(self.key.clone()).or_default();
        sharer.last_level += 1;
        let number = *self.level.get_or_insert(sharer.last_level);
        sharer.levels.insert(number, level.clone());
        sharer.look_at_levels()
    }

    /// Looks at the levels again, after the session has set its own.
    pub(crate) fn level_changed(&self) {
        if let Some(sharer) = self.interests.0.lock().sharers.get_mut(&self.key) {
            sharer.look_at_levels();
        }
    }

    fn leave_level(&mut self) {
        let Some(number) = self.level.take() else { return };
        let mut inner = self.interests.0.lock();
        let Some(sharer) = inner.sharers.get_mut(&self.key) else { return };
        if sharer.levels.remove(&number).is_some_and(|level| level.get() == sharer.level) {
            sharer.look_at_levels();
        }
        inner.tidy(&self.key);
    }

    /// Withdraws all topics except `kept`.
    pub(crate) fn narrow(&mut self, kept: &[Topic]) {
        let (kept, left) = mem::take(&mut self.topics).into_iter().partition(|topic| kept.contains(topic));
        self.topics = kept;
        self.leave(&left);
    }

    fn leave(&self, topics: &HashSet<Topic>) {
        if topics.is_empty() {
            return;
        }
        let mut inner = self.interests.0.lock();
        let Some(sharer) = inner.sharers.get_mut(&self.key) else { return };
        let left = topics.iter().filter(|topic| sharer.remove(&self.holder, topic)).count();
        if left > 0 {
            sharer.changed();
        }
        inner.tidy(&self.key);
    }
}

impl HeldLevel for Interest {
    fn changed(&self) {
        self.level_changed();
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let topics = mem::take(&mut self.topics);
        self.leave(&topics);
        self.leave_level();
    }
}

// === impl InterestsView ===

impl InterestsView {
    /// Waits for the next change.
    pub(crate) async fn changed(&mut self) {
        // the sender lives as long as the sharer has a view
        let _ = self.changes.changed().await;
    }

    /// Number of changes so far, all marked as seen.
    pub(crate) fn seen(&mut self) -> u64 {
        *self.changes.borrow_and_update()
    }

    /// Compares what clients want with the `topics` that the server has. A topic is missing unless `knows` holds for it
    /// and the change that last added a listen. Only the first connection of a sharer has topics.
    pub(crate) fn difference<'a>(
        &mut self,
        knows: impl Fn(&Topic, u64) -> bool,
        topics: impl Iterator<Item = &'a Topic>,
    ) -> Difference {
        let version = self.seen();
        let inner = self.interests.0.lock();
        let Some(sharer) = inner.sharers.get(&self.key.sharer()) else { return Difference::default() };
        let level = sharer.level;
        if !self.key.is_first_slot() {
            return Difference { version, level, ..Difference::default() };
        }
        let missing = sharer.topics.iter().filter(|(topic, wanted)| !knows(topic, wanted.since));
        let missing = missing.map(|(topic, wanted)| (topic.clone(), wanted.users())).collect();
        let unwanted = topics.filter(|topic| !sharer.topics.contains_key(topic)).cloned().collect();
        Difference { version, level, missing, unwanted }
    }

    /// True if a client wants the topic.
    pub(crate) fn is_wanted(&self, topic: &Topic) -> bool {
        self.interests.is_wanted(&self.key, topic)
    }
}

impl Drop for InterestsView {
    fn drop(&mut self) {
        // drop this view's receiver first, so that it does not count
        self.changes = watch::Sender::default().subscribe();
        self.interests.0.lock().tidy(&self.key.sharer());
    }
}

// === impl Topic ===

impl Topic {
    /// URI of a resource; `None` for a task.
    pub(crate) fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource(uri) => Some(uri),
            Self::Task(_) => None,
        }
    }

    /// Id of a task; `None` for a resource.
    pub(crate) fn task(&self) -> Option<&str> {
        match self {
            Self::Resource(_) => None,
            Self::Task(id) => Some(id),
        }
    }
}

// === impl TopicHolders ===

impl TopicHolders {
    fn users(&self) -> Vec<UserId> {
        let users: HashSet<&UserId> = self.holders.values().map(|(user, _)| user).collect();
        users.into_iter().cloned().collect()
    }

    fn has_user(&self, user: &UserId) -> bool {
        self.holders.values().any(|(other, _)| other == user)
    }
}

// === impl SharerInterests ===

impl SharerInterests {
    /// Counts a change and wakes the connections; returns its number.
    fn changed(&self) -> u64 {
        let mut version = 0;
        self.changes.send_modify(|changes| {
            *changes += 1;
            version = *changes;
        });
        version
    }

    /// Finds the most verbose level, and counts a change if it differs. Returns the number of the change that set it.
    fn look_at_levels(&mut self) -> u64 {
        let level = self.levels.values().filter_map(LogLevel::get).min();
        // no request withdraws a level, so `None` is no change
        if mem::replace(&mut self.level, level) != level && level.is_some() {
            self.level_since = self.changed();
        }
        self.level_since
    }

    /// True if `user` may have another topic. If several users share, each leaves room for one more.
    fn has_room(&self, key: &ConnectionKey, user: &UserId, topic: &Topic) -> bool {
        if self.topics.get(topic).is_some_and(|wanted| wanted.has_user(user)) {
            return true;
        }
        if matches!(key.scope, SharingScope::Session(_) | SharingScope::User(_)) {
            return self.topics.len() < MAX_SUBSCRIPTIONS;
        }
        let own = self.users.get(user).copied().unwrap_or_default();
        let others = self.users.values().sum::<usize>() - own;
        own < MAX_SUBSCRIPTIONS.saturating_sub(others) / 2
    }

    fn add(&mut self, holder: &Requester, user: &UserId, topic: Topic, version: u64) {
        let wanted = self.topics.entry(topic).or_default();
        if !wanted.has_user(user) {
            *self.users.entry(user.clone()).or_default() += 1;
        }
        wanted.holders.entry(holder.clone()).or_insert_with(|| (user.clone(), 0)).1 += 1;
        wanted.since = version;
    }

    /// Removes one listen of `holder` for `topic`. Returns true if it was the last listen for it.
    fn remove(&mut self, holder: &Requester, topic: &Topic) -> bool {
        let Some(wanted) = self.topics.get_mut(topic) else { return false };
        let Some((user, count)) = wanted.holders.get_mut(holder) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        let user = user.clone();
        wanted.holders.remove(holder);
        let (is_last_of_user, is_last) = (!wanted.has_user(&user), wanted.holders.is_empty());
        if is_last_of_user {
            self.count_off_user(&user);
        }
        if is_last {
            self.topics.remove(topic);
        }
        is_last
    }

    /// Removes a topic and all interest in it.
    fn end(&mut self, topic: &Topic) {
        let Some(wanted) = self.topics.remove(topic) else { return };
        for user in wanted.users() {
            self.count_off_user(&user);
        }
        self.changed();
    }

    fn count_off_user(&mut self, user: &UserId) {
        if let Some(count) = self.users.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(user);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.topics.is_empty() && self.changes.receiver_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn session(name: &str) -> Requester {
        Requester::Session(SessionId::new(name))
    }

    fn topic(number: usize) -> Topic {
        Topic::Resource(format!("x:{number}"))
    }

    fn level(view: &mut InterestsView) -> Option<Level> {
        view.difference(|_, _| false, std::iter::empty()).level
    }

    #[test]
    fn the_most_verbose_level_is_effective_until_its_client_leaves() {
        let (interests, key) = (Arc::new(Interests::default()), ConnectionKey::base());
        let mut view = interests.view(&key);
        let [mut a, mut b, mut call] = ["a", "b", "b"].map(|name| interests.of(&key, session(name), UserId::new(name)));
        let at = |level| LogLevel::Request(Some(level));
        a.hold_level(&at(Level::Error));
        assert_eq!(level(&mut view), Some(Level::Error));
        let since = b.hold_level(&at(Level::Debug));
        assert_eq!(a.hold_level(&at(Level::Alert)), since, "the effective level is the same");
        assert_eq!(call.hold_level(&at(Level::Debug)), since);
        assert_eq!(level(&mut view), Some(Level::Debug));
        drop(call);
        assert_eq!(level(&mut view), Some(Level::Debug), "the other one still wants it");
        drop(b);
        assert_eq!(level(&mut view), Some(Level::Alert));
        let (set, of_session) = watch::channel(None);
        let mut listen = interests.of(&key, session("c"), UserId::new("c"));
        listen.hold_level(&LogLevel::Session(of_session));
        set.send_replace(Some(Level::Info));
        a.hold_level(&at(Level::Alert));
        assert_eq!(level(&mut view), Some(Level::Info), "a call of another client sees it at once");
        drop((a, listen));
        assert_eq!(level(&mut view), None);
        drop(view);
        assert!(interests.0.lock().sharers.is_empty(), "nothing is left");
    }

    #[test]
    fn a_subscription_lasts_until_the_last_client_leaves_it() {
        let (interests, key) = (Arc::new(Interests::default()), ConnectionKey::base());
        let listen = |name: &str| {
            let mut listen = interests.of(&key, session(name), UserId::new(name));
            listen.want(topic(1)).unwrap();
            listen
        };
        let (a, again, b) = (listen("a"), listen("a"), listen("b"));
        drop(a);
        let is_wanted_by = |key: &ConnectionKey, name| interests.holders(key, &topic(1)).contains(&session(name));
        assert!(is_wanted_by(&key, "a"), "it has another listen for it");
        drop(again);
        assert!(!is_wanted_by(&key, "a"));
        assert!(is_wanted_by(&key.in_slot(1), "b"));
        assert!(interests.waits(&key) && !interests.waits(&key.in_slot(1)));
        drop(b);
        assert!(!interests.waits(&key) && interests.0.lock().sharers.is_empty());
    }

    #[test]
    fn an_update_finds_those_who_want_it_or_what_is_above_it() {
        let (interests, key) = (Arc::new(Interests::default()), ConnectionKey::base());
        let uris = ["file:///a", "file:///a/", "file:///a/b?c", "file:///ab", "x:"];
        let listens = uris.map(|uri| {
            let mut listen = interests.of(&key, session(uri), UserId::new("ann"));
            listen.want(Topic::Resource(uri.to_owned())).unwrap();
            listen
        });
        let long = format!("file:///a{}", "/".repeat(100));
        for uri in ["file:///a", "file:///a/b?c", "file:///a/b?c#d/e", "file:///ab/", "x:y", "/", "", &long] {
            let holders = interests.holders(&key, &Topic::Resource(uri.to_owned()));
            let expected = uris.into_iter().filter(|above| uri::covers(above, uri)).map(session);
            assert_eq!(holders, expected.collect(), "{uri}");
        }
        drop(listens);
    }

    #[test]
    fn a_user_with_many_topics_leaves_room_for_others() {
        let (interests, key) = (Arc::new(Interests::default()), ConnectionKey::base());
        let mut hostile = interests.of(&key, session("h"), UserId::new("hostile"));
        let taken = (0..2 * MAX_SUBSCRIPTIONS).take_while(|number| hostile.want(topic(*number)).is_ok()).count();
        assert_eq!(taken, MAX_SUBSCRIPTIONS / 2);
        let mut again = interests.of(&key, session("another session"), UserId::new("hostile"));
        assert_eq!(again.want(topic(taken)), Err(NoRoom));
        assert!(again.want(topic(0)).is_ok(), "it has this one already");
        let mut other = interests.of(&key, session("o"), UserId::new("other"));
        let taken =
            (0..MAX_SUBSCRIPTIONS).take_while(|number| other.want(topic(MAX_SUBSCRIPTIONS + number)).is_ok()).count();
        assert_eq!(taken, MAX_SUBSCRIPTIONS / 4);
        drop((hostile, again));
        assert!(other.want(topic(0)).is_ok());
    }

    #[test]
    fn a_topic_is_missing_until_the_server_knows_it_and_again_after_a_refusal() {
        let (interests, key) = (Arc::new(Interests::default()), ConnectionKey::base());
        let mut view = interests.view(&key);
        let mut one = interests.of(&key, session("a"), UserId::new("a"));
        let refused_at = one.want(topic(1)).unwrap();
        let missing = |view: &mut InterestsView| {
            view.difference(|_, since| since <= refused_at, std::iter::empty()).missing.len()
        };
        assert_eq!(missing(&mut view), 0);
        let mut two = interests.of(&key, session("b"), UserId::new("b"));
        two.want(topic(1)).unwrap();
        assert_eq!(missing(&mut view), 1);
        assert_eq!(view.difference(|_, _| true, [topic(2)].iter()).unwanted, [topic(2)]);
    }
}
