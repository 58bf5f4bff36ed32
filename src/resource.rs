//! The protected-resource side (RFC 6750, RFC 9728): who is let in, and until when. Knows nothing of MCP messages.
//!
//! A request that passes carries its [`Admission`] as a request extension: the frontends take it from there and know
//! nothing of tokens.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{model::Caller, support::Timestamp};

/// What a request that was let in carries.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Who stands behind it.
    pub caller: Arc<Caller>,
    /// How long streams that rest on it may stay open.
    pub lease: Lease,
}

/// How long streams may stay open that rest on one admission. A call that runs may finish after its end, unless it was
/// revoked.
#[derive(Debug, Clone)]
pub struct Lease {
    /// When the credential ends; `None` where it does not.
    pub expires: Option<Timestamp>,
    /// Cancelled within a second of the revocation of the credential, its grant, its key or its user.
    pub revoked: CancellationToken,
}
