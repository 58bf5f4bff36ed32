//! Owners of what outlives its call on a connection: tasks, URL elicitations, late progress. Bounded for each owner.
//! `src/layers/owned_tasks.rs` decides who may reach a task.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use hashlink::LinkedHashMap;
use tokio::time::Instant;

use crate::model::{Owner, Requester};

/// Maximum number of entries of one owner; the oldest is removed. A task has two.
const MAX_ENTRIES: usize = 2_000;
/// Age at which an entry is removed: tasks are not kept for longer.
const LIFETIME: Duration = Duration::from_hours(24 * 7);
/// Interval between searches for old entries.
const SWEEP: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum OwnedId {
    /// A task's id (2025-11-25).
    Task(String),
    /// Id of an elicitation by URL (2025-11-25).
    Elicitation(String),
    /// A progress token of the gateway, in a call that created a task (2025-11-25: it stays valid with the task).
    Token(u64),
}

/// The owners, by task, elicitation or token.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    things: HashMap<OwnedId, CallOwner>,
    /// Entries of each owner with the time of their addition, the oldest first.
    owners: HashMap<Owner, LinkedHashMap<OwnedId, Instant>>,
    swept: Option<Instant>,
}

/// A client session and its progress token.
#[derive(Debug, Clone)]
pub(super) struct CallOwner {
    /// The user and the app.
    pub(super) owner: Owner,
    /// The client session, or the gateway.
    pub(super) holder: Requester,
    /// The client's own token, for [`OwnedId::Token`].
    pub(super) token: Option<Bytes>,
}

impl Ownership {
    /// Records the owner of a task, an elicitation or a token.
    pub(super) fn note(&mut self, thing: OwnedId, client: CallOwner) {
        let now = Instant::now();
        self.sweep(now);
        self.remove(&thing);
        let things = self.owners.entry(client.owner.clone()).or_default();
        things.insert(thing.clone(), now);
        let oldest = if things.len() > MAX_ENTRIES { things.pop_front() } else { None };
        if let Some((oldest, _)) = oldest {
            self.things.remove(&oldest);
        }
        self.things.insert(thing, client);
    }

    /// The owner of a task, an elicitation or a token; `None` if it is unknown.
    pub(super) fn owner(&self, thing: &OwnedId) -> Option<&CallOwner> {
        self.things.get(thing)
    }

    fn remove(&mut self, thing: &OwnedId) {
        let Some(client) = self.things.remove(thing) else { return };
        if let Some(things) = self.owners.get_mut(&client.owner) {
            things.remove(thing);
            if things.is_empty() {
                self.owners.remove(&client.owner);
            }
        }
    }

    /// Removes old entries, so that entries of owners who never come back do not stay.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        let is_old = |since: &Instant| now.duration_since(*since) >= LIFETIME;
        let old = |things: &LinkedHashMap<OwnedId, Instant>| {
            things.iter().take_while(|(_, since)| is_old(since)).map(|(thing, _)| thing.clone()).collect::<Vec<_>>()
        };
        let old: Vec<OwnedId> = self.owners.values().flat_map(old).collect();
        for thing in &old {
            self.remove(thing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Caller, UserId};

    fn client(user: &str) -> CallOwner {
        let owner = Caller { user: UserId::new(user), ..Caller::gateway() }.owner();
        CallOwner { owner, holder: Requester::Gateway, token: None }
    }

    fn task(id: usize) -> OwnedId {
        OwnedId::Task(id.to_string())
    }

    #[test]
    fn an_owner_with_many_things_displaces_only_its_own() {
        let mut known = Ownership::default();
        known.note(OwnedId::Elicitation("e".to_owned()), client("bob"));
        for id in 0..=MAX_ENTRIES {
            known.note(task(id), client("ann"));
        }
        assert!(known.owner(&task(0)).is_none() && known.owner(&task(MAX_ENTRIES)).is_some());
        assert!(known.owner(&OwnedId::Elicitation("e".to_owned())).is_some());
        known.note(task(1), client("bob"));
        assert_eq!(known.owner(&task(1)).map(|client| client.owner.clone()), Some(client("bob").owner));
        assert_eq!((known.owners[&client("ann").owner].len(), known.things.len()), (MAX_ENTRIES - 1, MAX_ENTRIES + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn old_entries_of_owners_who_never_come_back_are_removed() {
        let mut known = Ownership::default();
        known.note(task(1), client("ann"));
        tokio::time::advance(LIFETIME).await;
        known.note(task(2), client("bob"));
        assert!(known.owner(&task(1)).is_none() && known.owners.len() == 1);
    }
}
