//! Recent clients of one user: for status pages, and so that a returning client's description is parsed only once.
//!
//! The table is separate because of its limits: a user with many clients loses only their own, by last use, according
//! to the gateway's clock.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::RwLock;

use crate::{
    mcp::{Capabilities, ClientInfo, Revision},
    model::{Caller, Endpoint, GrantId, Rights, UserId, status::SessionStatus},
    support::{FastMap, Timestamp},
};

/// Maximum number of clients of one user. One more replaces the least recently used.
const MAX_PER_USER: usize = 100;
/// Maximum number of clients of all users. Beyond it, a user without known clients is not shown.
const MAX_CLIENTS: usize = 10_000;
/// Maximum size of a stored description in bytes. A longer one is parsed with each request.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// A client's description of itself, as slices of its request.
#[derive(Debug, Clone)]
pub(crate) struct ClientDescription {
    pub(crate) revision: Revision,
    /// The text of its `Implementation` object.
    pub(crate) implementation: Bytes,
    /// The text of its capabilities.
    pub(crate) capabilities: Bytes,
}

/// The recent clients of one user.
#[derive(Debug, Default)]
pub(super) struct RecentClients {
    /// The key is a digest of API key, endpoint and client with a random key, so that a client cannot choose it.
    clients: RwLock<FastMap<u64, RecentClient>>,
    key: RandomState,
}

/// One client at one endpoint, by one API key.
#[derive(Debug)]
struct RecentClient {
    user: UserId,
    name: String,
    rights: Rights,
    grant: Option<GrantId>,
    revision: Revision,
    /// The parsed description; `None` if it is too long to be stored.
    info: Option<Arc<ClientInfo>>,
    endpoint: String,
    first: Timestamp,
    /// Time of the last request, in milliseconds since the Unix epoch.
    last: AtomicI64,
}

// === impl ClientDescription ===

impl ClientDescription {
    /// Parses the description. The result does not borrow the request's text.
    fn read(&self) -> Arc<ClientInfo> {
        Arc::new(ClientInfo {
            revision: self.revision,
            implementation: Bytes::copy_from_slice(&self.implementation),
            capabilities: Capabilities::new(Bytes::copy_from_slice(&self.capabilities)),
        })
    }

    /// True if parsing this description would yield `info`.
    fn is(&self, info: &ClientInfo) -> bool {
        self.revision == info.revision
            && self.capabilities == *info.capabilities.json()
            && self.implementation == info.implementation
    }
}

// === impl RecentClients ===

impl RecentClients {
    /// Records a request of this caller, and returns its client. `all` counts the clients of all users.
    pub(super) fn note(
        &self,
        caller: &Caller,
        endpoint: &Endpoint,
        description: &ClientDescription,
        all: &AtomicUsize,
        now: Timestamp,
    ) -> Arc<ClientInfo> {
        let digest = self.key.hash_one((&caller.key, endpoint, &description.implementation));
        if let Some(client) = self.clients.read().get(&digest)
            && client.rights == caller.rights
            && let Some(info) = client.info.as_ref().filter(|info| description.is(info))
        {
            client.last.store(now.as_millis(), Ordering::Relaxed);
            return Arc::clone(info);
        }
        let info = description.read();
        let is_short = info.implementation.len() + info.capabilities.json().len() <= MAX_DESCRIPTION;
        let (remembered, name) = (is_short.then(|| Arc::clone(&info)), info.display());
        let mut clients = self.clients.write();
        if let Some(client) = clients.get_mut(&digest) {
            client.rights = caller.rights.clone();
            client.grant.clone_from(&caller.grant);
            client.revision = info.revision;
            client.info = remembered;
            client.last = AtomicI64::new(now.as_millis());
            return info;
        }
        if clients.len() >= MAX_PER_USER || all.load(Ordering::Relaxed) >= MAX_CLIENTS {
            let oldest = clients.iter().min_by_key(|(_, client)| client.last()).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { return info };
            clients.remove(&oldest);
            all.fetch_sub(1, Ordering::Relaxed);
        }
        let client = RecentClient {
            user: caller.user.clone(),
            name,
            rights: caller.rights.clone(),
            grant: caller.grant.clone(),
            revision: info.revision,
            info: remembered,
            endpoint: endpoint.to_string(),
            first: now,
            last: AtomicI64::new(now.as_millis()),
        };
        clients.insert(digest, client);
        all.fetch_add(1, Ordering::Relaxed);
        info
    }

    /// Removes clients without a request after `since`; returns their number.
    pub(super) fn forget(&self, since: Timestamp) -> usize {
        let mut clients = self.clients.write();
        let before = clients.len();
        clients.retain(|_, client| client.last() > since);
        before - clients.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.read().is_empty()
    }

    /// The clients with a request after `since`, each with the time of its first request.
    pub(super) fn status(&self, since: Timestamp, now: Timestamp) -> Vec<(Timestamp, SessionStatus)> {
        let clients = self.clients.read();
        let status = |client: &RecentClient| SessionStatus {
            id: None,
            user: client.user.to_string(),
            key_name: None,
            client: client.name.clone(),
            endpoint: client.endpoint.clone(),
            protocol_version: client.revision.to_string(),
            idle_seconds: now.since(client.last()).as_secs(),
            rights: Some(client.rights.clone()),
            grant: client.grant.clone(),
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
    use super::*;

    fn described(implementation: &str, capabilities: &str) -> ClientDescription {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (implementation, capabilities) = (bytes(implementation), bytes(capabilities));
        ClientDescription { revision: Revision::NEWEST, implementation, capabilities }
    }

    #[test]
    fn a_client_is_read_once_and_again_when_it_changes() {
        let (clients, all, now) = (RecentClients::default(), AtomicUsize::new(0), Timestamp::from_seconds(1));
        let caller = Caller::gateway();
        let note = |description: &ClientDescription| clients.note(&caller, &Endpoint::MERGED, description, &all, now);
        let (one, able) = (described(r#"{"name":"c"}"#, "{}"), described(r#"{"name":"c"}"#, r#"{"sampling":{}}"#));
        assert!(Arc::ptr_eq(&note(&one), &note(&one)));
        assert_eq!(note(&able).capabilities.key(), "sampling()");
        assert_eq!(note(&one).capabilities.key(), "");
        let long = described(&format!(r#"{{"name":"{}"}}"#, "x".repeat(MAX_DESCRIPTION)), "{}");
        assert!(!Arc::ptr_eq(&note(&long), &note(&long)), "a long description is not remembered");
        assert_eq!(all.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_user_with_many_clients_pushes_out_none_but_its_own() {
        let (many, one, all) = (RecentClients::default(), RecentClients::default(), AtomicUsize::new(0));
        let client = |number: usize| described(&format!(r#"{{"name":"c{number}","version":"1"}}"#), "{}");
        let now = Timestamp::from_seconds(1);
        let caller = Caller::gateway();
        one.note(&caller, &Endpoint::MERGED, &client(0), &all, now);
        for number in 0..MAX_PER_USER * 2 {
            many.note(&caller, &Endpoint::MERGED, &client(number), &all, now);
        }
        assert_eq!(all.load(Ordering::Relaxed), MAX_PER_USER + 1);
        assert_eq!(one.status(Timestamp::from_seconds(0), now).len(), 1);
        assert_eq!(many.forget(now) + one.forget(now), MAX_PER_USER + 1);
    }
}
