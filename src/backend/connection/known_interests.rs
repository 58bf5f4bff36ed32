//! Answers of one connection's server about its clients' interests, for those that wait for them. Knows nothing of how it is
//! told.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use crate::{backend::interests::Topic, mcp::ErrorObject};

/// Maximum wait of a listen for the server to know of its end, and of a new connection's first call for it to know everything.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which topics and the next level wait for the answer to a level: longer than a busy server needs, for what a call
/// logs in between at another level is lost.
pub(super) const LEVEL_FIRST: Duration = Duration::from_secs(5);
/// Maximum wait of a call for its log level: that of another may have to be answered first.
const LEVEL_TIMEOUT: Duration = LEVEL_FIRST.saturating_mul(2);

/// The server's answers.
#[derive(Debug, Default)]
pub(crate) struct KnownInterests(watch::Sender<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The number of changes up to which the server knows the log level, or has refused it.
    level: u64,
    /// True once everything that was wanted at the beginning has an answer.
    is_begun: bool,
    topics: HashMap<Topic, TopicAnswer>,
    /// Topics of which the server is being told that nobody wants them.
    leaving: HashSet<Topic>,
}

/// The server's answer about one topic.
#[derive(Debug, Clone)]
pub(super) struct TopicAnswer {
    /// The number of changes that it covers.
    pub(super) version: u64,
    pub(super) granted: Granted,
}

/// The end of an attempt to subscribe.
#[derive(Debug, Clone)]
pub(crate) enum Granted {
    /// The server notifies about it.
    Yes,
    /// The server refused it.
    Refused(ErrorObject),
    /// The server left it out of its acknowledgement.
    LeftOut,
}

// === impl KnownInterests ===

impl KnownInterests {
    /// Waits for the server's answer about `topic`: one that covers this change, or an earlier permission.
    pub(crate) async fn answer(&self, topic: &Topic, version: u64) -> Granted {
        let mut known = self.0.subscribe();
        let is_answered = |known: &Known| known.topics.get(topic).is_some_and(|answer| answer.holds_for(version));
        match known.wait_for(is_answered).await {
            Ok(known) => known.topics.get(topic).map_or(Granted::LeftOut, |answer| answer.granted.clone()),
            Err(_) => Granted::LeftOut,
        }
    }

    /// Waits until the server has nothing to do with a topic that nobody wants, for a moment at most.
    pub(crate) async fn left(&self, topic: &Topic) {
        let is_left = |known: &Known| !known.topics.contains_key(topic) && !known.leaving.contains(topic);
        let _ = timeout(SETTLE_TIMEOUT, self.0.subscribe().wait_for(is_left)).await;
    }

    /// Waits until the server knows the log level of this change, for a moment at most.
    pub(crate) async fn level_known(&self, version: u64) {
        if self.0.borrow().level < version {
            let _ = timeout(LEVEL_TIMEOUT, self.0.subscribe().wait_for(|known| known.level >= version)).await;
        }
    }

    /// Waits until the server of a new connection has answered, for a moment at most.
    pub(crate) async fn begun(&self) {
        let _ = timeout(SETTLE_TIMEOUT, self.0.subscribe().wait_for(|known| known.is_begun)).await;
    }

    /// Records that the server knows the log level of this change.
    pub(super) fn set_level(&self, version: u64) {
        self.0.send_if_modified(|known| {
            let is_news = known.level < version;
            known.level = known.level.max(version);
            is_news
        });
    }

    /// Records that everything that was wanted at the beginning has an answer.
    pub(super) fn set_begun(&self) {
        self.0.send_if_modified(|known| !std::mem::replace(&mut known.is_begun, true));
    }

    /// Records one answer; `None` forgets an earlier one.
    pub(super) fn set(&self, topic: &Topic, answer: Option<TopicAnswer>) {
        self.0.send_modify(|known| {
            known.leaving.remove(topic);
            match answer {
                Some(answer) => known.topics.insert(topic.clone(), answer),
                None => known.topics.remove(topic),
            };
        });
    }

    /// Records that the server is being told that nobody wants the topic.
    pub(super) fn set_leaving(&self, topic: &Topic) {
        self.0.send_modify(|known| {
            known.topics.remove(topic);
            known.leaving.insert(topic.clone());
        });
    }

    /// Records the answers about all topics.
    pub(super) fn set_all(&self, version: u64, answers: impl IntoIterator<Item = (Topic, Granted)>) {
        let answers = answers.into_iter().map(|(topic, granted)| (topic, TopicAnswer { version, granted }));
        self.0.send_modify(|known| known.topics = answers.collect());
    }

    /// True if the server notifies about this topic.
    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.0.borrow().topics.get(topic).is_some_and(|answer| matches!(answer.granted, Granted::Yes))
    }
}

// === impl TopicAnswer ===

impl TopicAnswer {
    /// True if it answers an attempt of this change.
    pub(super) const fn holds_for(&self, version: u64) -> bool {
        matches!(self.granted, Granted::Yes) || self.version >= version
    }
}
