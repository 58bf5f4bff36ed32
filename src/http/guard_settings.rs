//! Settings of the middleware.

use std::sync::Arc;

use ipnet::IpNet;
use url::Url;

use crate::{
    model::{AllowedSites, LimitsConfig},
    support::{Live, Random},
};

/// Settings of the middleware.
#[derive(Clone)]
pub struct GuardSettings {
    /// The public URL, against which `Host` and `Origin` are checked (`OA-137`).
    pub public_url: Url,
    pub bound: Bound,
    /// Further accepted hosts and origins.
    pub sites: Live<AllowedSites>,
    /// Trusted proxies for `X-Forwarded-For`.
    pub trusted_proxies: Vec<IpNet>,
    /// The configured limits: of a request body, and of one forwarded address's requests.
    pub limits: Live<LimitsConfig>,
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
    /// Settings of a gateway at `public_url`, with the default limits, and no further sites.
    pub fn new(public_url: Url, bound: Bound, random: Arc<dyn Random>) -> Self {
        Self { public_url, bound, sites: Live::default(), trusted_proxies: Vec::new(), limits: Live::default(), random }
    }
}
