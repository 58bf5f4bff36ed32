//! The clients of one user that were here of late, for people. Knows nothing of their requests.

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

/// The bound of the clients of one user: one more takes the place of the one that was here longest ago.
const MAX_PER_USER: usize = 100;
/// The bound of the clients of all users; beyond, a user that has none remembered is not shown.
const MAX_CLIENTS: usize = 10_000;

/// The clients of one user that were here.
#[derive(Debug, Default)]
pub(super) struct RecentClients {
    /// Keyed by the digest of API key, endpoint and client under a random key: a client cannot choose it.
    clients: RwLock<HashMap<u64, RecentClient>>,
    key: RandomState,
}

/// One client at one endpoint, by one API key.
#[derive(Debug)]
struct RecentClient {
    user: UserId,
    name: String,
    rights: Rights,
    version: String,
    endpoint: String,
    first: Timestamp,
    /// In milliseconds.
    last: AtomicI64,
}

impl RecentClients {
    /// Notes that a client of this caller is here. `all` counts the clients of all users.
    pub(super) fn note(
        &self,
        (caller, endpoint): (&Caller, &Endpoint),
        client: &ClientInfo,
        all: &AtomicUsize,
        now: Timestamp,
    ) {
        let digest = self.key.hash_one((&caller.key, endpoint, &client.implementation));
        if let Some(client) = self.clients.read().get(&digest).filter(|client| client.rights == caller.rights) {
            client.last.store(now.as_millis(), Ordering::Relaxed);
            return;
        }
        let mut clients = self.clients.write();
        if let Some(client) = clients.get_mut(&digest) {
            client.rights = caller.rights.clone();
            client.last = AtomicI64::new(now.as_millis());
            return;
        }
        if clients.len() >= MAX_PER_USER || all.load(Ordering::Relaxed) >= MAX_CLIENTS {
            let oldest = clients.iter().min_by_key(|(_, client)| client.last()).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { return };
            clients.remove(&oldest);
            all.fetch_sub(1, Ordering::Relaxed);
        }
        let client = RecentClient {
            user: caller.user.clone(),
            name: client.display(),
            rights: caller.rights.clone(),
            version: client.revision.to_string(),
            endpoint: endpoint.to_string(),
            first: now,
            last: AtomicI64::new(now.as_millis()),
        };
        clients.insert(digest, client);
        all.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets those that were not here after `since`; gives their number.
    pub(super) fn forget(&self, since: Timestamp) -> usize {
        let mut clients = self.clients.write();
        let before = clients.len();
        clients.retain(|_, client| client.last() > since);
        before - clients.len()
    }

    /// Returns `true` if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.read().is_empty()
    }

    /// Those that were here after `since`, with when they came first.
    pub(super) fn status(&self, since: Timestamp, now: Timestamp) -> Vec<(Timestamp, SessionStatus)> {
        let clients = self.clients.read();
        let status = |client: &RecentClient| SessionStatus {
            id: None,
            user: client.user.to_string(),
            client: client.name.clone(),
            endpoint: client.endpoint.clone(),
            protocol_version: client.version.clone(),
            idle_seconds: now.since(client.last()).as_secs(),
            rights: Some(client.rights.clone()),
        };
        clients.values().filter(|client| client.last() > since).map(|client| (client.first, status(client))).collect()
    }
}

impl RecentClient {
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
        let (many, one, all) = (RecentClients::default(), RecentClients::default(), AtomicUsize::new(0));
        let client = |number: usize| ClientInfo {
            implementation: Bytes::from(format!(r#"{{"name":"c{number}","version":"1"}}"#)),
            ..ClientInfo::gateway()
        };
        let now = Timestamp::from_seconds(1);
        let caller = Caller::gateway();
        one.note((&caller, &Endpoint::MERGED), &client(0), &all, now);
        for number in 0..MAX_PER_USER * 2 {
            many.note((&caller, &Endpoint::MERGED), &client(number), &all, now);
        }
        assert_eq!(all.load(Ordering::Relaxed), MAX_PER_USER + 1);
        assert_eq!(one.status(Timestamp::from_seconds(0), now).len(), 1);
        assert_eq!(many.forget(now) + one.forget(now), MAX_PER_USER + 1);
    }
}
