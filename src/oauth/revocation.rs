//! Index of revocable credentials: cancels streams and cached tokens at once (`OA-131`). Knows nothing of streams and
//! of SQL.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{access_token::Claims, dependencies::OAuthDeps, error::OAuthError, usage::UsageRecorder};
use crate::{model::GrantId, storage::Revocation, support::Timestamp};

/// Time for which an entry outlives the last credential: a running call may continue past the end of its credential.
const KEPT: Duration = Duration::from_hours(24);

/// Cancellation tokens of the grants, keys and tokens in use.
#[derive(Debug, Default)]
pub struct RevocationIndex(Mutex<HashMap<Revocation, RevocationEntry>>);

/// Revocations in the store and in this process.
pub(super) struct Revocations {
    deps: OAuthDeps,
    uses: Arc<UsageRecorder>,
    index: RevocationIndex,
    /// Number of the newest revocation in the index.
    seen: tokio::sync::Mutex<i64>,
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

    /// Removes entries that nobody can use any more.
    pub fn purge(&self, now: Timestamp) {
        self.0.lock().retain(|_, entry| now.since(entry.until) < KEPT);
    }
}

// === impl Revocations ===

impl Revocations {
    /// Starts after the newest revocation in the store.
    pub(super) async fn open(deps: OAuthDeps, uses: Arc<UsageRecorder>) -> Result<Self, OAuthError> {
        let seen = deps.storage.revocations().newest().await?;
        Ok(Self { deps, uses, index: RevocationIndex::default(), seen: tokio::sync::Mutex::new(seen) })
    }

    /// The index of this process.
    pub(super) const fn index(&self) -> &RevocationIndex {
        &self.index
    }

    /// One poll: applies new revocations by any process, and writes usage times.
    pub(super) async fn sync(&self) -> Result<(), OAuthError> {
        self.uses.write().await?;
        self.deps.storage.keys().retire(self.deps.now()).await?;
        let mut seen = self.seen.lock().await;
        loop {
            let news = self.deps.storage.revocations().after(*seen).await?;
            for (sequence, revocation) in &news {
                self.index.revoke(revocation);
                *seen = *sequence;
            }
            if news.len() < 1000 {
                return Ok(());
            }
        }
    }

    /// Revokes a grant, in the store and in this process. Returns false if there is no such live grant.
    pub(super) async fn end_grant(&self, grant: &GrantId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.grants().revoke(grant, self.deps.now()).await?;
        self.index.revoke(&Revocation::Grant(grant.clone()));
        Ok(done)
    }
}
