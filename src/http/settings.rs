//! Settings of the guard. Knows nothing of requests.

use std::sync::Arc;

use ipnet::IpNet;
use url::Url;

use crate::support::Random;

/// The largest request body that is accepted by default: 16 MiB. Routes that want less say so themselves.
pub const BODY_LIMIT: usize = 16 * 1024 * 1024;

/// Settings of the guard.
#[derive(Clone)]
pub struct Settings {
    /// The public URL; `Host` and `Origin` are judged by it, never the other way round (`OA-137`).
    pub public_url: Url,
    /// Where the gateway listens.
    pub bound: Bound,
    /// Further host names (no port) by which the gateway may be called.
    pub hosts: Vec<String>,
    /// Further origins whose pages may call the MCP endpoints, such as `https://inspector.example.com`.
    pub origins: Vec<String>,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The largest request body, in bytes.
    pub body_limit: usize,
    /// Requests that run at once for one address which a trusted proxy names.
    pub requests_per_address: usize,
    /// Where request ids come from.
    pub random: Arc<dyn Random>,
}

/// Where the gateway listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// On a loopback address: the loopback names are its names too.
    Loopback,
    /// On an address that others reach.
    Network,
}

// === impl Settings ===

impl Settings {
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
