//! Index of revocable credentials: cancels streams and cached tokens at once (`OA-131`). Knows nothing of streams and
//! of SQL.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    access_token::Claims, dependencies::OAuthDeps, error::OAuthError, signing::SigningKeys, usage::UsageRecorder,
};
use crate::{
    model::GrantId,
    storage::{RESTARTS_WITHIN, Revocation, RevocationFeed, StorageError},
    support::Timestamp,
};

/// Time for which an entry outlives the last credential: a running call may continue past the end of its credential.
const KEPT: Duration = Duration::from_hours(24);
/// Time without a read of the store after which a remembered verdict is not used before the next read.
const SILENCE: Duration = Duration::from_secs(1);
/// Maximum time of a read that tells if the database answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between reads that fail.
const TRIED_EVERY: Duration = Duration::from_millis(250);
/// Time without a read after which the store may have deleted revocations that were not read.
const LONG_SILENCE: Duration = Duration::from_hours(12);

/// Cancellation tokens of the grants, keys and tokens in use.
#[derive(Debug, Default)]
pub struct RevocationIndex(Mutex<HashMap<Revocation, RevocationEntry>>);

/// Revocations in the store and in this process.
pub(super) struct Revocations {
    deps: OAuthDeps,
    uses: Arc<UsageRecorder>,
    index: RevocationIndex,
    signing: Arc<SigningKeys>,
    feed: tokio::sync::Mutex<RevocationFeed>,
    /// Start of the last read of the feed that succeeded, in milliseconds.
    read: AtomicI64,
}

#[derive(Debug)]
struct RevocationEntry {
    revoked: CancellationToken,
    until: Timestamp,
}

// === impl RevocationIndex ===

impl RevocationIndex {
    /// Token that is cancelled when `subject` is revoked. Take it before the look-up in the store, so that no
    /// revocation is missed in between.
    pub fn watch(&self, subject: Revocation, until: Timestamp) -> CancellationToken {
        let mut entries = self.0.lock();
        let entry =
            entries.entry(subject).or_insert_with(|| RevocationEntry { revoked: CancellationToken::new(), until });
        entry.until = entry.until.max(until);
        entry.revoked.clone()
    }

    /// Token that is cancelled when this access token, its generation or its grant is revoked. An entry that is
    /// cancelled ended with what is above it, and begins anew: the store says if that still lives.
    pub fn watch_token(&self, grant: &CancellationToken, claims: &Claims, until: Timestamp) -> CancellationToken {
        let mut entries = self.0.lock();
        let mut below = |above: &CancellationToken, subject: Revocation| {
            let entry =
                entries.entry(subject).or_insert_with(|| RevocationEntry { revoked: above.child_token(), until });
            if entry.revoked.is_cancelled() {
                entry.revoked = above.child_token();
            }
            entry.until = entry.until.max(until);
            entry.revoked.clone()
        };
        let generation = below(grant, Revocation::Generation(claims.generation().to_owned()));
        below(&generation, Revocation::Token(claims.jti.clone()))
    }

    /// Cancels the token of `subject`.
    pub fn revoke(&self, subject: &Revocation) {
        let entry = self.0.lock().remove(subject);
        if let Some(entry) = entry {
            entry.revoked.cancel();
        }
    }

    /// Cancels all access tokens that are in use: each is verified anew when it comes next.
    pub fn end_tokens(&self) {
        let is_of_token = |subject: &Revocation| matches!(subject, Revocation::Generation(_) | Revocation::Token(_));
        let ended: Vec<_> = self.0.lock().extract_if(|subject, _| is_of_token(subject)).collect();
        for (_, entry) in ended {
            entry.revoked.cancel();
        }
    }

    /// Cancels all.
    fn end_all(&self) {
        let ended = std::mem::take(&mut *self.0.lock());
        for entry in ended.into_values() {
            entry.revoked.cancel();
        }
    }

    /// Removes entries that nobody can use any more.
    pub fn purge(&self, now: Timestamp) {
        self.0.lock().retain(|_, entry| now.since(entry.until) < KEPT);
    }
}

// === impl Revocations ===

impl Revocations {
    /// Starts after the newest revocation in the store.
    pub(super) async fn open(
        deps: OAuthDeps,
        uses: Arc<UsageRecorder>,
        signing: Arc<SigningKeys>,
    ) -> Result<Self, OAuthError> {
        let read = AtomicI64::new(deps.now().as_millis());
        let feed = tokio::sync::Mutex::new(deps.storage.revocation_feed().await?);
        Ok(Self { deps, uses, index: RevocationIndex::default(), signing, feed, read })
    }

    /// The index of this process.
    pub(super) const fn index(&self) -> &RevocationIndex {
        &self.index
    }

    /// Applies new revocations by any process, after those that are due at this moment.
    pub(super) async fn sync(&self) -> Result<(), OAuthError> {
        self.uses.write().await?;
        self.deps.storage.for_rounds().keys().retire(self.deps.now()).await?;
        self.read().await
    }

    /// Applies new revocations by any process.
    pub(super) async fn read(&self) -> Result<(), OAuthError> {
        self.read_from(&mut *self.feed.lock().await).await
    }

    /// True if remembered verdicts may be used: the store was read a moment ago, or this process alone uses it and
    /// applies what it revokes itself.
    pub(super) fn is_current(&self, now: Timestamp) -> bool {
        !self.deps.storage.is_shared() || self.silence(now) <= SILENCE
    }

    /// Applies what was revoked while nothing was read. Waits for a database that is away for as long as it restarts.
    pub(super) async fn catch_up(&self) -> Result<(), OAuthError> {
        let until = Instant::now() + RESTARTS_WITHIN;
        loop {
            let failed = match timeout_at(until, self.try_to_catch_up(TRIED_EVERY)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_) => StorageError::Silent.into(),
            };
            if Instant::now() >= until {
                return Err(failed);
            }
        }
    }

    /// True if the database answers at once.
    pub(super) async fn database_answers(&self) -> bool {
        timeout(PROBE_TIMEOUT, self.try_to_catch_up(Duration::ZERO)).await.is_ok_and(|read| read.is_ok())
    }

    /// One read serves all who wait, and after one that failed all wait for the same time.
    async fn try_to_catch_up(&self, pause: Duration) -> Result<(), OAuthError> {
        let mut feed = self.feed.lock().await;
        if self.silence(self.deps.now()) <= SILENCE {
            return Ok(());
        }
        let read = self.read_from(&mut feed).await;
        if read.is_err() {
            sleep(pause).await;
        }
        read
    }

    async fn read_from(&self, feed: &mut RevocationFeed) -> Result<(), OAuthError> {
        let started = self.deps.now();
        loop {
            let news = feed.read().await?;
            for revocation in &news {
                self.index.revoke(revocation);
            }
            if news.iter().any(|revocation| matches!(revocation, Revocation::SigningKey(_))) {
                self.signing.sync().await?;
                self.index.end_tokens();
            }
            if let Some(Revocation::Unknown(kind)) =
                news.iter().find(|revocation| matches!(revocation, Revocation::Unknown(_)))
            {
                tracing::warn!(
                    kind,
                    "a newer version revoked something that this one does not know: all that is in use is verified anew"
                );
                self.index.end_all();
            }
            if news.len() < RevocationFeed::PAGE {
                break;
            }
        }
        if self.silence(started) > LONG_SILENCE {
            self.index.end_all();
        }
        self.read.store(started.as_millis(), Ordering::Release);
        Ok(())
    }

    /// Time since the last read; a clock that was set back does not shorten it.
    fn silence(&self, now: Timestamp) -> Duration {
        Duration::from_millis(now.as_millis().abs_diff(self.read.load(Ordering::Acquire)))
    }

    /// Revokes a grant, in the store and in this process. Returns false if there is no such live grant.
    pub(super) async fn end_grant(&self, grant: &GrantId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.grants().revoke(grant, self.deps.now()).await?;
        self.index.revoke(&Revocation::Grant(grant.clone()));
        Ok(done)
    }
}
