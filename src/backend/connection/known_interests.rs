//! The server's answers to the subscriptions and log levels of one connection, and the waits for them.
//!
//! A `version` is the number of a change of what the connection's sharer wants (`Interests`). An answer covers the
//! changes up to its version.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use crate::{backend::interests::Topic, mcp::ErrorObject};

/// Maximum wait at the end of a listen, until the server has handled the end, and on a new connection, until the server
/// has answered everything wanted.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that topics and the next level wait for the answer to a level. A busy server needs less. If topics went ahead,
/// calls would lose log messages in the meantime, because another level applies.
pub(super) const LEVEL_FIRST: Duration = Duration::from_secs(5);
/// Maximum wait of a call for its log level. Another client's level may have to be answered first.
const LEVEL_TIMEOUT: Duration = LEVEL_FIRST.saturating_mul(2);

/// The server's answers to what its clients want. Changes can be awaited.
#[derive(Debug, Default)]
pub(crate) struct KnownInterests(watch::Sender<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Number of the latest change whose log level the server has accepted or refused.
    level: u64,
    /// True once the server has answered everything that was wanted when the connection opened.
    is_begun: bool,
    topics: HashMap<Topic, TopicAnswer>,
    /// Topics that the gateway is unsubscribing from.
    leaving: HashSet<Topic>,
}

/// The server's answer about one topic.
#[derive(Debug, Clone)]
pub(super) struct TopicAnswer {
    /// Number of the latest change that it covers.
    pub(super) version: u64,
    pub(super) granted: Granted,
}

/// Outcome of a subscription.
#[derive(Debug, Clone)]
pub(crate) enum Granted {
    /// The server sends notifications about it.
    Yes,
    /// The server refused it, with this error.
    Refused(ErrorObject),
    /// The server left it out of its acknowledgement.
    LeftOut,
}

// === impl KnownInterests ===

impl KnownInterests {
    /// Waits for the server's answer about `topic` that covers the change `version`, or for any answer that grants it.
    pub(crate) async fn answer(&self, topic: &Topic, version: u64) -> Granted {
        let mut known = self.0.subscribe();
        let is_answered = |known: &Known| known.topics.get(topic).is_some_and(|answer| answer.holds_for(version));
        match known.wait_for(is_answered).await {
            Ok(known) => known.topics.get(topic).map_or(Granted::LeftOut, |answer| answer.granted.clone()),
            Err(_) => Granted::LeftOut,
        }
    }

    /// Waits until the gateway has unsubscribed from a topic, for at most [`SETTLE_TIMEOUT`].
    pub(crate) async fn left(&self, topic: &Topic) {
        let is_left = |known: &Known| !known.topics.contains_key(topic) && !known.leaving.contains(topic);
        let _ = timeout(SETTLE_TIMEOUT, self.0.subscribe().wait_for(is_left)).await;
    }

    /// Waits until the server knows the log level of the change `version`, for at most [`LEVEL_TIMEOUT`].
    pub(crate) async fn level_known(&self, version: u64) {
        if self.0.borrow().level < version {
            let _ = timeout(LEVEL_TIMEOUT, self.0.subscribe().wait_for(|known| known.level >= version)).await;
        }
    }

    /// Waits until the server has answered everything that was wanted when the connection opened, for at most
    /// [`SETTLE_TIMEOUT`].
    pub(crate) async fn begun(&self) {
        let _ = timeout(SETTLE_TIMEOUT, self.0.subscribe().wait_for(|known| known.is_begun)).await;
    }

    /// Records that the server knows the log level of the change `version`.
    pub(super) fn set_level(&self, version: u64) {
        self.0.send_if_modified(|known| {
            let is_news = known.level < version;
            known.level = known.level.max(version);
            is_news
        });
    }

    /// Records that everything wanted when the connection opened has an answer.
    pub(super) fn set_begun(&self) {
        self.0.send_if_modified(|known| !std::mem::replace(&mut known.is_begun, true));
    }

    /// Records one answer; `None` forgets the topic.
    pub(super) fn set(&self, topic: &Topic, answer: Option<TopicAnswer>) {
        self.0.send_modify(|known| {
            known.leaving.remove(topic);
            match answer {
                Some(answer) => known.topics.insert(topic.clone(), answer),
                None => known.topics.remove(topic),
            };
        });
    }

    /// Records that the gateway is unsubscribing from `topic`.
    pub(super) fn set_leaving(&self, topic: &Topic) {
        self.0.send_modify(|known| {
            known.topics.remove(topic);
            known.leaving.insert(topic.clone());
        });
    }

    /// Replaces the answers about all topics.
    pub(super) fn set_all(&self, version: u64, answers: impl IntoIterator<Item = (Topic, Granted)>) {
        let answers = answers.into_iter().map(|(topic, granted)| (topic, TopicAnswer { version, granted }));
        self.0.send_modify(|known| known.topics = answers.collect());
    }

    /// True if the server sends notifications about this topic.
    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.0.borrow().topics.get(topic).is_some_and(|answer| matches!(answer.granted, Granted::Yes))
    }
}

// === impl TopicAnswer ===

impl TopicAnswer {
    /// True if the answer is good for the change `version`.
    pub(super) const fn holds_for(&self, version: u64) -> bool {
        matches!(self.granted, Granted::Yes) || self.version >= version
    }
}
