//! State of the shared `subscriptions/listen` of one connection: what is wanted, and what the server acknowledged. Knows
//! nothing of how it is listened to.

use std::{collections::HashSet, time::Duration};

use tokio::{sync::watch, time::timeout};

use crate::backend::subscriptions::Topic;

/// The time in which a server has to acknowledge what a client subscribes to.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is wanted of the listen, and what the server has acknowledged.
#[derive(Debug)]
pub(crate) struct ListenState {
    /// Counts the changes of what is wanted.
    pub(super) wanted: watch::Sender<u64>,
    pub(super) acknowledged: watch::Sender<Acknowledged>,
}

/// What the server has acknowledged.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged {
    /// The count up to which it did.
    pub(super) upto: u64,
    /// The topics that it tells of.
    pub(super) topics: HashSet<Topic>,
}

impl Default for ListenState {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(0), acknowledged: watch::Sender::new(Acknowledged::default()) }
    }
}

impl ListenState {
    /// Sees to it that what the clients want is listened to; gives those of `topics` that the server tells of, or `None` if it
    /// does not say so in time.
    pub(crate) async fn honoured(&self, topics: Vec<Topic>) -> Option<Vec<Topic>> {
        let count = self.want_anew();
        let mut acknowledged = self.acknowledged.subscribe();
        let honoured = async {
            let acknowledged = acknowledged.wait_for(|acknowledged| acknowledged.upto >= count).await.ok()?;
            Some(topics.into_iter().filter(|topic| acknowledged.topics.contains(topic)).collect())
        };
        timeout(ACKNOWLEDGE_TIMEOUT, honoured).await.ok().flatten()
    }

    /// Notes that what the clients want has changed.
    pub(crate) fn want_anew(&self) -> u64 {
        let mut count = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            count = *wanted;
        });
        count
    }

    /// Notes what the server acknowledges.
    pub(super) fn acknowledge(&self, upto: u64, topics: HashSet<Topic>) {
        self.acknowledged.send_replace(Acknowledged { upto, topics });
    }

    /// Whether the server has acknowledged this topic.
    pub(super) fn has_acknowledged(&self, topic: &Topic) -> bool {
        self.acknowledged.borrow().topics.contains(topic)
    }
}
