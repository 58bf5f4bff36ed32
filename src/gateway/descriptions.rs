//! Merged descriptions of servers, kept until one of the servers may have changed: opening a session costs the same for
//! any number of servers.

use std::sync::{Arc, Weak};

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::alike::Alike;
use crate::{
    mcp::{Context, Payload},
    model::{AllowedBackends, Requester, Target, UserId},
    support::{
        Account, Digest,
        memory::{Charge, Holding, Listed, Relief},
    },
};

const MAX_DESCRIPTIONS: usize = 1_024;

pub(crate) struct Descriptions {
    kept: Mutex<KeptDescriptions>,
    alike: Alike<Digest, MergedDescription>,
    account: Account,
    _listed: Listed,
}

struct KeptDescriptions {
    by_key: LruCache<DescriptionKey, KeptDescription>,
    changes: u64,
}

/// Everything that a description depends on, except the servers themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DescriptionKey {
    target: Target,
    rights: AllowedBackends,
    capabilities: String,
    /// The user, if servers may describe themselves differently to each user; otherwise `None`.
    user: Option<UserId>,
}

/// A description, valid until its sources must be checked again.
struct KeptDescription {
    merged: Arc<MergedDescription>,
    until: Instant,
}

/// A description, shared by all keys for which it is equal.
struct MergedDescription {
    result: Payload,
    _charge: Charge,
}

// === impl Descriptions ===

impl Descriptions {
    /// An empty store, charged to this account.
    pub(crate) fn new(account: Account) -> Arc<Self> {
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let kept = KeptDescriptions { by_key: LruCache::new(MAX_DESCRIPTIONS), changes: 0 };
            let holding: Weak<Self> = Weak::clone(itself);
            let listed = account.list(holding);
            Self { kept: Mutex::new(kept), alike: Alike::default(), account, _listed: listed }
        })
    }

    pub(crate) fn changes(&self) -> u64 {
        self.kept.lock().changes
    }

    /// The description with this key, if there is one.
    pub(crate) fn find(&self, key: &DescriptionKey) -> Option<Payload> {
        let mut kept = self.kept.lock();
        kept.by_key.get(key).filter(|one| Instant::now() < one.until).map(|one| one.merged.result.clone())
    }

    /// Keeps a description until `until`, unless something changed since `changes` was read, or memory is short.
    pub(crate) fn keep(&self, key: DescriptionKey, result: &Payload, changes: u64, until: Instant) {
        let Ok(charge) = Charge::of(self.account.clone(), result.json().len()) else { return };
        let merged = MergedDescription { result: result.clone(), _charge: charge };
        let merged = self.alike.shared(Digest::sha256(result.json()), merged, |one, other| one.result == other.result);
        let mut kept = self.kept.lock();
        let replaced =
            if kept.changes == changes { kept.by_key.insert(key, KeptDescription { merged, until }) } else { None };
        drop(kept);
        drop(replaced);
    }

    /// Removes the descriptions that depend on the servers of this user, or all descriptions.
    pub(crate) fn forget(&self, user: Option<&UserId>) {
        let mut kept = self.kept.lock();
        kept.changes += 1;
        let dropped: Vec<KeptDescription> = if user.is_some() {
            let keys = kept.by_key.iter().map(|(key, _)| key).filter(|key| key.user.as_ref() == user);
            let keys: Vec<DescriptionKey> = keys.cloned().collect();
            keys.iter().filter_map(|key| kept.by_key.remove(key)).collect()
        } else {
            kept.by_key.drain().map(|(_, one)| one).collect()
        };
        drop(kept);
        drop(dropped);
    }
}

impl Holding for Descriptions {
    fn give_up(&self, _: &Account, relief: Relief) {
        if relief != Relief::Lists {
            return;
        }
        let Some(mut kept) = self.kept.try_lock() else { return };
        let dropped: Vec<_> = kept.by_key.drain().collect();
        drop(kept);
        drop(dropped);
    }
}

// === impl DescriptionKey ===

impl DescriptionKey {
    /// The key for the client of `context` at this endpoint. `None` for a session, if servers may describe themselves
    /// differently to it.
    pub(crate) fn of(target: &Target, context: &Context, differs_by_user: bool) -> Option<Self> {
        let caller = &context.caller;
        let user = match context.requester {
            _ if !differs_by_user => None,
            // the gateway opens sessions for all users
            Requester::Gateway => None,
            Requester::Request(_) | Requester::TasksOf(_) => Some(caller.user.clone()),
            Requester::Session(_) => return None,
        };
        let (rights, capabilities) = (caller.rights.backends.clone(), context.client.capabilities.key().to_owned());
        Some(Self { target: target.clone(), rights, capabilities, user })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{mcp::Revision, support::MemoryBudget};

    const MINUTE: Duration = Duration::from_mins(1);

    fn key(user: &str) -> DescriptionKey {
        let user = (!user.is_empty()).then(|| UserId::new(user));
        DescriptionKey { target: Target::Merged, rights: AllowedBackends::All, capabilities: String::new(), user }
    }

    fn payload(text: &str) -> Payload {
        Payload::of(Revision::V2026_07_28, &serde_json::json!({ "instructions": text }))
    }

    fn keep(descriptions: &Descriptions, user: &str, text: &str) {
        descriptions.keep(key(user), &payload(text), descriptions.changes(), Instant::now() + MINUTE);
    }

    fn has(descriptions: &Descriptions, user: &str) -> bool {
        descriptions.find(&key(user)).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_description_is_kept_until_it_is_due_or_something_has_changed() {
        let descriptions = Descriptions::new(Account::unbounded());
        for user in ["", "ann", "bob"] {
            keep(&descriptions, user, "x");
        }
        descriptions.forget(Some(&UserId::new("ann")));
        assert_eq!(["", "ann", "bob"].map(|user| has(&descriptions, user)), [true, false, true]);
        let before = descriptions.changes();
        descriptions.forget(None);
        assert_eq!(["", "ann", "bob"].map(|user| has(&descriptions, user)), [false; 3]);
        descriptions.keep(key("ann"), &payload("old"), before, Instant::now() + MINUTE);
        assert!(!has(&descriptions, "ann"), "it was made of what has changed since");
        keep(&descriptions, "ann", "x");
        tokio::time::advance(MINUTE).await;
        assert!(!has(&descriptions, "ann"));
    }

    #[tokio::test]
    async fn equal_descriptions_are_held_once_and_their_number_and_memory_are_bounded() {
        let (budget, long) = (MemoryBudget::new(16 << 20), "x".repeat(64 << 10));
        let descriptions = Descriptions::new(budget.process());
        for number in 0..2 * MAX_DESCRIPTIONS {
            keep(&descriptions, &number.to_string(), &long);
        }
        assert_eq!(descriptions.kept.lock().by_key.len(), MAX_DESCRIPTIONS);
        assert!(budget.in_use().held < 2 * long.len(), "{:?}", budget.in_use());
        for number in 0..2 * MAX_DESCRIPTIONS {
            keep(&descriptions, &format!("other {number}"), &format!("{number} {long}"));
        }
        assert!(budget.in_use().held <= 16 << 20);
        descriptions.give_up(&budget.process(), Relief::Lists);
        assert_eq!(budget.in_use().held, 0);
    }
}
