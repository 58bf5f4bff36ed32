//! The sender of a message, as every binding gives it. Knows nothing of transports.

use std::{
    future::{self, Future},
    sync::Arc,
    time::Duration,
};

use crate::{
    mcp::Trace,
    model::Endpoint,
    resource::{Admission, Lease},
    support::Timestamp,
};

/// How long a stream outlives the credential that it rests on, so that a client has time to renew it.
const GRACE: Duration = Duration::from_secs(30);

/// The sender of a message, and the endpoint that it was sent to.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    /// The caller, and how long the credential is valid.
    pub(crate) admission: Admission,
    /// The endpoint; that of `/messages` is told by the session.
    pub(crate) endpoint: Endpoint,
    /// Ties the message to the logs.
    pub(crate) trace: Trace,
}

/// Ends when streams that rest on the lease must: at its revocation, or a little after its expiry.
pub(crate) fn lapse(lease: &Lease, now: Timestamp) -> impl Future<Output = ()> + Send + 'static + use<> {
    let revoked = Arc::clone(&lease.revoked);
    let left = lease.expires.map(|expires| expires.since(now) + GRACE);
    async move {
        let expired = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            () = revoked.cancelled() => {}
            () = expired => {}
        }
    }
}
