//! Index of credentials that can be revoked: cancels streams and cached tokens at once (`OA-131`).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::broadcast,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{access_token::Claims, usage::UsageRecorder};
use crate::{
    model::{GrantId, KeyId, UserId},
    oauth::{dependencies::OAuthDeps, error::OAuthError, secrets::signing::SigningKeys},
    storage::{RESTARTS_WITHIN, Revocation, RevocationFeed, StorageError},
    support::Timestamp,
};

/// Time without a read of the store after which a remembered verdict waits for the next read.
const SILENCE: Duration = Duration::from_secs(1);
/// Maximum time of a read that checks whether the database answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between failed reads.
const TRIED_EVERY: Duration = Duration::from_millis(250);
/// Number of ends that are kept for a slow receiver.
const MAX_ENDED: usize = 1_024;
/// Time without a read after which the store may have deleted revocations that were not read.
const LONG_SILENCE: Duration = Duration::from_hours(12);

/// Cancellation tokens of the grants, keys and tokens in use. An entry is needed while its token is held: by a
/// remembered credential, or by a call or stream that outlives its credential.
#[derive(Debug, Default)]
pub struct RevocationIndex(Mutex<HashMap<Revocation, RevocationEntry>>);

/// Revocations in the store and in this process.
pub(in crate::oauth) struct Revocations {
    deps: OAuthDeps,
    uses: Arc<UsageRecorder>,
    index: RevocationIndex,
    signing: Arc<SigningKeys>,
    feed: tokio::sync::Mutex<RevocationFeed>,
    /// Start of the last successful read of the feed, in milliseconds.
    read: AtomicI64,
    /// Number of changes of rights that were read so far.
    rights: AtomicU64,
    /// Users who were disabled or deleted, apart from `ended`: whoever ends many grants displaces none of them.
    gone: broadcast::Sender<UserId>,
    ended: broadcast::Sender<EndedAccess>,
}

/// A key or grant that has ended, or whose rights have narrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedAccess {
    Key(KeyId),
    Grant(GrantId),
}

#[derive(Debug)]
struct RevocationEntry {
    revoked: Arc<CancellationToken>,
    /// The token of the parent entry, which is needed while this one is.
    _above: Option<Arc<CancellationToken>>,
}

// === impl RevocationIndex ===

impl RevocationIndex {
    /// A token that is cancelled when `subject` is revoked. Take it before the look-up in the store, so that no
    /// revocation in between is missed.
    pub fn watch(&self, subject: Revocation) -> Arc<CancellationToken> {
        Arc::clone(&self.0.lock().entry(subject).or_insert_with(|| RevocationEntry::new(None)).revoked)
    }

    /// A token that is cancelled when this access token, its generation or its grant is revoked. An entry that was
    /// cancelled with its parent starts again, because the store decides whether it is still alive.
    pub fn watch_token(&self, grant: &Arc<CancellationToken>, claims: &Claims) -> Arc<CancellationToken> {
        let mut entries = self.0.lock();
        let mut below = |above: &Arc<CancellationToken>, subject: Revocation| {
            let entry = entries.entry(subject).or_insert_with(|| RevocationEntry::new(Some(above)));
            if entry.revoked.is_cancelled() {
                *entry = RevocationEntry::new(Some(above));
            }
            Arc::clone(&entry.revoked)
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

    /// Cancels all access tokens in use, so that each is verified again at its next use.
    pub fn end_tokens(&self) {
        let is_of_token = |subject: &Revocation| matches!(subject, Revocation::Generation(_) | Revocation::Token(_));
        let ended: Vec<_> = self.0.lock().extract_if(|subject, _| is_of_token(subject)).collect();
        for (_, entry) in ended {
            entry.revoked.cancel();
        }
    }

    fn end_all(&self) {
        let ended = std::mem::take(&mut *self.0.lock());
        for entry in ended.into_values() {
            entry.revoked.cancel();
        }
    }

    /// Removes the entries whose tokens are no longer held.
    pub fn purge(&self) {
        let mut entries = self.0.lock();
        let is_token = |subject: &Revocation| matches!(subject, Revocation::Token(_));
        let is_generation = |subject: &Revocation| matches!(subject, Revocation::Generation(_));
        // each kind holds its parents
        entries.retain(|subject, entry| !is_token(subject) || entry.is_held());
        entries.retain(|subject, entry| !is_generation(subject) || entry.is_held());
        entries.retain(|_, entry| entry.is_held());
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

// === impl RevocationEntry ===

impl RevocationEntry {
    fn new(above: Option<&Arc<CancellationToken>>) -> Self {
        let revoked = above.map_or_else(CancellationToken::new, |above| above.child_token());
        Self { revoked: Arc::new(revoked), _above: above.map(Arc::clone) }
    }

    /// True if its token is held elsewhere.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.revoked) > 1
    }
}

// === impl Revocations ===

impl Revocations {
    /// Starts after the newest revocation in the store.
    pub(in crate::oauth) async fn open(
        deps: OAuthDeps,
        uses: Arc<UsageRecorder>,
        signing: Arc<SigningKeys>,
    ) -> Result<Self, OAuthError> {
        let read = AtomicI64::new(deps.now().as_millis());
        let feed = tokio::sync::Mutex::new(deps.storage.revocation_feed().await?);
        let (gone, ended) = (broadcast::Sender::new(MAX_ENDED), broadcast::Sender::new(MAX_ENDED));
        Ok(Self {
            deps,
            uses,
            index: RevocationIndex::default(),
            signing,
            feed,
            read,
            rights: AtomicU64::new(0),
            gone,
            ended,
        })
    }

    /// Number of the present state of all keys' rights. A credential that was verified under another number is verified
    /// again.
    pub(super) fn rights(&self) -> u64 {
        self.rights.load(Ordering::Acquire)
    }

    /// Users who are disabled or deleted from now on.
    pub(in crate::oauth) fn gone_users(&self) -> broadcast::Receiver<UserId> {
        self.gone.subscribe()
    }

    /// Keys and grants that end from now on.
    pub(in crate::oauth) fn ended(&self) -> broadcast::Receiver<EndedAccess> {
        self.ended.subscribe()
    }

    /// The index of this process.
    pub(in crate::oauth) const fn index(&self) -> &RevocationIndex {
        &self.index
    }

    /// Applies new revocations by any process, after the ones already due.
    pub(in crate::oauth) async fn sync(&self) -> Result<(), OAuthError> {
        self.uses.write().await?;
        self.deps.storage.for_rounds().keys().retire(self.deps.now()).await?;
        self.read().await
    }

    /// Applies new revocations by any process.
    pub(in crate::oauth) async fn read(&self) -> Result<(), OAuthError> {
        self.read_from(&mut *self.feed.lock().await).await
    }

    /// True if remembered verdicts may be used: the store was read a moment ago, or only this process uses it and
    /// applies its own revocations.
    pub(super) fn is_current(&self, now: Timestamp) -> bool {
        !self.deps.storage.is_shared() || self.silence(now) <= SILENCE
    }

    /// Applies revocations that were missed while reads failed. If the database is down, waits as long as a restart of
    /// it takes.
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
    pub(in crate::oauth) async fn database_answers(&self) -> bool {
        timeout(PROBE_TIMEOUT, self.try_to_catch_up(Duration::ZERO)).await.is_ok_and(|read| read.is_ok())
    }

    /// One read serves all callers that wait. After a failed read, all wait for the same time.
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
                // nothing to do without a listener
                match revocation {
                    Revocation::Rights(_) => drop(self.rights.fetch_add(1, Ordering::AcqRel)),
                    Revocation::User(user) => drop(self.gone.send(user.clone())),
                    Revocation::Key(key) => drop(self.ended.send(EndedAccess::Key(key.clone()))),
                    Revocation::Grant(grant) => drop(self.ended.send(EndedAccess::Grant(grant.clone()))),
                    _ => {}
                }
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
                    "a newer version revoked something that this one does not know: everything in use is verified again"
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

    /// Time since the last read; setting a clock back does not shorten it.
    fn silence(&self, now: Timestamp) -> Duration {
        Duration::from_millis(now.as_millis().abs_diff(self.read.load(Ordering::Acquire)))
    }

    /// Revokes a grant, in the store and in this process. Returns false if there is no such live grant.
    pub(in crate::oauth) async fn end_grant(&self, grant: &GrantId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.grants().revoke(grant, self.deps.now()).await?;
        self.index.revoke(&Revocation::Grant(grant.clone()));
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(number: usize) -> Claims {
        let text = || "x".to_owned();
        Claims {
            iss: text(),
            sub: text(),
            aud: text(),
            client_id: text(),
            iat: 1,
            exp: 2,
            jti: format!("g{number}.{number}"),
            scope: text(),
            gid: text(),
            auth_time: 1,
            nbf: None,
        }
    }

    #[test]
    fn what_nobody_holds_leaves_the_index_and_what_a_call_holds_is_cancelled_from_above() {
        let index = RevocationIndex::default();
        let grant = |number: usize| Revocation::Grant(GrantId::new(format!("grant {number}")));
        let held: Vec<_> =
            (0..3).map(|number| index.watch_token(&index.watch(grant(number)), &claims(number))).collect();
        for number in 3..1_000 {
            drop(index.watch_token(&index.watch(grant(number)), &claims(number)));
        }
        assert_eq!(index.len(), 3_000);
        index.purge();
        assert_eq!(index.len(), 9, "of each that is held its generation and its grant");
        index.revoke(&grant(0));
        index.revoke(&Revocation::Generation(claims(1).generation().to_owned()));
        index.revoke(&Revocation::Token(claims(2).jti));
        assert!(held.iter().all(|token| token.is_cancelled()));
        drop(held);
        index.purge();
        assert_eq!(index.len(), 0);
    }
}
