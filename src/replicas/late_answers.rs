//! Messages that could not be carried in time, kept for the answers in them. A client sends an answer only once, and a
//! call would wait for it forever: so it is carried again until the replica with the session accepts it. That replica
//! accepts only answers from it.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    hop::{Carried, Carrier},
    membership::Membership,
};
use crate::model::{ClientIp, ReplicaNumber, RequestPlace};

/// A message is carried again for this long: a server's request waits for an answer no longer.
const KEPT_FOR: Duration = Duration::from_mins(10);
const RETRIED_EVERY: Duration = Duration::from_secs(1);
/// Messages of one address, and of all; further ones are dropped.
const MAX_LATE: (usize, usize) = (16, 1_024);
/// Maximum size of a message in bytes, and maximum time to receive it.
const MAX_LATE_BODY: (usize, Duration) = (256 * 1024, Duration::from_secs(5));

/// The messages that wait. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LateAnswers {
    membership: Membership,
    carrier: Carrier,
    /// The number of waiting messages, by address.
    waiting: Arc<Mutex<HashMap<IpAddr, usize>>>,
    tasks: TaskTracker,
    end: CancellationToken,
}

/// A place for one message of an address.
struct LatePlace(Arc<Mutex<HashMap<IpAddr, usize>>>, IpAddr);

// === impl LateAnswers ===

impl LateAnswers {
    pub(super) fn new(membership: Membership, carrier: Carrier, end: CancellationToken) -> Self {
        Self { membership, carrier, waiting: Arc::default(), tasks: TaskTracker::new(), end }
    }

    /// Keeps a message for this replica, within the limits.
    pub(super) fn keep(&self, to: ReplicaNumber, parts: &Parts, body: Body) {
        if parts.method != Method::POST {
            return;
        }
        let from = parts.extensions.get().map_or(Ipv4Addr::UNSPECIFIED.into(), |ClientIp(ip)| *ip);
        let Some(place) = self.place(from) else { return };
        let (late, mut parts) = (self.clone(), parts.clone());
        parts.extensions.insert(RequestPlace::Late);
        self.tasks.spawn(async move {
            let _place = place;
            let whole = timeout(MAX_LATE_BODY.1, Limited::new(body, MAX_LATE_BODY.0).collect()).await;
            if let Ok(Ok(body)) = whole {
                late.end.clone().run_until_cancelled(late.carry(to, parts, body.to_bytes())).await;
            }
        });
    }

    fn place(&self, from: IpAddr) -> Option<LatePlace> {
        let mut waiting = self.waiting.lock();
        let (own, all) = (waiting.get(&from).copied().unwrap_or_default(), waiting.values().sum::<usize>());
        if own >= MAX_LATE.0 || all >= MAX_LATE.1 {
            return None;
        }
        waiting.insert(from, own + 1);
        Some(LatePlace(Arc::clone(&self.waiting), from))
    }

    async fn carry(&self, to: ReplicaNumber, mut parts: Parts, body: Bytes) {
        let until = Instant::now() + KEPT_FOR;
        while Instant::now() < until {
            sleep(RETRIED_EVERY).await;
            // requests waiting there ended with it
            let Some(peer) = self.membership.known(to) else { return };
            if let Carried::Answered(_) = self.carrier.carry(to, &peer, &mut parts, body.clone().into()).await {
                return;
            }
        }
    }
}

impl Drop for LatePlace {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        if let Some(count) = waiting.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        model::ReplicaAddress,
        replicas::tunnel::Tunnels,
        storage::Storage,
        support::{MemoryBudget, SystemClock},
    };

    #[tokio::test]
    async fn one_address_keeps_few_messages_and_no_other_from_keeping_its_own() {
        let storage = Storage::for_tests(None).await.unwrap();
        let address = ReplicaAddress::parse("127.0.0.1:1").unwrap();
        let joined = Membership::join(storage, Arc::new(SystemClock), &address, BTreeSet::new());
        let membership = joined.await.unwrap();
        let carrier = Carrier::new(membership.clone(), Tunnels::default(), MemoryBudget::unbounded());
        let late = LateAnswers::new(membership, carrier, CancellationToken::new());
        let (greedy, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut places: Vec<_> = (0..MAX_LATE.0).map(|_| late.place(greedy).unwrap()).collect();
        assert!(late.place(greedy).is_none());
        assert!(late.place(other).is_some());
        places.pop();
        assert!(late.place(greedy).is_some());
        places.clear();
        assert!(late.waiting.lock().is_empty());
    }
}
