//! Which clients without sessions were here of late, for people. Knows nothing of what they asked.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    mcp::ClientInfo,
    model::{Caller, Endpoint, KeyId, Rights, UserId, status::SessionStatus},
    support::Timestamp,
};

/// How many are remembered; the one that was here longest ago is forgotten for another.
const MOST: usize = 1_000;

/// The clients that were here.
#[derive(Debug)]
pub(super) struct Seen {
    clients: Mutex<HashMap<Name, Visit>>,
    /// How long each is remembered.
    keep: Duration,
}

/// One client of one user at one endpoint, by one API key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Name {
    user: UserId,
    key: Option<KeyId>,
    endpoint: String,
    implementation: Bytes,
}

#[derive(Debug)]
struct Visit {
    client: ClientInfo,
    rights: Rights,
    first: Timestamp,
    last: Timestamp,
}

impl Seen {
    /// None yet, and each for as long as a session may be idle.
    pub(super) fn new(keep: Duration) -> Self {
        Self { clients: Mutex::default(), keep }
    }

    /// Notes that a client is here.
    pub(super) fn note(&self, caller: &Caller, endpoint: &Endpoint, client: &ClientInfo, now: Timestamp) {
        let name = Name {
            user: caller.user.clone(),
            key: caller.key.clone(),
            endpoint: endpoint.to_string(),
            implementation: client.implementation.clone(),
        };
        let mut clients = self.clients.lock();
        if let Some(visit) = clients.get_mut(&name) {
            visit.last = now;
            if visit.rights != caller.rights {
                visit.rights = caller.rights.clone();
            }
            return;
        }
        if clients.len() >= MOST
            && let Some(oldest) = clients.iter().min_by_key(|(_, visit)| visit.last).map(|(name, _)| name.clone())
        {
            clients.remove(&oldest);
        }
        clients.insert(name, Visit { client: client.clone(), rights: caller.rights.clone(), first: now, last: now });
    }

    /// Those that were here of late, the first of them first.
    pub(super) fn status(&self, now: Timestamp) -> Vec<SessionStatus> {
        let mut clients = self.clients.lock();
        clients.retain(|_, visit| now.since(visit.last) < self.keep);
        let mut visits: Vec<_> = clients.iter().collect();
        visits.sort_by_key(|(_, visit)| visit.first);
        let status = |(name, visit): (&Name, &Visit)| SessionStatus {
            id: None,
            user: name.user.to_string(),
            client: visit.client.display(),
            endpoint: name.endpoint.clone(),
            protocol_version: visit.client.revision.to_string(),
            idle_seconds: now.since(visit.last).as_secs(),
            rights: Some(visit.rights.clone()),
        };
        visits.into_iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_shown_until_it_was_away_for_long() {
        let seen = Seen::new(Duration::from_mins(1));
        let endpoint = Endpoint::MERGED;
        for second in [0, 30] {
            let now = Timestamp::from_seconds(second);
            seen.note(&Caller::gateway(), &endpoint, &ClientInfo::gateway(), now);
        }
        let shown = seen.status(Timestamp::from_seconds(80));
        assert_eq!(shown.iter().map(|client| client.idle_seconds).collect::<Vec<_>>(), [50]);
        assert!(seen.status(Timestamp::from_seconds(90)).is_empty());
    }
}
