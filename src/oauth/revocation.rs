//! The index of what may be revoked: who holds a stream or a cached token learns of it at once (`OA-131`). Knows nothing
//! of streams and of SQL.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Error, OAuth, access_token::Claims};
use crate::{storage::Revocation, support::Timestamp};

/// How often other processes' revocations are looked for.
const POLL: Duration = Duration::from_millis(500);
/// How often what is of no use any more is cleared away, in polls: every 10 minutes.
const PURGE_EVERY: u32 = 1200;
/// How long an entry is kept after the last credential on it ended: a call that runs may go on past that end.
const KEPT: Duration = Duration::from_hours(24);

/// For each grant, key and token that somebody relies on, what is cancelled when it is revoked.
#[derive(Debug, Default)]
pub struct RevocationIndex(Mutex<HashMap<Revocation, Entry>>);

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

impl OAuth {
    /// Follows what other processes revoke on the same database, every 500 ms (`OA-131`), writes down what was used, and
    /// clears away what lapsed, until `cancel`. Run it on the app's task tracker.
    pub async fn watch_revocations(&self, cancel: CancellationToken) {
        let mut timer = tokio::time::interval(POLL);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut round: u32 = 0;
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            if let Err(error) = self.sync().await {
                tracing::warn!(%error, "revocations could not be read; tried again in 500 ms");
            }
            // at the start too: what expired while nothing ran goes before it is in the way
            let due = round.is_multiple_of(PURGE_EVERY);
            round = round.wrapping_add(1);
            if due && let Err(error) = self.purge().await {
                tracing::warn!(%error, "what lapsed could not be cleared away; tried again in 10 min");
            }
        }
        if let Err(error) = self.write_uses().await {
            tracing::warn!(%error, "what was used last could not be written down");
        }
    }

    /// One round: reads what was revoked since the last, by whomever, and writes down what was used.
    pub async fn sync(&self) -> Result<(), Error> {
        self.write_uses().await?;
        self.0.storage.retire_keys(self.0.clock.now()).await?;
        let mut seen = self.0.seen.lock().await;
        loop {
            let news = self.0.storage.revocations_after(*seen).await?;
            for (sequence, revocation) in &news {
                self.0.index.revoke(revocation);
                *seen = *sequence;
            }
            if news.len() < 1000 {
                return Ok(());
            }
        }
    }

    /// Clears away what lapsed.
    pub async fn purge(&self) -> Result<(), Error> {
        let now = self.0.clock.now();
        self.0.index.purge(now);
        self.purge_clients(now).await?;
        Ok(self.0.storage.purge_authorization(now).await?)
    }

    /// Writes down which keys, grants and tokens were used since the last round; no call waits for it.
    async fn write_uses(&self) -> Result<(), Error> {
        let now = self.0.clock.now();
        let uses = std::mem::take(&mut *self.0.uses.lock());
        for key in uses.keys {
            self.0.storage.touch_key(&key, now).await?;
        }
        for grant in uses.grants {
            self.0.storage.touch_grant(&grant, now).await?;
        }
        for generation in uses.generations {
            self.0.storage.touch_generation(&generation, now).await?;
        }
        Ok(())
    }

    /// Writes the uses down now, where the answer depends on them.
    pub(super) async fn settle_uses(&self) -> Result<(), Error> {
        self.write_uses().await
    }
}
