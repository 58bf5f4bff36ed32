//! Which clients of one user were here of late, for people. Knows nothing of what they asked.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicI64, AtomicUsize, Ordering},
};

use parking_lot::RwLock;

use crate::{
    mcp::ClientInfo,
    model::{Caller, Endpoint, Rights, UserId, status::SessionStatus},
    support::Timestamp,
};

/// How many clients of one user are remembered; the one that was here longest ago is forgotten for another.
const MOST_OF_ONE: usize = 100;
/// How many clients are remembered in all; beyond, a user that has none remembered is not shown.
const MOST: usize = 10_000;

/// The clients of one user that were here.
#[derive(Debug, Default)]
pub(super) struct Visits {
    /// By the digest of API key, endpoint and client, under a random key: a client cannot choose it.
    clients: RwLock<HashMap<u64, Visit>>,
    key: RandomState,
}

/// One client at one endpoint, by one API key.
#[derive(Debug)]
struct Visit {
    user: UserId,
    client: String,
    rights: Rights,
    version: String,
    endpoint: String,
    first: Timestamp,
    /// In milliseconds.
    last: AtomicI64,
}

impl Visits {
    /// Notes that a client of this caller is here. `all` counts the clients of all users.
    pub(super) fn note(
        &self,
        (caller, endpoint): (&Caller, &Endpoint),
        client: &ClientInfo,
        all: &AtomicUsize,
        now: Timestamp,
    ) {
        let name = self.key.hash_one((&caller.key, endpoint, &client.implementation));
        if let Some(visit) = self.clients.read().get(&name).filter(|visit| visit.rights == caller.rights) {
            visit.last.store(now.as_millis(), Ordering::Relaxed);
            return;
        }
        let mut clients = self.clients.write();
        if let Some(visit) = clients.get_mut(&name) {
            visit.rights = caller.rights.clone();
            visit.last = AtomicI64::new(now.as_millis());
            return;
        }
        if clients.len() >= MOST_OF_ONE || all.load(Ordering::Relaxed) >= MOST {
            let oldest = clients.iter().min_by_key(|(_, visit)| visit.last()).map(|(name, _)| *name);
            let Some(oldest) = oldest else { return };
            clients.remove(&oldest);
            all.fetch_sub(1, Ordering::Relaxed);
        }
        let visit = Visit {
            user: caller.user.clone(),
            client: client.display(),
            rights: caller.rights.clone(),
            version: client.revision.to_string(),
            endpoint: endpoint.to_string(),
            first: now,
            last: AtomicI64::new(now.as_millis()),
        };
        clients.insert(name, visit);
        all.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets those that were not here after `since`; gives their number.
    pub(super) fn forget(&self, since: Timestamp) -> usize {
        let mut clients = self.clients.write();
        let before = clients.len();
        clients.retain(|_, visit| visit.last() > since);
        before - clients.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.read().is_empty()
    }

    /// Those that were here after `since`, with when they came first.
    pub(super) fn status(&self, since: Timestamp, now: Timestamp) -> Vec<(Timestamp, SessionStatus)> {
        let clients = self.clients.read();
        let status = |visit: &Visit| SessionStatus {
            id: None,
            user: visit.user.to_string(),
            client: visit.client.clone(),
            endpoint: visit.endpoint.clone(),
            protocol_version: visit.version.clone(),
            idle_seconds: now.since(visit.last()).as_secs(),
            rights: Some(visit.rights.clone()),
        };
        clients.values().filter(|visit| visit.last() > since).map(|visit| (visit.first, status(visit))).collect()
    }
}

impl Visit {
    fn last(&self) -> Timestamp {
        Timestamp::from_millis(self.last.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_user_with_many_clients_pushes_out_none_but_its_own() {
        let (many, one, all) = (Visits::default(), Visits::default(), AtomicUsize::new(0));
        let client = |number: usize| ClientInfo {
            implementation: Bytes::from(format!(r#"{{"name":"c{number}","version":"1"}}"#)),
            ..ClientInfo::gateway()
        };
        let now = Timestamp::from_seconds(1);
        let caller = Caller::gateway();
        one.note((&caller, &Endpoint::MERGED), &client(0), &all, now);
        for number in 0..MOST_OF_ONE * 2 {
            many.note((&caller, &Endpoint::MERGED), &client(number), &all, now);
        }
        assert_eq!(all.load(Ordering::Relaxed), MOST_OF_ONE + 1);
        assert_eq!(one.status(Timestamp::from_seconds(0), now).len(), 1);
        assert_eq!(many.forget(now) + one.forget(now), MOST_OF_ONE + 1);
    }
}
