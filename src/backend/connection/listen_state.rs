//! State of the shared `subscriptions/listen` of one connection: changes of its filter, and the server's
//! acknowledgement. Knows nothing of the exchange.

use std::{collections::HashSet, time::Duration};

use tokio::{sync::watch, time::timeout};

use crate::backend::subscriptions::Topic;

/// Time for a server to acknowledge a client's subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);

/// State of the shared listen.
#[derive(Debug)]
pub(crate) struct ListenState {
    /// Number of changes of the filter.
    pub(super) wanted: watch::Sender<u64>,
    pub(super) acknowledged: watch::Sender<Acknowledged>,
}

/// The server's acknowledgement.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged {
    /// The number of changes that it covers.
    pub(super) upto: u64,
    /// The acknowledged topics.
    pub(super) topics: HashSet<Topic>,
}

impl Default for ListenState {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(0), acknowledged: watch::Sender::new(Acknowledged::default()) }
    }
}

impl ListenState {
    /// Requests an update of the listen; returns those `topics` that the server acknowledges, or `None` if it does not
    /// answer in time.
    pub(crate) async fn acknowledged_of(&self, topics: Vec<Topic>) -> Option<Vec<Topic>> {
        let count = self.update_filter();
        let mut acknowledged = self.acknowledged.subscribe();
        let acknowledged_of = async {
            let acknowledged = acknowledged.wait_for(|acknowledged| acknowledged.upto >= count).await.ok()?;
            Some(topics.into_iter().filter(|topic| acknowledged.topics.contains(topic)).collect())
        };
        timeout(ACKNOWLEDGE_TIMEOUT, acknowledged_of).await.ok().flatten()
    }

    /// Records a change of the filter.
    pub(crate) fn update_filter(&self) -> u64 {
        let mut count = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            count = *wanted;
        });
        count
    }

    /// Stores an acknowledgement.
    pub(super) fn acknowledge(&self, upto: u64, topics: HashSet<Topic>) {
        self.acknowledged.send_replace(Acknowledged { upto, topics });
    }

    /// True if the server has acknowledged this topic.
    pub(super) fn has_acknowledged(&self, topic: &Topic) -> bool {
        self.acknowledged.borrow().topics.contains(topic)
    }
}
