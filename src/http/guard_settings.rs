//! Settings of the middleware. Knows nothing of requests.

use std::sync::Arc;

use ipnet::IpNet;
use url::Url;

use crate::support::Random;

/// Default maximum size of a request body: 16 MiB. Routes may set a lower one.
pub const BODY_LIMIT: usize = 16 * 1024 * 1024;

/// Settings of the middleware.
#[derive(Clone)]
pub struct GuardSettings {
    /// The public URL, against which `Host` and `Origin` are checked (`OA-137`).
    pub public_url: Url,
    /// The listen address.
    pub bound: Bound,
    /// Further accepted host names, without port.
    pub hosts: Vec<String>,
    /// Further origins whose pages may call the MCP endpoints, such as `https://inspector.example.com`.
    pub origins: Vec<String>,
    /// Trusted proxies for `X-Forwarded-For`.
    pub trusted_proxies: Vec<IpNet>,
    /// Maximum size of a request body, in bytes.
    pub body_limit: usize,
    /// Concurrent requests of one forwarded address.
    pub requests_per_address: usize,
    /// Source of request ids.
    pub random: Arc<dyn Random>,
}

/// Kind of listen address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A loopback address: loopback names are accepted hosts.
    Loopback,
    /// An address that other machines can reach.
    Network,
}

// === impl GuardSettings ===

impl GuardSettings {
    /// The defaults for a gateway at `public_url`.
    pub fn new(public_url: Url, bound: Bound, random: Arc<dyn Random>) -> Self {
        Self {
            public_url,
            bound,
            hosts: Vec::new(),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            body_limit: BODY_LIMIT,
            requests_per_address: 512,
            random,
        }
    }
}
