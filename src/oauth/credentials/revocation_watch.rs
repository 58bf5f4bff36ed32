//! Notices revocations by other processes in time, from notices and by polling.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::revocation::Revocations;
use crate::storage::RevocationNotices;

/// Time between two tries to listen for notices.
const NOTICES_RETRY: Duration = Duration::from_secs(5);

/// Reads new revocations at every notice, and if none came for a while.
pub(in crate::oauth) struct RevocationWatch {
    revocations: Arc<Revocations>,
    notices: RevocationNotices,
    /// Wakes the reader because a notice came.
    wake: Notify,
    /// Notified when a read failed, because the connection for notices may be dead too.
    failed: Notify,
}

impl RevocationWatch {
    pub(in crate::oauth) fn new(revocations: Arc<Revocations>, notices: RevocationNotices) -> Self {
        Self { revocations, notices, wake: Notify::new(), failed: Notify::new() }
    }

    /// Reads until it is dropped, at least once each `poll`.
    pub(in crate::oauth) async fn run(mut self, poll: Duration) {
        let Self { revocations, notices, wake, failed } = &mut self;
        tokio::join!(read(revocations, poll, wake, failed), listen(notices, wake, failed));
    }
}

async fn read(revocations: &Revocations, poll: Duration, wake: &Notify, failed: &Notify) {
    loop {
        if let Err(error) = revocations.read().await {
            tracing::warn!(%error, "revocations could not be read; next try in 500 ms");
            failed.notify_one();
            tokio::time::sleep(poll).await;
            continue;
        }
        // it does not matter which of the two it was
        let _ = tokio::time::timeout(poll, wake.notified()).await;
    }
}

async fn listen(notices: &mut RevocationNotices, wake: &Notify, failed: &Notify) {
    loop {
        let next = tokio::select! {
            next = notices.next() => Some(next),
            () = failed.notified() => None,
        };
        match next {
            Some(Ok(())) => wake.notify_one(),
            Some(Err(error)) => {
                tracing::warn!(%error, "the database sends no notices of revocations; the gateway polls for them");
                tokio::time::sleep(NOTICES_RETRY).await;
            }
            None => notices.close(),
        }
    }
}
