//! The index of what may be revoked: who holds a stream or a cached token learns of it at once (`OA-131`). Knows nothing
//! of streams and of SQL.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{access_token::Claims, core::Core, error::Error, uses::Uses};
use crate::{model::GrantId, storage::Revocation, support::Timestamp};

/// How long an entry is kept after the last credential on it ended: a call that runs may go on past that end.
const KEPT: Duration = Duration::from_hours(24);

/// For each grant, key and token that somebody relies on, what is cancelled when it is revoked.
#[derive(Debug, Default)]
pub struct RevocationIndex(Mutex<HashMap<Revocation, Entry>>);

/// Revocation in the store and in this process.
pub(super) struct Revocations {
    core: Core,
    uses: Arc<Uses>,
    index: RevocationIndex,
    /// The number of the newest revocation that the index knows.
    seen: tokio::sync::Mutex<i64>,
}

#[derive(Debug)]
struct Entry {
    revoked: CancellationToken,
    until: Timestamp,
}

// === impl RevocationIndex ===

impl RevocationIndex {
    /// What is cancelled when `subject` is revoked. Take it before asking the store whether it is revoked already: so
    /// nothing is missed in between.
    pub fn watch(&self, subject: Revocation, until: Timestamp) -> CancellationToken {
        let mut entries = self.0.lock();
        let entry = entries.entry(subject).or_insert_with(|| Entry { revoked: CancellationToken::new(), until });
        entry.until = entry.until.max(until);
        entry.revoked.clone()
    }

    /// What is cancelled when this access token, its generation or its grant is revoked.
    pub fn watch_token(&self, grant: &CancellationToken, claims: &Claims, until: Timestamp) -> CancellationToken {
        let mut entries = self.0.lock();
        let subject = Revocation::Generation(claims.generation().to_owned());
        let generation = entries.entry(subject).or_insert_with(|| Entry { revoked: grant.child_token(), until });
        generation.until = generation.until.max(until);
        let revoked = generation.revoked.child_token();
        let subject = Revocation::Token(claims.jti.clone());
        entries.entry(subject).or_insert(Entry { revoked, until }).revoked.clone()
    }

    /// Cancels what rests on `subject`.
    pub fn revoke(&self, subject: &Revocation) {
        let entry = self.0.lock().remove(subject);
        if let Some(entry) = entry {
            entry.revoked.cancel();
        }
    }

    /// Forgets what nobody can rely on any more.
    pub fn purge(&self, now: Timestamp) {
        self.0.lock().retain(|_, entry| now.since(entry.until) < KEPT);
    }
}

// === impl Revocations ===

impl Revocations {
    /// Follows the store from its newest revocation on.
    pub(super) async fn open(core: Core, uses: Arc<Uses>) -> Result<Self, Error> {
        let seen = core.storage.revocations().newest().await?;
        Ok(Self { core, uses, index: RevocationIndex::default(), seen: tokio::sync::Mutex::new(seen) })
    }

    /// What is cancelled when something is revoked.
    pub(super) const fn index(&self) -> &RevocationIndex {
        &self.index
    }

    /// One round: reads what was revoked since the last, by whomever, and writes down what was used.
    pub(super) async fn sync(&self) -> Result<(), Error> {
        self.uses.write().await?;
        self.core.storage.keys().retire(self.core.now()).await?;
        let mut seen = self.seen.lock().await;
        loop {
            let news = self.core.storage.revocations().after(*seen).await?;
            for (sequence, revocation) in &news {
                self.index.revoke(revocation);
                *seen = *sequence;
            }
            if news.len() < 1000 {
                return Ok(());
            }
        }
    }

    /// Revokes a grant, in the store and at once in this process. False if there is no such live one.
    pub(super) async fn end_grant(&self, grant: &GrantId) -> Result<bool, Error> {
        let done = self.core.storage.grants().revoke(grant, self.core.now()).await?;
        self.index.revoke(&Revocation::Grant(grant.clone()));
        Ok(done)
    }
}
